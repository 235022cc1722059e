//! The whole matrix: minutes. Ignored but for `cargo xtask test --interop`.

use crate::case::{Carrier, Case, End, can_run, run_all};
use crate::process::Program;
use std::time::Duration;

const CARRIERS: [Carrier; 2] = [Carrier::Udp, Carrier::Raw];
const LOSSES: [u32; 3] = [0, 1, 10];
const SIZES: [usize; 3] = [64, 1448, 5000];
const WITH_OPENPGM: [(End, End); 2] = [(End::Windhover, End::OpenPgm), (End::OpenPgm, End::Windhover)];
const WITH_ZEROMQ: [(End, End); 2] = [(End::Windhover, End::ZeroMq), (End::ZeroMq, End::Windhover)];

fn by_loss_and_size((from, to): (End, End), carrier: Carrier) -> impl Iterator<Item = Case> {
    let case = move |loss, bytes| Case { count: 5000, ..Case::new(from, to, carrier, loss, bytes) };
    LOSSES.into_iter().flat_map(move |loss| SIZES.into_iter().map(move |bytes| case(loss, bytes)))
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn openpgm_both_ways_by_carrier_loss_and_size() {
    if can_run("openpgm_both_ways_by_carrier_loss_and_size", &[Program::OpenPgm]) {
        let ways = WITH_OPENPGM.into_iter().flat_map(|ends| CARRIERS.map(|carrier| (ends, carrier)));
        run_all(ways.flat_map(|(ends, carrier)| by_loss_and_size(ends, carrier)));
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn a_hundred_thousand_at_ten_thousand_a_second() {
    if can_run("a_hundred_thousand_at_ten_thousand_a_second", &[Program::OpenPgm]) {
        let ways = WITH_OPENPGM.into_iter().flat_map(|ends| CARRIERS.map(|carrier| (ends, carrier)));
        let case = |((from, to), carrier)| Case { count: 100_000, rate: 10_000, ..Case::new(from, to, carrier, 1, 64) };
        run_all(ways.map(case));
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn late_joins() {
    if can_run("late_joins", &[Program::OpenPgm]) {
        let late = Some(Duration::from_millis(700));
        let kinds = WITH_OPENPGM.into_iter().flat_map(|ends| CARRIERS.map(|carrier| (ends, carrier)));
        let case = |((from, to), carrier)| {
            LOSSES.map(|loss| Case { count: 5000, late, ..Case::new(from, to, carrier, loss, 64) })
        };
        run_all(kinds.flat_map(case));
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn zeromq_both_ways_by_loss_and_size() {
    if can_run("zeromq_both_ways_by_loss_and_size", &[Program::ZeroMq]) {
        // Its timers are 50 and 200 ms: at higher rates its windows are too short for 10 % of loss.
        let slower = |case: Case| Case { count: 3000, rate: 1000, ..case };
        let udp = WITH_ZEROMQ.into_iter().flat_map(|ends| by_loss_and_size(ends, Carrier::Udp)).map(slower);
        let raw = WITH_ZEROMQ.map(|(from, to)| slower(Case::new(from, to, Carrier::Raw, 1, 64)));
        run_all(udp.chain(raw));
    }
}

/// What fails here is not ours.
#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn control_openpgm_and_zeromq_among_themselves() {
    if can_run("control_openpgm_and_zeromq_among_themselves", &[Program::OpenPgm, Program::ZeroMq]) {
        let openpgm = CARRIERS.map(|carrier| Case::new(End::OpenPgm, End::OpenPgm, carrier, 1, 5000));
        let zeromq = Case { rate: 1000, ..Case::new(End::ZeroMq, End::ZeroMq, Carrier::Udp, 1, 64) };
        run_all(openpgm.into_iter().chain([zeromq]));
    }
}
