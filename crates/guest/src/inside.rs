//! The guest's side: its first process, and the process that serves the ports.
//!
//! The first process mounts file systems, loads modules, starts the second and reaps orphans. The second makes the
//! hosts, keeps an agent behind each open port, and runs programs. When it ends the guest is switched off.

use crate::control::{self, CONTROL, FromGuest, GuestHost, MACHINE, ProgramEvent, ToGuest, Up, agent_port};
use crate::image;
use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::wait::{WaitStatus, waitpid};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use task::{Child, Launch, Stream};

/// What is mounted, in this order: type, folder, options.
const MOUNTS: [(&str, &str, &str); 9] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", ""),
    ("tmpfs", "/dev/shm", ""),
    ("tmpfs", "/run", "mode=755"),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    // As systemd leaves it: version 2 only, and no controller given to the children yet.
    ("cgroup2", "/sys/fs/cgroup", ""),
];
/// Kernel command line words `WORD=VALUE` and the flags of `guest-init`: number of hosts, first host (from 0), devices.
const WORDS: [(&str, &str); 3] = [(HOSTS, "--hosts"), (FIRST, "--first"), (PORTS, "--ports")];
pub(crate) const HOSTS: &str = "windhover.hosts";
pub(crate) const FIRST: &str = "windhover.first";
pub(crate) const PORTS: &str = "windhover.ports";
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How often an agent's port is looked at while the host side has it closed.
const LOOK: Duration = Duration::from_millis(100);
/// How long a command of the second process may take, in guest time.
const COMMAND: Duration = Duration::from_secs(30);
/// Bytes of a program's output in one line.
const CHUNK: usize = 16_384;

/// Whether this is the first process of a guest; its arguments are words of the kernel's command line.
pub fn is_first_process() -> bool {
    let by_kernel = std::env::args_os().next().is_some_and(|name| name == image::INIT);
    by_kernel && std::process::id() == 1 && Path::new(image::BUILD).is_file()
}

/// The guest's first process; does not return. It switches the machine off: ask [`is_first_process`] before.
pub fn first_process() -> ! {
    if let Err(why) = start() {
        // The console: the host side shows its last lines.
        tell_console(&format!("windhover guest: {why}"));
    }
    loop {
        let _ = reboot(RebootMode::RB_POWER_OFF);
        std::thread::sleep(LOOK);
    }
}

fn tell_console(text: &str) {
    if let Ok(mut console) = OpenOptions::new().write(true).open("/dev/console") {
        let _ = writeln!(console, "{text}");
    }
}

/// What the kernel's command line asks of `guest-init`.
fn asked(command_line: &str) -> Vec<String> {
    let words = || command_line.split_ascii_whitespace();
    let value = |name: &str| words().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let flags = WORDS.iter().filter_map(|(name, flag)| Some([(*flag).to_owned(), value(name)?.to_owned()]));
    flags.flatten().collect()
}

fn start() -> Result<(), String> {
    for (kind, folder, options) in MOUNTS {
        let _ = std::fs::create_dir_all(folder);
        let mounted = mount(Some(kind), folder, Some(kind), MsFlags::empty(), Some(options));
        // Not every kernel has all of them; what needs one fails with the reason.
        if let Err(error) = mounted
            && matches!(folder, "/proc" | "/sys" | "/dev")
        {
            return Err(format!("cannot mount {kind} on {folder}: {error}"));
        }
    }
    let _ = nix::unistd::sethostname("guest");
    load_modules()?;
    let second = Launch::new(image::PROGRAM)
        .arg("guest-init")
        .args(asked(&std::fs::read_to_string("/proc/cmdline").unwrap_or_default()))
        .env("PATH", PATH)
        .env("HOME", "/root")
        .directory("/root")
        .stdout(Stream::Inherit)
        .start();
    let second = second.map_err(|error| error.to_string())?;
    let wanted = i32::try_from(second.pid()).unwrap_or_default();
    // Reaped here and not by its handle, which only knows this one child.
    std::mem::forget(second);
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) if pid.as_raw() == wanted => return Ok(()),
            Err(Errno::ECHILD) => return Ok(()),
            _ => {}
        }
    }
}

fn load_modules() -> Result<(), String> {
    let order = Path::new(image::MODULES).join("order");
    let order = std::fs::read_to_string(&order).map_err(|error| format!("{}: {error}", order.display()))?;
    for name in order.lines() {
        let path = Path::new(image::MODULES).join(name);
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        match finit_module(&file, c"", ModuleInitFlags::empty()) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(format!("module {name} cannot be loaded: {error}")),
        }
    }
    Ok(())
}

