//! Each rule of blame on a short list of events. Times are µs from the begin of the segment.

use model::{CauseClass, PathSegment};
use windhover_explain::blame::{Place, blame, deferred, polled};
use windhover_explain::event::Vector;
use windhover_explain::stay::{STAGES, Slice, Work};
use windhover_explain::{Event, EventKind, Name, Side, Stage, Stamp, Stay, Timeline, Usual, explain_stay};

/// The measured thread, and the kernel priority that it has with `--policy fifo:60`.
const ME: i32 = 10;
const FIFO_60: u8 = 39;
const FIFO_80: u8 = 19;
const NICE_0: u8 = 120;
const RUNNABLE: u32 = 0;
const SLEEPING: u32 = 1;
const STOPPED: u32 = 4;
/// When the segment begins.
const BEGIN_NS: u64 = 1_000_000_000;

fn at(us: i64) -> u64 {
    BEGIN_NS.saturating_add_signed(1000 * us)
}

fn event(us: i64, kind: EventKind) -> Event {
    Event { at_ns: at(us), cpu: 0, kind }
}

fn switch(us: i64, (from, from_state): (i32, u32), to: i32, to_priority: u8, to_name: &str) -> Event {
    let throttled = false;
    event(us, EventKind::Switch { from, from_state, throttled, to, to_priority, to_name: to_name.into() })
}

fn ran(us: i64, tid: i32, ran_us: u64) -> Event {
    event(us, EventKind::Ran { tid, ns: 1000 * ran_us })
}

fn vector(us: i64, long_us: u64, vector: Vector) -> Event {
    event(us, EventKind::Vector { ns: 1000 * long_us, vector })
}

fn softirq(us: i64, long_us: u64, vector: u8, since_raise_us: u32) -> Event {
    event(us, EventKind::Softirq { ns: 1000 * long_us, vector, since_raise_ns: 1000 * since_raise_us })
}

fn hardirq(us: i64, long_us: u64, name: &str) -> Event {
    event(us, EventKind::Hardirq { ns: 1000 * long_us, irq: 30, name: name.into() })
}

/// A segment of the measured thread on CPU 0; another CPU woke it.
fn slice(work: Work, long_us: i64) -> Slice {
    let segment = match work {
        Work::Runs => PathSegment::FarSend,
        Work::Waits => PathSegment::FarWakeUp,
        Work::Receives => PathSegment::FarReceive,
        Work::Expires => PathSegment::Expiry,
    };
    let from = Stamp { at_ns: BEGIN_NS, cpu: u16::from(work == Work::Waits) };
    Slice { segment, work, thread: ME, from, to: Stamp { at_ns: at(long_us), cpu: 0 } }
}

/// Causes of the whole segment as `class name µs`.
fn causes_of(slice: &Slice, own: u8, events: &[Event]) -> Vec<String> {
    let timeline = Timeline::new(events, slice.from.at_ns, slice.to.at_ns);
    let causes = blame(slice, slice.ns(), own, &timeline, "reflector");
    assert_eq!(causes.iter().map(|cause| cause.ns).sum::<u64>(), slice.ns(), "all of it, once");
    causes
        .iter()
        .map(|cause| {
            let (name, us) = (cause.name.as_deref().unwrap_or("-"), cause.ns / 1000);
            format!("{} {name} {us}", cause.class)
        })
        .collect()
}

/// The measured thread left the CPU at 50 µs and came back at 350, of 400.
fn absence(own: u8, state: u32, other: (i32, u8, &str)) -> Vec<String> {
    let (tid, priority, name) = other;
    let events = [
        switch(-100, (0, RUNNABLE), ME, own, "me"),
        switch(50, (ME, state), tid, priority, name),
        switch(350, (tid, RUNNABLE), ME, own, "me"),
    ];
    causes_of(&slice(Work::Runs, 400), own, &events)
}

/// Catches: a task of higher priority that is not named, or time of the thread itself that is.
#[test]
fn a_task_that_took_the_cpu_preempted_it() {
    assert_eq!(absence(FIFO_60, RUNNABLE, (20, FIFO_80, "hog")), ["preempted hog 300", "no-event - 100"]);
    assert_eq!(absence(NICE_0, RUNNABLE, (20, NICE_0, "cc1")), ["preempted cc1 300", "no-event - 100"]);
}

