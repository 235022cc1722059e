//! Source and receivers over simulated networks: scenarios by section of RFC 3208, properties, and the golden table.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod document;
mod golden;
mod hostile;
mod options;
mod parity;
mod property;
mod receiver;
mod repair;
mod source;
mod topology;
mod world;
