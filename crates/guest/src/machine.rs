//! One guest: QEMU, from its start to its end.

use crate::control::{CONTROL, FromGuest, MACHINE, ToGuest, Up, agent_port};
use crate::emulator::{Emulator, QEMU, option_value};
use crate::kernel::unpacked;
use crate::programs::{Job, LOOK, Line, RequestListener};
use crate::{Cache, GuestError, Kernel, Program, RunFolder, image, inside, nic};
use model::CpuList;
use model::plan::{GuestMode, GuestNic, LabPlan};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use task::{Child, Launch, Stream};

/// What KVM is opened by.
const KVM: &str = "/dev/kvm";
/// How long QEMU may take to make its sockets.
const SOCKETS: Duration = Duration::from_secs(20);
/// How long a guest may take to power off before it is switched off.
const POWER_OFF: Duration = Duration::from_secs(60);
/// How long QEMU may take to end once the guest's ports are closed.
const LAST: Duration = Duration::from_secs(5);
/// Lines of the console in an error.
const CONSOLE_LINES: usize = 3;
/// Bytes at the end of a console in which they, and the line of a panic, are looked for.
const TAIL: usize = 1 << 20;
/// What the line of the console begins with that says why a kernel gave up.
const PANIC: &str = "Kernel panic";

/// How QEMU runs a guest's CPUs.
struct ModeRule {
    mode: GuestMode,
    arguments: &'static [&'static str],
    /// Added to the kernel's command line.
    words: &'static str,
    /// How long a kernel that starts may print nothing.
    silence: Option<Duration>,
    /// How many times longer a boot may take than asked for.
    patience: u32,
    /// What times in the guest are, unless those of a virtual machine.
    times: Option<&'static str>,
}

const MODES: [ModeRule; 3] = [
    ModeRule {
        mode: GuestMode::Icount,
        // 2 ns an instruction. The model of the CPU is a small one, which is emulated at half the cost.
        arguments: &["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-cpu", "qemu64"],
        // Without a reliable TSC each look at the clock is an emulated device's register. Tests of ciphers are a third of an
        // emulated boot. The others take out chance.
        words: "quiet cryptomgr.notests tsc=reliable nokaslr norandmaps random.trust_cpu=off",
        silence: None,
        patience: 4,
        times: Some(
            "times in this guest are simulated: they count instructions, and are no performance of any hardware",
        ),
    },
    ModeRule {
        mode: GuestMode::Kvm,
        arguments: &["-accel", "kvm", "-cpu", "host"],
        // Not quiet: where hardware virtualization is there and does not work, kernels spin without a line.
        words: "earlyprintk=ttyS0,115200",
        silence: Some(Duration::from_secs(30)),
        patience: 1,
        times: None,
    },
    ModeRule {
        mode: GuestMode::Tcg,
        // Where cmpxchg16b is emulated, guests panic at random. A busy host's timer can fail the check at boot.
        arguments: &["-accel", "tcg,thread=multi", "-cpu", "max,-cx16"],
        words: "quiet cryptomgr.notests no_timer_check",
        silence: None,
        patience: 4,
        times: Some("times in this guest are simulated: its CPUs are emulated, and the times mean nothing"),
    },
];

fn rule(mode: GuestMode) -> &'static ModeRule {
    MODES.iter().find(|rule| rule.mode == mode).unwrap_or(&MODES[0])
}

/// What times in a guest of this mode are, in words; absent: those of a virtual machine.
#[must_use]
pub fn simulated(mode: GuestMode) -> Option<&'static str> {
    rule(mode).times
}

/// A guest as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct GuestSpec {
    /// A kernel's name or path, as [`Kernel::find`] takes it.
    pub kernel: String,
    /// Words added to the kernel's command line.
    pub words: Vec<String>,
    pub mode: GuestMode,
    pub cpus: u32,
    pub memory_mb: u32,
    /// How many hosts (network namespaces) it has.
    pub hosts: u32,
    /// Which one is the first, from 0 (`a`).
    pub first: u32,
    /// What they are joined by. Without hosts, two devices of an emulated NIC are in the first network namespace.
    pub nic: GuestNic,
    /// Modules to load beside the usual ones.
    pub modules: Vec<String>,
    /// An archive (cpio) whose files join the image and replace those of the same name.
    pub overlay: Option<PathBuf>,
    /// Arguments for QEMU, for devices of tests.
    pub devices: Vec<String>,
    /// Longest time from the start to the first word of the guest; four times as long in the modes that emulate its CPUs.
    pub boot_limit: Duration,
}

