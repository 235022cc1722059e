//! Which network namespace the calling thread is in.

use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Whether the calling thread is in the machine's initial network namespace: that of process 1, where it can be read;
/// else told by a setting of the whole machine, which /proc/sys shows there alone.
#[must_use]
pub fn is_initial() -> Option<bool> {
    match (inode(), inode_of(Path::new("/proc/1/ns/net"))) {
        (Some(mine), Some(initial)) => Some(mine == initial),
        _ if Path::new("/proc/sys/net/core").is_dir() => Some(Path::new("/proc/sys/net/core/dev_weight").exists()),
        _ => None,
    }
}

/// Process ids and names of all processes in one of some network namespaces, by their inodes, as far as they may be looked at.
#[must_use]
pub fn processes(inodes: &[u64]) -> Vec<(u32, String)> {
    let mut found: Vec<(u32, String)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let process = entry.path();
            inode_of(&process.join("ns/net")).filter(|inode| inodes.contains(inode))?;
            let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
            Some((pid, name.trim_end().to_owned()))
        })
        .collect();
    found.sort_unstable();
    found
}

/// A file to enter a network namespace by, by its inode: a named one of /run/netns, or that of a process in it.
#[must_use]
pub fn find(inode: u64) -> Option<PathBuf> {
    let entries = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = entries("/run/netns");
    let of_processes = entries("/proc").map(|process| process.join("ns/net"));
    named.chain(of_processes).find(|place| inode_of(place) == Some(inode))
}
