//! What the recorder writes for each kernel event, and what it means.

use std::fmt;

/// Bytes of a record of the recorder's ring.
pub const RECORD_BYTES: usize = 48;

/// The name of a task, an interrupt or a function, as the kernel has it: 15 bytes and a NUL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(pub [u8; 16]);

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let mut name = [0; 16];
        name.iter_mut().take(15).zip(text.bytes()).for_each(|(to, from)| *to = from);
        Self(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(bytes))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// One event on one CPU, in ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When it happened; of an interval its start.
    pub at_ns: u64,
    pub cpu: u16,
    pub kind: EventKind,
}

/// What happened. Intervals are recorded once, at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Another task was switched in (sched:sched_switch).
    Switch {
        from: i32,
        /// The state of the task that left: `TASK_REPORT` bits of include/linux/sched.h, 0 for runnable.
        from_state: u32,
        /// Whether it left because its control group has no quota left.
        throttled: bool,
        to: i32,
        /// Kernel priority: 0 to 98 real time, 120 for nice 0.
        to_priority: u8,
        to_name: Name,
    },
    /// A measured thread was woken (sched:sched_waking).
    Waking { tid: i32, by: i32 },
    /// A handler of a device's interrupt ran.
    Hardirq { ns: u64, irq: u32, name: Name },
    /// A vector of the architecture was handled.
    Vector { ns: u64, vector: Vector },
    /// A software interrupt ran.
    Softirq { ns: u64, vector: u8, since_raise_ns: u32 },
    /// The kernel accounted run time to the task that runs (sched:sched_stat_runtime).
    Ran { tid: i32, ns: u64 },
    /// A measured thread moved to this CPU (sched:sched_migrate_task).
    Migrated { tid: i32, from: u16, to: u16 },
    /// A measured thread touched memory that was not there.
    PageFault { tid: i32 },
}

impl EventKind {
    /// Whether the kernel accounts the run time of the task that ran until then.
    pub fn accounts(&self) -> bool {
        matches!(self, Self::Ran { .. } | Self::Switch { .. })
    }
}

/// Vectors of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vector {
    /// The CPU's own timer.
    LocalTimer,
    /// Another CPU asks to schedule.
    Reschedule,
    /// Another CPU has a function called.
    CallFunction,
    /// Work that was put off from a context that could not do it.
    IrqWork,
    Other,
}

impl Vector {
    const ALL: [Self; 5] = [Self::LocalTimer, Self::Reschedule, Self::CallFunction, Self::IrqWork, Self::Other];

    pub const fn word(self) -> &'static str {
        match self {
            Self::LocalTimer => "local_timer",
            Self::Reschedule => "reschedule",
            Self::CallFunction => "call_function",
            Self::IrqWork => "irq_work",
            Self::Other => "other vector",
        }
    }
}

/// Names of softirq vectors, in their order (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

pub fn softirq_name(vector: u8) -> &'static str {
    SOFTIRQS.get(usize::from(vector)).copied().unwrap_or("other")
}

impl Event {
    /// Reads a record: `at_ns u64, value u64, tid u32, other u32, extra u32, cpu u16, kind u8, sub u8, name [u8; 16]`, in the
    /// machine's byte order. `None` for a place never written, and for unknown kinds.
    pub fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let (at_ns, value) = (u64_at(0)?, u64_at(8)?);
        let (tid, other, extra) = (u32_at(16)?.cast_signed(), u32_at(20)?, u32_at(24)?);
        let cpu = u16::from_ne_bytes([record[28], record[29]]);
        let (kind, sub) = (record[30], record[31]);
        let name = Name(*record.last_chunk()?);
        let kind = match kind {
            1 => EventKind::Switch {
                from: other.cast_signed(),
                from_state: u32::try_from(value & u64::from(u32::MAX)).ok()?,
                throttled: sub != 0,
                to: tid,
                to_priority: u8::try_from(extra).unwrap_or(u8::MAX),
                to_name: name,
            },
            2 => EventKind::Waking { tid, by: other.cast_signed() },
            3 => EventKind::Hardirq { ns: value, irq: other, name },
            4 => EventKind::Vector { ns: value, vector: *Vector::ALL.get(usize::from(sub)).unwrap_or(&Vector::Other) },
            5 => EventKind::Softirq { ns: value, vector: sub, since_raise_ns: extra },
            7 => EventKind::Ran { tid, ns: value },
            8 => EventKind::Migrated { tid, from: u16::try_from(extra).ok()?, to: u16::try_from(other).ok()? },
            9 => EventKind::PageFault { tid },
            _ => return None,
        };
        (at_ns != 0).then_some(Self { at_ns, cpu, kind })
    }

    /// When it was over; of a point its time.
    pub fn end_ns(&self) -> u64 {
        match self.kind {
            EventKind::Hardirq { ns, .. } | EventKind::Vector { ns, .. } | EventKind::Softirq { ns, .. } => {
                self.at_ns.saturating_add(ns)
            }
            _ => self.at_ns,
        }
    }
}
