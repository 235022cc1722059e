//! Cyclic data between control PCs: what topics are, what a frame carries, and what a subscriber concludes from the frames
//! that arrive, in whatever order.
//!
//! An [`ExchangeFile`] describes topics and nodes. A publisher sends one frame ([`Framing`]) of a topic in each cycle
//! ([`Cycle`]); a subscriber's [`Monitor`] counts gaps, duplicates, reordering, restarts and missed deadlines, and says which
//! frames are new. [`judge`] says how far a value can be trusted when it is read.
//!
//! Floor 0. No sockets, no clock reads, no threads: times go in as numbers. `exchange-io` joins this crate to the system.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod budget;
mod crc;
mod cycle;
mod delimited;
mod file;
mod frame;
mod monitor;
mod quality;
mod sdn;
mod topic;
mod transport;
mod window;

pub use budget::{Budget, NodeBudget, TopicBudget};
pub use crc::crc32c;
pub use cycle::{Cycle, Overrun};
pub use delimited::{FrameQueue, FrameSplitter, LENGTH_BYTES};
pub use file::{ClockClaim, ExchangeFile, FileError, Node, Publication, Source};
pub use frame::{FrameError, Framing, HEADER_BYTES, Header};
pub use monitor::{Arrival, Counters, FirstMiss, Monitor, MonitorConfig, Outcome};
pub use quality::{OnStale, Quality, Shown, judge};
pub use topic::{Field, FieldType, MAX_DATA_BYTES, Topic, fnv1a};
pub use transport::Transport;
