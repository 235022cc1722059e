//! Which network namespace the calling thread is in, and where another one is.

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The link /proc/PID/ns/pid of the machine's first pid namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// How many threads and open files are looked at to find a namespace, at about 2 µs each.
const MOST_LINKS: usize = 500_000;

/// Inode of the calling thread's network namespace; two hosts of one machine differ in it.
pub fn inode() -> Option<u64> {
    inode_of(Path::new("/proc/thread-self/ns/net"))
}

/// Inode of a namespace file (/proc/PID/ns/net or a bind mount in /run/netns).
pub fn inode_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|data| data.st_ino())
}

/// The kernel's number of the thread's network namespace, unique in this boot (Linux 5.14); inodes are used again.
pub fn cookie() -> Option<u64> {
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let mut cookie = 0_u64;
    let mut length = libc::socklen_t::try_from(size_of_val(&cookie)).ok()?;
    // SAFETY: both pointers are valid for writing during the call, and the length is that of the number.
    let done = unsafe {
        let room = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, room, &raw mut length)
    };
    (done == 0).then_some(cookie)
}

/// The same of a namespace file; absent also where the caller may not enter it.
pub fn cookie_of(path: &Path) -> Option<u64> {
    let file = File::open(path).ok()?;
    // The namespace of a thread: the caller stays in its own.
    let enter = move || setns(file, CloneFlags::CLONE_NEWNET).ok().and_then(|()| cookie());
    std::thread::Builder::new().spawn(enter).ok()?.join().ok()?
}

/// Whether the thread is in the initial network namespace: that of process 1, else by a setting that only it shows.
pub fn is_initial() -> Option<bool> {
    match (inode(), inode_of(Path::new("/proc/1/ns/net"))) {
        (Some(mine), Some(initial)) => Some(mine == initial),
        _ if Path::new("/proc/sys/net/core").is_dir() => Some(Path::new("/proc/sys/net/core/dev_weight").exists()),
        _ => None,
    }
}

/// Process ids and names of all processes in one of some network namespaces, by their inodes, as far as they may be looked at.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// A file to enter it by.
    Found(PathBuf),
    /// Nothing keeps it.
    Gone,
    /// It may be where the caller cannot look.
    Unknown {
        /// Why, and what to do: one line.
        remedy: String,
    },
}

/// Looks for a network namespace by inode in /run/netns, threads, mounts and open files. A socket alone does not count.
pub fn find(inode: u64) -> Search {
    let mut named = entries(Path::new("/run/netns"));
    if let Some(path) = named.find(|path| inode_of(path) == Some(inode)) {
        return Search::Found(path);
    }
    let link = format!("net:[{inode}]");
    let processes: Vec<PathBuf> = entries(Path::new("/proc")).filter(|path| is_number(path.file_name())).collect();
    let mut is_denied = false;
    let mut is_it = |path: &PathBuf| match std::fs::read_link(path) {
        Ok(target) => target == Path::new(&link),
        Err(cause) => {
            // The kernel also denies ended tasks; a second look finds none. Process 1 may be closed to root.
            let denied = |cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied;
            is_denied |= denied(&cause)
                && !path.starts_with("/proc/1")
                && std::fs::read_link(path).is_err_and(|again| denied(&again));
            false
        }
    };
    if let Some(path) = processes.iter().map(|process| process.join("ns/net")).find(&mut is_it) {
        return Search::Found(path);
    }
    match mounted(&processes, &link, inode) {
        Some(Ok(path)) => return Search::Found(path),
        Some(Err(remedy)) => return Search::Unknown { remedy },
        None => {}
    }
    let threads = |process: &PathBuf| entries(&process.join("task")).map(|thread| thread.join("ns/net"));
    let files = |process: &PathBuf| entries(&process.join("fd"));
    let mut links = processes.iter().flat_map(threads).chain(processes.iter().flat_map(files));
    if let Some(path) = links.by_ref().take(MOST_LINKS).find(&mut is_it) {
        return Search::Found(path);
    }
    let unknown = |remedy: &str| Search::Unknown { remedy: remedy.to_owned() };
    if std::fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own != Path::new(FIRST_PID_NAMESPACE)) {
        unknown("a pid namespace does not show the processes that may be in it: run this outside of the container")
    } else if is_denied || processes.is_empty() {
        unknown("not every process may be looked at: run this as root")
    } else if links.next().is_some() {
        unknown("too many files are open to look at all: name it with `ip netns attach`")
    } else {
        Search::Gone
    }
}

/// A mount of a namespace in the mount namespace of any process. An error is what to do where it is hidden.
fn mounted(processes: &[PathBuf], link: &str, inode: u64) -> Option<Result<PathBuf, String>> {
    let mut seen = BTreeSet::new();
    let mut hidden = None;
    for process in processes {
        if !std::fs::read_link(process.join("ns/mnt")).is_ok_and(|mounts| seen.insert(mounts)) {
            continue;
        }
        let table = std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        for point in table.lines().filter_map(|line| mount_point(line, link)) {
            let path = process.join("root").join(point.trim_start_matches('/'));
            if inode_of(&path) == Some(inode) {
                return Some(Ok(path));
            }
            hidden = Some(Err(format!("it is mounted at {}, which cannot be reached: run this there", path.display())));
        }
    }
    hidden
}

/// The mount point of a line of mountinfo, when it is a mount of this namespace (proc_pid_mountinfo(5)).
fn mount_point(line: &str, link: &str) -> Option<String> {
    let mut fields = line.split(' ').skip(3);
    fields.next().filter(|root| *root == link)?;
    fields.next().map(crate::tasks::unescape)
}

fn is_number(name: Option<&OsStr>) -> bool {
    name.and_then(OsStr::to_str).is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
