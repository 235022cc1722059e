//! What the measuring loops emit, and nothing else.

/// What was special about one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SampleFlags(pub u32);

impl SampleFlags {
    /// Sent, but no answer came within the time-out; `received` is when that was noticed.
    pub const LOST: Self = Self(1);
    /// An answer that had been answered already.
    pub const DUPLICATE: Self = Self(2);
    /// An answer that came after a later one.
    pub const REORDERED: Self = Self(4);
    /// A round before the first timed one, or the untimed one after a pause.
    pub const WARMUP: Self = Self(8);
    /// An answer that came after its time-out; it is no latency of the closed loop.
    pub const LATE: Self = Self(16);
    /// A signal interrupted the wait, so the time holds a handler too.
    pub const INTERRUPTED: Self = Self(32);

    /// The message asked for no answer (`pace` with one answer in N): only its lateness counts.
    pub const UNASKED: Self = Self(64);

    /// A deadline of `wake` that passed before the thread had woken up from the one before: it was not slept until.
    pub const PASSED: Self = Self(128);

    /// Whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    #[inline]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One message, in ticks of the initiator's clock (`peer_*` in ticks of the reflector's; 0 where not known).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Sample {
    /// Number of the message, from 0 for each size.
    pub seq: u64,
    /// When the schedule wanted it sent; in a closed loop the same as `sent`.
    pub intended: u64,
    /// When the send call was made.
    pub sent: u64,
    /// When the receive call had returned the answer.
    pub received: u64,
    /// When the reflector had received it.
    pub peer_rx: u64,
    /// When the reflector sent the answer.
    pub peer_tx: u64,
    /// What was special about it.
    pub flags: SampleFlags,
}

/// Wall-clock times of one message in ns since 1970, taken beside the ticks when stamps were asked for; 0 where a stamp
/// is missing. The far ones are of the far host's clock: they are only ever subtracted from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StampTimes {
    /// Before the send call.
    pub sent_ns: u64,
    /// When the driver (or the NIC) sent it.
    pub driver_ns: u64,
    /// When the far stack (or NIC) received it.
    pub far_stack_ns: u64,
    /// When the far receive call had returned.
    pub far_received_ns: u64,
    /// Before the far send call.
    pub far_sent_ns: u64,
    /// When the stack (or NIC) received the answer.
    pub stack_ns: u64,
    /// When the receive call had returned the answer.
    pub received_ns: u64,
}

/// What repairs of a reliable protocol cost one message on one way; nothing (zeros) where it came by itself and in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Repaired {
    /// From the moment that it was missed to the moment that it had come, in ns; 0 where it was not missed. Ends at 4.29 s.
    pub repair_ns: u32,
    /// From the moment that it had come to the moment that all before it had come too, in ns; 0 where nothing held it.
    pub held_ns: u32,
}

impl Repaired {
    /// From times in ns; longer ones than a `u32` holds are cut.
    #[inline]
    pub fn new(repair_ns: u64, held_ns: u64) -> Self {
        let cut = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        Self { repair_ns: cut(repair_ns), held_ns: cut(held_ns) }
    }

    /// Both times in one word, as messages and rings carry it.
    #[inline]
    pub fn word(self) -> u64 {
        u64::from(self.repair_ns) << 32 | u64::from(self.held_ns)
    }

    /// From a word.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self::new(word >> 32, word & u64::from(u32::MAX))
    }

    /// All that repairs cost it, in ns.
    #[inline]
    pub fn ns(self) -> u64 {
        u64::from(self.repair_ns) + u64::from(self.held_ns)
    }
}

/// One message of `pace`. Lost and unasked ones come too, flagged, so that the schedule is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PacedSample {
    /// Its times in ticks.
    pub sample: Sample,
    /// Which reflector it went to, from 0.
    pub reflector: u16,
    /// Its times beside the ticks.
    pub stamps: StampTimes,
    /// What repairs cost it on its way there.
    pub out: Repaired,
    /// What repairs cost its answer.
    pub back: Repaired,
    /// What its answer reported of an earlier answer: the reflector's tick when that was sent (`peer_tx` of its sample), 0 for
    /// nothing.
    pub told_tx: u64,
    /// When the reflector's driver (or NIC) sent that earlier answer, in ns since 1970.
    pub told_ns: u64,
    /// Ticks of its lateness during which the path took no more; the rest is the sender's own doing.
    pub held: u64,
}
