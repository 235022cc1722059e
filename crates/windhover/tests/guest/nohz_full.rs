//! Booted with `nohz_full=3 rcu_nocbs=3`: the tick of CPU 3 stops while one task has it.

use super::state::read;
use super::tasks::{Task, ticks};

/// Ticks in two seconds that a CPU without a tick stays below; one with a tick has about 500 (250 Hz).
const FEW: u64 = 50;

/// What the other tests stand on.
#[test]
#[ignore = "runs in a guest"]
fn the_kernel_stops_the_tick_of_a_busy_cpu() {
    assert_eq!(read("/sys/devices/system/cpu/nohz_full"), "3");
    let _spinner = Task::spinning("3");
    let ticks = ticks();
    assert!(ticks < FEW, "{ticks} ticks in 2 s");
}
