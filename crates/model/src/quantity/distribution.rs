//! The distributions of times that a result may hold: each of their statistics is a quantity.

use super::{Group, Statistic};
use crate::result::LatencyCorrected;
use crate::{Fate, Latency, LatencyKind, Leg, Probe, ResultDocument, SegmentName, Signed};

/// The summary of a distribution as a result holds it.
#[derive(Debug, Clone, Copy)]
pub enum Times<'a> {
    /// With exact moments.
    Latency(&'a Latency),
    /// One-way times, which may be below 0.
    Signed(&'a Signed),
    /// Percentiles alone.
    Corrected(&'a LatencyCorrected),
}

impl Times<'_> {
    /// Messages counted.
    pub fn count(&self) -> u64 {
        match self {
            Self::Latency(times) => times.count,
            Self::Signed(times) => times.count,
            Self::Corrected(times) => times.count,
        }
    }

    /// What the figures are.
    pub fn kind(&self) -> LatencyKind {
        match self {
            Self::Latency(times) => times.kind,
            Self::Signed(_) => LatencyKind::OneWay,
            Self::Corrected(times) => times.kind,
        }
    }

    /// A statistic in ns; `None` where it is not known.
    pub fn statistic(&self, statistic: Statistic) -> Option<f64> {
        match self {
            Self::Latency(times) => statistic.of(times),
            Self::Signed(times) => statistic.of_signed(times),
            Self::Corrected(times) => statistic.of_corrected(times),
        }
    }
}

type Read = for<'a> fn(&'a ResultDocument, Option<&str>) -> Option<Times<'a>>;

/// One distribution.
#[derive(Debug)]
pub struct Distribution {
    /// Before the point in the ids of its statistics; empty for the latency from the actual send time.
    pub id: &'static str,
    /// Before its statistics in names of CSV columns.
    pub csv: &'static str,
    /// In tables, behind RTT or RTT/2 where it is one of them.
    pub title: &'static str,
    /// In sentences; of the latency from the actual send time nothing but RTT or RTT/2.
    pub name: &'static str,
    /// The statistics with a column in CSV files.
    pub in_csv: &'static [Statistic],
    /// The statistics that `compare` shows without being asked, and those of them that its sentences speak of.
    pub compared: [&'static [Statistic]; 2],
    /// The words of `compare` for the second side where it is larger, and where it is smaller.
    pub verbs: [&'static str; 2],
    pub(super) group: Group,
    pub(super) read: Read,
    /// The whole distribution as stored, where a result may have it.
    pub stored: Option<fn(&ResultDocument) -> Option<&str>>,
}

impl Distribution {
    /// The summary in a result; with a host that of one of several reflectors.
    pub fn times<'a>(&self, result: &'a ResultDocument, host: Option<&str>) -> Option<Times<'a>> {
        (self.read)(result, host)
    }

    /// The table of its statistics.
    pub fn group(&self) -> Group {
        self.group
    }

    /// What heads it in a table: `RTT/2 actual`.
    pub fn heading(&self, kind: LatencyKind) -> String {
        match self.group {
            Group::Latency | Group::Intended | Group::Corrected => format!("{} {}", kind.title(), self.title),
            _ => self.title.to_owned(),
        }
    }

    /// What a statistic of a result is multiplied by to be of the kind that is shown: RTT where `rtt` is set and of open
    /// loops, else RTT/2.
    pub fn scale(&self, result: &ResultDocument, times: Times<'_>, rtt: bool) -> f64 {
        match self.group {
            Group::Latency | Group::Corrected => scale(result.probe, times.kind(), rtt).0,
            _ if times.kind() == LatencyKind::RttHalf => 2.0,
            _ => 1.0,
        }
    }
}

/// What a result's own latency is multiplied by to become the kind that is shown, and that kind.
pub fn scale(probe: Probe, stored: LatencyKind, rtt: bool) -> (f64, LatencyKind) {
    let wanted = probe.latency_kind(rtt);
    match (stored, wanted) {
        (LatencyKind::OneWay | LatencyKind::WakeUp, _) => (1.0, stored),
        (LatencyKind::Rtt, LatencyKind::RttHalf) => (0.5, wanted),
        (LatencyKind::RttHalf, LatencyKind::Rtt) => (2.0, wanted),
        _ => (1.0, wanted),
    }
}

/// The fates of messages over PGM, and what a clause calls them.
pub const FATES: [(Fate, &str); 3] =
    [(Fate::Untouched, "untouched by repairs"), (Fate::Held, "held behind a repair"), (Fate::Repaired, "repaired")];

use Statistic::{Max, Mean, Min, P50, P90, P99, P99_9, P99_99, P99_999, Stdev};

