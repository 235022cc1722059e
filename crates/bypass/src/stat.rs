//! What the library reports of each process: status pages, read as files. That disturbs nobody: a page is only counters.

use bypass_abi::SETTINGS;
use bypass_abi::page::{
    self, AT_KINDS, AT_NAME, AT_PID, AT_REASONS, AT_SETTINGS, AT_STARTED, AT_UNLISTED, COUNTERS, Kind, Outcome, Reason,
    at_socket,
};
use host::tasks::parse_stat;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use user_stack::listed_end;

/// How often each thing became of a kind of call, or of a socket's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Calls {
    /// Had a result at once.
    pub ready: u64,
    /// Had a result by spinning.
    pub found: u64,
    /// Used up the budget and slept.
    pub slept: u64,
    /// Ended by a signal handler.
    pub interrupted: u64,
    /// Ended by the call's own time-out.
    pub timed_out: u64,
    /// Had to wait and slept at once.
    pub not_spun: u64,
    /// System calls that spinning made.
    pub attempts: u64,
}

impl Calls {
    fn read(words: &[u64], at: usize) -> Self {
        let count = |outcome: Outcome| words.get(at + outcome as usize).copied().unwrap_or(0);
        Self {
            ready: count(Outcome::Ready),
            found: count(Outcome::Found),
            slept: count(Outcome::Slept),
            interrupted: count(Outcome::Interrupted),
            timed_out: count(Outcome::TimedOut),
            not_spun: count(Outcome::NotSpun),
            attempts: count(Outcome::Attempts),
        }
    }

    pub fn all(&self) -> u64 {
        self.ready + self.found + self.slept + self.interrupted + self.timed_out + self.not_spun
    }
}

/// Why sockets or calls were left to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct FallBack {
    pub reason: &'static str,
    pub what: &'static str,
    /// How often it applied.
    pub times: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Socket {
    pub descriptor: u32,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Own address; absent where the kernel does not show it.
    pub local: Option<SocketAddr>,
    /// The other end's; absent without one.
    pub remote: Option<SocketAddr>,
    /// The kernel's state of a TCP socket: `established`, `listen` …
    pub state: Option<&'static str>,
    /// `xdp` on the stack in the process, `spin`, or `kernel` when its calls are not accelerated.
    pub backend: &'static str,
    /// Why it is not accelerated: the reason's word.
    pub reason: Option<&'static str>,
    /// Whether the kernel polls its network device for it.
    pub busy_polled: bool,
    pub calls: Calls,
    /// Of a connection on the stack in the process.
    pub connection: Option<Connection>,
}

/// Figures of a connection on the stack in the process; they are up to a second old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Connection {
    /// Bytes that wait to be sent or acknowledged.
    pub unsent_bytes: u64,
    pub unread_bytes: u64,
    pub retransmits: u64,
    /// Smoothed round-trip time in ns; 0 before the first measurement.
    pub round_trip_ns: u64,
}

/// The interface of a stack in a process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Carrier {
    pub interface: String,
    /// How frames get past the kernel.
    pub backend: &'static str,
    /// Frames taken.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames dropped because they did not fit or no room was left.
    pub dropped: u64,
    /// Times the receive ring was full.
    pub ring_full: u64,
}

/// A process that runs with the library and has a socket.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Process {
    pub pid: u32,
    /// Its name when it was started, at most 15 bytes.
    pub name: String,
    pub settings: BTreeMap<&'static str, u64>,
    pub calls: BTreeMap<&'static str, Calls>,
    pub fall_backs: Vec<FallBack>,
    pub sockets: Vec<Socket>,
    /// Sockets that found no room in the page.
    pub unlisted: u64,
    /// The interface of the stack in it; none without one, or before its first socket.
    pub carrier: Option<Carrier>,
}

impl Process {
    /// Whether this is its name, or the one that it has given itself.
    pub(crate) fn is_called(&self, wanted: &str) -> bool {
        let now = || std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        self.name == wanted || now().trim_end() == wanted
    }
}

pub fn pages(folder: &Path) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<Process> = entries
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let words = read(&entry.path())?;
            lives(pid, &words).then(|| process(pid, &words))
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Whether a file is the page of a process that runs.
pub(crate) fn is_of_living(pid: u32, path: &Path) -> bool {
    // One without a first word is being made.
    read(path).map_or_else(|| started(pid).is_some(), |words| lives(pid, &words))
}

fn lives(pid: u32, words: &[u64]) -> bool {
    word(words, AT_PID) == u64::from(pid) && started(pid) == Some(word(words, AT_STARTED))
}

/// When a process started, in the clock of the caller's time namespace, as the library writes it.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    (!matches!(stat.state, 'Z' | 'X' | 'x')).then_some(stat.started)
}

