//! What is known of one message at one end: when it passed each stage there, and on which CPU.

use model::PathSegment;

/// A stage that a message passes at an end. The order is that of the recorder's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The send call was made.
    Send,
    /// It was given to the queue of the device.
    Queued,
    /// It was given to the driver.
    Sent,
    /// The softirq was raised in which the stack received it: packets that come while it runs come later than that. Past the kernel it
    /// is the last time at which this end sent, which is before the message came.
    Raised,
    /// The stack received it.
    Received,
    /// The thread that waits for it was woken.
    Waking,
    /// That thread ran.
    Running,
    /// The receive call returned.
    Returned,
}

pub const STAGES: usize = 8;

/// How far back the far end looks for what held a packet up before its stack received it.
const LONGEST_DEFERRAL_NS: u64 = 10_000_000;

/// When and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// CLOCK_MONOTONIC of this end's machine.
    pub at_ns: u64,
    pub cpu: u16,
}

/// One message at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stay {
    pub seq: u64,
    stamps: [Stamp; STAGES],
    /// The thread that sends, and the one that receives.
    threads: [i32; 2],
}

/// Which end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It sends first, and receives the answer.
    Near,
    /// It receives, and then answers.
    Far,
    /// It sends nothing: its thread sleeps until a time, which is that of [`Stage::Send`].
    Timer,
}

/// What the time of a segment goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The measured thread is to run.
    Runs,
    /// The measured thread was woken and waits for the CPU.
    Waits,
    /// The kernel receives.
    Receives,
    /// The CPU is to take the interrupt of the timer that wakes the measured thread.
    Expires,
}

/// One segment of a stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub segment: PathSegment,
    pub work: Work,
    /// The measured thread that it is about.
    pub thread: i32,
    pub from: Stamp,
    pub to: Stamp,
}

impl Slice {
    /// Its begin and its end.
    pub fn times(&self) -> (u64, u64) {
        (self.from.at_ns, self.to.at_ns)
    }

    pub fn ns(&self) -> u64 {
        self.to.at_ns.saturating_sub(self.from.at_ns)
    }
}

impl Stay {
    /// A message whose stamps are in the order of [`Stage`]; a time of 0 is a stage that it did not pass, or that was not seen.
    pub fn new(seq: u64, stamps: [Stamp; STAGES], threads: [i32; 2]) -> Self {
        Self { seq, stamps, threads }
    }

    /// When and where it passed a stage.
    pub fn at(&self, stage: Stage) -> Option<Stamp> {
        self.stamps.get(stage as usize).copied().filter(|stamp| stamp.at_ns != 0)
    }

    /// The segments within this end, in the order in which they pass. A stage that is missing makes its segment a part of the next one.
    pub fn slices(&self, side: Side) -> Vec<Slice> {
        use PathSegment as Path;
        let sends = [(Stage::Queued, Work::Runs), (Stage::Sent, Work::Runs)];
        let (sending, receiving) = match side {
            Side::Near => ([Path::NearSend, Path::KernelOut], [Path::NearReceive, Path::NearWakeUp, Path::Return]),
            Side::Far => ([Path::FarSend; 2], [Path::FarReceive, Path::FarWakeUp, Path::FarApplication]),
            Side::Timer => {
                let to = [
                    (Stage::Waking, Work::Expires, Path::Expiry),
                    (Stage::Running, Work::Waits, Path::NearWakeUp),
                    (Stage::Returned, Work::Runs, Path::Return),
                ];
                return self.cut(Stage::Send, self.threads[1], to.into_iter());
            }
        };
        // A thread that did not sleep is never woken: it takes the message itself.
        let woken = self.at(Stage::Waking).is_some() && self.at(Stage::Running).is_some();
        let (waking, last) = (Stage::Waking, if side == Side::Near { Stage::Returned } else { Stage::Send });
        let receives: &[(Stage, Work, Path)] = if woken {
            &[
                (waking, Work::Receives, receiving[0]),
                (Stage::Running, Work::Waits, receiving[1]),
                (last, Work::Runs, receiving[2]),
            ]
        } else {
            &[(Stage::Returned, Work::Runs, receiving[0]), (last, Work::Runs, receiving[2])]
        };
        let out = sends.into_iter().zip(sending).map(|((stage, work), path)| (stage, work, path));
        let mut slices = self.cut(Stage::Received, self.threads[1], receives.iter().copied());
        let sent = self.cut(Stage::Send, self.threads[0], out);
        match side {
            Side::Far => slices.extend(sent),
            _ => slices.splice(0..0, sent).for_each(drop),
        }
        slices
    }

