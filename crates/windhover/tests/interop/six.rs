//! The same over IPv6.

use crate::case::{BEGIN, Carrier, Case, End, GROUP6, LIMIT, can_run_over_ipv6, number, run_all};
use crate::network::{Network, address6};
use crate::process::{Process, Program};
use std::time::Duration;

const CARRIERS: [Carrier; 2] = [Carrier::Udp, Carrier::Raw];
const WITH_OPENPGM: [(End, End); 2] = [(End::Windhover, End::OpenPgm), (End::OpenPgm, End::Windhover)];
const WITH_ZEROMQ: [(End, End); 2] = [(End::Windhover, End::ZeroMq), (End::ZeroMq, End::Windhover)];

fn case((from, to): (End, End), carrier: Carrier, loss: u32, bytes: usize) -> Case {
    Case::new(from, to, carrier, loss, bytes).over_ipv6()
}

#[test]
fn openpgm_and_we_over_ipv6() {
    if can_run_over_ipv6("openpgm_and_we_over_ipv6", &[Program::OpenPgm]) {
        let short = |case: Case| Case { count: 1200, ..case };
        let [to, from] = WITH_OPENPGM;
        run_all([case(to, Carrier::Udp, 1, 64), case(from, Carrier::Raw, 1, 1448)].map(short));
    }
}

/// Messages there and back under losses, by both carriers: nobody else has a reflector.
#[test]
fn reflectors_answer_over_ipv6() {
    if !can_run_over_ipv6("reflectors_answer_over_ipv6", &[]) {
        return;
    }
    for carrier in ["udp", "raw"] {
        let network = Network::of(2).with_ipv6();
        network.lose(0, 2);
        network.lose(1, 2);
        let ours = |host: usize, words: &[&str]| {
            let mut command = network.command(host, env!("CARGO_BIN_EXE_windhover"));
            command.args(["pgm", words[0], GROUP6, "--carrier", carrier, "--local", &address6(host)]);
            command.args(&words[1..]);
            command
        };
        let mut reflector = Process::start("reflector", ours(1, &["reflect"]));
        reflector.says("answers", BEGIN);
        let ping = ["ping", "--count", "1000", "--rate", "1k", "--json"];
        let (status, told) = Process::start("ping", ours(0, &ping)).finish(LIMIT);
        assert!(status.success(), "{carrier}: {told}");
        assert_eq!(number(&told["sent"]), 1000, "{carrier}: {told}");
        let answers = &told["reflectors"][0];
        assert_eq!((number(&answers["answers"]), number(&answers["out_of_order"])), (1000, 0), "{carrier}: {told}");
        assert!(number(&answers["rtt_by_fate"]["repaired"]["count"]) > 0, "{carrier}: {told}");
        assert!(network.lost(0) > 0 && network.lost(1) > 0);
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn openpgm_both_ways_over_ipv6_by_carrier_loss_and_size() {
    if !can_run_over_ipv6("openpgm_both_ways_over_ipv6_by_carrier_loss_and_size", &[Program::OpenPgm]) {
        return;
    }
    let mut cases = Vec::new();
    for ends in WITH_OPENPGM {
        for carrier in CARRIERS {
            for loss in [0, 1] {
                cases.extend([64, 1400, 5000].map(|bytes| Case { count: 5000, ..case(ends, carrier, loss, bytes) }));
            }
            let late = Some(Duration::from_millis(700));
            cases.push(Case { count: 5000, late, ..case(ends, carrier, 1, 64) });
        }
    }
    // What fails here is not ours.
    cases.extend(CARRIERS.map(|carrier| case((End::OpenPgm, End::OpenPgm), carrier, 1, 5000)));
    run_all(cases);
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn zeromq_both_ways_over_ipv6() {
    if can_run_over_ipv6("zeromq_both_ways_over_ipv6", &[Program::ZeroMq]) {
        let by_loss = |ends| [0, 1].map(|loss| Case { rate: 1000, ..case(ends, Carrier::Udp, loss, 64) });
        run_all(WITH_ZEROMQ.into_iter().flat_map(by_loss));
    }
}
