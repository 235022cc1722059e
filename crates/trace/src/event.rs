//! Kernel events, read from the text that ftrace prints.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// The CPU it happened on.
    pub cpu: u32,
    /// When, in ns of the instance's clock.
    pub at_ns: u64,
    /// Id of the task that ran then.
    pub tid: i32,
    /// Name of the task that ran then.
    pub task: String,
    /// What happened.
    pub kind: Kind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Another task was switched in (sched:sched_switch).
    Switch {
        /// Its id.
        next_tid: i32,
        /// Its name.
        next: String,
        /// Its kernel priority (0 to 98 real time, 120 nice 0).
        next_priority: i32,
    },
    /// A device interrupt was handled (irq:irq_handler_entry).
    Interrupt {
        /// Its number.
        irq: u32,
        /// The name of its action.
        name: String,
    },
    /// A vector of the architecture: local timer, reschedule, call function (irq_vectors:*_entry).
    Vector {
        /// The event's name without `_entry`: `local_timer`.
        name: String,
    },
    /// A softirq ran (irq:softirq_entry).
    Softirq {
        /// Its name: `NET_RX`.
        name: String,
    },
    /// Any other event.
    Other {
        /// The event's name.
        name: String,
        /// The rest of the line.
        rest: String,
    },
}

/// Reads one line of a `trace` or `trace_pipe` file; `None` for comments and lines that are no event.
#[must_use]
pub fn parse_line(_line: &str) -> Option<TraceEvent> {
    None
}
