//! Why a message was late: the parts of its way, and the classes of causes.

words! {
    /// A part of the way of a message and its answer, in the order in which they pass through it.
    pub enum PathSegment {
        /// All of it, where its parts were not seen.
        Whole = "whole",
        /// From the send call to the queue of the device.
        NearSend = "near-send",
        /// From the queue of the device to its driver.
        KernelOut = "kernel-out",
        /// From the driver to the far stack.
        WireOut = "wire-out",
        /// From the far stack's receive function to the wake-up of the far thread, or to the return of its receive call where it
        /// did not sleep.
        FarReceive = "far-receive",
        /// From the wake-up of the far thread until it ran.
        FarWakeUp = "far-wake-up",
        /// From then to the send call.
        FarApplication = "far-application",
        /// From the far send call to the far driver.
        FarSend = "far-send",
        /// From the far driver to the stack here.
        WireBack = "wire-back",
        /// From the stack's receive function to the wake-up of the thread here, or to the return of its receive call where it did
        /// not sleep.
        NearReceive = "near-receive",
        /// From the time that the thread asked to be woken at to its wake-up: a timer has no other way.
        Expiry = "expiry",
        /// From the wake-up of the thread until it ran.
        NearWakeUp = "near-wake-up",
        /// From then to the return of the receive call, or of the sleep.
        Return = "return",
    }
}

/// What removes a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A setting of this host, or another kernel: what the tail would be without it is worth computing.
    Here(&'static str),
    /// Only the owner of something else can: the hypervisor, the network, the program itself.
    Elsewhere(&'static str),
    /// It is not known what it is.
    Unknown(&'static str),
}

impl Removal {
    /// The sentence.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Here(hint) | Self::Elsewhere(hint) | Self::Unknown(hint) => hint,
        }
    }
}