/// Catches: who ran meanwhile gets the blame for a stop, a sleep or a quota.
#[test]
fn the_state_in_which_a_thread_left_goes_before_who_ran() {
    let other = (20, NICE_0, "cc1");
    assert_eq!(absence(NICE_0, STOPPED, other), ["stopped - 300", "no-event - 100"]);
    assert_eq!(absence(NICE_0, SLEEPING, other), ["blocked - 300", "no-event - 100"]);
    let mut events = [
        switch(-100, (0, RUNNABLE), ME, NICE_0, "me"),
        switch(50, (ME, RUNNABLE), 20, NICE_0, "cc1"),
        switch(350, (20, RUNNABLE), ME, NICE_0, "me"),
    ];
    if let EventKind::Switch { throttled, .. } = &mut events[1].kind {
        *throttled = true;
    }
    assert_eq!(causes_of(&slice(Work::Runs, 400), NICE_0, &events), ["quota - 300", "no-event - 100"]);
}

/// Catches: an idle CPU that preempts a runnable thread, as it is without a quota, and a moment before a move that is called so, too.
#[test]
fn a_runnable_thread_on_an_idle_cpu_has_no_quota() {
    assert_eq!(absence(NICE_0, RUNNABLE, (0, NICE_0, "swapper/0")), ["quota - 300", "no-event - 100"]);
    let events = [
        switch(-100, (0, RUNNABLE), ME, NICE_0, "me"),
        switch(50, (ME, RUNNABLE), 20, NICE_0, "cc1"),
        switch(90, (20, RUNNABLE), 0, NICE_0, "swapper/0"),
    ];
    assert_eq!(
        causes_of(&slice(Work::Runs, 100), NICE_0, &events),
        ["no-event - 50", "preempted cc1 40", "unknown - 10"]
    );
}

/// Catches: an ordinary task that preempts a real-time one.
#[test]
fn the_fair_server_lets_ordinary_tasks_go_first() {
    assert_eq!(absence(FIFO_60, RUNNABLE, (20, NICE_0, "cc1")), ["fair-server cc1 300", "no-event - 100"]);
    // It was woken while another one ran, and then the kernel chose an ordinary task.
    let events = [switch(-100, (0, RUNNABLE), 30, FIFO_60, "rt"), switch(100, (30, RUNNABLE), 20, NICE_0, "cc1")];
    assert_eq!(causes_of(&slice(Work::Waits, 400), FIFO_60, &events), ["fair-server cc1 300", "run-queue rt 100"]);
}

/// Catches: priorities of ordinary tasks that are compared, so that a build with nice 19 is an inversion.
#[test]
fn ordinary_tasks_are_no_inversion() {
    for priority in [NICE_0, 139] {
        let events = [switch(-100, (0, RUNNABLE), 20, priority, "cc1")];
        assert_eq!(causes_of(&slice(Work::Waits, 300), NICE_0, &events), ["run-queue cc1 300"]);
    }
    let events = [switch(-100, (0, RUNNABLE), 20, FIFO_80, "hog")];
    assert_eq!(causes_of(&slice(Work::Waits, 300), FIFO_60, &events), ["run-queue hog 300"]);
}

/// Catches: kernel code that is not preemptible taken for a CPU that is stalled, and the other way round.
#[test]
fn the_first_interrupt_tells_a_lower_task_from_a_deaf_cpu() {
    let build = switch(-100, (0, RUNNABLE), 20, NICE_0, "cc1");
    let waits = slice(Work::Waits, 300);
    let early = [build, vector(2, 1, Vector::Reschedule)];
    assert_eq!(causes_of(&waits, FIFO_60, &early), ["lower-task cc1 299", "ipi reschedule 1"]);
    let late = [build, vector(280, 2, Vector::LocalTimer)];
    assert_eq!(causes_of(&waits, FIFO_60, &late), ["cpu-deaf cc1 280", "lower-task cc1 18", "hardirq local_timer 2"]);
    assert_eq!(causes_of(&waits, FIFO_60, &[build]), ["cpu-deaf cc1 300"]);
    let causes = blame(&waits, 1000, FIFO_60, &Timeline::new(&late, at(0), at(300)), "reflector");
    assert_eq!(causes[0].evidence, "first interrupt after 280.0 µs");
}

