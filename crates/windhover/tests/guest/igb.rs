//! A network device with queues, a clock and stamps of its own: two emulated Intel 82576 (igb) on one wire, the second one
//! alone in the namespace `far`.

use super::nic::{applied, finding, irq, ping, run, value, wire};
use super::state::{State, assert_restored, numbered, read};
use super::support::{assert_code, stderr, stdout, until, windhover};
use super::tasks::{Reset, comes, interrupts};

/// Receive queues: one for each CPU.
const QUEUES: u32 = 4;

/// Name of each interrupt of the device, and the CPUs that it may go to, in the order of their numbers.
pub(crate) fn vectors() -> Vec<(String, String)> {
    let mut irqs = numbered("/sys/class/net/eth0/device/msi_irqs");
    irqs.sort_unstable();
    let named = |irq: u32| {
        let name = read(format!("/sys/kernel/irq/{irq}/actions"));
        (name, read(format!("/proc/irq/{irq}/smp_affinity_list")))
    };
    irqs.into_iter().map(named).filter(|(name, _)| !name.is_empty()).collect()
}

/// What the other tests stand on: an interrupt for each queue, moderation, and channels.
#[test]
#[ignore = "runs in a guest"]
fn the_driver_has_an_interrupt_for_each_queue() {
    wire();
    let names: Vec<String> = vectors().into_iter().map(|(name, _)| name).collect();
    let queues = |way: &str| (0..QUEUES).map(|queue| format!("eth0-{way}-{queue}")).collect::<Vec<_>>();
    let expected: Vec<String> = std::iter::once("eth0".to_owned()).chain(queues("rx")).chain(queues("tx")).collect();
    assert_eq!(names, expected);
    assert_eq!((value("-c", "rx-usecs"), value("-l", "Combined")), ("3".to_owned(), QUEUES.to_string()));
}

/// Other channels are other interrupts: what was there before comes back with them.
#[test]
#[ignore = "runs in a guest"]
fn coalescing_rings_and_channels_are_set_and_put_back() {
    let settings = ["paper-2019", "--set", "nic.ring.rx=512", "--set", "nic.channels.combined=2"];
    let seen = applied(&settings, || {
        let receive = vectors().into_iter().filter(|(name, _)| name.contains("-rx-")).count();
        (value("-c", "rx-usecs"), value("-g", "RX"), value("-l", "Combined"), receive)
    });
    assert_eq!(seen, ("0".to_owned(), "512".to_owned(), "2".to_owned(), 2));
    assert_eq!((value("-c", "rx-usecs"), value("-l", "Combined")), ("3".to_owned(), QUEUES.to_string()));
}

/// What this driver refuses is one line that names it, and nothing stays changed.
#[test]
#[ignore = "runs in a guest"]
fn more_channels_than_the_driver_has_are_refused() {
    let _reset = Reset;
    wire();
    let before = State::read();
    let settings = ["--set", "nic.coalesce.rx-usecs=7", "--set", "nic.channels.combined=99"];
    let output = run(&[&["tune", "apply", "paper-2012", "--nic", "eth0", "--yes"][..], &settings].concat());
    let said = format!("{}{}", stdout(&output), stderr(&output));
    wire();
    assert_code(&output, 1);
    assert!(said.contains("eth0 channels combined: cannot set to '99'"), "{said}");
    assert_restored(&before);
}

/// A shield of two CPUs gets the vectors by the numbers of their queues, and keeps all others away.
#[test]
#[ignore = "runs in a guest"]
fn a_shield_places_each_queue_and_puts_all_back() {
    let _reset = Reset;
    wire();
    let before = State::read();
    assert_code(&run(&["shield", "-a", "2,3", "--nic", "eth0", "--backend", "v2", "--yes"]), 0);
    let placed = vectors();
    let other = read(format!("/proc/irq/{}/smp_affinity_list", irq("acpi")));
    assert!(ping(2));
    let counted = || -> Vec<u64> { (0..2).flat_map(of_device_on).collect() };
    let (away, answered) = (counted(), ping(5));
    let still_away = counted();
    assert_code(&run(&["shield", "-r"]), 0);
    assert!(answered);
    for (name, cpus) in placed {
        let expected = match name.rsplit_once("x-") {
            Some((_, queue)) => 2 + queue.parse::<u32>().unwrap() % 2,
            None => 2,
        };
        assert_eq!(cpus, expected.to_string(), "{name}");
    }
    assert_eq!(other, "0-1");
    assert_eq!(away, still_away, "interrupts came to CPUs outside of the shield");
    assert_restored(&before);
}

