//! Which network calls of a program reach the kernel past the preload library, and why.
//!
//! Each call is told before it goes on ([`task::notify`]). Behind the library a call comes from the C library's code; one from
//! anywhere else, or by the C library's `syscall`, is a direct one. Calls that the C library makes for itself (name look-ups,
//! stdio) look as those behind the library do.

use crate::examine;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::read_to_string;
use std::ops::Range;
use std::path::Path;
use task::notify::{CallNotice, generic_call, is_internet_socket};

/// Calls that are told, by their names.
const CALLS: [(&str, libc::c_long); 11] = [
    ("socket", libc::SYS_socket),
    ("connect", libc::SYS_connect),
    ("accept", libc::SYS_accept),
    ("accept4", libc::SYS_accept4),
    ("sendto", libc::SYS_sendto),
    ("sendmsg", libc::SYS_sendmsg),
    ("sendmmsg", libc::SYS_sendmmsg),
    ("recvfrom", libc::SYS_recvfrom),
    ("recvmsg", libc::SYS_recvmsg),
    ("recvmmsg", libc::SYS_recvmmsg),
    ("io_uring_setup", libc::SYS_io_uring_setup),
];
/// Processes that are named one by one.
const MOST_NAMED: usize = 20;

/// What is known of the code of a thread's process, until it runs another program.
struct Code {
    process: u32,
    name: String,
    /// Start of its stack and of its code: both are others after exec.
    layout: [u64; 2],
    /// Where the C library's code is; none where the preload library is not loaded.
    library: Option<Range<u64>>,
    /// Behind the instruction of the C library's `syscall`.
    generic: Option<u64>,
    /// Why the library is not loaded.
    why_not: String,
}

/// Calls of one program in one process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Counts {
    name: String,
    passed: u64,
    escaped: BTreeMap<&'static str, u64>,
    why_not: Option<String>,
}

#[derive(Default)]
pub struct Audit {
    threads: HashMap<u32, Code>,
    /// By process and layout, so that what a process ran before an exec keeps its own row.
    counts: BTreeMap<(u32, [u64; 2]), Counts>,
    generic: Option<(String, u64)>,
}

impl Audit {
    pub fn new() -> Self {
        Self { generic: own_generic_call(), ..Self::default() }
    }

    /// Numbers of the calls that it wants to be told.
    pub fn calls() -> Vec<libc::c_long> {
        CALLS.map(|(_, number)| number).to_vec()
    }

    /// Counts a call that waits until this returns.
    pub fn count(&mut self, notice: CallNotice) {
        let Some((name, _)) = CALLS.iter().find(|(_, number)| *number == notice.call) else { return };
        let is_known = self.threads.get(&notice.thread).is_some_and(|code| code.has(notice.address));
        if !is_known {
            // Anything but a call from known code may be another program by now.
            let Some(layout) = layout(notice.thread) else { return };
            if self.threads.get(&notice.thread).is_none_or(|code| code.layout != layout) {
                let Some(code) = Code::read(notice.thread, layout, self.generic.as_ref()) else { return };
                self.threads.insert(notice.thread, code);
            }
        }
        let Some(code) = self.threads.get(&notice.thread) else { return };
        let is_network = match *name {
            "io_uring_setup" => true,
            "socket" => [libc::AF_INET, libc::AF_INET6].iter().any(|domain| u64::try_from(*domain) == Ok(notice.first)),
            // One that cannot be looked at is counted.
            _ => is_internet_socket(code.process, notice.first) != Some(false),
        };
        if !is_network {
            return;
        }
        let counts = self.counts.entry((code.process, code.layout)).or_default();
        counts.name.clone_from(&code.name);
        if code.has(notice.address) && *name != "io_uring_setup" {
            counts.passed += 1;
        } else {
            *counts.escaped.entry(name).or_default() += 1;
            counts.why_not = code.library.is_none().then(|| code.why_not.clone());
        }
    }

    /// One line for each process that made network calls, then none: what escaped, and why.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.counts.iter().take(MOST_NAMED).map(|((pid, _), one)| one.line(*pid)).collect();
        if let Some(more) = self.counts.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            let escaped: u64 = self.counts.values().skip(MOST_NAMED).map(Counts::all_escaped).sum();
            lines.push(format!("audit: {more} more processes, of whose network calls {escaped} were not accelerated"));
        }
        if lines.is_empty() {
            lines.push("audit: no process made a network call that reached the kernel".to_owned());
        }
        lines
    }
}

impl Counts {
    fn all_escaped(&self) -> u64 {
        self.escaped.values().sum()
    }

    fn line(&self, process: u32) -> String {
        let escaped = self.all_escaped();
        let (name, all) = (&self.name, self.passed + escaped);
        let mut text = format!("audit: {name} (process {process}): ");
        if escaped == 0 {
            let _ = write!(text, "{all} network calls reached the kernel, all by way of the library");
            return text;
        }
        let calls: Vec<String> = self.escaped.iter().map(|(call, count)| format!("{call} {count}")).collect();
        let calls = calls.join(", ");
        let _ = match &self.why_not {
            Some(why) => write!(text, "not accelerated, because {why}; {escaped} network calls ({calls})"),
            None if self.escaped.keys().all(|call| *call == "io_uring_setup") => write!(
                text,
                "not accelerated where it uses io_uring, because the library does not see what is done there ({calls})"
            ),
            None => write!(
                text,
                "not accelerated, because {escaped} of {all} network calls were direct system calls, past the C library ({calls})"
            ),
        };
        text
    }
}

