//! Tells the peers of a program that was killed. The kernel ends the connections that it has itself; of those on a stack in the process
//! it knows nothing. Whoever outlives the process reads them in its status page.

use crate::stat;
use bypass_abi::page::{self, AT_PID, AT_STARTED};
use host::tasks::parse_stat;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often it is looked which processes there are.
const LOOK: Duration = Duration::from_millis(100);
/// When a peer is asked once more: Linux answers such segments of one connection twice a second.
const AGAIN: Duration = Duration::from_millis(700);

struct WatchedProcess {
    page: File,
    started: u64,
}

/// A connection of a process that is gone.
struct Left {
    interface: String,
    ends: (SocketAddr, SocketAddr),
    first_unacknowledged: u32,
}

impl Left {
    fn ask(&self) {
        // Without a route or the address nobody can be told.
        let _ = user_stack::probe_peer(&self.interface, self.ends, self.first_unacknowledged);
    }
}

/// Stands by until a program and the processes that came of it have ended. Of those that were killed, the peers are told: the kernel
/// answers their next segment with a reset, and each is asked for one. `owner`: process id and start of the program, in clock ticks.
pub fn keep(folder: &Path, owner: (i32, u64)) {
    let owner = (u32::try_from(owner.0).unwrap_or(0), owner.1);
    let mut family = BTreeSet::from([owner.0]);
    let mut kept: BTreeMap<u32, WatchedProcess> = BTreeMap::new();
    let mut again: Vec<(Instant, Left)> = Vec::new();
    loop {
        // Before the pages: one that is made meanwhile is found.
        let lives = stat::started(owner.0) == Some(owner.1);
        find(folder, &mut family, &mut kept);
        let gone: Vec<u32> = kept.iter().filter(|(pid, one)| !one.lives(**pid)).map(|(pid, _)| *pid).collect();
        for left in gone.into_iter().filter_map(|pid| kept.remove(&pid)).flat_map(|one| one.connections()) {
            left.ask();
            again.push((Instant::now() + AGAIN, left));
        }
        let now = Instant::now();
        again.iter().filter(|(due, _)| *due <= now).for_each(|(_, left)| left.ask());
        again.retain(|(due, _)| *due > now);
        if !lives && kept.is_empty() && again.is_empty() {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Opens the pages of processes that came of those in the family. A page may be removed before its process is missed.
fn find(folder: &Path, family: &mut BTreeSet<u32>, kept: &mut BTreeMap<u32, WatchedProcess>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| !kept.contains_key(pid)) else { continue };
        if !family.contains(&pid) && !comes_of(pid, family) {
            continue;
        }
        // One that is being made is found next time.
        if let Some(one) = WatchedProcess::open(pid, &entry.path()) {
            family.insert(pid);
            kept.insert(pid, one);
        }
    }
}

/// Whether one of the process' parents is in the family.
fn comes_of(pid: u32, family: &BTreeSet<u32>) -> bool {
    let parent = |pid: u32| {
        let stat = parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        u32::try_from(stat.parent).ok().filter(|parent| *parent > 1)
    };
    std::iter::successors(parent(pid), |pid| parent(*pid)).any(|parent| family.contains(&parent))
}

impl WatchedProcess {
    fn open(pid: u32, path: &Path) -> Option<Self> {
        let page = File::open(path).ok()?;
        let words = read(&page)?;
        let is_its = words.get(AT_PID) == Some(&u64::from(pid));
        is_its.then(|| Self { page, started: words.get(AT_STARTED).copied().unwrap_or(0) })
    }

    fn lives(&self, pid: u32) -> bool {
        stat::started(pid) == Some(self.started)
    }

    /// Its connections on the stack in the process; none where it ended by itself.
    fn connections(&self) -> Vec<Left> {
        read(&self.page).map(|words| connections(&words)).unwrap_or_default()
    }
}

fn read(page: &File) -> Option<Vec<u64>> {
    let mut bytes = vec![0; page::BYTES];
    page.read_exact_at(&mut bytes, 0).ok()?;
    page::words(&bytes)
}

fn connections(words: &[u64]) -> Vec<Left> {
    let Some(carrier) = stat::carrier(words) else { return Vec::new() };
    let one = |record: usize| {
        let at = page::at_socket(record);
        let state = words.get(at).copied().filter(|state| *state != 0)?;
        let number = words.get(at + page::SOCKET_NUMBER).copied().filter(|number| number >> 32 == 1)?;
        let ends = stat::ends(words, record).filter(|_| page::carrier(state).0 == "xdp")?;
        let first_unacknowledged = u32::try_from(number & u64::from(u32::MAX)).ok()?;
        Some(Left { interface: carrier.interface.clone(), ends, first_unacknowledged })
    };
    (0..page::SOCKETS).filter_map(one).collect()
}
