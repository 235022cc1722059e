//! Captures: the packets of a measurement as a pcapng file, and packets of an interface as they come.
//!
//! A [`Capture`] is a handle that whoever opens data paths tells of their flows; its [`CaptureLoop`] runs on a thread of
//! ordinary policy that the caller makes and places. What a capture costs the measured thread is what the kernel does in
//! its context: a filter of some thirty instructions and a copy of the headers for each packet of the flow, and a time
//! stamp for each packet of the machine. Nobody is woken up for a packet: the ring is handed over block by block.
//!
//! Files are read by [`Reader`], which believes nothing.

mod file;
mod filter;
mod link;
mod live;
mod read;
mod record;
mod ring;
mod write;

pub use file::{CaptureCounts, CaptureFile, CaptureSpec};
pub use filter::{Flow, GroupCarrier, GroupFlow};
pub use live::{Live, LiveLink};
#[doc(hidden)]
pub use read::exercise;
pub use read::{CaptureError, Entry, Reader, Record};
pub use record::{Capture, CaptureLoop};
pub use ring::{Addressed, CapturedPacket, Direction};
pub use write::{Interface, Writer};
