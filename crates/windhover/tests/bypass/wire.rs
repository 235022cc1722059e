//! Hosts of a test: two network namespaces on one wire, which may have trouble.

use super::support::{Folder, stderr, stdout};
use super::{Started, compile};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Pid;
use std::io::Read as _;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};

/// Addresses of the two ends. Their devices are `near` and `far`. The last ones are of the link alone.
pub(super) const NEAR: [&str; 3] = ["10.9.0.1", "fd09::1", "fe80::1"];
pub(super) const FAR: [&str; 3] = ["10.9.0.2", "fd09::2", "fe80::2"];
/// Those of the far end that have a route.
pub(super) const REACHED: [&str; 2] = [FAR[0], FAR[1]];

pub(super) fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", stderr(&done));
}

fn set_up(interface: &str, addresses: [&str; 3]) {
    ip(&format!("address add {}/24 dev {interface}", addresses[0]));
    ip(&format!("address add {}/64 dev {interface} nodad", addresses[1]));
    ip(&format!("link set {interface} up"));
    ip(&format!("address add {}/64 dev {interface} nodad", addresses[2]));
}

/// Whether the near end's device has an XDP program; to be asked there.
pub(super) fn has_program() -> bool {
    let shown = Command::new("ip").args(["-details", "link", "show", "near"]).output().unwrap();
    stdout(&shown).contains("xdp")
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own. The namespace lives as long as what was started in it.
pub(super) struct Namespace {
    thread: Pid,
    jobs: Sender<Job>,
}

impl Namespace {
    fn new() -> nix::Result<Self> {
        let (jobs, work) = channel::<Job>();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| nix::unistd::gettid());
            let _ = tell.send(made);
            work.into_iter().for_each(|job| job());
        });
        let thread = told.recv().unwrap()?;
        Ok(Self { thread, jobs })
    }

    /// Runs something there; panics where it does.
    pub(super) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = channel();
        self.jobs.send(Box::new(move || drop(tell.send(job())))).unwrap();
        told.recv().unwrap_or_else(|_| panic!("it panicked in its namespace: see above"))
    }
}

/// What happens to TCP segments on the wire: shares in 1/10000, the same in both directions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    pub(super) lost: u32,
    /// By up to 1 ms, so that later ones overtake them.
    pub(super) delayed: u32,
    pub(super) doubled: u32,
    pub(super) damaged: u32,
}

/// Two hosts and their wire.
pub(super) struct Network {
    pub(super) near: Namespace,
    pub(super) far: Namespace,
    middle: Option<(Namespace, String)>,
    /// Where the program of the wire is.
    _folder: Folder,
}

impl Network {
    /// Nothing where namespaces cannot be made, or the wire has trouble and nobody can compile its program.
    pub(super) fn new(test: &str, with_trouble: bool) -> Option<Self> {
        let folder = Folder::new(&format!("wire-{test}"));
        let program = if with_trouble { Some(compile(&folder, test, "trouble", &["-O2"])?) } else { None };
        let made = || Ok([Namespace::new()?, Namespace::new()?, Namespace::new()?]);
        let [near, far, middle] = match made() {
            Ok(three) => three,
            Err(errno) => {
                let errno: nix::Error = errno;
                eprintln!("SKIPPED {test}: no network namespace of its own: {errno}: run as root");
                return None;
            }
        };
        let (far_thread, middle_thread, wired) = (far.thread, middle.thread, program.clone());
        near.run(move || {
            let (peer, to) = if wired.is_some() { ("left", middle_thread) } else { ("far", far_thread) };
            ip("link set lo up");
            ip(&format!("link add near type veth peer name {peer}"));
            ip(&format!("link set {peer} netns {to}"));
            set_up("near", NEAR);
            finish_frames(wired.as_deref(), "near");
        });
        let wired = program.clone();
        middle.run(move || {
            if wired.is_some() {
                ip("link add right type veth peer name far");
                ip(&format!("link set far netns {far_thread}"));
                ip("link set left up");
                ip("link set right up");
            }
        });
        let wired = program.clone();
        far.run(move || {
            set_up("far", FAR);
            finish_frames(wired.as_deref(), "far");
        });
        Some(Self { near, far, middle: program.map(|program| (middle, program)), _folder: folder })
    }

    /// Joins the two ends of a wire with trouble, until the value is ended.
    pub(super) fn join(&self, trouble: Trouble, seed: u64) -> Wire {
        let (middle, program) = self.middle.as_ref().unwrap();
        let program = program.clone();
        let Trouble { lost, delayed, doubled, damaged } = trouble;
        let words = [lost, delayed, doubled, damaged].map(|share| share.to_string());
        Wire(middle.run(move || {
            let mut command = Command::new(program);
            command.args(["left", "right", &seed.to_string()]).args(words);
            Started::new(&mut command, "ready").0
        }))
    }
}

/// Runs `near` at one end of a wire, and `far` before it at the other end.
pub(super) fn with_wire(test: &str, near: impl FnOnce() + Send + 'static, far: impl FnOnce() + Send + 'static) {
    if let Some(network) = Network::new(test, false) {
        network.far.run(far);
        network.near.run(near);
    }
}

/// Frames of other hosts have whole checksums, and each its own segment.
fn finish_frames(program: Option<&str>, device: &str) {
    if let Some(program) = program {
        let done = Command::new(program).arg(device).output().unwrap();
        assert!(done.status.success(), "{device}: {}", stderr(&done));
    }
}

/// The program that carries the frames.
pub(super) struct Wire(Started);

impl Wire {
    /// Ends it; what it counted, as `lost 12`.
    pub(super) fn end(mut self) -> String {
        drop(self.0.0.stdin.take());
        let mut said = String::new();
        self.0.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said.trim().to_owned()
    }
}