const ALL: &[Statistic] = &[Mean, Stdev, Min, P50, P90, P99, P99_9, P99_99, P99_999, Max];
const SLOWER: [&str; 2] = ["is slower", "is faster"];

fn latency(times: Option<&Latency>) -> Option<Times<'_>> {
    times.map(Times::Latency)
}

fn whole<'a>(host: Option<&str>, times: Option<Times<'a>>) -> Option<Times<'a>> {
    times.filter(|_| host.is_none())
}

fn reflector<'a>(result: &'a ResultDocument, host: &str) -> Option<&'a crate::ReflectorReport> {
    result.reflectors.iter().find(|one| one.host == host)
}

/// The latency of a part: of a reflector, or of a thread of `wake`.
fn part<'a>(result: &'a ResultDocument, name: &str) -> Option<Times<'a>> {
    let thread = result.wake.iter().flat_map(|wake| &wake.threads).find(|thread| thread.name == name);
    latency(reflector(result, name).and_then(|one| one.latency.as_ref()).or(thread.map(|one| &one.latency)))
}

pub(super) fn one_way<'a>(result: &'a ResultDocument, host: Option<&str>) -> Option<&'a crate::OneWay> {
    match host {
        None => result.one_way.as_ref(),
        Some(host) => reflector(result, host)?.one_way.as_ref(),
    }
}

fn segment<'a>(result: &'a ResultDocument, host: Option<&str>, name: SegmentName) -> Option<Times<'a>> {
    let found = result.segments.iter().find(|segment| segment.name == name);
    whole(host, latency(found.map(|segment| &segment.latency)))
}

pub(super) fn fate<'a>(result: &'a ResultDocument, host: Option<&str>, fate: Fate) -> Option<&'a crate::PgmFate> {
    result.pgm.as_ref()?.fates.iter().find(|one| one.host.as_deref() == host && one.fate == fate)
}

fn step<'a>(result: &'a ResultDocument, host: Option<&str>, way: Leg) -> Option<&'a crate::PgmSteps> {
    let steps = &result.pgm.as_ref()?.steps;
    steps.iter().find(|steps| steps.host.as_deref() == host && steps.way == way)
}

const BASE: Distribution = Distribution {
    id: "",
    csv: "",
    title: "",
    name: "",
    in_csv: &[P50, P99],
    compared: [&[], &[]],
    verbs: SLOWER,
    group: Group::Latency,
    read: |_, _| None,
    stored: None,
};

macro_rules! segment {
    ($segment:ident, $csv:literal, $name:literal) => {
        Distribution {
            id: SegmentName::$segment.word(),
            csv: $csv,
            title: SegmentName::$segment.word(),
            name: $name,
            in_csv: &[P50],
            compared: [&[P50], &[]],
            group: Group::Segments,
            read: |result, host| segment(result, host, SegmentName::$segment),
            ..BASE
        }
    };
}

macro_rules! fate {
    ($fate:ident, $csv:literal, $title:literal, $compared:expr) => {
        Distribution {
            id: Fate::$fate.word(),
            csv: $csv,
            title: $title,
            name: concat!("RTT of messages ", $title),
            in_csv: &[P50, P99, Max],
            compared: $compared,
            group: Group::Fates,
            read: |result, host| latency(fate(result, host, Fate::$fate)?.latency.as_ref()),
            ..BASE
        }
    };
}

/// A part of something that messages over PGM have.
macro_rules! part {
    ($group:ident, $of:ident($which:expr), $id:literal, $field:ident, $title:literal, $name:literal) => {
        Distribution {
            id: $id,
            title: $title,
            name: $name,
            in_csv: &[],
            group: Group::$group,
            read: |result, host| latency($of(result, host, $which)?.$field.as_ref()),
            ..BASE
        }
    };
}

macro_rules! fate_part {
    ($id:literal, $fate:ident, $field:ident, $title:literal, $name:literal) => {
        part!(Fates, fate(Fate::$fate), $id, $field, $title, $name)
    };
}

macro_rules! step {
    ($id:literal, $way:ident, $field:ident, $title:literal, $name:literal) => {
        part!(Steps, step(Leg::$way), $id, $field, $title, $name)
    };
}

