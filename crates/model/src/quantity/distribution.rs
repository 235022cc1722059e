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

    /// The factor from a result's statistic to the kind that is shown: RTT with `rtt` or open loops, else RTT/2.
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

const NONE: [&[Statistic]; 2] = [&[], &[]];

/// Rows of a group, then as the fields of [`Distribution`]: id, CSV, title, name, the statistics in CSV files and those that are
/// compared, and how it is read; where they differ, its verbs and the field that has it whole.
macro_rules! distributions {
    ($(
        $group:ident $id:expr, $csv:literal, $title:expr, $name:literal, $in_csv:expr, $compared:expr,
        |$result:ident, $host:ident| $read:expr $(, verbs $verbs:expr)? $(, stored $field:ident)?;
    )+) => {
        /// All of them, in the order of tables.
        pub static DISTRIBUTIONS: &[Distribution] = &[$(Distribution {
            id: $id,
            csv: $csv,
            title: $title,
            name: $name,
            in_csv: $in_csv,
            compared: $compared,
            verbs: or!([$($verbs)?] ["is slower", "is faster"]),
            group: Group::$group,
            read: |$result, $host| $read,
            stored: or!([$(Some(|result| result.$field.as_deref()))?] None),
        }),+];
    };
}

/// What a row has, or else what most have.
macro_rules! or {
    ([] $usual:expr) => {
        $usual
    };
    ([$own:expr] $usual:expr) => {
        $own
    };
}