impl GuestSpec {
    /// Two hosts, one CPU, instruction counting. Words behind the kernel join its command line.
    #[must_use]
    pub fn new(kernel: &str) -> Self {
        let mut words = kernel.split_ascii_whitespace().map(str::to_owned);
        Self {
            kernel: words.next().unwrap_or_default(),
            words: words.collect(),
            mode: GuestMode::Icount,
            cpus: 1,
            memory_mb: 768,
            hosts: 2,
            first: 0,
            nic: GuestNic::Veth,
            modules: Vec::new(),
            overlay: None,
            devices: Vec::new(),
            boot_limit: Duration::from_secs(300),
        }
    }

    /// The guest of a plan's lab.
    #[must_use]
    pub fn from_plan(plan: &LabPlan) -> Self {
        let usual = Self::new(plan.kernel.as_deref().unwrap_or_default());
        let mode = plan.mode.unwrap_or_default();
        Self {
            mode,
            cpus: plan.cpus.unwrap_or(1),
            memory_mb: plan.memory_mb.unwrap_or(usual.memory_mb),
            hosts: plan.hosts,
            nic: plan.nic.unwrap_or_default(),
            ..usual
        }
    }

    /// Refuses what cannot be had here, before anything is fetched or made.
    pub fn check(&self) -> Result<(), GuestError> {
        if self.mode == GuestMode::Icount && self.cpus != 1 {
            let remedy = "use 1, or mode tcg or kvm";
            return GuestError::refused(format!("mode icount cannot run {} CPUs: {remedy}", self.cpus));
        }
        Emulator::check()?;
        if self.mode == GuestMode::Kvm
            && let Err(error) = File::options().read(true).write(true).open(KVM)
        {
            let remedy = "use mode icount or tcg, or a machine with hardware virtualization and your user in group kvm";
            return GuestError::refused(format!("mode kvm cannot open {KVM} ({error}): {remedy}"));
        }
        if let Some(overlay) = &self.overlay
            && let Err(error) = File::open(overlay)
        {
            return GuestError::refused(format!("cannot read the overlay {}: {error}", overlay.display()));
        }
        Ok(())
    }

    /// Its kernel, once everything that it needs is here; what is not yet is fetched.
    pub fn fetch(&self, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<Kernel, GuestError> {
        self.needs(cache, note).map(|(_, kernel)| kernel)
    }

    fn needs(&self, cache: &Cache, note: &mut dyn FnMut(&str)) -> Result<(Emulator, Kernel), GuestError> {
        self.check()?;
        let emulator = Emulator::find(nic::rule(self.nic), cache, note)?;
        Ok((emulator, Kernel::find(&self.kernel, cache, note)?))
    }
}

/// The socket of an agent's pipe, in a guest's folder.
#[must_use]
pub fn agent_socket(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("agent-{host}"))
}

fn control_socket(folder: &Path) -> PathBuf {
    folder.join("control")
}

/// A guest that runs. Dropping it switches it off. QEMU dies with the thread that started it (PR_SET_PDEATHSIG).
#[derive(Debug)]
pub struct Guest {
    /// What its kernel is.
    pub kernel: Kernel,
    up: Up,
    qemu: Child,
    line: Line,
    folder: RunFolder,
}

/// CPU time of QEMU, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Usage {
    pub user_ms: u64,
    pub system_ms: u64,
}

