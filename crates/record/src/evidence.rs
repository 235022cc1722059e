//! What the verdict is made from. Plain borrowed data, gathered by whoever ran the measurement.

use crate::{PaceFigures, Program, Recorded};
use model::result::EndReport;
use model::usage::{Carried, Preload};
use model::{ClockMap, Counters, EndSpec, EndUsage, Finding, LoadReport, Messages, ProbeSpec, Role};

/// One end: what it was told and what happened to it.
#[derive(Debug, Clone, Copy)]
pub struct EndEvidence<'a> {
    pub role: Role,
    /// What findings call it: its role, or its host where several have that role.
    pub name: &'a str,
    /// Whether it is a process of the initiator's machine, so that equal CPU numbers mean one CPU.
    pub one_machine: bool,
    pub spec: &'a EndSpec,
    /// CPU, scheduling and faults of the measuring thread; must cover the measured loop and nothing else.
    pub usage: &'a EndUsage,
    pub counters: &'a Counters,
    /// The libraries that LD_PRELOAD names in its measuring process, and whether each was loaded.
    pub preloads: &'a [Preload],
    /// What carried its data sockets; absent where it does not run behind `windhover bypass`.
    pub carried: Option<&'a [Carried]>,
}

impl<'a> EndEvidence<'a> {
    /// Of what an end left.
    pub(crate) fn of(role: Role, name: &'a str, one_machine: bool, end: &'a EndReport) -> Self {
        let (spec, usage, counters) = (&end.spec, &end.usage, &end.counters);
        let (preloads, carried) = (&end.preloads[..], end.carried.as_deref());
        Self { role, name, one_machine, spec, usage, counters, preloads, carried }
    }

    /// In a sentence: roles have an article, hosts have none.
    pub(crate) fn called(&self) -> String {
        if self.name == self.role.word() { format!("the {}", self.name) } else { self.name.to_owned() }
    }
}

/// What is known about the way that messages took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathFacts<'a> {
    /// Whether the kernel delivers to the peer's address locally: it is an address of this network namespace.
    pub is_local: bool,
    /// Nobody claims a network between the ends: a loopback target, the lab `loopback`, or a protocol within a machine.
    pub loopback_intended: bool,
    /// The peer's data address, for the sentence.
    pub peer: &'a str,
}

/// Everything that the verdict looks at.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    pub spec: &'a ProbeSpec,
    /// Whose flags remedies name.
    pub program: Program,
    pub initiator: EndEvidence<'a>,
    /// Those that send them back; none for ICMP echo, and without those that vanished before they told.
    pub reflectors: Vec<EndEvidence<'a>>,
    pub clock: Option<&'a ClockMap>,
    pub messages: &'a Messages,
    /// What was recorded of timed messages; absent for a stream, which times none.
    pub recorded: Option<&'a Recorded>,
    pub path: PathFacts<'a>,
    /// Findings that others made: the reflector's, and a refused memory lock, kept only where page faults did harm.
    pub found: &'a [Finding],
    /// Full width of the 95 % interval that the stop rule asked about, in percent, where it is not that of the median:
    /// transactions a second for rr. Absent: that of the median is taken from what was recorded.
    pub interval_percent: Option<f64>,
    /// How a peer vanished before the stop rule was met, in a few words.
    pub peer_vanished: Option<&'a str>,
    pub interrupted: bool,
    pub load: Option<&'a LoadReport>,
}

impl<'a> Evidence<'a> {
    /// All ends, the initiator first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &EndEvidence<'a>> {
        std::iter::once(&self.initiator).chain(&self.reflectors)
    }

    pub(crate) fn pace(&self) -> Option<&'a PaceFigures> {
        self.recorded?.pace.as_deref()
    }
}
