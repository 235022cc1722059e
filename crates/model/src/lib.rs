//! Types that are stored or sent between processes: plan, spec, sample, facts, result, verdict; their validation.
//!
//! Floor 0: no I/O, no clock reads, no threads, no unsafe. Every document carries a format number that rises
//! only when a meaning changes; readers of documents ignore fields they do not know, readers of plans refuse
//! keys they do not know. Times are integers in nanoseconds (`_ns`) unless a name says otherwise.

#[macro_use]
pub mod words;

pub mod cause;
pub mod clockmap;
pub mod cpus;
pub mod cycle;
pub mod end;
pub mod error;
pub mod event;
pub mod factor;
pub mod facts;
pub mod flow;
pub mod foreign;
pub mod kconfig;
pub mod kernel;
pub mod known;
pub mod limits;
pub mod live;
pub mod load;
pub mod pace;
pub mod participant;
pub mod peer;
pub mod pgm;
pub mod plan;
pub mod policy;
pub mod probe;
pub mod quantity;
mod ranges;
pub mod result;
pub mod run;
pub mod sample;
pub mod schedule;
pub mod shield;
pub mod sizes;
pub mod socket;
pub mod source;
pub mod spec;
pub mod stream;
pub mod text;
pub mod usage;
pub mod verdict;
pub mod wake;
pub mod window;
pub mod worker;

pub use cause::{
    Blame, Cause, CauseClass, ExplainOver, ExplainedStay, Explanation, FarStays, PathSegment, Removal, SegmentTime,
};
pub use clockmap::{ClockMap, ClockPoint, ClockSource, TickRate};
pub use cpus::CpuList;
pub use cycle::{CycleReport, CycleSpec};
pub use end::{EndSpec, IdleDescriptors, Receive};
pub use error::ModelError;
pub use event::Event;
pub use facts::{HostFacts, MachineFacts, NicFacts, Substrate};
pub use flow::{
    Bottleneck, FlowReport, OneWay, OneWayMethod, RateReport, ReflectorReport, Saturated, Segment, SegmentName, Signed,
    StampSource, StreamReport,
};
pub use kernel::{KernelChoice, KernelDriver};
pub use limits::Limits;
pub use live::LiveInterval;
pub use load::{LoadProfile, LoadReport, LoadSpec};
pub use pace::{PaceSpec, Pacer, Shape, StampClock, Stamps};
pub use participant::{Participants, Role};
pub use peer::PeerProgram;
pub use pgm::{Fate, Leg, PgmCarrier, PgmCounts, PgmEnd, PgmFate, PgmFec, PgmNakPath, PgmReport, PgmSpec, PgmSteps};
pub use plan::{Cell, Plan};
pub use policy::Policy;
pub use probe::Probe;
pub use quantity::{Quantity, Statistic};
pub use result::{Latency, LatencyKind, Messages, ResultDocument};
pub use run::{CellBoot, JournalLine, KernelImage, Prepared, RunDocument, Visit};
pub use sample::{PacedSample, Repaired, Sample, SampleFlags, StampTimes};
pub use schedule::RateList;
pub use shield::{Setting, ShieldBackend, ShieldReport, ShieldSpec};
pub use sizes::SizeList;
pub use socket::{Family, FrameBackend, Multicast, Protocol, SocketSpec};
pub use source::{Source, SourceKind};
pub use spec::{Gap, OutlierRule, ProbeOptions, ProbeSpec, RrSpec, StopRule, Warmup};
pub use stream::{Direction, StreamSpec};
pub use usage::{Counters, EndUsage};
pub use verdict::{Finding, FindingId, Verdict};
pub use wake::{WakeReport, WakeSpec, WakeThread};
pub use window::{EventWindow, KernelEvent, Placed};
pub use worker::{WorkerEvent, WorkerSpec};

/// Format number of every document that this version writes.
pub const FORMAT: u32 = 1;
