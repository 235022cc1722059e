//! What a captured frame holds: link layer, IP, UDP or TCP, and Windhover's own messages in them.
//!
//! Two steps: [`packet`] takes the layers of one frame apart and keeps nothing; [`Recogniser`] remembers flows, because
//! a data message has no mark of its own: which flow is ours is known from the proof that opened it.
//! A frame may be cut short (snap length) and hostile; nothing here panics, and a length is believed only as far as
//! bytes are there.
//!
//! Messages of other protocols that measure, PGM over UDP or over IP (protocol 113) before all, get their place in
//! [`Message`] and a branch in [`Recogniser::look`].

mod layers;
mod recognise;

pub use layers::{Link, Packet, TcpHead, Transport, Undecoded, packet};
pub use recognise::{FlowId, Message, Recognised, Recogniser};

#[cfg(test)]
pub(crate) mod tests;
