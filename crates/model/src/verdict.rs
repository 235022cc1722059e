//! Whether a figure can be trusted, and what disturbed it.

/// Defines the ids of findings from one list: the word, whether the figure is invalid or disturbed, and what it means.
macro_rules! findings {
    ($($id:ident = $word:literal, $list:ident, $meaning:literal;)+) => {
        words! {
            /// What a finding is about. The word is stable and what scripts and documents refer to. The invalid ones stand first.
            pub enum FindingId { $(#[doc = $meaning] $id = $word,)+ }
        }

        impl FindingId {
            /// The list of a verdict that it belongs to, and what it means.
            const fn row(self) -> (List, &'static str) {
                match self { $(Self::$id => (List::$list, $meaning),)+ }
            }
        }
    };
}

/// The list of a verdict.
#[derive(PartialEq, Eq)]
enum List {
    Invalid,
    Disturbed,
}

findings! {
    ClockUnfit = "clock-unfit", Invalid, "the tick rate disagreed with CLOCK_MONOTONIC_RAW";
    Migrated = "migrated", Invalid, "the pinned thread ran on another CPU";
    Faults = "faults", Invalid,
        "page faults inside the measured loop that can have moved a figure; with memory locked they come from \
        the kernel's compaction, which `vm.compact_unevictable_allowed=0` keeps away from locked pages. \
        khugepaged moves them, too; the ends keep it away from their own memory";
    SamplesOverrun = "samples-overrun", Invalid, "the sample buffer was full";
    PathIsLocal = "path-is-local", Invalid,
        "both addresses belong to one network namespace, so no packet crossed a network. 127.0.0.1, ::1 and \
        `--fork-both` ask for that and are no finding";
    GeneratorLate = "generator-late", Invalid,
        "the sender sent more than 1 % of the messages late: more than a whole distance of the schedule \
        (`pace`, at least 20 µs) or more than half an interval (`ping`)";
    PathNotAsClaimed = "path-not-as-claimed", Invalid,
        "a library that LD_PRELOAD names, or that a plan's stack sets, was not loaded at one end; or a \
        connection of `mptcp` fell back to TCP, or the kernel cannot say whether it did";
    PeerVanished = "peer-vanished", Invalid, "the remote end ended before the size was complete";
    PathBroken = "path-broken", Invalid,
        "a send or receive call failed at one end, such as a datagram larger than the send buffer";
    IntervalTooShort = "interval-too-short", Invalid, "nearly all wake-ups of `wake` came after the next deadline";
    TimedOut = "timed-out", Invalid,
        "closed loops without an interval (`pingpong`, `rr`): more than half of the measuring time was spent \
        in time-outs, so the rate is set by the time-out, and the answered messages are a selection";
    LongStalls = "long-stalls", Disturbed,
        "closed loops: messages slower than 20 medians and 1 ms took 1 % of the time or more, which the \
        percentiles hide; `latency_corrected` estimates those of an open loop";
    Interrupted = "interrupted", Disturbed, "the run was interrupted; the figures cover the part until then";
    ScheduleHeldUp = "schedule-held-up", Disturbed,
        "more than 1 % of the messages were late by more than an interval, because they waited for the answer \
        before them (`ping`) or the path refused them (`pace`)";
    IntervalNotReached = "interval-not-reached", Disturbed, "the requested confidence interval was not reached";
    SenderLate = "sender-late", Disturbed,
        "what `generator-late` is otherwise, where the sender itself is measured (`pace --sender-measured`); \
        the latency from the intended send includes it";
    DeadlinesMissed = "deadlines-missed", Disturbed,
        "wake-ups of `wake` so late that further deadlines passed meanwhile";
    RateNotReached = "rate-not-reached", Disturbed,
        "the rate of `pace` or `stream` was too high for the initiator, the remote end or the path; the \
        detail says which. Unexplained loss is only `loss`";
    Loss = "loss", Disturbed, "messages were lost";
    Order = "order", Disturbed, "messages were duplicated or reordered";
    PeriodicStalls = "periodic-stalls", Disturbed, "slow messages recur with a period; known causes are named";
    Throttled = "throttled", Disturbed, "real-time throttling or the fair server stopped a real-time thread";
    OtherTasks = "other-tasks", Disturbed,
        "other tasks used the measuring CPU: more than 1 % and 1 ms, or 0.1 % and 10 ms, and enough to have \
        moved a figure";
    Steal = "steal", Disturbed, "the hypervisor used the measuring CPU; the same limits";
    LoadUneven = "load-uneven", Disturbed, "the background load was not even";
    NotPermitted = "not-permitted", Disturbed,
        "the owner of the endpoint allows a lower rate; the run continued with that";
    MemoryNotLocked = "memory-not-locked", Disturbed, "memory could not be locked, and page faults moved a figure";
    FewSamples = "few-samples", Disturbed,
        "too few messages for a percentile; in verdicts only of results of older versions. `--format sfnt` \
        with `--percentile` and `bypass probe` use the word";
    CaptureIncomplete = "capture-incomplete", Disturbed,
        "the capture of the measurement lacks packets, by the kernel's count or because writing failed; the \
        figures are not affected";
    RawNotKept = "raw-not-kept", Disturbed, "raw samples or a capture found no room on the disk; the figures are not affected";
    Imported = "imported", Disturbed,
        "another tool measured it (`windhover import`): how coarse its figures are, and what is not known";
    BinsOverflowed = "bins-overflowed", Disturbed,
        "values lie beyond the last bin of an imported histogram: figures that depend on them are left out";
    Foreign = "foreign", Disturbed, "a foreign worker measured it, with time stamps of its own";
}

impl FindingId {
    /// Whether the figure cannot be trusted when this was found.
    pub fn is_invalid(self) -> bool {
        self.row().0 == List::Invalid
    }

    /// All of them as a document.
    pub fn markdown() -> String {
        let mut out = String::from(
            "# Findings\n\nMade by `cargo xtask generate` from the list of findings; [measuring.md](../measuring.md#verdict) says what the \
             lists are. The words are stable.\n\n| finding | list | what it means |\n|---|---|---|\n",
        );
        for id in Self::ALL {
            let list = if id.is_invalid() { "invalid" } else { "disturbed" };
            let meaning = id.row().1;
            out.push_str(&format!("| `{id}` | {list} | {meaning} |\n"));
        }
        out
    }
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// What it is about.
    pub id: FindingId,
    /// At whom it was seen: the participant's role, or its host where several have that role; absent for the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// One sentence with the evidence in figures and, where there is one, what to do.
    pub detail: String,
}

impl Finding {
    /// A finding that belongs to no single end.
    pub fn new(id: FindingId, detail: impl Into<String>) -> Self {
        Self { id, end: None, detail: detail.into() }
    }

    /// A finding seen at one end.
    pub fn at(id: FindingId, end: impl AsRef<str>, detail: impl Into<String>) -> Self {
        Self { id, end: Some(end.as_ref().to_owned()), detail: detail.into() }
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