impl Guest {
    /// Fetches what is missing, makes the image, boots, and waits until the guest is ready, or `stop` is raised. An error
    /// after the start has the last lines of the console.
    pub fn boot(
        spec: &GuestSpec,
        program: &Program,
        cache: &Cache,
        stop: &AtomicBool,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, GuestError> {
        let (emulator, kernel) = spec.needs(cache, note)?;
        let modules = spec.modules.iter().map(String::as_str).chain(nic::rule(spec.nic).map(|nic| nic.module));
        let image = image::ready(&kernel, &modules.collect::<Vec<_>>(), program, cache)?;
        let folder = RunFolder::make(&program.path)?;
        let image = match &spec.overlay {
            None => image,
            Some(overlay) => joined(&image, overlay, &folder.path().join("image"))?,
        };
        // A kernel of hardware virtualization unpacks itself quickly, and chooses its place in memory at each boot.
        let entered = match spec.mode {
            GuestMode::Kvm => kernel.image.clone(),
            GuestMode::Icount | GuestMode::Tcg => unpacked(&kernel, cache)?,
        };
        let arguments = arguments(spec, &entered, &image, folder.path());
        let errors = errors_file(folder.path());
        let errors = File::create(&errors).map_err(GuestError::file("write", &errors))?;
        let qemu = Launch::new(&emulator.program)
            .args(emulator.arguments)
            .args(arguments)
            .stdout(Stream::Null)
            .stderr(Stream::File(OwnedFd::from(errors)))
            .die_with_parent()
            .start()?;
        let mut guest = Starting { qemu, folder };
        let line = guest.connect()?;
        if spec.mode == GuestMode::Kvm {
            pin(&guest.qemu, spec.cpus);
        }
        let up = guest.wait_up(&line, spec, stop)?;
        if up.release != kernel.release {
            return GuestError::failed(format!("the guest runs {} and not {}", up.release, kernel.release));
        }
        let Starting { qemu, folder } = guest;
        Ok(Self { kernel, up, qemu, line, folder })
    }

    /// What it told of itself.
    #[must_use]
    pub fn up(&self) -> &Up {
        &self.up
    }

    /// The folder with its sockets.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What its kernel and its first process printed.
    #[must_use]
    pub fn console(&self) -> String {
        console(self.folder.path())
    }

    /// Lines for people since the last call.
    pub fn notes(&mut self) -> Vec<String> {
        let told = self.line.told.try_iter();
        told.filter_map(|told| if let FromGuest::Note(text) = told { Some(text) } else { None }).collect()
    }

    /// Runs a program to its end; the status as a shell would give it. `output` gets what it writes; the flag marks
    /// standard error. After the limit or an interruption the guest has to be switched off.
    pub fn run(&mut self, job: &Job<'_>, output: &mut dyn FnMut(bool, &[u8])) -> Result<i32, GuestError> {
        let Self { line, qemu, folder, .. } = self;
        line.run(job, output, &mut || ended("the guest ended", qemu, folder.path()))
    }

    /// From now on other processes can ask for programs ([`crate::run_at`]), which run once they are served.
    pub fn listen(&self) -> Result<RequestListener, GuestError> {
        let path = self.folder.path();
        RequestListener::listen(path).map_err(GuestError::file("serve programs in", path))
    }

    /// Runs the programs that other processes ask for until `stopped`; an error when the guest ends.
    pub fn serve(&mut self, listener: RequestListener, stopped: &dyn Fn() -> bool) -> Result<(), GuestError> {
        let Self { line, qemu, folder, .. } = self;
        match line.serve(listener, stopped).map_err(GuestError::file("serve programs in", folder.path()))? {
            true => Ok(()),
            false => GuestError::failed(ended("the guest ended", qemu, folder.path())),
        }
    }

    /// CPU time of QEMU so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        usage(self.qemu.pid())
    }

    /// Has it power off in order, so that its console is whole, and switches it off where it does not.
    pub fn settle(&mut self) {
        let asked = self.line.order(&ToGuest::PowerOff);
        if asked.is_err() || !matches!(self.qemu.wait_timeout(POWER_OFF), Ok(Some(_))) {
            let _ = self.qemu.kill();
        }
    }

    /// Switches it off at once.
    pub fn cut(mut self) -> Result<(), GuestError> {
        self.qemu.kill()?;
        Ok(())
    }
}

/// user and system time of a process (fields 14 and 15 of /proc/PID/stat).
fn usage(pid: u32) -> Usage {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // Ticks of 10 ms (USER_HZ), and the two fields before are cut off.
    let ms = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default() * 10;
    Usage { user_ms: ms(11), system_ms: ms(12) }
}

/// QEMU before the guest is ready.
struct Starting {
    qemu: Child,
    folder: RunFolder,
}

