//! What a captured frame holds: link layer, IP, UDP or TCP, and Windhover's own messages in them.
//!
//! Two steps: [`packet`] takes the layers of one frame apart and keeps nothing; [`Recogniser`] remembers flows, because
//! a data message has no mark of its own: which flow is ours is known from the proof that opened it.
//! A frame may be cut short (snap length) and hostile; nothing here panics, and a length is believed only as far as
//! bytes are there.
//!
//! PGM is taken apart too, over UDP and over IP (protocol 113), ours and that of others, with our own messages in it.

mod layers;
mod multicast;
mod recognise;

pub use layers::{Link, Packet, TcpHead, Transport, Undecoded, packet};
pub use multicast::{Carried, PGM_PORTS, Sighted};
pub use recognise::{FlowId, Message, Recognised, Recogniser};

#[cfg(test)]
pub(crate) mod tests;
