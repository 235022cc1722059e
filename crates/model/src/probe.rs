//! The kinds of measurement, one row each.

use crate::{LatencyKind, Role};

words! {
    "probe";
    /// The kinds of measurement.
    #[derive(Default)]
    pub enum Probe {
        /// One message there and back at a time, every one timed.
        #[default]
        Pingpong = "pingpong",
        /// Request/response transactions, with their rate and the CPU they cost.
        Rr = "rr",
        /// ICMP echo.
        Ping = "ping",
        /// Messages at a fixed rate, sent without waiting for answers.
        Pace = "pace",
        /// Bulk data.
        Stream = "stream",
        /// Timer wake-ups of sleeping threads: how late each is, as cyclictest measures it.
        Wake = "wake",
        /// Data published in each cycle and echoed: which deadlines were missed.
        Cycle = "cycle",
    }
}

/// What results, keys of cells and tasks of foreign workers have in place of a protocol where nothing is sent.
pub const NO_PROTOCOL: &str = "timer";

/// What is known of a probe. Whatever depends on the kind of measurement asks for one of these facts.
struct Traits {
    /// What it measures, below the heading of a table.
    about: &'static str,
    /// What is counted, in the plural; none where results count bytes.
    samples: Option<&'static str>,
    /// Whether it sends messages; a kernel answers them where no reflector takes part.
    has_peer: bool,
    /// The roles of processes beside the initiator, each with the most hosts that may have it.
    others: &'static [(Role, u32)],
    pattern: Pattern,
    /// What its times are where RTT is not asked for.
    latency: LatencyKind,
    /// The quantities of a comparison by default.
    compared: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Each waits for the answer to the one before.
    Rounds,
    /// By a schedule.
    Schedule,
    /// As many as the path takes, or at a bandwidth.
    Bulk,
    /// A frame each period.
    Cycles,
}

/// The probes that have a fact, as a constant list.
macro_rules! with {
    ($fact:ident) => {{
        const COUNT: usize = {
            let (mut count, mut at) = (0, 0);
            while at < Probe::ALL.len() {
                count += Probe::ALL[at].$fact() as usize;
                at += 1;
            }
            count
        };
        const LIST: [Probe; COUNT] = {
            let (mut list, mut count, mut at) = ([Probe::Pingpong; COUNT], 0, 0);
            while at < Probe::ALL.len() {
                if Probe::ALL[at].$fact() {
                    list[count] = Probe::ALL[at];
                    count += 1;
                }
                at += 1;
            }
            list
        };
        &LIST
    }};
}

impl Probe {
    pub(crate) const WITH_PEER: &[Self] = with!(has_peer);
    pub(crate) const WITH_REFLECTOR: &[Self] = with!(has_reflector);
    pub(crate) const WITH_SEVERAL_REFLECTORS: &[Self] = with!(has_several_reflectors);

    const fn traits(self) -> Traits {
        const CLOSED: Traits = Traits {
            about: "one message at a time",
            samples: Some("messages"),
            has_peer: true,
            others: &[(Role::Reflector, 1)],
            pattern: Pattern::Rounds,
            latency: LatencyKind::RttHalf,
            compared: &["stdev", "p99.9"],
        };
        match self {
            Self::Pingpong => CLOSED,
            Self::Rr => Traits {
                about: "request/response as netperf measures it",
                compared: &["transactions", "p99.9"],
                ..CLOSED
            },
            Self::Ping => Traits {
                about: "ICMP echo, answered by the far kernel",
                others: &[],
                // As `ping` prints it.
                latency: LatencyKind::Rtt,
                ..CLOSED
            },
            Self::Pace => Traits {
                about: "messages at a fixed rate, the whole round trip",
                pattern: Pattern::Schedule,
                others: &[(Role::Reflector, u32::MAX)],
                // Out and back differ in an open loop, so half of the sum has no meaning.
                latency: LatencyKind::Rtt,
                compared: &["p99.9", "intended.p99.9"],
                ..CLOSED
            },
            Self::Stream => Traits {
                about: "bulk data",
                samples: None,
                pattern: Pattern::Bulk,
                latency: LatencyKind::Rtt,
                compared: &["bits"],
                ..CLOSED
            },
            Self::Wake => Traits {
                about: "how late sleeping threads woke up",
                samples: Some("deadlines"),
                has_peer: false,
                others: &[],
                latency: LatencyKind::WakeUp,
                ..CLOSED
            },
            Self::Cycle => Traits {
                about: "data exchanged in each cycle, the whole round trip",
                samples: Some("cycles"),
                pattern: Pattern::Cycles,
                latency: LatencyKind::Rtt,
                compared: &["cycle.misses", "intended.p99.9"],
                ..CLOSED
            },
        }
    }

    /// What it measures, below the heading of a table: "one message at a time".
    pub fn about(self) -> &'static str {
        self.traits().about
    }

    /// What its results count, in the plural; `None` for bytes.
    pub fn samples(self) -> Option<&'static str> {
        self.traits().samples
    }

    /// Whether a plan or command has to say over which protocol.
    pub fn names_protocol(self) -> bool {
        self.has_reflector()
    }

    /// Whether it sends messages.
    pub const fn has_peer(self) -> bool {
        self.traits().has_peer
    }

    /// How many hosts may have a role beside the initiator.
    pub const fn most_hosts(self, role: Role) -> u32 {
        let (others, mut at) = (self.traits().others, 0);
        while at < others.len() {
            if others[at].0 as u8 == role as u8 {
                return others[at].1;
            }
            at += 1;
        }
        0
    }

    /// Whether several hosts may take part as reflectors.
    pub const fn has_several_reflectors(self) -> bool {
        self.most_hosts(Role::Reflector) > 1
    }

    /// Whether messages leave by a schedule, whatever comes back.
    pub fn is_open_loop(self) -> bool {
        self.traits().pattern == Pattern::Schedule
    }

    /// Whether it sends bulk data.
    pub fn is_bulk(self) -> bool {
        self.traits().pattern == Pattern::Bulk
    }

    pub(crate) fn pattern(self) -> Pattern {
        self.traits().pattern
    }

    /// Whether a process of Windhover sends messages back.
    pub const fn has_reflector(self) -> bool {
        self.most_hosts(Role::Reflector) > 0
    }

    /// What its times are shown as; `rtt`: RTT was asked for in place of RTT/2.
    pub fn latency_kind(self, rtt: bool) -> LatencyKind {
        match self.traits().latency {
            LatencyKind::RttHalf if rtt => LatencyKind::Rtt,
            kind => kind,
        }
    }

    /// The quantities that a comparison of its cells is about by default.
    pub fn compared(self) -> &'static [&'static str] {
        self.traits().compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a probe that is compared by a figure that there is not.
    #[test]
    fn what_is_compared_is_a_quantity() {
        for probe in Probe::ALL {
            for id in probe.compared() {
                assert!(crate::quantity::find(id).is_some(), "{probe}: {id}");
            }
        }
    }
}