    fn cut(&self, first: Stage, thread: i32, to: impl Iterator<Item = (Stage, Work, PathSegment)>) -> Vec<Slice> {
        let Some(mut from) = self.at(first) else { return Vec::new() };
        let mut slices: Vec<Slice> = Vec::new();
        for (stage, work, segment) in to {
            let Some(to) = self.at(stage).filter(|to| to.at_ns >= from.at_ns) else { continue };
            match slices.last_mut().filter(|last| last.segment == segment) {
                Some(last) => last.to = to,
                None => slices.push(Slice { segment, work, thread, from, to }),
            }
            from = to;
        }
        // At the near end the stage before may be the last one too.
        slices.retain(|slice| slice.to.at_ns > slice.from.at_ns);
        slices
    }

    /// When its last stage was passed.
    pub fn end_ns(&self) -> u64 {
        self.stamps.iter().map(|stamp| stamp.at_ns).max().unwrap_or(0)
    }

    /// When it began: at the near end with the send call or the time asked for, at the far end in the stack; 0 where that was not seen.
    pub fn start_ns(&self, side: Side) -> u64 {
        let first = if side == Side::Far { Stage::Received } else { Stage::Send };
        self.at(first).map_or(0, |stamp| stamp.at_ns)
    }

    /// Whether its thread looks for messages in a stack past the kernel: it is received when the call has it.
    pub fn is_polled(&self) -> bool {
        self.at(Stage::Received).is_some_and(|received| self.at(Stage::Returned) == Some(received))
    }

    /// The thread that receives it.
    pub fn receiver(&self) -> i32 {
        self.threads[1]
    }

    /// The threads of its end: the one that sends, and the one that receives.
    pub fn threads(&self) -> [i32; 2] {
        self.threads
    }

    /// How long it was away, in ns: between the driver and the stack, at the near end.
    pub fn away_ns(&self) -> Option<u64> {
        let left = self.at(Stage::Sent).or(self.at(Stage::Queued))?;
        self.at(Stage::Received)?.at_ns.checked_sub(left.at_ns)
    }

    /// Time from when it could have been received until it was, in ns; not longer than it was away, or at the far end than 10 ms.
    pub fn deferral_ns(&self) -> u64 {
        let stamps = self.at(Stage::Received).zip(self.at(Stage::Raised));
        let since_raise_ns = stamps.map_or(0, |(received, raised)| received.at_ns.saturating_sub(raised.at_ns));
        since_raise_ns.min(self.away_ns().unwrap_or(LONGEST_DEFERRAL_NS))
    }

    /// The whole stay, in ns. Near end: round trip or wake-up latency. Far end: from the stack to the driver.
    pub fn ns(&self, side: Side) -> Option<u64> {
        let (from, to) = match side {
            Side::Near | Side::Timer => (self.at(Stage::Send)?, self.at(Stage::Returned)?),
            Side::Far => {
                let first =
                    [Stage::Received, Stage::Waking, Stage::Returned].into_iter().find_map(|one| self.at(one))?;
                (first, [Stage::Sent, Stage::Queued, Stage::Send].into_iter().find_map(|one| self.at(one))?)
            }
        };
        to.at_ns.checked_sub(from.at_ns)
    }
}
