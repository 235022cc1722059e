//! Which network namespace the calling thread is in.

use std::os::linux::fs::MetadataExt;
use std::path::Path;

/// Inode of the calling thread's network namespace; two hosts of one machine differ in it.
#[must_use]
pub fn inode() -> Option<u64> {
    inode_of(Path::new("/proc/thread-self/ns/net"))
}

/// Inode of a namespace file (/proc/PID/ns/net or a bind mount in /run/netns).
#[must_use]
pub fn inode_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|data| data.st_ino())
}

/// Whether the calling thread is in the network namespace of process 1; `None` where that cannot be read (it takes
/// root, and in a container process 1 is the container's own).
#[must_use]
pub fn is_initial() -> Option<bool> {
    Some(inode()? == inode_of(Path::new("/proc/1/ns/net"))?)
}
