//! The server and its reflectors: the attack surface.
//!
//! Floor 2. [`Endpoint`] listens for control connections, makes all handshakes itself, and gives each client two threads: one
//! that speaks the control protocol ([`wire::ServerSession`]), and the reflector, with the client's policy and CPU, which only
//! receives and sends. [`model::Limits`] limit what a client may ask for; data is answered only once its path is proved the
//! client's. No session's failure ends the server. May not: print, start processes, change settings of the system.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod address;
mod cycle;
mod data_accept;
mod error;
mod halt;
mod handshakes;
mod inherited;
mod pace;
mod pgm;
mod reflect;
mod reflector;
mod server;
mod session;
mod sockperf;
mod stop;
mod stream;
#[cfg(test)]
mod tests;
mod transactions;

pub use error::EndpointError;
pub use inherited::{InheritedData, serve_inherited};
pub use server::Endpoint;
pub use sockperf::SockperfServer;
pub use stop::Stop;