/// Catches: a CPU called deaf that no one interrupts, as the one that wakes a thread of its own.
#[test]
fn a_thread_that_its_own_cpu_woke_needs_no_interrupt() {
    let build = switch(-100, (0, RUNNABLE), 20, NICE_0, "cc1");
    let mut waits = slice(Work::Waits, 300);
    waits.from.cpu = 0;
    assert_eq!(causes_of(&waits, FIFO_60, &[build]), ["lower-task cc1 300"]);
    waits.to.at_ns = at(15_000);
    assert_eq!(causes_of(&waits, FIFO_60, &[build]), ["cpu-deaf cc1 15000"]);
}

/// Catches: stolen time that is blamed on the task again, or that lies behind the first interrupt.
#[test]
fn stolen_time_goes_before_the_first_interrupt() {
    let events = [
        switch(-200, (0, RUNNABLE), 20, NICE_0, "cc1"),
        ran(-50, 20, 150),
        vector(200, 2, Vector::LocalTimer),
        ran(300, 20, 198),
    ];
    let causes = causes_of(&slice(Work::Waits, 300), FIFO_60, &events);
    assert_eq!(causes, ["steal - 150", "lower-task cc1 98", "cpu-deaf cc1 50", "hardirq local_timer 2"]);
    let runs = [switch(-200, (0, RUNNABLE), ME, FIFO_60, "me"), ran(-50, ME, 150), ran(450, ME, 250)];
    assert_eq!(causes_of(&slice(Work::Runs, 400), FIFO_60, &runs), ["steal - 250", "no-event - 150"]);
    // The task that leaves is accounted for at the time of the switch.
    let (leaves, comes) = (ran(0, 20, 200), switch(0, (20, RUNNABLE), ME, FIFO_60, "me"));
    let runs = [switch(-200, (0, RUNNABLE), 20, NICE_0, "cc1"), comes, leaves, ran(400, ME, 150)];
    assert_eq!(causes_of(&slice(Work::Runs, 400), FIFO_60, &runs), ["steal - 250", "no-event - 150"]);
}

/// Catches: run time called stolen because what was accounted, or interrupted, outside of the segment is not looked at.
#[test]
fn what_is_not_known_to_be_missing_is_not_stolen() {
    // A thread that spins was switched in a second ago, and what was accounted since is not in the list.
    let spins = [switch(-1_000_000, (0, RUNNABLE), ME, FIFO_60, "me"), ran(200, ME, 4000)];
    assert_eq!(causes_of(&slice(Work::Runs, 400), FIFO_60, &spins), ["no-event - 400"]);
    let behind = [
        switch(-1000, (0, RUNNABLE), ME, FIFO_60, "me"),
        ran(-100, ME, 900),
        softirq(500, 300, 9, 0),
        hardirq(900, 100, "eth0"),
        ran(1000, ME, 700),
    ];
    assert_eq!(causes_of(&slice(Work::Runs, 400), FIFO_60, &behind), ["no-event - 400"]);
}

/// Catches: an interrupt within another one that both are blamed for, or one that is cut wrongly at the ends.
#[test]
fn interrupts_are_blamed_for_their_own_time() {
    let events = [
        switch(-100, (0, RUNNABLE), ME, FIFO_60, "me"),
        softirq(100, 200, 9, 0),
        hardirq(150, 30, "eth0"),
        vector(390, 50, Vector::CallFunction),
    ];
    let causes = causes_of(&slice(Work::Runs, 400), FIFO_60, &events);
    assert_eq!(causes, ["no-event - 190", "softirq RCU 170", "hardirq eth0 30", "ipi call_function 10"]);
}

/// Catches: what ran until the packet's softirq, or within it before the packet, not named; a softirq that was over before, or one
/// without a raise, that is.
#[test]
fn what_a_packet_waited_for_is_from_the_raise_of_its_softirq() {
    let of = |raised_us: i64, events: &[Event]| -> Vec<String> {
        let place = Place { host: "reflector", cpu: 0, segment: PathSegment::WireOut };
        let timeline = Timeline::new(events, at(0), at(400));
        let causes = deferred((at(raised_us), at(400)), 1000, &place, &timeline);
        causes
            .iter()
            .map(|cause| format!("{} {} {}", cause.class, cause.name.as_deref().unwrap_or("-"), cause.ns / 1000))
            .collect()
    };
    let hog = switch(-100, (0, RUNNABLE), 20, FIFO_80, "hog");
    let timer = hardirq(100, 50, "timer");
    let causes = of(80, &[hog, timer, softirq(380, 30, 3, 300)]);
    assert_eq!(causes, ["softirq-deferred hog 250", "hardirq timer 50", "softirq NET_RX 19"]);
    assert_eq!(of(9, &[hog, softirq(10, 400, 3, 1)]), ["softirq NET_RX 390"], "a packet before it took long");
    assert_eq!(of(330, &[hog, softirq(300, 30, 9, 0)]), ["softirq-deferred hog 69"], "RCU was over before");
}

