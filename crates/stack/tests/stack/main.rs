//! Stacks in virtual time: scripts by section of the RFCs, transfers over bad links, UDP, limits.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod close;
mod data;
mod detach;
mod document;
mod errors;
mod handshake;
mod limits;
mod options;
mod recovery;
mod rules;
mod script;
mod shared;
mod sim;
mod timers;
mod transfer;
mod udp;
mod wire;
mod world;
