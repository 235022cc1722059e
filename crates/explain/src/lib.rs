//! Why a message was late: kernel events and stamps of one or two ends to segments and causes.
//!
//! Floor 0: no I/O, no clock reads, no threads, no unsafe. Times are ns of CLOCK_MONOTONIC of their end, and those of two ends
//! are never subtracted unless both have one clock.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

pub mod blame;
pub mod event;
pub mod message;
pub mod stay;
pub mod table;
pub mod timeline;

pub use event::{Event, EventKind, Name};
pub use message::{Explained, Usual, explain_stay, join};
pub use stay::{Side, Stage, Stamp, Stay};
pub use table::blame_table;
pub use timeline::Timeline;
