//! Windows of events as trace events and as text.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use model::EventWindow;
use model::result::Outlier;
use serde_json::{Value, json};
use windhover_store::{TracedMessage, chrome_trace, trace_text};

/// A message that is sent on CPU 1 and comes back while another task runs there, with interrupts of which one ends within another task
/// than it began in. Times are µs of a window of 100 µs that begins at 1 s.
fn window() -> EventWindow {
    let at = |us: u64| 1_000_000_000 + 1000 * us;
    let switch = |us, pid: i32, name: &str, from: i32| {
        json!({ "at_ns": at(us), "cpu": 1, "event": "sched_switch", "name": name, "pid": pid,
            "fields": { "prev_pid": from, "prev_state": "S", "next_prio": 120 } })
    };
    let stage = |us, name: &str| json!({ "at_ns": at(us), "cpu": 1, "event": "message", "name": name, "fields": { "seq": 4711 } });
    let window = json!({ "seq": 4711, "host": "initiator", "start_ns": at(0), "end_ns": at(100), "sent_ns": at(10), "events": [
        { "at_ns": at(0) - 5_000_000, "cpu": 1, "event": "sched_switch", "name": "measure", "pid": 10, "fields": { "prev_pid": 0 } },
        stage(10, "send"),
        switch(20, 0, "swapper/1", 10),
        { "at_ns": at(30), "ns": 20_500, "cpu": 1, "event": "softirq", "name": "NET_RX", "fields": { "vec": 3 } },
        { "at_ns": at(32), "ns": 4_000, "cpu": 1, "event": "irq_handler", "name": "nic", "fields": { "irq": 30 } },
        { "at_ns": at(34), "cpu": 1, "event": "sched_waking", "pid": 10, "fields": { "by": 0 } },
        switch(40, 66, "hog", 0),
        { "at_ns": at(60), "cpu": 1, "event": "sched_stat_runtime", "pid": 66, "fields": { "runtime": 19_000 } },
        switch(60, 10, "measure", 66),
        stage(70, "returned"),
        { "at_ns": at(95), "ns": 50_000, "cpu": 1, "event": "local_timer" },
    ] });
    serde_json::from_value(window).unwrap()
}

fn message() -> Outlier {
    let part = |segment: &str, host: &str, ns: u64| json!({ "segment": segment, "host": host, "cpu": 1, "ns": ns, "excess_ns": 1 });
    let cause = json!({ "class": "run-queue", "name": "hog", "pid": 66, "host": "initiator", "cpu": 1, "segment": "near-wake-up", "ns": 20_000 });
    serde_json::from_value(json!({ "seq": 4711, "at_ns": 0, "rtt_ns": 60_000, "causes": [cause], "segments": [
        part("near-send", "initiator", 5_000), part("far-send", "reflector", 2_000), part("wire-back", "initiator", 7_000),
        part("near-wake-up", "initiator", 26_000), part("return", "initiator", 10_000)
    ] }))
    .unwrap()
}

fn trace(window: &EventWindow) -> Vec<Value> {
    let (title, message) = ("cell, repetition 1".to_owned(), message());
    let text = chrome_trace(&[TracedMessage { title, window, message: Some(&message) }]);
    let trace: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(trace["displayTimeUnit"], "ns");
    trace["traceEvents"].as_array().unwrap().clone()
}

/// `thread: name from-to` of slices, and `thread: name at` of points, in ns.
fn shown(events: &[Value], phase: &str) -> Vec<String> {
    let thread = |event: &Value| {
        let is_it =
            |name: &&Value| name["name"] == "thread_name" && name["tid"] == event["tid"] && name["pid"] == event["pid"];
        let process = events.iter().find(|name| name["name"] == "process_name" && name["pid"] == event["pid"]).unwrap();
        let process = process["args"]["name"].as_str().unwrap().split(',').next().unwrap();
        format!("{process} {}", events.iter().find(is_it).unwrap()["args"]["name"].as_str().unwrap())
    };
    let us = |event: &Value, field: &str| event[field].as_f64();
    let show = |event: &Value| {
        let (name, at) = (event["name"].as_str().unwrap(), us(event, "ts").unwrap());
        let end = us(event, "dur").map(|dur| format!("-{}", at + dur)).unwrap_or_default();
        format!("{}: {name} {at}{end}", thread(event))
    };
    events.iter().filter(|event| event["ph"] == phase).map(show).collect()
}