pub type MakeHosts<'a> = &'a mut dyn FnMut(u32) -> Result<Vec<GuestHost>, String>;

/// The second process: serves the ports until power-off. `make` makes the hosts.
pub fn serve(hosts: u32, make: MakeHosts<'_>) -> Result<(), String> {
    let control = port(CONTROL).ok_or_else(|| format!("there is no port {CONTROL}"))?;
    let open = || OpenOptions::new().read(true).write(true).open(&control);
    let file = open().map_err(|error| format!("{}: {error}", control.display()))?;
    let host = HostSide(Arc::new(Mutex::new(file.try_clone().map_err(|error| error.to_string())?)));
    // The first network namespace has no host, but its programs need the loopback device.
    let lo = Launch::new("ip").args(["link", "set", "lo", "up"]).finish(b"", COMMAND);
    let made =
        lo.map_err(|error| error.to_string()).and_then(|_| if hosts == 0 { Ok(Vec::new()) } else { make(hosts) });
    let made = match made {
        Ok(made) => made,
        Err(why) => {
            host.tell(&FromGuest::Failed(why.clone()));
            return Err(why);
        }
    };
    for (name, netns) in made.iter().map(|host| (host.name.as_str(), netns(host))).chain([(MACHINE, None)]) {
        if let Some(path) = port(&agent_port(name)) {
            let (name, host) = (name.to_owned(), host.clone());
            let keep = move || keep_agent(&name, &path, netns.as_deref(), &host);
            std::thread::Builder::new().spawn(keep).map_err(|error| error.to_string())?;
        }
    }
    host.tell(&FromGuest::Up(up(made.clone())));
    orders(file, &made, &host)
}