/// All of them, in the order of tables.
pub static DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        title: "actual",
        in_csv: ALL,
        compared: [&[P50, P99, P99_9, Max, Mean, Stdev], &[P50, P99]],
        read: |result, host| match host {
            None => latency(result.latency.as_ref()),
            Some(host) => part(result, host),
        },
        stored: Some(|result| result.histogram.as_deref()),
        ..BASE
    },
    Distribution {
        id: "intended",
        csv: "intended_",
        title: "intended",
        name: "RTT from the intended send time",
        in_csv: &[Mean, P50, P99, P99_9, Max],
        compared: [&[P99, P99_9], &[P99]],
        group: Group::Intended,
        read: |result, host| match host {
            None => latency(result.latency_intended.as_ref()),
            Some(host) => latency(reflector(result, host)?.latency_intended.as_ref()),
        },
        stored: Some(|result| result.histogram_intended.as_deref()),
        ..BASE
    },
    Distribution {
        id: "lateness",
        csv: "lateness_",
        title: "lateness",
        name: "lateness",
        in_csv: &[Mean, P50, P99, P99_9, Max],
        compared: [&[P99], &[]],
        verbs: ["sends later", "sends less late"],
        group: Group::Lateness,
        read: |result, host| whole(host, latency(result.lateness.as_ref())),
        stored: Some(|result| result.histogram_lateness.as_deref()),
    },
    Distribution {
        id: "corrected",
        csv: "corrected_",
        title: "of an open loop",
        name: "what an open loop would see",
        in_csv: &[P99, P99_9],
        group: Group::Corrected,
        read: |result, host| whole(host, result.latency_corrected.as_ref().map(Times::Corrected)),
        ..BASE
    },
    Distribution {
        id: "working",
        csv: "working_",
        title: "under load",
        name: "RTT under the stream",
        compared: [&[P50, P99], &[P50, P99]],
        group: Group::Working,
        read: |result, host| whole(host, latency(result.stream.as_ref()?.working_latency.as_ref())),
        ..BASE
    },
    Distribution {
        id: "idle",
        csv: "idle_",
        title: "idle",
        name: "RTT before the stream",
        group: Group::Working,
        read: |result, host| whole(host, latency(result.stream.as_ref()?.idle_latency.as_ref())),
        ..BASE
    },
    Distribution {
        id: "out",
        csv: "out_",
        title: "out",
        name: "the way out",
        compared: [&[P50], &[]],
        group: Group::OneWay,
        read: |result, host| Some(Times::Signed(&one_way(result, host)?.out)),
        ..BASE
    },
    Distribution {
        id: "back",
        csv: "back_",
        title: "back",
        name: "the way back",
        compared: [&[P50], &[]],
        group: Group::OneWay,
        read: |result, host| Some(Times::Signed(&one_way(result, host)?.back)),
        ..BASE
    },
    segment!(Send, "send_", "the part 'send'"),
    segment!(Wire, "wire_", "the part 'wire'"),
    segment!(FarKernel, "far_kernel_", "the part 'far-kernel'"),
    segment!(FarApplication, "far_application_", "the part 'far-application'"),
    segment!(NearKernel, "near_kernel_", "the part 'near-kernel'"),
    fate!(Untouched, "pgm_untouched_", "untouched by repairs", [&[P50, P99], &[P99]]),
    fate_part!(
        "untouched-intended",
        Untouched,
        latency_intended,
        "untouched, intended",
        "RTT from the intended send time of messages untouched by repairs"
    ),
    fate!(Held, "pgm_held_", "held behind a repair", [&[], &[]]),
    fate_part!(
        "held-intended",
        Held,
        latency_intended,
        "held, intended",
        "RTT from the intended send time of messages held behind a repair"
    ),
    fate_part!("held-in-repair", Held, in_repair, "held: in repair", "what repairs took of messages held behind one"),
    fate!(Repaired, "pgm_repaired_", "repaired", [&[P50, P99], &[P50]]),
    fate_part!(
        "repaired-intended",
        Repaired,
        latency_intended,
        "repaired, intended",
        "RTT from the intended send time of messages repaired"
    ),
    fate_part!(
        "repaired-in-repair",
        Repaired,
        in_repair,
        "repaired: in repair",
        "what repairs took of messages repaired"
    ),
    step!("out-gap-to-nak", Out, gap_to_nak, "out gap to NAK", "gap to NAK on the way out"),
    step!("out-nak-to-ncf", Out, nak_to_ncf, "out NAK to NCF", "NAK to NCF on the way out"),
    step!("out-ncf-to-repair", Out, ncf_to_repair, "out NCF to repair", "NCF to repair on the way out"),
    step!("out-gap-to-repair", Out, gap_to_repair, "out gap to repair", "gap to repair on the way out"),
    step!("out-held", Out, held, "out held", "waiting behind a repair on the way out"),
    step!("back-gap-to-nak", Back, gap_to_nak, "back gap to NAK", "gap to NAK on the way back"),
    step!("back-nak-to-ncf", Back, nak_to_ncf, "back NAK to NCF", "NAK to NCF on the way back"),
    step!("back-ncf-to-repair", Back, ncf_to_repair, "back NCF to repair", "NCF to repair on the way back"),
    step!("back-gap-to-repair", Back, gap_to_repair, "back gap to repair", "gap to repair on the way back"),
    step!("back-held", Back, held, "back held", "waiting behind a repair on the way back"),
];