/// Catches: tasks, interrupts, stages or segments at another time or thread, and slices that overlap.
#[test]
fn a_window_becomes_slices_that_nest() {
    let events = trace(&window());
    assert_eq!(
        shown(&events, "X"),
        [
            "initiator CPU 1: measure 0-20",
            "initiator CPU 1: softirq NET_RX 30-50.5",
            "initiator CPU 1: irq_handler nic 32-36",
            "initiator CPU 1: hog 40-50.5",
            "initiator CPU 1: hog 50.5-60",
            "initiator CPU 1: measure 60-100",
            "initiator CPU 1: local_timer 95-100",
            "initiator message 4711: near-send 10-15",
            "reflector message 4711: far-send 15-17",
            "initiator message 4711: wire-back 27-34",
            "initiator message 4711: near-wake-up 34-60",
            "initiator message 4711: return 60-70",
        ]
    );
    assert_eq!(
        shown(&events, "i"),
        [
            "initiator CPU 1: message send 10",
            "initiator CPU 1: sched_waking 34",
            "initiator CPU 1: message returned 70"
        ]
    );
    let waited = events.iter().find(|event| event["name"] == "near-wake-up").unwrap();
    assert_eq!((&waited["args"]["causes"][0]["name"], &waited["args"]["excess_ns"]), (&json!("hog"), &json!(1)));
}

/// Catches: another form than that of trace-cmd, a task that is not the one that runs, ends of intervals in another order.
#[test]
fn a_window_becomes_text() {
    let window = window();
    let text = trace_text(&[TracedMessage { title: "cell, repetition 1".to_owned(), window: &window, message: None }]);
    let expected = [
        "# initiator, message 4711 of cell, repetition 1, 0 events left out",
        "            measure-10 [001]      1.000010000: message:             send seq=4711",
        "            measure-10 [001]      1.000020000: sched_switch:        swapper/1 next_prio=120 pid=0 prev_pid=10 prev_state=S",
        "              <idle>-0 [001]      1.000030000: softirq_entry:       NET_RX vec=3",
        "              <idle>-0 [001]      1.000032000: irq_handler_entry:   nic irq=30",
        "              <idle>-0 [001]      1.000034000: sched_waking:        by=0 pid=10",
        "              <idle>-0 [001]      1.000036000: irq_handler_exit:    nic irq=30",
        "              <idle>-0 [001]      1.000040000: sched_switch:        hog next_prio=120 pid=66 prev_pid=0 prev_state=S",
        "                hog-66 [001]      1.000050500: softirq_exit:        NET_RX vec=3",
        "                hog-66 [001]      1.000060000: sched_stat_runtime:  pid=66 runtime=19000",
        "                hog-66 [001]      1.000060000: sched_switch:        measure next_prio=120 pid=10 prev_pid=66 prev_state=S",
        "            measure-10 [001]      1.000070000: message:             returned seq=4711",
        "            measure-10 [001]      1.000095000: local_timer_entry:",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

/// Catches: ends of a message that have origins of their own, segments drawn twice, a clock that is placed and not marked, a program
/// without an id that is shown as the idle task.
#[test]
fn both_ends_of_a_message_have_one_line_of_time() {
    let (near, mut far) = (window(), window());
    far.host = "reflector".to_owned();
    (far.start_ns, far.end_ns) = (near.start_ns + 5_000, near.end_ns);
    far.events.drain(1..6);
    far.placed = Some(model::Placed { moved_ns: -7, within_ns: 1_500 });
    (far.events[1].name, far.events[1].pid) = ("another program".to_owned(), None);
    let message = message();
    let both = [&near, &far].map(|window| TracedMessage { title: "cell".to_owned(), window, message: Some(&message) });
    let trace: Value = serde_json::from_str(&chrome_trace(&both)).unwrap();
    let slices = shown(trace["traceEvents"].as_array().unwrap(), "X");
    let of_far: Vec<&str> = slices.iter().filter_map(|slice| slice.strip_prefix("reflector ")).collect();
    let expected = [
        "message 4711: far-send 15-17",
        "CPU 1, ± 1.5 µs: measure 5-40",
        "CPU 1, ± 1.5 µs: another program 40-60",
        "CPU 1, ± 1.5 µs: measure 60-100",
        "CPU 1, ± 1.5 µs: local_timer 95-100",
    ];
    assert_eq!(of_far, expected, "{slices:?}");
    assert_eq!(slices.iter().filter(|slice| slice.contains("near-send")).count(), 1, "{slices:?}");
    let text = trace_text(&both);
    let head = "# reflector, message 4711 of cell, 0 events left out, times moved by -7 ns onto the initiator's clock, ± 1.5 µs";
    assert!(
        text.contains(head) && text.contains("       another program [001]      1.000060000: sched_switch:"),
        "{text}"
    );
}

/// Catches: sums and differences of a damaged file that overflow.
#[test]
fn senseless_times_are_exported() {
    let mut window = window();
    (window.start_ns, window.end_ns, window.sent_ns) = (u64::MAX, 5, u64::MAX - 3);
    window.events[3].ns = Some(u64::MAX);
    assert!(shown(&trace(&window), "X").iter().any(|slice| slice.contains("near-send")));
    let text = trace_text(&[TracedMessage { title: String::new(), window: &window, message: None }]);
    assert_eq!(text.lines().count(), 1);
}
