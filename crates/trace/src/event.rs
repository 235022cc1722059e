//! Kernel events, read from the text that ftrace prints.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// The CPU it happened on.
    pub cpu: u32,
    /// When, in ns of the instance's clock (CLOCK_MONOTONIC_RAW); ftrace prints whole µs.
    pub at_ns: u64,
    /// Id of the task that ran then; 0 for an idle CPU.
    pub tid: i32,
    /// Name of the task that ran then, as far as the kernel remembers it.
    pub task: String,
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Another task was switched in (sched:sched_switch).
    Switch {
        /// Its id; 0 for idle.
        next_tid: i32,
        next: String,
        /// Its kernel priority: 0 to 98 real time, 120 for nice 0.
        next_priority: i32,
    },
    /// A device interrupt was handled (irq:irq_handler_entry).
    Interrupt {
        irq: u32,
        name: String,
    },
    /// A vector of the architecture (irq_vectors:NAME_entry): `local_timer`, `reschedule`, `call_function`.
    Vector {
        /// The event's name without `_entry`.
        name: String,
    },
    /// A softirq ran (irq:softirq_entry).
    Softirq {
        /// Its name: `NET_RX`.
        name: String,
    },
    Other {
        name: String,
        rest: String,
    },
}

/// Reads one line of a `trace` or `trace_pipe` file; `None` for comments and lines that are no event.
///
/// The form is `TASK-TID [CPU] flags SECONDS.MICROSECONDS: NAME: FIELDS`. A task's name may hold anything, so the
/// line is taken apart from its first ` [NNN] ` that is followed by flags and a time.
pub fn parse_line(line: &str) -> Option<TraceEvent> {
    if line.starts_with('#') {
        return None;
    }
    line.match_indices(" [").find_map(|(at, _)| parse_at(line.get(..at)?, line.get(at + 2..)?))
}

fn parse_at(task: &str, rest: &str) -> Option<TraceEvent> {
    let (cpu, rest) = rest.split_once("] ")?;
    let cpu = cpu.parse().ok()?;
    let (flags, rest) = rest.trim_start().split_once(' ')?;
    if !flags.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '#') {
        return None;
    }
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, micros) = time.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let at_us = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?;
    // A kernel built to record process ids puts `(  PID)` between the two; the task id still ends the first word.
    let task =
        task.trim_end().rsplit_once('(').filter(|(_, inner)| inner.ends_with(')')).map_or(task, |(task, _)| task);
    let (name, tid) = task.trim().rsplit_once('-')?;
    let (event, fields) = rest.split_once(':')?;
    Some(TraceEvent {
        cpu,
        at_ns: at_us.checked_mul(1000)?,
        tid: tid.parse().ok()?,
        task: name.to_owned(),
        kind: kind(event, fields.trim()),
    })
}

fn kind(event: &str, fields: &str) -> EventKind {
    let parsed = match event {
        "sched_switch" => switch(fields),
        "irq_handler_entry" => interrupt(fields),
        "softirq_entry" => {
            let name = fields.split_once("action=").and_then(|(_, rest)| rest.strip_suffix(']'));
            name.map(|name| EventKind::Softirq { name: name.to_owned() })
        }
        _ => event
            .strip_suffix("_entry")
            .filter(|_| fields.starts_with("vector="))
            .map(|name| EventKind::Vector { name: name.to_owned() }),
    };
    parsed.unwrap_or_else(|| EventKind::Other { name: event.to_owned(), rest: fields.to_owned() })
}

/// `… ==> next_comm=NAME next_pid=N next_prio=N`; a name may hold spaces and equal signs.
fn switch(fields: &str) -> Option<EventKind> {
    let next = fields.rsplit_once("==> next_comm=")?.1;
    let (next, priority) = next.rsplit_once(" next_prio=")?;
    let (next, tid) = next.rsplit_once(" next_pid=")?;
    let next_priority = priority.split_ascii_whitespace().next()?.parse().ok()?;
    Some(EventKind::Switch { next_tid: tid.parse().ok()?, next: next.to_owned(), next_priority })
}

fn interrupt(fields: &str) -> Option<EventKind> {
    let (irq, name) = fields.strip_prefix("irq=")?.split_once(" name=")?;
    Some(EventKind::Interrupt { irq: irq.parse().ok()?, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> TraceEvent {
        parse_line(line).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn the_lines_that_a_kernel_prints() {
        let switch = event(
            " kworker/1:2-22695   [001] d..2. 11855.197716: sched_switch: prev_comm=kworker/1:2 prev_pid=22695 \
             prev_prio=120 prev_state=R ==> next_comm=bash next_pid=22752 next_prio=120",
        );
        assert_eq!((switch.cpu, switch.at_ns, switch.tid), (1, 11_855_197_716_000, 22695));
        assert_eq!(switch.task, "kworker/1:2");
        assert_eq!(switch.kind, EventKind::Switch { next_tid: 22752, next: "bash".to_owned(), next_priority: 120 });
        let irq = event("  <idle>-0   [000] d.h.. 11855.315822: irq_handler_entry: irq=42 name=virtio3-tx");
        assert_eq!(irq.kind, EventKind::Interrupt { irq: 42, name: "virtio3-tx".to_owned() });
        let timer = event(" x-1  [000] d.h.. 11855.209703: local_timer_entry: vector=236");
        assert_eq!(timer.kind, EventKind::Vector { name: "local_timer".to_owned() });
        let softirq = event(" x-1 [001] ..s.. 1.209711: softirq_entry: vec=9 [action=RCU]");
        assert_eq!(softirq.kind, EventKind::Softirq { name: "RCU".to_owned() });
        let other = event(" x-1 [001] ..... 1.209711: workqueue_execute_start: work struct 0: function x");
        assert!(matches!(other.kind, EventKind::Other { name, .. } if name == "workqueue_execute_start"));
        assert!(parse_line("# tracer: nop").is_none());
        assert!(parse_line("CPU:1 [LOST 17 EVENTS]").is_none());
        assert!(parse_line("").is_none());
    }

    #[test]
    fn names_that_look_like_fields() {
        let odd = event(
            " a-1 [000] d..2-7   [001] d..2. 2.000001: sched_switch: prev_comm=a ==> next_comm=x prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=b next_pid=3 next_pid=9 next_prio=49",
        );
        assert_eq!((odd.cpu, odd.tid), (1, 7));
        assert_eq!(odd.kind, EventKind::Switch { next_tid: 9, next: "b next_pid=3".to_owned(), next_priority: 49 });
        let with_process = event(" worker-77  (   70) [003] d.h1. 5.000010: local_timer_entry: vector=236");
        assert_eq!((with_process.tid, with_process.task.as_str()), (77, "worker"));
    }

    #[test]
    fn no_line_makes_it_panic() {
        for line in [
            " [",
            " [] ",
            " [1] ",
            "a-b [1] . 1.0: :",
            " [1] d 1.000000: x:",
            "é-1 [1] d 1.000000: é:é",
            " [1] d 9999999999999999999.000000: x: y",
        ] {
            let _ = parse_line(line);
        }
    }
}
