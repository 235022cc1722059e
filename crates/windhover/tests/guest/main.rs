//! What a machine's own kernel often cannot do, tested for real in a guest: `cargo xtask test --guest` boots one for each
//! module here and runs its tests in it, as root, one after the other. Outside of a guest they are ignored.
//!
//! A test reads the whole state of the machine before and after with [`state`], which asks the kernel and not Windhover.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod borders;
mod igb;
mod igb_clock;
mod igb_rt;
mod isolcpus;
mod lockdown;
mod nic;
mod nohz_full;
mod partition;
mod preempt;
mod state;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod volumes;