/// Catches: a task that ran before events were overwritten, blamed for a time of which nothing is known.
#[test]
fn what_was_overwritten_is_unknown() {
    let hog = [switch(-100, (0, RUNNABLE), 21, FIFO_80, "before"), switch(100, (21, SLEEPING), 20, FIFO_80, "hog")];
    for (work, cause) in [(Work::Waits, "run-queue hog 200"), (Work::Receives, "softirq-deferred hog 200")] {
        let slice = slice(work, 300);
        let timeline = Timeline { known_from_ns: at(100), ..Timeline::new(&hog, at(0), at(300)) };
        let causes = blame(&slice, 300_000, FIFO_60, &timeline, "reflector");
        let name = |name: Option<&str>| name.unwrap_or("-").to_owned();
        let found = causes.iter().map(|one| format!("{} {} {}", one.class, name(one.name.as_deref()), one.ns / 1000));
        assert_eq!(found.collect::<Vec<_>>(), [cause, "unknown - 100"]);
    }
}

/// Catches: what was over long before a thread found its message, or a sleep for it, blamed for the wait; a part of the last
/// interruption that is not.
#[test]
fn a_thread_that_polls_waits_for_what_had_its_cpu_last() {
    let of = |events: &[Event]| -> Vec<String> {
        let place = Place { host: "reflector", cpu: 0, segment: PathSegment::WireOut };
        let timeline = Timeline::new(events, at(0), at(400));
        let causes = polled((at(0), at(400)), ME, FIFO_60, &place, &timeline);
        let name = |name: Option<&str>| name.unwrap_or("-").to_owned();
        causes.iter().map(|one| format!("{} {} {}", one.class, name(one.name.as_deref()), one.ns / 1000)).collect()
    };
    let me = switch(-100, (0, RUNNABLE), ME, FIFO_60, "me");
    let hog = |from_us, to_us| {
        [switch(from_us, (ME, RUNNABLE), 20, FIFO_80, "hog"), switch(to_us, (20, SLEEPING), ME, FIFO_60, "me")]
    };
    let timer = vector(394, 3, Vector::LocalTimer);
    let [out, back] = hog(100, 390);
    assert_eq!(of(&[me, out, back, timer]), ["preempted hog 290", "hardirq local_timer 3"]);
    let [out, back] = hog(100, 300);
    assert_eq!(of(&[me, out, back, timer]), ["hardirq local_timer 3"], "it looked for 94 µs since");
    let asleep = [me, switch(100, (ME, SLEEPING), 20, NICE_0, "hog"), switch(396, (20, RUNNABLE), ME, FIFO_60, "me")];
    assert_eq!(of(&asleep), [""; 0], "it slept until the message came");
    let stopped = [me, switch(100, (ME, STOPPED), 20, NICE_0, "hog"), switch(396, (20, RUNNABLE), ME, FIFO_60, "me")];
    let idle = [me, switch(100, (ME, STOPPED), 0, NICE_0, "swapper/0"), switch(396, (0, RUNNABLE), ME, FIFO_60, "me")];
    assert_eq!(of(&idle), ["stopped - 296"], "on a CPU of its own");
    assert_eq!(of(&stopped), ["stopped - 296"]);
}

/// A message at the far end that its thread answered at once, 5 µs after the stack received it.
fn far_stay(raised_us: Option<i64>) -> Stay {
    let mut stamps = [Stamp::default(); STAGES];
    let mut pass = |stage: Stage, us| stamps[stage as usize].at_ns = at(us);
    raised_us.into_iter().for_each(|us| pass(Stage::Raised, us));
    [(Stage::Received, 400), (Stage::Returned, 401), (Stage::Send, 402), (Stage::Sent, 405)]
        .into_iter()
        .for_each(|(stage, us)| pass(stage, us));
    Stay::new(7, stamps, [ME, ME])
}

