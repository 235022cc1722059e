//! `windhover shield` on this machine: who may run where, what interrupts may go where, and that everything is as before
//! afterwards. Each shield is up for a second or two.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

#[path = "../support/mod.rs"]
mod support;

mod deaths;
mod machine;
mod plain;
mod real;