impl Starting {
    /// Connects to the control port as soon as QEMU has made its socket.
    fn connect(&mut self) -> Result<Line, GuestError> {
        let (socket, began) = (control_socket(self.folder.path()), Instant::now());
        loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => return Line::start(stream).map_err(GuestError::file("use", &socket)),
                Err(_) if began.elapsed() < SOCKETS => {}
                Err(error) => return Err(GuestError::file("connect to", &socket)(error)),
            }
            if let Some(status) = self.qemu.wait_timeout(Duration::from_millis(10))? {
                let said = last_errors(self.folder.path()).unwrap_or_else(|| "without a word".to_owned());
                return GuestError::failed(format!("{QEMU} ended with {status}: {said}"));
            }
        }
    }

    fn wait_up(&mut self, line: &Line, spec: &GuestSpec, stop: &AtomicBool) -> Result<Up, GuestError> {
        let began = Instant::now();
        let mut heard = Heard { bytes: 0, at: began };
        loop {
            match line.told.recv_timeout(LOOK) {
                Ok(FromGuest::Up(up)) => return Ok(up),
                Ok(FromGuest::Failed(why)) => return GuestError::failed(format!("the guest could not start: {why}")),
                Ok(_) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    let what = "the guest ended before it was up";
                    return GuestError::failed(ended(what, &mut self.qemu, self.folder.path()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.load(Ordering::Relaxed) {
                return Err(GuestError::Interrupted);
            }
            let printed = std::fs::metadata(console_file(self.folder.path())).map_or(0, |file| file.len());
            let silence = heard.silence(printed, Instant::now());
            let limit = spec.boot_limit.saturating_mul(rule(spec.mode).patience);
            let (mode, seconds) = (spec.mode, limit.as_secs());
            let why = match rule(mode).silence {
                Some(most) if silence >= most => {
                    let remedy = "hardware virtualization may not work here; use mode icount, or tcg";
                    format!("in mode {mode} the kernel printed nothing for {} s: {remedy}", most.as_secs())
                }
                _ if began.elapsed() >= limit => format!("the guest was not up after {seconds} s"),
                _ => continue,
            };
            return GuestError::failed(format!("{why}{}", last_lines(self.folder.path())));
        }
    }
}

/// When a guest printed last.
struct Heard {
    bytes: u64,
    at: Instant,
}

impl Heard {
    /// How long it has printed nothing, by the length of its console now.
    fn silence(&mut self, bytes: u64, now: Instant) -> Duration {
        if bytes != self.bytes {
            *self = Self { bytes, at: now };
        }
        now.saturating_duration_since(self.at)
    }
}

/// That a guest ended, with how QEMU did and what the console said last.
fn ended(what: &str, qemu: &mut Child, folder: &Path) -> String {
    let how = match qemu.wait_timeout(LAST) {
        Ok(Some(status)) if status.success() => String::new(),
        Ok(Some(status)) => format!(" ({QEMU}: {status})"),
        _ => format!(" ({QEMU} still runs)"),
    };
    format!("{what}{how}{}", last_lines(folder))
}

fn console_file(folder: &Path) -> PathBuf {
    folder.join("console")
}

/// What QEMU writes to standard error.
fn errors_file(folder: &Path) -> PathBuf {
    folder.join("qemu")
}

fn console(folder: &Path) -> String {
    plain(&String::from_utf8_lossy(&std::fs::read(console_file(folder)).unwrap_or_default()))
}

/// A console's text without escape sequences (ECMA-48), each as a whole, and without other control characters.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            // A sequence with parameters (CSI) ends with a letter; a text (OSC and the like) with BEL or ESC \.
            ('\u{1b}', Some('[')) => {
                letters.next();
                while letters.next_if(|inside| (' '..='?').contains(inside)).is_some() {}
                letters.next_if(|end| ('@'..='~').contains(end));
            }
            ('\u{1b}', Some(']' | 'P' | 'X' | '^' | '_')) => {
                while let Some(inside) = letters.next_if(|inside| *inside != '\n') {
                    if inside == '\u{7}' || (inside == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // Two or three letters: a character set, a cursor to keep.
            ('\u{1b}', _) => {
                while letters.next_if(|inside| (' '..='/').contains(inside)).is_some() {}
                letters.next_if(|end| ('0'..='~').contains(end));
            }
            ('\n' | '\t', _) => out.push(letter),
            _ if letter.is_control() => {}
            _ => out.push(letter),
        }
    }
    out
}

/// The end of a file that may be large.
fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL as u64)))?;
        let mut bytes = Vec::new();
        file.take(TAIL as u64).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// What QEMU said last of what went wrong. It also warns where nothing did.
