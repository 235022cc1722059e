//! Guests: virtual machines with a kernel of the user's choice, started without root and gone with their owner.
//!
//! A kernel is one of Debian's, fetched and verified by apt into a cache and not installed, or any
//! `vmlinuz-RELEASE` with its modules. Its image (an initramfs) holds this program, the libraries and tools that it needs,
//! and the kernel's modules and configuration; it is made again only when one of them changed. QEMU boots both. The
//! guest's first process is this program too ([`inside`]). Byte pipes between guest and host are virtio-serial ports, which
//! QEMU offers as Unix sockets: one for [`control`], one for each agent.

pub mod control;
pub mod inside;

mod cache;
mod cpio;
mod elf;
mod error;
mod image;
mod kernel;
mod machine;

pub use cache::Cache;
pub use control::{GuestHost, Up};
pub use cpio::Archive;
pub use error::GuestError;
pub use image::Program;
pub use kernel::{Kernel, names};
pub use machine::{Guest, GuestSpec, Usage, agent_socket};
/// In the signature of [`GuestSpec`].
pub use model::plan::GuestMode;
