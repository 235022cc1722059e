//! Even, measured background loads.
//!
//! [`Load::start`] starts a load, [`Load::wait_steady`] waits until it is even, [`Load::stop`] ends it and reports what it
//! delivered. A load consists of threads of this process and of children of those threads, all of ordinary policy; it is
//! meant to run in a process of its own that is init of a pid namespace (`task`'s `Launch::pid_namespace`), so that
//! everything dies with that process, whatever ends it. Files go to a folder of its own that is removed at the end;
//! one that was left by a load that was killed is removed by the next.
//!
//! This crate starts nothing but loads, changes no setting of the machine, and prints nothing.

mod cpustat;
mod cputime;
mod disturber;
mod engine;
mod error;
mod evenness;
mod profile;
mod sampler;
mod scratch;

pub use disturber::{Disturbance, Disturbed, Disturber};
pub use engine::{Load, STEADY_TIMEOUT};
pub use error::LoadError;
pub use profile::unit;
