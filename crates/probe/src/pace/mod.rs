//! Messages at a rate, sent without waiting for answers (open loop).
//!
//! A sender and a receiver thread measure ([`loops`]), or one that spins; both write into rings ([`ring`]) to a third thread of
//! ordinary policy, which works out what became of each message ([`in_flight`]). The schedule ([`schedule`]) is fixed by its
//! start alone: no late message moves a later one, and none is left out. Each sample has the sender's lateness, which shows
//! from the intended time only.

mod cost;
mod count;
mod group;
mod in_flight;
mod loop_clock;
mod loops;
mod open;
mod open_loop;
mod phase;
pub(crate) mod ring;
mod schedule;
pub(crate) mod threads;
pub(crate) mod usage;
mod wire_size;

pub(crate) use loop_clock::HYBRID_NS;
pub(crate) use open::MOST_PEERS;
pub(crate) use open_loop::measure;
pub(crate) use schedule::mean_rate;