/// Catches: a packet that the kernel held taken for one that the network held, also as it is not among the longest; a raise that
/// makes the stay itself longer, so that it is blamed twice.
#[test]
fn a_packet_that_the_kernel_held_is_explained_from_the_raise() {
    let mut usual = Usual::new(Side::Far);
    (0..64).for_each(|_| usual.add(&far_stay(Some(398))));
    assert_eq!((usual.stay_ns(), usual.deferred_stay_quantile(0.9).unwrap() / 1000), (5000, 7));
    let events = [switch(-100, (0, RUNNABLE), 20, FIFO_80, "hog"), softirq(390, 30, 3, 300)];
    let explain = |stay: &Stay| {
        explain_stay(stay, &usual, NICE_0, "reflector", &mut |_, from, to, _| Timeline::new(&events, from, to))
    };
    let held = far_stay(Some(90));
    assert_eq!((held.deferral_ns() / 1000, held.ns(Side::Far).unwrap() / 1000), (310, 5));
    let explained = explain(&held);
    let named = explained.causes.iter().map(|cause| (cause.class, cause.segment, cause.ns / 1000));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [(CauseClass::SoftirqDeferred, PathSegment::WireOut, 300), (CauseClass::Softirq, PathSegment::WireOut, 9)]
    );
    assert!(explain(&far_stay(None)).causes.is_empty(), "no softirq received it");
    let busy = far_stay(Some(-900_000));
    assert_eq!(busy.deferral_ns(), 10_000_000, "a softirq that goes on and on");
}

/// Catches: the threads that receive packets blamed for keeping packets waiting; time blamed twice.
#[test]
fn what_ran_instead_of_the_receiving_softirq_deferred_it() {
    let receives = slice(Work::Receives, 300);
    let hog = [switch(-100, (0, RUNNABLE), 20, FIFO_80, "hog")];
    assert_eq!(causes_of(&receives, NICE_0, &hog), ["softirq-deferred hog 300"]);
    let receiver = [switch(-100, (0, RUNNABLE), 20, NICE_0, "ksoftirqd/0"), softirq(0, 100, 3, 0)];
    assert_eq!(causes_of(&receives, NICE_0, &receiver), ["no-event - 200", "softirq NET_RX 100"]);
    let stolen = [switch(-300, (0, RUNNABLE), 20, NICE_0, "hog"), ran(-100, 20, 200), ran(400, 20, 100)];
    let causes = blame(&receives, 600_000, NICE_0, &Timeline::new(&stolen, at(0), at(300)), "reflector");
    let named: Vec<_> = causes.iter().map(|cause| (cause.class, cause.ns / 1000)).collect();
    assert_eq!(named, [(CauseClass::SoftirqDeferred, 300), (CauseClass::NoEvent, 300)], "no steal beside it");
}

/// Catches: points of other threads, or behind the segment, that take what is left.
#[test]
fn a_page_fault_or_a_migration_takes_what_is_left() {
    let runs = slice(Work::Runs, 400);
    let me = switch(-100, (0, RUNNABLE), ME, FIFO_60, "me");
    let fault = |us, tid| event(us, EventKind::PageFault { tid });
    let timer = vector(10, 20, Vector::LocalTimer);
    assert_eq!(causes_of(&runs, FIFO_60, &[me, timer, fault(100, ME)]), ["page-fault - 380", "hardirq local_timer 20"]);
    assert_eq!(causes_of(&runs, FIFO_60, &[me, fault(100, 11), fault(401, ME)]), ["no-event - 400"]);
    let moved = event(100, EventKind::Migrated { tid: ME, from: 1, to: 0 });
    assert_eq!(causes_of(&runs, FIFO_60, &[me, moved]), ["migration - 400"]);
}

/// Catches: idle time that no rule names, and the recorder's thread that hides behind the class of other tasks.
#[test]
fn idle_cpus_and_the_recorder_have_causes_of_their_own() {
    let waits = slice(Work::Waits, 300);
    let idle = [switch(-100, (20, SLEEPING), 0, NICE_0, "swapper/0")];
    assert_eq!(causes_of(&waits, FIFO_60, &idle), ["idle-exit - 300"]);
    let reads = [switch(-100, (0, RUNNABLE), 20, NICE_0, "wh-explain")];
    assert_eq!(causes_of(&waits, FIFO_60, &reads), ["tracer wh-explain 300"]);
    assert_eq!(absence(NICE_0, RUNNABLE, (20, NICE_0, "wh-explain")), ["tracer wh-explain 300", "no-event - 100"]);
    assert_eq!(causes_of(&waits, FIFO_60, &[]), ["unknown - 300"]);
}

