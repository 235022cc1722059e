//! Windhover's PGM against the others that speak it: OpenPGM, ZeroMQ over it, and tshark as a second pair of eyes.
//!
//! Every test makes network namespaces of its own, loses multicast packets in them by nftables, and runs two small C
//! programs (openpgm.c, zeromq.c) over the libraries as the system has them. `cargo test` runs a short cut;
//! `cargo xtask test --interop` runs the whole matrix, which is ignored otherwise, and prints what was seen as a table.
//!
//! A library or tool that is missing is a skipped test, by name and reason.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests panic, say what they skip and what they saw"
)]

mod case;
mod eyes;
mod groups;
mod matrix;
mod network;
mod process;
mod short;
mod six;
#[path = "../support/mod.rs"]
mod support;