fn word(words: &[u64], at: usize) -> u64 {
    words.get(at).copied().unwrap_or(0)
}

/// The words of a page of the version that is known here.
fn read(path: &Path) -> Option<Vec<u64>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(page::BYTES as u64).read_to_end(&mut bytes).ok()?;
    page::words(&bytes)
}

fn process(pid: u32, words: &[u64]) -> Process {
    let name: Vec<u8> = (0..2).flat_map(|part| word(words, AT_NAME + part).to_ne_bytes()).collect();
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    let fall_backs = Reason::ALL.iter().filter_map(|reason| {
        let times = word(words, AT_REASONS + *reason as usize);
        (times > 0).then(|| FallBack { reason: reason.word(), what: reason.what(), times })
    });
    let addresses = Addresses::read(pid);
    Process {
        pid,
        name: String::from_utf8_lossy(&name).into_owned(),
        settings: SETTINGS
            .iter()
            .enumerate()
            .map(|(at, setting)| (setting.name, word(words, AT_SETTINGS + at)))
            .collect(),
        calls: Kind::ALL
            .iter()
            .map(|kind| (kind.word(), Calls::read(words, AT_KINDS + *kind as usize * COUNTERS)))
            .filter(|(_, calls)| calls.all() > 0)
            .collect(),
        fall_backs: fall_backs.collect(),
        sockets: (0..page::SOCKETS).filter_map(|record| socket(pid, words, record, &addresses)).collect(),
        unlisted: word(words, AT_UNLISTED),
        carrier: carrier(words),
    }
}

pub(crate) fn carrier(words: &[u64]) -> Option<Carrier> {
    let at = |offset: usize| word(words, page::AT_ENGINE + offset);
    let backend = xsk::Backend::ALL.get(usize::try_from(at(2)).ok()?.checked_sub(1)?)?.word();
    let name = [at(0), at(1)].map(u64::to_ne_bytes).concat();
    let interface = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
    Some(Carrier { interface, backend, received: at(3), sent: at(4), dropped: at(5), ring_full: at(6) })
}

/// Local and remote end of a connection on the stack in the process.
pub(crate) fn ends(words: &[u64], record: usize) -> Option<(SocketAddr, SocketAddr)> {
    let at = |offset: usize| word(words, at_socket(record) + offset);
    let end = |place: usize, port: u64| {
        let octets = [0, 1].map(|half| at(page::SOCKET_ENDS + place * 2 + half).to_ne_bytes()).concat();
        let octets: [u8; 16] = octets.try_into().ok()?;
        let ip = IpAddr::V6(Ipv6Addr::from(octets)).to_canonical();
        Some(SocketAddr::new(ip, u16::try_from(port & 0xffff).ok()?))
    };
    let ports = at(page::SOCKET_ENDS + 4);
    Some((end(0, ports >> 16)?, end(1, ports)?))
}

/// State, ends and figures of a connection on the stack in the process.
fn connection(words: &[u64], record: usize) -> Option<(KernelSocket, Connection)> {
    let at = |offset: usize| word(words, at_socket(record) + offset);
    let state = usize::try_from(at(page::SOCKET_TCP)).ok().filter(|state| *state > 0)?;
    let (local, remote) = ends(words, record)?;
    let seen = KernelSocket { local, remote, state };
    let figures = Connection {
        unsent_bytes: at(page::SOCKET_UNSENT),
        unread_bytes: at(page::SOCKET_UNREAD),
        retransmits: at(page::SOCKET_RETRANSMITS),
        round_trip_ns: at(page::SOCKET_ROUND_TRIP),
    };
    Some((seen, figures))
}

