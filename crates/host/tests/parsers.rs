//! Parsers against what several kernels write.

use host::counters::{Totals, parse_net_dev, parse_snmp, parse_snmp6, parse_softnet_drops};
use host::usage::{parse_proc_stat, parse_sched_migrations, parse_schedstat, parse_schedstat_wait};
use model::Counters;
use windhover_host as host;

macro_rules! fixture {
    ($path:literal) => {
        include_str!(concat!("fixtures/", $path))
    };
}

#[test]
fn counters_of_an_old_kernel() {
    let (udp, retransmits) = parse_snmp(fixture!("counters/linux-2.6.32/snmp"));
    assert_eq!((udp.in_errors, udp.receive_buffer_errors, udp.send_buffer_errors), (9, 7, 2));
    assert_eq!(retransmits, 17);
    let udp6 = parse_snmp6(fixture!("counters/linux-2.6.32/snmp6"));
    assert_eq!((udp6.in_errors, udp6.receive_buffer_errors), (2, 0));
    let devices = parse_net_dev(fixture!("counters/linux-2.6.32/dev"));
    assert_eq!((devices.receive_drops, devices.send_drops), (4, 5));
    assert_eq!(parse_softnet_drops(fixture!("counters/linux-2.6.32/softnet_stat")), 12);
}

#[test]
fn counters_of_a_new_kernel() {
    let (udp, retransmits) = parse_snmp(fixture!("counters/linux-6.18/snmp"));
    assert_eq!((udp.in_errors, udp.receive_buffer_errors), (30, 20));
    assert_eq!(retransmits, u64::MAX);
    assert_eq!(parse_snmp6(fixture!("counters/linux-6.18/snmp6")).receive_buffer_errors, 4);
    // An alias' name has a colon of its own.
    let devices = parse_net_dev(fixture!("counters/linux-6.18/dev"));
    assert_eq!((devices.receive_drops, devices.send_drops), (13, 3));
    assert_eq!(parse_softnet_drops(fixture!("counters/linux-6.18/softnet_stat")), 0xffff_ffff);
}

#[test]
fn differences_name_each_loss_once() {
    let before = Totals::default();
    let mut after = Totals { backlog_drops: 3, qdisc_drops: 2, ..before };
    (after.udp.in_errors, after.udp.receive_buffer_errors) = (30, 20);
    (after.udp6.in_errors, after.udp6.receive_buffer_errors) = (5, 4);
    let expected = Counters {
        udp_receive_buffer_errors: 24,
        udp_receive_errors: 11,
        qdisc_drops: 2,
        backlog_drops: 3,
        ..Counters::default()
    };
    assert_eq!(after.since(&before), expected);
    // A device that went away takes its drops with it.
    assert_eq!(before.since(&after), Counters::default());
}

#[test]
fn cpu_time_of_old_and_new_kernels() {
    let old = parse_proc_stat(fixture!("usage/stat-linux-2.6.9"), Some(1));
    assert_eq!((old.machine.user, old.machine.total(), old.machine.steal, old.cpus), (110, 987, 0, 2));
    assert_eq!(old.cpu.map(|cpu| cpu.system), Some(30));
    let new = parse_proc_stat(fixture!("usage/stat-linux-6.18"), Some(3));
    // Guest time is part of user time and must not count twice.
    assert_eq!((new.machine.user, new.machine.steal, new.cpus), (16_095, 205, 2));
    assert_eq!(new.machine.total(), 16_095 + 2911 + 283_849 + 1332 + 7 + 81 + 205);
    assert_eq!(new.cpu.map(|cpu| cpu.softirq), Some(50));
    assert_eq!(parse_proc_stat(fixture!("usage/stat-linux-6.18"), Some(1)).cpu, None);
}

#[test]
fn run_queue_wait_and_migrations() {
    assert_eq!(parse_schedstat_wait("689915 42 1\n"), Some(42));
    assert_eq!(parse_schedstat_wait("0 0 0\n"), None);
    assert_eq!(parse_schedstat_wait(""), None);
    assert_eq!(parse_schedstat("1871673 250 2\n"), [Some(1_871_673), Some(250), Some(2)]);
    assert_eq!(parse_schedstat("7 x 2"), [Some(7), None, None]);
    assert_eq!(parse_sched_migrations(fixture!("usage/sched-linux-6.18")), Some(12));
    assert_eq!(parse_sched_migrations(fixture!("usage/sched-linux-4.18")), Some(3));
    assert_eq!(parse_sched_migrations("probe (77)\n"), None);
    assert_eq!(parse_sched_migrations("x\nse.nr_migrations                   :                 17\n"), Some(17));
}

#[test]
fn nonsense_is_read_as_nothing() {
    for text in [
        "",
        "\n\n",
        "Udp:",
        "Udp: InErrors\nUdp: -1\n",
        "cpu",
        "cpu0 18446744073709551616",
        ":|:|drop|drop\nx:",
        "\u{1}",
    ] {
        assert_eq!(parse_snmp(text), Default::default());
        assert_eq!(parse_snmp6(text), Default::default());
        assert_eq!(parse_net_dev(text), Default::default());
        assert_eq!(parse_proc_stat(text, Some(0)).machine.total(), 0);
        assert_eq!(parse_sched_migrations(text), None);
    }
}
