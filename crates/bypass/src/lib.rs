//! Starts programs of others behind a faster network stack, and shows what became of their sockets.
//!
//! Floor 2. The stack itself is the preload library (`shim`), which this crate embeds: [`Library`] puts it where the loader
//! finds it, [`Settings`] says how it shall behave, [`examine`] says whether a program can be accelerated at all, and
//! [`pages`] reads what the library reports of each process. [`Capture`] reads the frames of a process, and [`Recording`] writes them
//! into a file. [`measure_ways`] compares the ways past the kernel, and [`recommend_way`] judges them.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod audit;
mod capture;
mod error;
mod interface;
mod keep;
mod library;
mod profile;
mod program;
mod recording;
mod stat;
mod ways;

pub use audit::Audit;
pub use bypass_abi::{SETTINGS, Setting, Start};
pub use capture::{Capture, CaptureState, choose, named};
pub use error::BypassError;
pub use interface::Interface;
pub use keep::keep;
pub use library::{Library, clear, folder};
pub use profile::{Effective, Profile, Settings, profiles};
pub use program::{Obstacle, examine, find};
pub use recording::{CaptureLimits, Recording};
pub use stat::{Calls, Carrier, Connection, FallBack, Process, Socket, pages};
pub use ways::{Candidate, RoundFigures, WayRounds, WaySettings, floors, measure_ways, open_ways, recommend_way};
pub use xsk::{Backend, TappedFrame};
