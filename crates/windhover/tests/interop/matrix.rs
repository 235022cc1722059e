//! The whole matrix: minutes. Ignored but for `cargo xtask test --interop`.

use crate::case::{Carrier, Case, End, can_run};
use crate::process::Program;
use std::time::Duration;

const CARRIERS: [Carrier; 2] = [Carrier::Udp, Carrier::Raw];

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn openpgm_both_ways_by_carrier_loss_and_size() {
    if !can_run("openpgm_both_ways_by_carrier_loss_and_size", &[Program::OpenPgm]) {
        return;
    }
    for (from, to) in [(End::Windhover, End::OpenPgm), (End::OpenPgm, End::Windhover)] {
        for carrier in CARRIERS {
            for loss in [0, 1, 10] {
                for bytes in [64, 1448, 5000] {
                    Case { count: 5000, ..Case::new(from, to, carrier, loss, bytes) }.run();
                }
            }
        }
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn a_hundred_thousand_at_ten_thousand_a_second() {
    if !can_run("a_hundred_thousand_at_ten_thousand_a_second", &[Program::OpenPgm]) {
        return;
    }
    for (from, to) in [(End::Windhover, End::OpenPgm), (End::OpenPgm, End::Windhover)] {
        for carrier in CARRIERS {
            Case { count: 100_000, rate: 10_000, ..Case::new(from, to, carrier, 1, 64) }.run();
        }
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn late_joins() {
    if !can_run("late_joins", &[Program::OpenPgm]) {
        return;
    }
    let late = Some(Duration::from_millis(700));
    for carrier in CARRIERS {
        for (from, to, loss) in
            [(End::OpenPgm, End::Windhover, 0), (End::OpenPgm, End::Windhover, 10), (End::Windhover, End::OpenPgm, 0)]
        {
            Case { count: 5000, late, ..Case::new(from, to, carrier, loss, 64) }.run();
        }
    }
}

#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn zeromq_both_ways_by_loss_and_size() {
    if !can_run("zeromq_both_ways_by_loss_and_size", &[Program::ZeroMq]) {
        return;
    }
    for (from, to) in [(End::Windhover, End::ZeroMq), (End::ZeroMq, End::Windhover)] {
        for loss in [0, 1, 10] {
            for bytes in [64, 1448, 5000] {
                Case { count: 3000, rate: 1000, ..Case::new(from, to, Carrier::Udp, loss, bytes) }.run();
            }
        }
        Case { count: 3000, rate: 1000, ..Case::new(from, to, Carrier::Raw, 1, 64) }.run();
    }
}

/// What fails here is not ours.
#[test]
#[ignore = "the whole matrix takes minutes: cargo xtask test --interop"]
fn control_openpgm_and_zeromq_among_themselves() {
    if !can_run("control_openpgm_and_zeromq_among_themselves", &[Program::OpenPgm, Program::ZeroMq]) {
        return;
    }
    for carrier in CARRIERS {
        Case::new(End::OpenPgm, End::OpenPgm, carrier, 1, 5000).run();
    }
    Case { rate: 1000, ..Case::new(End::ZeroMq, End::ZeroMq, Carrier::Udp, 1, 64) }.run();
}