/// Catches: a task that ran while interrupts were on, or within the timer's slack, blamed for a late timer; a CPU that did not take
/// the interrupt, or was in it for long, not found.
#[test]
fn a_timer_is_late_for_what_its_cpu_did_from_the_usual_time_on() {
    let expires = slice(Work::Expires, 300);
    let build = switch(-100, (0, RUNNABLE), 20, NICE_0, "cc1");
    let timer = vector(290, 30, Vector::LocalTimer);
    assert_eq!(causes_of(&expires, FIFO_60, &[build, timer]), ["cpu-deaf cc1 290", "hardirq local_timer 10"]);
    assert_eq!(
        causes_of(&expires, FIFO_60, &[build, vector(-5, 400, Vector::LocalTimer)]),
        ["hardirq local_timer 300"]
    );
    let of = |excess_ns, events: &[Event]| -> Vec<_> {
        let causes = blame(&expires, excess_ns, FIFO_60, &Timeline::new(events, at(0), at(300)), "initiator");
        causes.into_iter().map(|cause| (cause.class, cause.ns / 1000, cause.evidence)).collect()
    };
    let evidence = "first interrupt after 290.0 µs".to_owned();
    let hardirq = |us| (CauseClass::Hardirq, us, String::new());
    assert_eq!(of(30_000, &[build, timer]), [(CauseClass::CpuDeaf, 20, evidence), hardirq(10)], "50 µs of slack");
    let took = vector(100, 1, Vector::Reschedule);
    let interrupted = [build, took, timer];
    assert_eq!(of(200_000, &interrupted)[0].0, CauseClass::Unknown, "{:?}", of(200_000, &interrupted));
    let idle = switch(-100, (20, SLEEPING), 0, NICE_0, "swapper/0");
    assert_eq!(causes_of(&expires, FIFO_60, &[idle, timer]), ["idle-exit - 290", "hardirq local_timer 10"]);
    let stolen = [switch(-200, (0, RUNNABLE), 20, NICE_0, "cc1"), ran(-50, 20, 150), ran(300, 20, 100)];
    assert_eq!(causes_of(&expires, FIFO_60, &stolen), ["steal - 250", "cpu-deaf cc1 50"]);
}

/// Catches: a wake-up whose parts are not the whole of it, or that has parts of a message.
#[test]
fn a_wake_up_is_expiry_wait_and_return() {
    let mut stamps = [Stamp::default(); STAGES];
    let passed = [(Stage::Send, 0), (Stage::Waking, 60), (Stage::Running, 70), (Stage::Returned, 73)];
    passed.into_iter().for_each(|(stage, us)| stamps[stage as usize].at_ns = at(us));
    let stay = Stay::new(7, stamps, [0, ME]);
    let slices: Vec<_> =
        stay.slices(Side::Timer).iter().map(|one| (one.segment, one.ns() / 1000, one.thread)).collect();
    let expected = [(PathSegment::Expiry, 60), (PathSegment::NearWakeUp, 10), (PathSegment::Return, 3)];
    assert_eq!(slices, expected.map(|(segment, us)| (segment, us, ME)));
    assert_eq!((stay.ns(Side::Timer), stay.start_ns(Side::Timer)), (Some(73_000), at(0)));
}

/// Catches: an application that is slow blamed on the kernel.
#[test]
fn time_of_the_far_application_is_its_own() {
    let runs = Slice { segment: PathSegment::FarApplication, ..slice(Work::Runs, 400) };
    assert_eq!(causes_of(&runs, FIFO_60, &[switch(-100, (0, RUNNABLE), ME, FIFO_60, "me")]), ["application - 400"]);
}

/// Catches: names that are longer than the kernel's, or hold bytes that are no text.
#[test]
fn names_are_those_of_the_kernel() {
    assert_eq!(Name::from("a name of 20 bytes..").to_string(), "a name of 20 by");
    assert_eq!(Name([0xff; 16]).to_string().chars().count(), 16);
}

