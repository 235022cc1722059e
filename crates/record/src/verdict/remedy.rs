//! What can be done about findings, in the flags of the program that measures.

/// The program that measures, whose flags remedies name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Program {
    /// `windhover`, on Linux.
    #[default]
    Windhover,
    /// `winpoint`, on Windows.
    Winpoint,
}

impl Program {
    pub fn remedies(self) -> impl Iterator<Item = &'static str> {
        ALL.iter().map(move |remedy| remedy.of(self))
    }
}

/// A remedy, in the words of each program.
pub(crate) struct Remedy {
    windhover: &'static str,
    winpoint: &'static str,
}

impl Remedy {
    pub(crate) fn of(&self, program: Program) -> &'static str {
        match program {
            Program::Windhover => self.windhover,
            Program::Winpoint => self.winpoint,
        }
    }
}

macro_rules! remedies {
    ($($name:ident: $windhover:literal, $winpoint:literal;)+) => {
        $(pub(crate) const $name: Remedy = Remedy { windhover: $windhover, winpoint: $winpoint };)+

        /// All of them, for the test that a program has the flags that they name.
        const ALL: &[Remedy] = &[$($name),+];
    };
}

remedies! {
    PATH_IS_LOCAL:
        "put the ends on two hosts or in two namespaces (windhover lab up), or use 127.0.0.1 to measure the loopback on purpose",
        "put the ends on two hosts, or use 127.0.0.1 to measure the loopback on purpose";
    OVER_RATE:
        "leave a gap (--sleep-gap), or have its --max-rate raised",
        "send less often (--rate of pace), or have its --max-rate raised";
    RECEIVE_BUFFER_FULL:
        "raise the receive buffer (--receive-buffer, net.core.rmem_max)",
        "raise the receive buffer of the end that dropped them (on Linux net.core.rmem_max)";
    SENDER_LATE:
        "use --policy fifo:1, keep other tasks off its CPU",
        "use --priority realtime or --mmcss, keep other tasks off its CPU (--cpu)";
    PATH_REFUSES:
        "send less often (--rate), or use a larger --send-buffer",
        "send less often (--rate)";
    SLOW_INITIATOR:
        "use --policy fifo:1, a faster CPU or --pacer spin on a CPU of its own, a larger --receive-buffer where that was full, or a lower --rate",
        "use --priority realtime or --mmcss, a faster CPU or one of its own (--cpu), or a lower --rate";
    SLOW_REFLECTOR:
        "raise its receive buffer or its limits, give it a CPU of its own (--remote-cpu, --remote-policy), or lower --rate",
        "raise its receive buffer or its limits, give it a CPU of its own, or lower --rate";
    OTHER_TASKS:
        "keep them off it (shield, isolcpus, --cpu), or use --policy fifo:1",
        "keep them off it, or give that end a real-time policy";
    TICK_SLICES:
        "use --policy fifo:1, or keep other tasks off the measuring CPUs",
        "use --priority realtime or --mmcss, or keep other tasks off the measuring CPUs (--cpu)";
}
