//! The same devices under PREEMPT_RT: each interrupt has a thread.

use super::igb::{policies, vectors};
use super::nic::{applied, finding, ping, run, wire};
use super::state::{State, read};
use super::support::assert_code;
use super::tasks::Reset;

/// What the other tests stand on: a thread of FIFO 50 for each of the device's interrupts.
#[test]
#[ignore = "runs in a guest"]
fn each_interrupt_has_a_thread() {
    wire();
    let threads = State::read().tasks("irq/").len();
    let all = policies("irq/");
    assert!(all.len() == threads && threads > vectors().len() && all.iter().all(|policy| policy == "1 50"), "{all:?}");
}

/// The device's threads get the policy, those of other interrupts keep theirs; the doctor tells, and undoing puts back.
#[test]
#[ignore = "runs in a guest"]
fn the_threads_of_a_device_get_a_policy_and_lose_it() {
    let told = || finding("irq.threads").unwrap()["text"].as_str().unwrap().to_owned();
    wire();
    let (before, count) = (told(), vectors().len());
    let settings = ["paper-2012", "--set", "nic.thread-policy=fifo:60"];
    let seen = applied(&settings, || {
        let answered = ping(3);
        let all = policies("irq/");
        let ranked = all.iter().filter(|policy| *policy == "1 60").count();
        (answered, ranked, all.iter().all(|policy| policy == "1 60" || policy == "1 50"), told())
    });
    let words = |priority: u32| format!("{count} interrupt threads of eth0, the lowest with fifo:{priority}");
    assert_eq!(before, words(50));
    assert_eq!(seen, (true, count, true, words(60)));
    assert_eq!(told(), words(50));
}

/// Threads follow their interrupts onto the shield, with the next one of each. When it is down, masks are as before, and an
/// interrupt that may come to its CPU again stays there, with its thread, until the kernel moves it.
#[test]
#[ignore = "runs in a guest"]
fn threads_follow_their_interrupts_onto_the_shield() {
    let _reset = Reset;
    wire();
    let before = State::read();
    assert_code(&run(&["shield", "-a", "3", "--nic", "eth0", "--backend", "v2", "--yes"]), 0);
    let masks = vectors();
    let followed = (0..10).any(|_| ping(3) && queue_threads().iter().all(|(_, cpus)| cpus == "3"));
    let there = queue_threads();
    assert_code(&run(&["shield", "-r"]), 0);
    assert!(masks.iter().all(|(_, cpus)| cpus == "3"), "{masks:?}");
    assert!(followed && there.len() > 1, "{there:?}");
    assert!(ping(3));
    let differences = before.differences(&State::read());
    let others: Vec<&String> = differences.iter().filter(|line| !line.contains(" irq/")).collect();
    assert!(others.is_empty(), "{others:?}");
    for (irq, cpus) in queue_threads() {
        assert_eq!(cpus, read(format!("/proc/irq/{irq}/effective_affinity_list")), "the thread of interrupt {irq}");
    }
}

/// Interrupts of the device's queues, and the CPUs that their threads may run on.
fn queue_threads() -> Vec<(String, String)> {
    let of = |(tid, cpus): (u32, String)| {
        let name = read(format!("/proc/{tid}/comm"));
        let (irq, rest) = name.strip_prefix("irq/")?.split_once('-')?;
        rest.starts_with("eth0-").then(|| (irq.to_owned(), cpus))
    };
    State::read().tasks("irq/").into_iter().filter_map(of).collect()
}