/// Defines the classes of causes from one list: the word, what it means, what shows it, and what removes it.
macro_rules! classes {
    ($($class:ident = $word:literal, $meaning:literal, $evidence:literal, $removal:ident($hint:literal);)+) => {
        words! {
            /// A class of causes. The word is stable and what scripts and documents refer to.
            pub enum CauseClass { $(#[doc = $meaning] $class = $word,)+ }
        }

        impl CauseClass {
            /// What it means, what shows it, and what removes it.
            const fn row(self) -> (&'static str, &'static str, Removal) {
                match self { $(Self::$class => ($meaning, $evidence, Removal::$removal($hint)),)+ }
            }
        }
    };
}

classes! {
    Preempted = "preempted", "another task took the CPU from the measured thread",
        "sched_switch: the thread was runnable and another one ran",
        Here("keep other tasks off this CPU: windhover shield, or a higher --policy fifo:N");
    RunQueue = "run-queue", "the woken thread waited while a task that may go first ran",
        "sched_waking, and the task that ran until sched_switch",
        Here("keep other tasks off this CPU: windhover shield, or a higher --policy fifo:N");
    LowerTask = "lower-task", "a task of lower priority did not let go of the CPU, because it was in kernel code that is not preemptible",
        "sched_waking of a real-time thread, a task of lower priority on its CPU, interrupts taken meanwhile",
        Here("use a kernel with PREEMPT_RT, or keep such tasks off this CPU");
    CpuDeaf = "cpu-deaf", "the CPU took no interrupt and no steal was booked: interrupts were off, or the host stalled it",
        "no interrupt between sched_waking and the end of the wait, no missing run time",
        Here("look for drivers that turn interrupts off; in a guest pin the virtual CPUs");
    FairServer = "fair-server", "a real-time thread had to let ordinary tasks run: the fair server, or RT throttling",
        "sched_switch from a runnable real-time thread to an ordinary task or to idle",
        Here("keep ordinary tasks off this CPU (windhover shield), or let real-time tasks run without limit: windhover shield --unlimited-rt");
    Quota = "quota", "the control group had used up its CPU quota",
        "the throttled bit of the task at sched_switch",
        Here("raise cpu.max of the control group");
    Hardirq = "hardirq", "a hardware interrupt was handled",
        "irq_handler_entry and _exit, local_timer_entry and _exit",
        Here("move the interrupt to another CPU: windhover irq shows where it is, windhover shield moves it");
    Softirq = "softirq", "a software interrupt ran",
        "softirq_entry and _exit",
        Here("move its source to another CPU: windhover shield; with PREEMPT_RT raise the priority of the thread above ksoftirqd's");
    SoftirqDeferred = "softirq-deferred", "the software interrupt that receives packets was raised and had to wait",
        "the time from softirq_raise to softirq_entry, and what ran meanwhile",
        Here("keep that off the CPU that receives: windhover shield, windhover irq");
    Ipi = "ipi", "another CPU interrupted this one for a function call or to reschedule",
        "call_function_entry and _exit, reschedule_entry and _exit",
        Here("shield this CPU and keep programs that change memory maps on other ones");
    IdleExit = "idle-exit", "the CPU was idle and took long to wake up",
        "sched_switch from the idle task",
        Here("forbid deep idle states (windhover tune), or spin: --receive spin");
    Migration = "migration", "the thread moved to another CPU",
        "sched_migrate_task",
        Here("pin the thread: --cpu N");
    Stopped = "stopped", "the thread was stopped by a signal or a debugger",
        "the state of the thread at sched_switch",
        Elsewhere("find who sent SIGSTOP, or who traces it");
    Blocked = "blocked", "the thread slept for something else than its message: a lock, memory, a device",
        "the state of the thread at sched_switch",
        Elsewhere("lock memory, and look at the calls that the thread makes between messages");
    PageFault = "page-fault", "the thread touched memory that was not there",
        "page_fault_user and page_fault_kernel, and the state in which the thread slept after one",
        Here("lock and prefault the memory of the program (mlockall)");
    Application = "application", "the application itself took longer",
        "the thread ran in user space and nothing interrupted it",
        Elsewhere("profile the application");
    Steal = "steal", "the hypervisor ran something else on this CPU",
        "run time that sched_stat_runtime does not account for",
        Elsewhere("pin the virtual CPUs, or use a dedicated host; no setting of the guest helps");
    NoEvent = "no-event", "the thread was held up, and nothing that the kernel reports happened",
        "no event",
        Unknown("it may be the firmware (SMI), the host or the memory: windhover doctor");
    Wire = "wire", "the message was on the network, in a NIC, or in the peer's hardware",
        "neither end's stay was longer than usual",
        Elsewhere("look at switches, at the coalescing of the NIC (windhover tune), and at other traffic");
    Repair = "repair", "the message, or one that it had to wait behind, was lost on the network and sent again",
        "gaps, NAKs and repairs of PGM at the end that receives",
        Elsewhere("find where packets are dropped: socket buffers, the queues of NICs, switches");
    Tracer = "tracer", "the recorder itself",
        "the thread that collects events ran",
        Elsewhere("it is absent from the figures, which are measured without it");
    Unknown = "unknown", "what happened is not known",
        "none of the others",
        Unknown("nothing is known of that time: there was no recorder, events were overwritten, or the far end could not send all");
}

impl CauseClass {
    /// What it means, as a part of a sentence.
    pub const fn meaning(self) -> &'static str {
        self.row().0
    }

    /// The kernel events that show it.
    pub const fn evidence(self) -> &'static str {
        self.row().1
    }

    /// What removes it.
    pub const fn removal(self) -> Removal {
        self.row().2
    }

    /// All of them as a document.
    pub fn markdown() -> String {
        let mut out = String::from(
            "# Causes of late messages\n\nMade by `cargo xtask generate` from the list of causes; [explaining.md](../explaining.md) says \
             how messages are explained. The words are stable.\n\n| cause | what it means | what shows it | what removes it |\n\
             |---|---|---|---|\n",
        );
        for class in Self::ALL {
            let (meaning, evidence, removal) = class.row();
            out.push_str(&format!("| `{class}` | {meaning} | {evidence} | {} |\n", removal.hint()));
        }
        out
    }

    /// Whether it names what happened.
    pub const fn is_known(self) -> bool {
        !matches!(self, Self::Unknown | Self::NoEvent)
    }
}

/// One cause of a late message.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Cause {
    /// What it is.
    pub class: CauseClass,
    /// The task, interrupt or function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The task's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The end where it happened: `initiator`, or `reflector` with the number of further ones.
    pub host: String,
    /// The CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The part of the way that it made longer.
    pub segment: PathSegment,
    /// By how much, in ns.
    pub ns: u64,
    /// What shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
}

/// One part of a late message's way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SegmentTime {
    /// Which.
    pub segment: PathSegment,
    /// The end where it was, as in [`Cause::host`].
    pub host: String,
    /// The CPU where it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// How long it took.
    pub ns: u64,
    /// How much longer than the median of this segment.
    pub excess_ns: u64,
}

