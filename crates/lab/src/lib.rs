//! Where hosts come from: namespaces of this machine joined by veth pairs, this host itself, a guest with namespaces in it,
//! or any command that opens a pipe to an agent.
//!
//! Namespaces and links are made with iproute2's `ip`, started through `task`. Every lab is written down in a registry
//! before anything is made, with its owner, so that what a killed owner left behind is found and removed. Nothing here
//! prints, and nothing here changes the namespaces that were there before, except that ports which a lab is asked to
//! use are moved away and given back.

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
