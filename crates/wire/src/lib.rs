//! Framing, the agent's requests, and the control session as a sans-IO machine.
//!
//! Floor 0: no I/O, no clock reads, no threads, no unsafe. Bytes come in and go out as slices; time is no input and
//! randomness is passed in by the caller. Everything here reads what a hostile network may send: no function panics
//! on any input, no length is trusted before its bytes have come, and every secret is compared in constant time.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

pub mod agent;
mod budget;
pub mod client;
pub mod control;
pub mod data;
pub mod dissect;
pub mod error;
#[cfg(test)]
extern crate self as wire;
#[cfg(test)]
#[path = "../../../fuzz/src/wire_entries.rs"]
#[allow(unreachable_pub, dead_code, reason = "a part of the fuzz package")]
mod exercise;
pub mod frame;
mod hex;
pub mod key;
pub mod pgm;
mod proof;
mod request;
pub mod server;
pub mod session;
pub mod stream;

pub use agent::{LaunchSpec, Reply, Request};
pub use budget::RateBudget;
pub use client::{ClientConfig, ClientEvent, ClientSession};
pub use control::{Nonce, Opened, RefuseCode, ServerHello, StopReport, Token, Versions};
pub use data::Tier;
pub use error::{FrameError, KeyError, SessionError};
pub use frame::{AGENT_LIMIT, CONTROL_LIMIT, Decoder};
pub use key::Key;
pub use pgm::{FarRepair, PgmFarEnd, PgmRequest, SourceId};
pub use request::{CycleRequest, OpenRequest, PaceRequest, Refusal};
pub use server::{ServerConfig, ServerEvent, ServerSession};
pub use stream::{StreamEnd, StreamRequest};

/// The port that an endpoint listens on unless it is told another.
pub const DEFAULT_PORT: u16 = 7412;
