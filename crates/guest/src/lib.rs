//! Guests: virtual machines with a kernel of the user's choice, started without root and ended with their owner.
//!
//! A kernel is one of Debian's, fetched and verified by apt into a cache and not installed, or any
//! `vmlinuz-RELEASE` with its modules. Its image (an initramfs) holds this program, the libraries and tools that it needs,
//! and the kernel's modules and configuration; it is made again only when one of them changed. QEMU boots both. The
//! guest's first process is this program too ([`inside`]). Byte pipes between guest and host are virtio-serial ports, which
//! QEMU offers as Unix sockets: one for [`control`], one for each agent.

#![expect(missing_docs, reason = "what has no comment is what its name says")]

pub mod control;
pub mod inside;
pub mod wire;

mod apt;
mod cache;
mod console;
mod cpio;
mod elf;
mod emulator;
mod error;
mod folder;
mod image;
mod kernel;
mod machine;
mod nic;
mod packages;
mod programs;

pub use cache::Cache;
pub use console::last_lines;
pub use control::{GuestHost, Up};
pub use cpio::Archive;
pub use error::GuestError;
pub use folder::{
    RunFolder, remove as remove_folder, remove_behind_owner as remove_folder_behind_owner, wait_for_owner,
};
pub use image::Program;
pub use kernel::{Kernel, names};
pub use machine::{Guest, GuestSpec, Usage, agent_socket, simulated};
/// In the signature of [`GuestSpec`].
pub use model::plan::{GuestMode, GuestNic};
pub use packages::PackageSet;
pub use programs::{Job, RequestListener, run_at};
