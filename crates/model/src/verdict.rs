//! Whether a figure can be trusted, and what disturbed it.

/// What a finding is about. The word is stable and what scripts and documents refer to. The invalid ones stand first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FindingId {
    /// The tick rate drifted or jumped while measuring (invalid).
    ClockUnfit,
    /// The measuring thread ran on another CPU than asked, or moved (invalid).
    Migrated,
    /// Page faults inside the measured loop (invalid).
    Faults,
    /// The sample ring was full (invalid).
    SamplesOverrun,
    /// Traffic between two addresses of one network namespace never left the host (invalid).
    PathIsLocal,
    /// The generator was late against its own schedule (invalid).
    GeneratorLate,
    /// The stack or stack setting that was asked for was not in effect (invalid).
    PathNotAsClaimed,
    /// A peer vanished before the stop rule was met (invalid).
    PeerVanished,
    /// A send or receive call failed at one end before the stop rule was met (invalid).
    PathBroken,
    /// Nearly all wake-ups of `wake` came after the next deadline (invalid).
    IntervalTooShort,
    /// Most of a closed loop's time went into waiting for answers that did not come in time (invalid).
    TimedOut,
    /// A closed loop stood still for a notable share of the time, which its percentiles hide (disturbed).
    LongStalls,
    /// The program was asked to end before the stop rule was met (disturbed).
    Interrupted,
    /// Answers that were awaited held the next messages of a schedule up (disturbed).
    ScheduleHeldUp,
    /// The confidence interval asked for was not reached (disturbed).
    IntervalNotReached,
    /// The sender was late, and the sender is what is measured: the figures from the intended time hold it (disturbed).
    SenderLate,
    /// Wake-ups so late that further deadlines passed meanwhile (disturbed).
    DeadlinesMissed,
    /// The rate asked for was not reached: the detail names what could not keep up (disturbed).
    RateNotReached,
    /// Messages were lost (disturbed).
    Loss,
    /// Messages came twice or out of order (disturbed).
    Order,
    /// Stalls that recur with a period; the detail names the known cause (disturbed).
    PeriodicStalls,
    /// Real-time throttling or the fair server held a real-time thread (disturbed).
    Throttled,
    /// Other tasks ran on the measuring CPU (disturbed).
    OtherTasks,
    /// The hypervisor took the CPU away (disturbed).
    Steal,
    /// A load that was not even (disturbed).
    LoadUneven,
    /// The endpoint's owner allows less than what was asked for, and the run went on with that (disturbed).
    NotPermitted,
    /// Memory was not locked, for want of a permission or room, and page faults did harm (disturbed).
    MemoryNotLocked,
    /// Too few messages for a percentile, which is absent (disturbed); in verdicts only of results of older versions.
    FewSamples,
    /// The capture beside the measurement lacks packets; the figures do not (disturbed).
    CaptureIncomplete,
    /// Raw samples found no room on the disk; the figures are whole (disturbed).
    RawNotKept,
    /// Another tool measured it: what that tool does not tell is not known (disturbed).
    Imported,
    /// Values lie beyond the last bin of an imported histogram (disturbed).
    BinsOverflowed,
    /// A foreign worker measured it; its time stamps are its own (disturbed).
    Foreign,
}

impl FindingId {
    /// Whether the figure cannot be trusted when this was found.
    #[must_use]
    pub fn is_invalid(self) -> bool {
        self <= Self::TimedOut
    }

    /// The stable word, as in documents (`path-is-local`).
    #[must_use]
    pub fn word(self) -> String {
        serde_json::to_value(self).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// What it is about.
    pub id: FindingId,
    /// At which end it was seen: `initiator`, `reflector`, or absent for the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// One sentence with the evidence in figures and, where there is one, what to do.
    pub detail: String,
}

impl Finding {
    /// A finding that belongs to no single end.
    #[must_use]
    pub fn new(id: FindingId, detail: impl Into<String>) -> Self {
        Self { id, end: None, detail: detail.into() }
    }

    /// A finding seen at one end.
    #[must_use]
    pub fn at(id: FindingId, end: &str, detail: impl Into<String>) -> Self {
        Self { id, end: Some(end.to_owned()), detail: detail.into() }
    }
}

/// Three lists: what makes a figure untrustworthy, what is part of the truth but worth knowing, and what moved nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Whether `invalid` is empty.
    pub trusted: bool,
    /// Why the figure cannot be trusted; exit code 4.
    pub invalid: Vec<Finding>,
    /// What disturbed the measurement; printed beside the figure, never exit code 4.
    pub disturbed: Vec<Finding>,
    /// What was found and cannot have moved a printed figure: kept as evidence, marks nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted: Vec<Finding>,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { trusted: true, invalid: Vec::new(), disturbed: Vec::new(), noted: Vec::new() }
    }
}

impl Verdict {
    /// Sorts a finding into its list.
    pub fn add(&mut self, finding: Finding) {
        if finding.id.is_invalid() {
            self.trusted = false;
            self.invalid.push(finding);
        } else {
            self.disturbed.push(finding);
        }
    }

    /// The findings that mark a figure, the invalid ones first.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.invalid.iter().chain(&self.disturbed)
    }
}