distributions! {
    Latency "", "", "actual", "", ALL, [&[P50, P99, P99_9, Max, Mean, Stdev], &[P50, P99]], |result, host| match host {
        None => latency(result.latency.as_ref()),
        Some(host) => part(result, host),
    }, stored histogram;
    Intended "intended", "intended_", "intended", "RTT from the intended send time", &[Mean, P50, P99, P99_9, Max],
        [&[P99, P99_9], &[P99]], |result, host| match host {
            None => latency(result.latency_intended.as_ref()),
            Some(host) => latency(reflector(result, host)?.latency_intended.as_ref()),
        }, stored histogram_intended;
    Lateness "lateness", "lateness_", "lateness", "lateness", &[Mean, P50, P99, P99_9, Max], [&[P99], &[]],
        |result, host| whole(host, latency(result.lateness.as_ref())),
        verbs ["sends later", "sends less late"], stored histogram_lateness;
    Corrected "corrected", "corrected_", "of an open loop", "what an open loop would see", &[P99, P99_9], NONE,
        |result, host| whole(host, result.latency_corrected.as_ref().map(Times::Corrected));
    Working "working", "working_", "under load", "RTT under the stream", &[P50, P99], [&[P50, P99], &[P50, P99]],
        |result, host| whole(host, latency(result.stream.as_ref()?.working_latency.as_ref()));
    Working "idle", "idle_", "idle", "RTT before the stream", &[P50, P99], NONE,
        |result, host| whole(host, latency(result.stream.as_ref()?.idle_latency.as_ref()));
    OneWay "out", "out_", "out", "the way out", &[P50, P99], [&[P50], &[]],
        |result, host| Some(Times::Signed(&one_way(result, host)?.out));
    OneWay "back", "back_", "back", "the way back", &[P50, P99], [&[P50], &[]],
        |result, host| Some(Times::Signed(&one_way(result, host)?.back));
    Segments SegmentName::Send.word(), "send_", SegmentName::Send.word(), "the part 'send'", &[P50], [&[P50], &[]],
        |result, host| segment(result, host, SegmentName::Send);
    Segments SegmentName::Wire.word(), "wire_", SegmentName::Wire.word(), "the part 'wire'", &[P50], [&[P50], &[]],
        |result, host| segment(result, host, SegmentName::Wire);
    Segments SegmentName::FarKernel.word(), "far_kernel_", SegmentName::FarKernel.word(), "the part 'far-kernel'", &[P50], [&[P50], &[]],
        |result, host| segment(result, host, SegmentName::FarKernel);
    Segments SegmentName::FarApplication.word(), "far_application_", SegmentName::FarApplication.word(), "the part 'far-application'", &[P50], [&[P50], &[]],
        |result, host| segment(result, host, SegmentName::FarApplication);
    Segments SegmentName::NearKernel.word(), "near_kernel_", SegmentName::NearKernel.word(), "the part 'near-kernel'", &[P50], [&[P50], &[]],
        |result, host| segment(result, host, SegmentName::NearKernel);
    Fates Fate::Untouched.word(), "pgm_untouched_", "untouched by repairs", "RTT of messages untouched by repairs", &[P50, P99, Max], [&[P50, P99], &[P99]],
        |result, host| latency(fate(result, host, Fate::Untouched)?.latency.as_ref());
    Fates "untouched-intended", "", "untouched, intended", "RTT from the intended send time of messages untouched by repairs", &[], NONE,
        |result, host| latency(fate(result, host, Fate::Untouched)?.latency_intended.as_ref());
    Fates Fate::Held.word(), "pgm_held_", "held behind a repair", "RTT of messages held behind a repair", &[P50, P99, Max], NONE,
        |result, host| latency(fate(result, host, Fate::Held)?.latency.as_ref());
    Fates "held-intended", "", "held, intended", "RTT from the intended send time of messages held behind a repair", &[], NONE,
        |result, host| latency(fate(result, host, Fate::Held)?.latency_intended.as_ref());
    Fates "held-in-repair", "", "held: in repair", "what repairs took of messages held behind one", &[], NONE,
        |result, host| latency(fate(result, host, Fate::Held)?.in_repair.as_ref());
    Fates Fate::Repaired.word(), "pgm_repaired_", "repaired", "RTT of messages repaired", &[P50, P99, Max], [&[P50, P99], &[P50]],
        |result, host| latency(fate(result, host, Fate::Repaired)?.latency.as_ref());
    Fates "repaired-intended", "", "repaired, intended", "RTT from the intended send time of messages repaired", &[], NONE,
        |result, host| latency(fate(result, host, Fate::Repaired)?.latency_intended.as_ref());
    Fates "repaired-in-repair", "", "repaired: in repair", "what repairs took of messages repaired", &[], NONE,
        |result, host| latency(fate(result, host, Fate::Repaired)?.in_repair.as_ref());
    Steps "out-gap-to-nak", "", "out gap to NAK", "gap to NAK on the way out", &[], NONE,
        |result, host| latency(step(result, host, Leg::Out)?.gap_to_nak.as_ref());
    Steps "out-nak-to-ncf", "", "out NAK to NCF", "NAK to NCF on the way out", &[], NONE,
        |result, host| latency(step(result, host, Leg::Out)?.nak_to_ncf.as_ref());
    Steps "out-ncf-to-repair", "", "out NCF to repair", "NCF to repair on the way out", &[], NONE,
        |result, host| latency(step(result, host, Leg::Out)?.ncf_to_repair.as_ref());
    Steps "out-gap-to-repair", "", "out gap to repair", "gap to repair on the way out", &[], NONE,
        |result, host| latency(step(result, host, Leg::Out)?.gap_to_repair.as_ref());
    Steps "out-held", "", "out held", "waiting behind a repair on the way out", &[], NONE,
        |result, host| latency(step(result, host, Leg::Out)?.held.as_ref());
    Steps "back-gap-to-nak", "", "back gap to NAK", "gap to NAK on the way back", &[], NONE,
        |result, host| latency(step(result, host, Leg::Back)?.gap_to_nak.as_ref());
    Steps "back-nak-to-ncf", "", "back NAK to NCF", "NAK to NCF on the way back", &[], NONE,
        |result, host| latency(step(result, host, Leg::Back)?.nak_to_ncf.as_ref());
    Steps "back-ncf-to-repair", "", "back NCF to repair", "NCF to repair on the way back", &[], NONE,
        |result, host| latency(step(result, host, Leg::Back)?.ncf_to_repair.as_ref());
    Steps "back-gap-to-repair", "", "back gap to repair", "gap to repair on the way back", &[], NONE,
        |result, host| latency(step(result, host, Leg::Back)?.gap_to_repair.as_ref());
    Steps "back-held", "", "back held", "waiting behind a repair on the way back", &[], NONE,
        |result, host| latency(step(result, host, Leg::Back)?.held.as_ref());
}