fn socket(pid: u32, words: &[u64], record: usize, addresses: &Addresses) -> Option<Socket> {
    let state = word(words, at_socket(record));
    let descriptor = u32::try_from(state & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
    let is_stream = state & page::STREAM != 0;
    let (backend, reason) = page::carrier(state);
    let is_on_stack = state & page::ON_STACK != 0;
    let on_stack = connection(words, record).filter(|_| is_on_stack);
    let seen = on_stack.as_ref().map(|(seen, _)| seen).or_else(|| addresses.of(pid, descriptor));
    Some(Socket {
        descriptor,
        protocol: if is_stream { "tcp" } else { "udp" },
        local: seen.map(|seen| seen.local),
        remote: seen.map(|seen| seen.remote).filter(|remote| remote.port() != 0),
        state: seen.filter(|_| is_stream).and_then(|seen| STATES.get(seen.state.checked_sub(1)?).copied()),
        backend,
        reason: reason.map(Reason::word),
        busy_polled: state & page::BUSY_POLLED != 0,
        calls: Calls::read(words, at_socket(record) + 1),
        connection: on_stack.map(|(_, figures)| figures),
    })
}

/// The kernel's states of TCP, from 1 (include/net/tcp_states.h).
const STATES: [&str; 11] = [
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KernelSocket {
    local: SocketAddr,
    remote: SocketAddr,
    state: usize,
}

/// The sockets of a process' network namespace, by inode.
struct Addresses(BTreeMap<u64, KernelSocket>);

impl Addresses {
    fn read(pid: u32) -> Self {
        let texts = ["tcp", "tcp6", "udp", "udp6"]
            .map(|name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
        Self(texts.iter().flat_map(|text| text.lines()).filter_map(line).collect())
    }

    fn of(&self, pid: u32, descriptor: u32) -> Option<&KernelSocket> {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        self.0.get(&inode.parse().ok()?)
    }
}

/// A line of /proc/net/tcp and the like: `sl local remote st tx:rx tr:when retr uid timeout inode …`.
fn line(text: &str) -> Option<(u64, KernelSocket)> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, local, remote, state, _, _, _, _, _, inode, ..] = words.as_slice() else { return None };
    let state = usize::from_str_radix(state, 16).ok()?;
    Some((inode.parse().ok()?, KernelSocket { local: listed_end(local)?, remote: listed_end(remote)?, state }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bypass_abi::page::{AT_MAGIC, AT_VERSION};

    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_the_kernel_are_read() {
        let text =
            "   1: 0100007F:1F90 0200007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 12345 1 0";
        let (inode, seen) = line(text).unwrap();
        assert_eq!((inode, STATES[seen.state - 1]), (12345, "established"));
        assert_eq!(
            (seen.local.to_string(), seen.remote.to_string()),
            ("127.0.0.1:8080".into(), "127.0.0.2:50000".into())
        );
        let six = listed_end("00000000000000000000000001000000:0016").unwrap();
        assert_eq!(six.to_string(), "[::1]:22");
        assert_eq!(listed_end("0000000000000000FFFF00000100007F:0016").unwrap().to_string(), "127.0.0.1:22");
        assert!(
            line("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode")
                .is_none()
        );
        for broken in ["", ":", "01:1", "0100007F:1F901", "0100007F01:1", "xxxxxxxx:1"] {
            assert_eq!(listed_end(broken), None, "{broken}");
        }
    }

    /// A page as the library writes it.
    fn page_of(pid: u32, started: u64) -> Vec<u64> {
        let mut words = vec![0; page::WORDS];
        for (at, value) in [
            (AT_MAGIC, page::MAGIC),
            (AT_VERSION, page::VERSION),
            (AT_PID, u64::from(pid)),
            (AT_STARTED, started),
            (AT_NAME, u64::from_ne_bytes(*b"prog\0\0\0\0")),
            (AT_SETTINGS, 77),
            (page::at_kind(Kind::Poll, Outcome::Found), 5),
            (AT_REASONS + Reason::TooManySpinners as usize, 2),
            (at_socket(3), 8 | page::STREAM | (Reason::NonBlocking as u64 + 1) << page::REASON_SHIFT),
            (at_socket(3) + 1 + Outcome::Slept as usize, 9),
        ] {
            words[at] = value;
        }
        words
    }

    #[test]
    fn pages_of_the_living_are_read_and_those_of_the_dead_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            std::fs::write(folder.path().join(name), bytes).unwrap();
        };
        let me = std::process::id();
        let own = started(me).unwrap();
        write(&me.to_string(), &page_of(me, own));
        // The number of a living process, but another one's page; a dead process; another version; no page at all.
        write("1", &page_of(1, u64::MAX));
        write("4194305", &page_of(4_194_305, own));
        write("libwindhover-shim.so", &[]);
        let found = pages(folder.path());
        assert_eq!(found.len(), 1, "{found:?}");
        let process = &found[0];
        assert_eq!((process.pid, process.name.as_str(), process.settings["recv-us"]), (me, "prog", 77));
        assert_eq!((process.calls.len(), process.calls["poll"].found), (1, 5));
        assert_eq!((process.fall_backs.len(), process.fall_backs[0].times), (1, 2));
        let socket = &process.sockets[0];
        assert_eq!((socket.descriptor, socket.protocol, socket.backend), (7, "tcp", "kernel"));
        assert_eq!((socket.reason, socket.calls.slept), (Some("non-blocking"), 9));
        assert_eq!(crate::clear(folder.path()), 2);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        let mut newer = page_of(me, own);
        newer[AT_VERSION] += 1;
        write(&me.to_string(), &newer);
        assert!(pages(folder.path()).is_empty());
        assert_eq!(crate::clear(folder.path()), 0, "the page of another version belongs to a living process");
    }
}
