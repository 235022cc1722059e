//! The short cut of the matrix: a case of each kind, in seconds.

use crate::case::{Carrier, Case, End, can_run, run_all};
use crate::process::Program;
use std::time::Duration;

fn openpgm<const N: usize>(test: &str, cases: [Case; N]) {
    if can_run(test, &[Program::OpenPgm]) {
        run_all(cases);
    }
}

fn short(from: End, to: End, carrier: Carrier, loss: u32, bytes: usize) -> Case {
    Case { count: 1500, ..Case::new(from, to, carrier, loss, bytes) }
}

#[test]
fn openpgm_hears_us() {
    let case = |carrier, loss, bytes| short(End::Windhover, End::OpenPgm, carrier, loss, bytes);
    openpgm("openpgm_hears_us", [case(Carrier::Udp, 1, 64), case(Carrier::Raw, 10, 1448), case(Carrier::Udp, 1, 5000)]);
}

#[test]
fn we_hear_openpgm() {
    let case = |carrier, loss, bytes| short(End::OpenPgm, End::Windhover, carrier, loss, bytes);
    openpgm("we_hear_openpgm", [case(Carrier::Raw, 1, 64), case(Carrier::Udp, 10, 1448), case(Carrier::Raw, 1, 5000)]);
}

#[test]
fn who_comes_late_hears_the_rest() {
    let late = Some(Duration::from_millis(300));
    // Long enough that a busy machine starts the one that is late before the other ends.
    let cases = [
        Case { late, count: 8000, ..short(End::OpenPgm, End::Windhover, Carrier::Udp, 1, 64) },
        Case { late, count: 8000, ..short(End::Windhover, End::OpenPgm, Carrier::Udp, 1, 64) },
    ];
    openpgm("who_comes_late_hears_the_rest", cases);
}

#[test]
fn zeromq_publishes_and_subscribes() {
    if !can_run("zeromq_publishes_and_subscribes", &[Program::ZeroMq]) {
        return;
    }
    let case = |from, to, bytes| short(from, to, Carrier::Udp, 1, bytes);
    run_all([
        case(End::Windhover, End::ZeroMq, 64),
        case(End::Windhover, End::ZeroMq, 2000),
        case(End::ZeroMq, End::Windhover, 64),
    ]);
}