/// A message whose thread was taken from CPU 0, moved to CPU 1, and ran there: 60 µs on CPU 0, 40 µs behind the kernel's thread that
/// moves it, 100 µs in the queue of CPU 1, 200 µs there.
fn moved(on_cpu_1: Event) -> Vec<String> {
    let lanes = [
        vec![
            switch(-100, (0, RUNNABLE), ME, NICE_0, "me"),
            switch(60, (ME, RUNNABLE), 15, 0, "migration/0"),
            switch(105, (15, SLEEPING), 0, NICE_0, "swapper/0"),
        ],
        vec![
            // It slept there before.
            switch(-900, (ME, SLEEPING), 0, NICE_0, "swapper/1"),
            on_cpu_1,
            event(100, EventKind::Migrated { tid: ME, from: 0, to: 1 }),
            switch(200, (20, RUNNABLE), ME, NICE_0, "me"),
        ],
    ];
    let mut stamps = [Stamp::default(); STAGES];
    stamps[Stage::Send as usize] = Stamp { at_ns: at(0), cpu: 0 };
    stamps[Stage::Queued as usize] = Stamp { at_ns: at(400), cpu: 1 };
    let usual = Usual::new(Side::Near);
    let explained =
        explain_stay(&Stay::new(7, stamps, [ME, ME]), &usual, NICE_0, "initiator", &mut |cpu, from, to, _| {
            Timeline::new(&lanes[usize::from(cpu)], from, to)
        });
    assert_eq!(explained.causes.iter().map(|cause| cause.ns).sum::<u64>(), 400_000, "all of it, once");
    explained
        .causes
        .iter()
        .map(|cause| {
            let (name, cpu, us) =
                (cause.name.as_deref().unwrap_or("-"), cause.cpu.unwrap_or(u32::MAX), cause.ns / 1000);
            format!("{} {name} {us} CPU {cpu}", cause.class)
        })
        .collect()
}

/// Catches: what the new CPU did before the move blamed for it, a wait in the new queue without its task, a thread of the kernel named
/// for what it was asked to do, a sleep of long ago on the new CPU taken for the reason of this absence.
#[test]
fn a_thread_that_is_moved_is_explained_on_each_cpu() {
    let idle = switch(-50, (30, SLEEPING), 0, NICE_0, "swapper/1");
    assert_eq!(moved(idle), ["migration - 360 CPU 1", "migration - 40 CPU 0"]);
    let busy = switch(-50, (0, RUNNABLE), 20, NICE_0, "cc1");
    assert_eq!(moved(busy), ["migration - 260 CPU 1", "run-queue cc1 100 CPU 1", "migration - 40 CPU 0"]);
}

/// Catches: the way to another CPU called a quota, where the segment begins after the move and the thread had been preempted there before.
#[test]
fn a_segment_that_begins_on_the_way_to_another_cpu_is_the_moves() {
    let events = [
        switch(-900, (ME, RUNNABLE), 0, NICE_0, "swapper/0"),
        event(-60, EventKind::Migrated { tid: ME, from: 1, to: 0 }),
        switch(30, (0, RUNNABLE), 20, NICE_0, "cc1"),
        switch(50, (20, RUNNABLE), ME, NICE_0, "me"),
    ];
    let causes = causes_of(&slice(Work::Runs, 50), NICE_0, &events);
    assert_eq!(causes, ["migration - 30", "run-queue cc1 20"]);
}

/// Catches: a fault that reads the memory from a device called a sleep for something else, and any such sleep called a fault.
#[test]
fn a_fault_that_sleeps_is_a_page_fault() {
    let slept = |before: &[Event], state| {
        let away = [
            switch(-100, (0, RUNNABLE), ME, FIFO_60, "me"),
            switch(50, (ME, state), 0, NICE_0, "swapper/0"),
            switch(350, (0, RUNNABLE), ME, FIFO_60, "me"),
        ];
        causes_of(&slice(Work::Runs, 400), FIFO_60, &[before, &away].concat())
    };
    let fault = |tid| event(45, EventKind::PageFault { tid });
    assert_eq!(slept(&[fault(ME)], 2), ["page-fault - 400"]);
    assert_eq!(slept(&[fault(11)], 2), ["blocked - 300", "no-event - 100"]);
    assert_eq!(slept(&[fault(ME)], SLEEPING), ["blocked - 300", "page-fault - 100"]);
}

/// Catches: a task without a name that hides behind all others of its class.
#[test]
fn a_task_with_an_empty_name_has_its_id() {
    assert_eq!(absence(FIFO_60, RUNNABLE, (20, FIFO_80, "")), ["preempted task 20 300", "no-event - 100"]);
}
