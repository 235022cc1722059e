//! What the messages of a closed loop carry, by the program that answers them.

use interop::sockperf;
use wire::{Tier, data};

/// How a message is written, and how its answer is read. Part of the measured loop: nothing here allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Ours: as much of the number and of the session's tag as there is room for.
    Own {
        tier: Tier,
        tag: u64,
    },
    Sockperf,
}

impl Framing {
    /// Bytes of the number that answers carry: 0 to 8.
    pub(crate) fn number_bytes(self) -> usize {
        match self {
            Self::Own { tier, .. } => tier.bytes().min(8),
            Self::Sockperf => 8,
        }
    }

    #[inline(always)]
    pub(crate) fn write(self, number: u64, message: &mut [u8]) {
        match self {
            Self::Own { tag, .. } => data::write(number, tag, message),
            Self::Sockperf => sockperf::write_ping(number, message),
        }
    }

    /// Makes the head of a message that of its answer, as the far end does.
    #[inline(always)]
    pub(crate) fn answer(self, message: &mut [u8]) {
        match self {
            Self::Own { .. } => {}
            Self::Sockperf => _ = sockperf::answer(message),
        }
    }

    /// The number of an answer as far as it is carried; `None`: it is none of this session.
    #[inline(always)]
    pub(crate) fn read(self, message: &[u8]) -> Option<u64> {
        match self {
            Self::Own { tier: Tier::Nothing, .. } => Some(0),
            Self::Own { tier, tag } => data::read(tier, tag, message),
            Self::Sockperf => sockperf::read_pong(message),
        }
    }
}
