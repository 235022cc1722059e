//! Where hosts come from: namespaces joined by veth pairs, this host, a guest with namespaces, or any command that
//! opens a pipe to an agent.
//!
//! iproute2's `ip` makes namespaces and links. Each lab is registered with its owner before anything is made, so that
//! leftovers of killed owners are found. Existing namespaces stay unchanged, but ports of a lab are moved and returned.

#![expect(missing_docs, reason = "what has no comment is what its name says")]

pub mod addresses;
pub mod build;
pub mod error;
pub mod exercise;
pub mod owner;
pub mod pipe;
pub mod registry;

mod guest;
mod ip;
mod life;

pub use self::guest::{check_guests, exec_in_guest, hold};
/// In the signatures of [`Lab::boot`].
pub use ::guest::{GuestSpec, Program};
pub use addresses::Subnet;
pub use build::{GuestRecord, LabHost, LabRecord, LabSpec, Port};
pub use error::LabError;
pub use life::{Lab, LabStatus, down, down_stale, exec, keep, list};
pub use owner::Owner;
pub use pipe::{AgentCommand, Client, PipeError};
pub use registry::Registry;
/// In the signatures of [`Client`], so its users need not know where it comes from.
pub use wire::LaunchSpec;
