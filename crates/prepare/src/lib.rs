//! Prepares hosts: shields CPUs, tunes settings, looks for latency problems, and puts everything back.
//!
//! Floor 2. Every setting goes through the undo log of `host`; processes are started by `task`. Prints nothing.

#![expect(missing_docs, reason = "what has no comment is what its name says")]

pub mod boot;
pub mod doctor;
mod flows;
pub mod keeper;
pub mod kernel;
pub mod shield;
pub mod tune;
pub mod unlogged;
pub mod verify;

pub use kernel::Kernel;