fn up(hosts: Vec<GuestHost>) -> Up {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let uptime = read("/proc/uptime");
    let seconds = uptime.split(' ').next().and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    Up {
        hosts,
        release: read("/proc/sys/kernel/osrelease"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        command_line: read("/proc/cmdline"),
        uptime_ms: u64::try_from(Duration::from_secs_f64(seconds).as_millis()).unwrap_or_default(),
    }
}

fn netns(host: &GuestHost) -> Option<PathBuf> {
    host.netns.as_ref().map(|netns| Path::new("/run/netns").join(netns))
}

/// The device of a virtio-serial port, by the port's name. No udev makes links here.
fn port(name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/sys/class/virtio-ports").ok()?;
    let is_it = |path: &PathBuf| std::fs::read_to_string(path.join("name")).is_ok_and(|found| found.trim() == name);
    let found = entries.flatten().map(|entry| entry.path()).find(is_it)?;
    Some(Path::new("/dev").join(found.file_name()?))
}

/// Where lines to the host side are written, by all threads.
#[derive(Clone)]
struct HostSide(Arc<Mutex<File>>);

impl HostSide {
    fn tell(&self, told: &FromGuest) {
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A host side that has ended ends the guest, or asks again.
        let _ = port.write_all(&control::line(told)).and_then(|()| port.flush());
    }
}

/// Keeps an agent behind a port for as long as the host side has the port open, one after the other.
fn keep_agent(name: &str, path: &Path, netns: Option<&Path>, host: &HostSide) {
    let build = std::fs::read_to_string(image::BUILD).unwrap_or_default();
    loop {
        let Ok(port) = OpenOptions::new().read(true).write(true).open(path) else { return };
        wait_until_open(&port);
        let (Ok(input), Ok(output)) = (port.try_clone(), port.try_clone()) else { return };
        let mut agent = Launch::new(image::PROGRAM)
            .args(["agent", "--build", build.trim()])
            .stdin(Stream::File(OwnedFd::from(input)))
            .stdout(Stream::File(OwnedFd::from(output)))
            .stderr(Stream::Pipe);
        if let Some(netns) = netns {
            agent = agent.netns(netns);
        }
        let mut agent = match agent.start() {
            Ok(agent) => agent,
            Err(error) => {
                host.tell(&FromGuest::Note(format!("host '{name}': {error}")));
                return;
            }
        };
        if let Some(said) = agent.take_stderr() {
            task::read_pieces(said, |line| host.tell(&FromGuest::Note(format!("host '{name}': {line}"))));
        }
        let _ = agent.wait();
    }
}

/// A port whose other end is closed reads as ended.
fn wait_until_open(port: &File) {
    loop {
        let mut entry = [PollFd::new(port.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut entry, PollTimeout::ZERO) {
            Ok(_) if entry[0].revents().is_some_and(|seen| !seen.contains(PollFlags::POLLHUP)) => return,
            _ => std::thread::sleep(LOOK),
        }
    }
}

/// Carries out what the host side asks for. A host side that goes away ends the programs that it had started.
fn orders(port: File, hosts: &[GuestHost], host: &HostSide) -> Result<(), String> {
    let (sender, orders) = channel();
    std::thread::Builder::new().spawn(move || read_orders(port, &sender)).map_err(|error| error.to_string())?;
    // What signals are sent to programs by. A program whose sender is dropped is killed.
    let mut programs: BTreeMap<u32, Sender<i32>> = BTreeMap::new();
    while let Ok(order) = orders.recv() {
        match order {
            None => programs.clear(),
            Some(ToGuest::PowerOff) => return Ok(()),
            Some(ToGuest::Signal { id, signal }) => {
                if programs.get(&id).is_some_and(|program| program.send(signal).is_err()) {
                    programs.remove(&id);
                }
            }
            Some(ToGuest::Run { id, host: name, argv }) => {
                let place = match &name {
                    None => Ok(None),
                    Some(name) => match hosts.iter().find(|host| host.name == *name) {
                        Some(host) => Ok(netns(host)),
                        None => Err(format!("there is no host '{name}' in the guest")),
                    },
                };
                let (sender, signals) = channel();
                programs.insert(id, sender);
                let host = host.clone();
                let work = move || {
                    let event = match place.and_then(|netns| run(id, &argv, netns, &signals, &host)) {
                        Ok(None) => return,
                        Ok(Some(status)) => ProgramEvent::Ended(status),
                        Err(why) => ProgramEvent::Failed(why),
                    };
                    host.tell(&FromGuest::Program { id, event });
                };
                std::thread::Builder::new().spawn(work).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

/// `None`: the host side went away.
fn read_orders(port: File, sender: &Sender<Option<ToGuest>>) {
    let (mut port, mut is_open) = (BufReader::new(port), true);
    loop {
        let order = control::next(&mut port);
        if order.is_none() && !is_open {
            std::thread::sleep(LOOK);
            continue;
        }
        is_open = order.is_some();
        if sender.send(order).is_err() {
            return;
        }
    }
}

/// Runs a program and passes on what it writes. Nothing comes back when the host side went away and the program was killed.
fn run(
    id: u32,
    argv: &[String],
    netns: Option<PathBuf>,
    signals: &Receiver<i32>,
    host: &HostSide,
) -> Result<Option<i32>, String> {
    let Some((program, arguments)) = argv.split_first() else { return Err("no program was named".to_owned()) };
    let mut launch = Launch::new(program).args(arguments).stdout(Stream::Pipe).stderr(Stream::Pipe);
    if let Some(netns) = netns {
        launch = launch.netns(netns);
    }
    let mut child: Child = launch.start().map_err(|error| error.to_string())?;
    let (stdout, stderr) = (child.take_stdout(), child.take_stderr());
    std::thread::scope(|scope| {
        if let Some(stdout) = stdout {
            scope.spawn(|| pass_on(id, stdout, false, host));
        }
        if let Some(stderr) = stderr {
            scope.spawn(|| pass_on(id, stderr, true, host));
        }
        loop {
            match child.wait_timeout(LOOK) {
                Ok(Some(status)) => return Ok(Some(task::shell_status(status))),
                Err(error) => return Err(error.to_string()),
                Ok(None) => match signals.try_recv() {
                    Ok(signal) => drop(child.signal(signal)),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => {
                        let _ = child.kill();
                        return Ok(None);
                    }
                },
            }
        }
    })
}

fn pass_on(id: u32, mut from: impl Read, error: bool, host: &HostSide) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let event = ProgramEvent::output(error, buffer.get(..length).unwrap_or_default());
        host.tell(&FromGuest::Program { id, event });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_says_what_hosts_to_make() {
        let line =
            "console=ttyS0 windhover.hosts=2 quiet windhover.first=1 windhover.ports=eth0,eth1 windhover.hostsx=7";
        assert_eq!(asked(line), ["--hosts", "2", "--first", "1", "--ports", "eth0,eth1"]);
        assert!(asked("quiet").is_empty());
    }
}
