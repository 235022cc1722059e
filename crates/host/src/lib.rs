//! Linux facts: what a machine and a host are, what a measurement cost, what was dropped meanwhile; and its knobs, each
//! changed through the undo log.
//!
//! All but [`knob`], [`undo`] and [`shield`] only reads /proc, /sys and a few ioctls. What a kernel does not tell is
//! `None` or empty, never an error: facts decorate a run and must not stop it. Parsers are pure functions of text, so that fixtures
//! of other kernels and fuzzers can feed them.

#![expect(missing_docs, reason = "what has no comment is what its name says")]
#![expect(unsafe_code, reason = "ethtool ioctls have no safe wrapper")]

pub mod boot;
pub mod counters;
pub mod ended;
pub mod exercise;
pub mod facts;
pub mod holders;
pub mod irqs;
pub mod knob;
pub mod layers;
pub mod netns;
pub mod nic;
pub mod private;
pub mod qdisc;
pub mod shield;
pub mod stack;
pub mod tasks;
pub mod undo;
pub mod usage;

mod ethtool;

pub use counters::Sampler as CounterSampler;
pub use stack::stack_environment;
pub use usage::{RunQueueWait, Sampler as UsageSampler};

/// The boot id of this machine (/proc/sys/kernel/random/boot_id): the same in all its namespaces, another after a boot.
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Whether a file carries capabilities (capabilities(7)): the loader then ignores LD_PRELOAD of ordinary users.
pub fn has_file_capabilities(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names end with NUL; no bytes are asked for, only their number.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