/// One message at one end, with what made its stay there longer than usual.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ExplainedStay {
    /// Its number.
    pub seq: u64,
    /// How long it was there: at the near end the round trip, at the far end from the stack to the driver.
    pub ns: u64,
    /// When it began, in ns of that machine's CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When the stack received it there, in ns of that machine's CLOCK_MONOTONIC; 0 where that was not seen.
    pub received_ns: u64,
    /// When it was given to the driver there.
    pub sent_ns: u64,
    /// Its parts there.
    pub segments: Vec<SegmentTime>,
    /// The causes there, and those of the way to that end which are seen there.
    pub causes: Vec<Cause>,
}

/// What the far end tells of the messages that it was late with.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct FarStays {
    /// The boot id of its machine: two ends of one machine have one CLOCK_MONOTONIC.
    pub machine: Option<String>,
    /// Its usual stay: the median, in ns.
    pub usual_ns: u64,
    /// The messages with the longest stays, each with its causes; of the others there is nothing to tell.
    pub stays: Vec<ExplainedStay>,
    /// The kernel's events around a few of them, those with the longest stays first, in ns of that machine's CLOCK_MONOTONIC.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<crate::EventWindow>,
    /// The longest stay that was not sent, with the wait of the packet before it, in ns; 0: all were sent.
    pub left_out_ns: u64,
    /// Why it explains nothing.
    pub refused: Option<String>,
    /// Why less is known than could be, as in [`Explanation::limits`].
    pub limits: Vec<String>,
}

/// Which messages are explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ExplainOver {
    /// Those over the p99 of the pass before.
    #[default]
    Auto,
    /// Those over the p99.9 of the pass before.
    P999,
    /// Those that take longer than this, in ns.
    Ns(u64),
}

impl std::fmt::Display for ExplainOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::P999 => f.write_str("p99.9"),
            Self::Ns(ns) if ns % 1000 == 0 => write!(f, "{}us", ns / 1000),
            Self::Ns(ns) => write!(f, "{ns}ns"),
        }
    }
}

impl std::str::FromStr for ExplainOver {
    type Err = crate::ModelError;

    fn from_str(text: &str) -> Result<Self, crate::ModelError> {
        let units = [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        let number = |(unit, factor): (&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(factor);
        match text {
            "auto" => Ok(Self::Auto),
            "p99.9" => Ok(Self::P999),
            _ => match units.into_iter().find_map(number).filter(|ns| *ns > 0) {
                Some(ns) => Ok(Self::Ns(ns)),
                None => Err(crate::ModelError::grammar(
                    "--explain-over",
                    text,
                    "expected a time such as 100us, p99.9 or auto",
                )),
            },
        }
    }
}

text! { ExplainOver { "type": "string", "description": "A time such as `100us`, `p99.9`, or `auto`: over the p99." } }

/// What one cause cost at one end.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Blame {
    /// What it is.
    pub class: CauseClass,
    /// The task, interrupt or function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The end.
    pub host: String,
    /// Late messages that it made later.
    pub messages: u64,
    /// By how much in all.
    pub lost_ns: u64,
    /// The share of what all late messages lost, 0 to 1.
    pub share: f64,
    /// The most that one message lost.
    pub worst_ns: u64,
    /// The p99 of the round trips as it would be without it; absent where nothing is known that removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_without_ns: Option<u64>,
    /// The p99.9, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_9_without_ns: Option<u64>,
}

/// Why messages were late, from a pass of its own with the recorder on.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Explanation {
    /// What the times are: round trips, or wake-up latencies.
    #[serde(default)]
    pub kind: crate::LatencyKind,
    /// Messages whose time was longer are late.
    pub over_ns: u64,
    /// Messages of the explaining pass.
    pub messages: u64,
    /// Late ones among them.
    pub late: u64,
    /// The share of what they lost that is named, 0 to 1.
    pub explained: f64,
    /// The median time without the recorder.
    pub p50_before_ns: Option<u64>,
    /// The median time with it.
    pub p50_ns: Option<u64>,
    /// The 99th percentile with it.
    pub p99_ns: Option<u64>,
    /// The 99.9th percentile with it.
    pub p99_9_ns: Option<u64>,
    /// The causes, that which cost most first.
    pub causes: Vec<Blame>,
    /// Why less is known than could be: an end that does not record, tracepoints that are missing, events that were overwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}
