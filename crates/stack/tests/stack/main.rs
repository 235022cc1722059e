//! Stacks in virtual time: scripts by section of the RFCs, transfers over bad links, UDP, limits.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod transfer;
mod udp;
mod world;