fn last_errors(folder: &Path) -> Option<String> {
    let said = tail(&errors_file(folder));
    let errors = said.lines().filter(|line| !line.contains(": warning: "));
    last_words(&errors.collect::<Vec<_>>().join("\n"))
}

/// What QEMU and the console said last, for an error on one line, and where all of the console is kept.
#[must_use]
pub fn last_lines(folder: &Path) -> String {
    let errors = last_errors(folder).map(|said| format!("; {QEMU} said: {said}")).unwrap_or_default();
    let Some(last) = last_words(&tail(&console_file(folder))) else { return format!("{errors}; its console is empty") };
    let kept = Cache::usual().and_then(|cache| cache.part("consoles")).ok().and_then(|consoles| {
        let kept = consoles.join("last");
        std::fs::copy(console_file(folder), &kept).ok().map(|_| kept)
    });
    match kept {
        Some(kept) => format!("{errors}; its console ends: {last} (all of it: {})", kept.display()),
        None => format!("{errors}; its console ends: {last}"),
    }
}

/// The last lines of a console, and before them that of a panic, behind which registers and calls are listed.
fn last_words(console: &str) -> Option<String> {
    let console = plain(console);
    let lines: Vec<&str> = console.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(CONSOLE_LINES));
    let panic = before.iter().rev().find(|line| line.contains(PANIC) && !line.contains("end "));
    let shown: Vec<&str> = panic.into_iter().chain(last).copied().collect();
    (!shown.is_empty()).then(|| shown.join(" | "))
}

/// What QEMU is started with.
fn arguments(spec: &GuestSpec, kernel: &Path, image: &Path, folder: &Path) -> Vec<String> {
    let mode = rule(spec.mode);
    let mut arguments: Vec<String> = ["-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none"]
        .into_iter()
        .chain(["-no-reboot", "-name", "windhover,debug-threads=on"])
        .chain(mode.arguments.iter().copied())
        .map(str::to_owned)
        .collect();
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    add("-smp", spec.cpus.to_string());
    add("-m", spec.memory_mb.to_string());
    if spec.mode == GuestMode::Icount {
        add("-rtc", "base=utc,clock=vm".to_owned());
    }
    add("-kernel", kernel.display().to_string());
    add("-initrd", image.display().to_string());
    // A crash ends the guest at once, by the reboot that QEMU is told not to do.
    let words: Vec<&str> = mode.words.split(' ').filter(|word| !word.is_empty()).collect();
    let words: Vec<&str> = words.into_iter().chain(spec.words.iter().map(String::as_str)).collect();
    let words = words.join(" ");
    let nic = nic::rule(spec.nic);
    let hosts = format!("{}={} {}={}", inside::HOSTS, spec.hosts, inside::FIRST, spec.first);
    let ports = nic.filter(|_| spec.hosts > 0).map_or_else(String::new, |_| {
        let names: Vec<String> = (0..spec.hosts).map(|number| format!("eth{number}")).collect();
        format!(" {}={}", inside::PORTS, names.join(","))
    });
    let init = image::INIT;
    add("-append", format!("console=ttyS0 oops=panic panic=-1 rdinit={init} {hosts}{ports} {words}"));
    add("-chardev", format!("file,id=console,path={}", option_value(&console_file(folder))));
    add("-serial", "chardev:console".to_owned());
    add("-device", "virtio-serial-pci,max_ports=31".to_owned());
    let mut ports = vec![(CONTROL.to_owned(), control_socket(folder))];
    let letters = ('a'..='z').skip(spec.first as usize).take(spec.hosts as usize).map(String::from);
    ports.extend(letters.chain([MACHINE.to_owned()]).map(|name| (agent_port(&name), agent_socket(folder, &name))));
    for (number, (name, socket)) in ports.iter().enumerate() {
        let id = format!("port{number}");
        add("-chardev", format!("socket,id={id},path={},server=on,wait=off", option_value(socket)));
        add("-device", format!("virtserialport,chardev={id},name={name}"));
    }
    let nics = if spec.hosts == 0 { 2 } else { spec.hosts };
    arguments.extend(nic.into_iter().flat_map(|nic| nic.arguments(nics)));
    arguments.extend(spec.devices.iter().cloned());
    arguments
}