impl Code {
    /// Whether the code at an address is the C library's behind the preload library.
    fn has(&self, address: u64) -> bool {
        self.library.as_ref().is_some_and(|code| code.contains(&address)) && self.generic != Some(address)
    }

    fn read(thread: u32, layout: [u64; 2], own: Option<&(String, u64)>) -> Option<Self> {
        let file = |name: &str| read_to_string(format!("/proc/{thread}/{name}")).ok();
        let process = host::tasks::status_field(&file("status")?, "Tgid")?.parse().ok()?;
        let maps = file("maps")?;
        let c_library = c_library(&maps);
        let is_loaded = mapped(&maps).any(|(_, _, _, path)| name_of(path).starts_with("libwindhover-shim-"));
        let generic = c_library.as_ref().and_then(|(base, _, path)| {
            let (known, offset) = own?;
            (known == path).then_some(base + offset)
        });
        let program = std::fs::read_link(format!("/proc/{thread}/exe")).ok()?;
        let why_not = match examine(Path::new(&format!("/proc/{thread}/exe"))) {
            // The obstacle names the link; people know the program.
            Err(obstacle) => obstacle.of(&program).to_string(),
            Ok(()) => format!("{} was started without the library (its environment was cleaned)", program.display()),
        };
        // A thread may have a name of its own.
        let name = read_to_string(format!("/proc/{process}/comm")).ok()?.trim_end().to_owned();
        let library = c_library.filter(|_| is_loaded).map(|(_, code, _)| code);
        Some(Self { process, name, layout, library, generic, why_not })
    }
}

/// Start of the stack and of the code of a thread's process (proc_pid_stat(5), fields 28 and 26).
fn layout(thread: u32) -> Option<[u64; 2]> {
    let text = read_to_string(format!("/proc/{thread}/stat")).ok()?;
    let (_, after) = text.rsplit_once(')')?;
    let field = |number: usize| after.split_ascii_whitespace().nth(number - 3)?.parse().ok();
    Some([field(28)?, field(26)?])
}

/// Mapped files: addresses, whether they are code, path.
fn mapped(maps: &str) -> impl Iterator<Item = (u64, u64, bool, &str)> {
    maps.lines().filter_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let path = rest.find('/').and_then(|at| rest.get(at..))?;
        Some((number(start)?, number(end)?, rest.get(2..3)? == "x", path))
    })
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The C library: where it begins, its code, its path.
fn c_library(maps: &str) -> Option<(u64, Range<u64>, String)> {
    let of_it = || mapped(maps).filter(|(.., path)| name_of(path) == "libc.so.6");
    let (base, .., path) = of_it().next()?;
    let code = of_it().find(|(_, _, is_code, _)| *is_code)?;
    Some((base, code.0..code.1, path.to_owned()))
}

/// The C library's path, and behind which of its bytes its `syscall` enters the kernel.
fn own_generic_call() -> Option<(String, u64)> {
    let (base, code, path) = c_library(&read_to_string("/proc/self/maps").ok()?)?;
    let address = generic_call().filter(|address| code.contains(address))?;
    Some((path, address - base))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r-xp 00000000 fe:00 11 /usr/bin/a program
7f0000000000-7f0000020000 r--p 00000000 fe:00 12                 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000020000-7f0000100000 r-xp 00020000 fe:00 12                 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000200000-7f0000201000 r-xp 00000000 00:1b 13                 /run/windhover/bypass/libwindhover-shim-1.so
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                  [stack]
";

    #[test]
    fn code_of_the_c_library_is_found_in_the_maps() {
        let (base, code, path) = c_library(MAPS).unwrap();
        assert_eq!((base, code, name_of(&path)), (0x7f00_0000_0000, 0x7f00_0002_0000..0x7f00_0010_0000, "libc.so.6"));
        assert!(c_library("").is_none() && c_library("nonsense\n12-zz r-xp /libc.so.6").is_none());
        assert!(own_generic_call().is_some_and(|(path, offset)| path.contains("libc") && offset > 0));
        assert!(layout(std::process::id()).is_some_and(|[stack, code]| stack > code && code > 0));
    }

    #[test]
    fn a_process_is_told_with_the_reason() {
        let mut audit = Audit::default();
        let mut add = |process, passed, escaped: &[(&'static str, u64)], why_not: Option<&str>| {
            let counts = Counts {
                name: "p".to_owned(),
                passed,
                escaped: escaped.iter().copied().collect(),
                why_not: why_not.map(str::to_owned),
            };
            audit.counts.insert((process, [0, 0]), counts);
        };
        add(1, 7, &[], None);
        add(2, 7, &[("recvfrom", 4), ("socket", 1)], None);
        add(3, 0, &[("socket", 1)], Some("x is statically linked"));
        add(4, 7, &[("io_uring_setup", 2)], None);
        let lines = audit.lines();
        for (line, words) in lines.iter().zip([
            "7 network calls reached the kernel, all by way",
            "5 of 12 network calls were direct system calls, past the C library (recvfrom 4, socket 1)",
            "not accelerated, because x is statically linked; 1 network calls (socket 1)",
            "uses io_uring",
        ]) {
            assert!(line.contains(words), "{line}");
        }
        assert!(Audit::default().lines()[0].contains("no process"));
    }
}