/// Counts of the device's interrupts on a CPU.
fn of_device_on(cpu: usize) -> Vec<u64> {
    let irqs = numbered("/sys/class/net/eth0/device/msi_irqs").into_iter();
    irqs.filter(|irq| !read(format!("/sys/kernel/irq/{irq}/actions")).is_empty())
        .map(|irq| interrupts(&irq.to_string(), cpu))
        .collect()
}

/// Killed at a step, then undone by `windhover undo`; and a killed owner's shield is put back by its keeper.
#[test]
#[ignore = "runs in a guest"]
fn vectors_are_put_back_after_a_kill() {
    let _reset = Reset;
    wire();
    let before = State::read();
    let up = ["shield", "-i", "3", "--nic", "eth0", "--yes"];
    let own = vectors();
    let mut moved = 0;
    for step in (8..).step_by(16) {
        let killed =
            windhover(&up).env("WINDHOVER_KILL_AT", step.to_string()).output().unwrap().status.code().is_none();
        moved += usize::from(killed && vectors() != own);
        assert_code(&run(&["undo"]), 0);
        let lines = before.differences(&State::read());
        assert!(lines.is_empty(), "killed at step {step}, then undone:\n{}", lines.join("\n"));
        if !killed {
            break;
        }
    }
    assert!(moved > 0, "no kill came after a vector was moved");
    let exec = ["shield", "exec", "-a", "3", "--nic", "eth0", "--backend", "v2", "--", "sleep", "60"];
    let mut owner = windhover(&exec).spawn().unwrap();
    until("the vectors are on the shield", || vectors().iter().all(|(_, cpus)| cpus == "3"));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(comes(|| before.differences(&State::read()).is_empty()), "{:?}", before.differences(&State::read()));
}

/// Threads that poll: made by one setting, given a policy by the next. Undone, they poll no more.
#[test]
#[ignore = "runs in a guest"]
fn threads_that_poll_get_a_policy_and_lose_it() {
    let _reset = Reset;
    wire();
    let without = finding("nic.napi-threaded").unwrap();
    let before = State::read();
    let set = |setting: &str| {
        let output = run(&["tune", "apply", "--set", setting, "--nic", "eth0", "--yes"]);
        assert_code(&output, 0);
        format!("{}{}", stdout(&output), stderr(&output))
    };
    let skipped = set("nic.thread-policy=fifo:60");
    set("nic.napi.threaded=on");
    let answered = ping(3);
    let ordinary = finding("nic.napi-threaded").unwrap();
    set("nic.thread-policy=fifo:60");
    let policies = policies("napi/eth0-");
    let answered = answered && ping(3);
    let ranked = finding("nic.napi-threaded").unwrap();
    assert_code(&run(&["tune", "undo"]), 0);
    assert_restored(&before);
    assert!(answered && ping(1));
    assert!(skipped.contains("skipped nic.thread-policy=fifo:60: eth0 has no threads"), "{skipped}");
    assert_eq!((&without["severity"], &ordinary["severity"]), (&"ok".into(), &"warning".into()), "{ordinary}");
    let remedy = &ordinary["remedies"][0]["setting"];
    assert_eq!((&remedy["key"], &remedy["value"]), (&"nic.thread-policy".into(), &"fifo:60".into()), "{ordinary}");
    assert_eq!(ranked["severity"], "ok", "{ranked}");
    assert!(policies.len() >= QUEUES as usize && policies.iter().all(|policy| policy == "1 60"), "{policies:?}");
}

/// Policy (a number of sched(7)) and priority of the threads whose name begins like this.
pub(crate) fn policies(begin: &str) -> Vec<String> {
    let named = |pid: &u32| read(format!("/proc/{pid}/comm")).starts_with(begin);
    let of = |pid: u32| {
        let stat = read(format!("/proc/{pid}/stat"));
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // Fields 41 and 40 of proc_pid_stat(5).
        format!("{} {}", fields[38], fields[37])
    };
    numbered("/proc").into_iter().filter(named).map(of).collect()
}