/// One file with both archives: the kernel unpacks them one after the other.
fn joined(image: &Path, overlay: &Path, into: &Path) -> Result<PathBuf, GuestError> {
    let mut file = File::create(into).map_err(GuestError::file("write", into))?;
    for part in [image, overlay] {
        let mut from = File::open(part).map_err(GuestError::file("read", part))?;
        std::io::copy(&mut from, &mut file).map_err(GuestError::file("write", into))?;
    }
    Ok(into.to_owned())
}

/// Gives each vCPU a CPU of its own, as far as there are so many, that of the last first: others use the first ones.
fn pin(qemu: &Child, cpus: u32) {
    let allowed: Vec<u32> = task::allowed_cpus().map(|cpus| cpus.iter().collect()).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", qemu.pid())).into_iter().flatten().flatten();
    for task in tasks.map(|entry| entry.path()) {
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let number = name.strip_prefix("CPU ").and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
        let thread = task.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
        if let (Some(number), Some(thread)) = (number, thread)
            && allowed.len() >= cpus as usize
            && let Some(cpu) = allowed.iter().rev().nth(number)
        {
            // A guest that is not pinned runs, too: its substrate says that it is a virtual machine.
            let _ = task::set_affinity_of(thread, &[*cpu].into_iter().collect::<CpuList>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_rule() {
        assert!(GuestMode::ALL.iter().all(|mode| rule(*mode).mode == *mode));
    }

    #[test]
    fn instruction_counting_has_one_cpu() {
        let spec = GuestSpec { cpus: 2, ..GuestSpec::new("debian-6.1") };
        assert!(spec.check().unwrap_err().to_string().starts_with("mode icount cannot run 2 CPUs"));
    }

    /// Catches: the second guest of a wire, which has host b alone, had a port for an agent of host a.
    #[test]
    fn each_host_of_a_wire_has_its_agents_port() {
        for (number, own, other) in
            [(0, "windhover.agent.a", "windhover.agent.b"), (1, "windhover.agent.b", "windhover.agent.a")]
        {
            let spec = crate::wire::joined(&GuestSpec::new("debian-6.1"), number, Path::new("/f"));
            let line = arguments(&spec, Path::new("/k"), Path::new("/i"), Path::new("/f")).join(" ");
            assert!(line.contains(&format!("name={own} ")) && !line.contains(other), "{line}");
            assert!(line.contains(&format!("windhover.hosts=1 windhover.first={number} ")), "{line}");
        }
    }

    /// Catches: a comma in the folder for temporary files ended the value of a QEMU option.
    #[test]
    fn a_comma_in_a_path_ends_no_option() {
        let folder = Path::new("/a,b");
        let spec = crate::wire::joined(&GuestSpec::new("debian-6.1"), 0, folder);
        let arguments = arguments(&spec, Path::new("/k"), Path::new("/i"), folder);
        let mut paths = Vec::new();
        for option in arguments.iter().filter(|argument| argument.contains("/a")) {
            // As QEMU reads options: two commas are one of the value.
            for part in option.replace(",,", "\0").split(',') {
                let value = part.split_once('=').map_or("", |(_, value)| value);
                if value.starts_with("/a") {
                    paths.push(value.replace('\0', ","));
                }
            }
        }
        let names: Vec<&str> = paths.iter().map(|path| path.strip_prefix("/a,b/").unwrap()).collect();
        assert_eq!(names, ["console", "control", "agent-a", "agent-machine", "wire-0", "wire-1"]);
    }

    /// Catches: of a QEMU that ended once its sockets were there, only the status was told.
    #[test]
    fn what_qemu_said_last_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let ended_by = |script: &str| {
            let errors = OwnedFd::from(File::create(errors_file(folder.path())).unwrap());
            let launch = Launch::new("sh").args(["-c", script]).stderr(Stream::File(errors));
            ended("the guest ended", &mut launch.start().unwrap(), folder.path())
        };
        let said = ended_by("echo 'qemu: warning: no x' >&2; echo 'qemu: a' >&2; echo 'qemu: b' >&2; exit 3");
        let words =
            format!("the guest ended ({QEMU}: exit status: 3); {QEMU} said: qemu: a | qemu: b; its console is empty");
        assert_eq!(said, words);
        assert_eq!(ended_by("echo 'qemu: warning: no x' >&2"), "the guest ended; its console is empty");
    }

    /// Catches: a console of any length was read as a whole for its last lines.
    #[test]
    fn only_the_end_of_a_console_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console");
        let long = format!("first\n{}\nlast\n", "x".repeat(TAIL));
        std::fs::write(&path, &long).unwrap();
        assert_eq!(tail(&path), long[long.len() - TAIL..]);
        std::fs::write(&path, "short").unwrap();
        assert_eq!((tail(&path).as_str(), tail(&folder.path().join("none")).as_str()), ("short", ""));
    }

    #[test]
    fn silence_ends_with_each_line() {
        let began = Instant::now();
        let mut heard = Heard { bytes: 0, at: began };
        let at = |seconds| began + Duration::from_secs(seconds);
        let seen: Vec<u64> = [(0, 5), (10, 20), (10, 25), (11, 49), (11, 79)]
            .into_iter()
            .map(|(bytes, seconds)| heard.silence(bytes, at(seconds)).as_secs())
            .collect();
        assert_eq!(seen, [5, 0, 5, 0, 30]);
    }

    #[test]
    fn a_panic_is_told_before_the_last_lines() {
        let panic = "[ 1.0] Kernel panic - not syncing: VFS";
        let console = format!("one\n{panic}\nCPU: 0\n\n a \nb\n---[ end Kernel panic - not syncing: VFS ]---\n");
        let last = "a | b | ---[ end Kernel panic - not syncing: VFS ]---";
        assert_eq!(last_words(&console).unwrap(), format!("{panic} | {last}"));
        assert_eq!(last_words("a\nb\n").unwrap(), "a | b");
        assert_eq!(last_words(" \n"), None);
    }

    /// Catches: of an escape sequence on the console only ESC was taken out, and `[0;31m` stayed.
    #[test]
    fn escape_sequences_are_taken_out_as_a_whole() {
        for (text, expected) in [
            ("\u{1b}[0;1;31mFAILED\u{1b}[0m to start", "FAILED to start"),
            ("\u{1b}[2J\u{1b}[01;01H\u{1b}[?25lBooting", "Booting"),
            ("\u{1b}]0;a title\u{7}x\u{1b}]2;y\u{1b}\\z", "xz"),
            ("\u{1b}(B\u{1b}7a\u{1b}8\u{8}\r\nb\tc", "a\nb\tc"),
            ("\u{1b}[31", ""),
            ("\u{1b}", ""),
            ("\u{1b}]never ended\nnext", "\nnext"),
            ("\u{9b}31mred µs", "31mred µs"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
        assert_eq!(last_words("\u{1b}[31mend\u{1b}[0m\n").unwrap(), "end");
    }

    /// Catches: words behind the kernel's name were a part of the name in `lab boot`.
    #[test]
    fn words_behind_a_kernel_join_its_command_line() {
        let spec = GuestSpec::new("debian-6.12 preempt=full  threadirqs");
        assert_eq!(
            (spec.kernel.as_str(), spec.words),
            ("debian-6.12", vec!["preempt=full".to_owned(), "threadirqs".to_owned()])
        );
    }

    /// Catches: an emulated kernel, which takes several times as long, was given up as soon as another.
    #[test]
    fn emulated_guests_may_boot_longer_and_say_that_their_times_are_simulated() {
        for mode in GuestMode::ALL {
            let is_emulated = mode != GuestMode::Kvm;
            assert_eq!((rule(mode).patience > 1, simulated(mode).is_some()), (is_emulated, is_emulated), "{mode}");
            assert!(simulated(mode).is_none_or(|words| words.contains("simulated")));
        }
    }
}
