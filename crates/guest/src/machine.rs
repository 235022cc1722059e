//! One guest: QEMU, from its start to its end.

use crate::console::{console, console_file, errors_file, last_errors, last_lines};
use crate::control::{CONTROL, FromGuest, MACHINE, ToGuest, Up, agent_port};
use crate::emulator::{Emulator, QEMU, option_value};
use crate::kernel::unpacked;
use crate::programs::{Job, LOOK, Line, RequestListener};
use crate::{Cache, GuestError, Kernel, Program, RunFolder, image, inside, nic};
use model::CpuList;
use model::plan::{GuestMode, GuestNic, LabPlan};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use task::{Child, Launch, Stream};

#[cfg(test)]
mod tests;

const KVM: &str = "/dev/kvm";
/// How long QEMU may take to make its sockets.
const SOCKETS: Duration = Duration::from_secs(20);
/// How long a guest may take to power off before it is switched off.
const POWER_OFF: Duration = Duration::from_secs(60);
/// How long QEMU may take to end once the guest's ports are closed.
const LAST: Duration = Duration::from_secs(5);

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
        // Without a reliable TSC each clock read is a device access. Cipher tests take a third of an emulated boot.
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
pub fn simulated(mode: GuestMode) -> Option<&'static str> {
    rule(mode).times
}

#[derive(Debug, Clone, PartialEq, Eq)]
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

pub fn agent_socket(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("agent-{host}"))
}

fn control_socket(folder: &Path) -> PathBuf {
    folder.join("control")
}

/// A guest that runs. Dropping it switches it off. QEMU dies with the thread that started it (PR_SET_PDEATHSIG).
#[derive(Debug)]
pub struct Guest {
    pub kernel: Kernel,
    up: Up,
    qemu: Child,
    line: Line,
    folder: RunFolder,
}

/// CPU time of QEMU, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub user_ms: u64,
    pub system_ms: u64,
}

impl Guest {
    /// Fetches, makes the image, boots, waits until ready or `stop`. Later errors quote the console's last lines.
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
        let mut guest = StartingMachine { qemu, folder };
        let line = guest.connect()?;
        if spec.mode == GuestMode::Kvm {
            pin(&guest.qemu, spec.cpus);
        }
        let up = guest.wait_up(&line, spec, stop)?;
        if up.release != kernel.release {
            return GuestError::failed(format!("the guest runs {} and not {}", up.release, kernel.release));
        }
        let StartingMachine { qemu, folder } = guest;
        Ok(Self { kernel, up, qemu, line, folder })
    }

    /// Its report when it was ready.
    pub fn up(&self) -> &Up {
        &self.up
    }

    /// The folder with its sockets.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What its kernel and its first process printed.
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
struct StartingMachine {
    qemu: Child,
    folder: RunFolder,
}

impl StartingMachine {
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
        let mut heard = ConsoleState { bytes: 0, at: began };
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
struct ConsoleState {
    bytes: u64,
    at: Instant,
}

impl ConsoleState {
    /// How long it has printed nothing, by the length of its console now.
    fn silence(&mut self, bytes: u64, now: Instant) -> Duration {
        if bytes != self.bytes {
            *self = Self { bytes, at: now };
        }
        now.saturating_duration_since(self.at)
    }
}

/// The end of a guest: QEMU's status and the last lines of the console.
fn ended(what: &str, qemu: &mut Child, folder: &Path) -> String {
    let how = match qemu.wait_timeout(LAST) {
        Ok(Some(status)) if status.success() => String::new(),
        Ok(Some(status)) => format!(" ({QEMU}: {status})"),
        _ => format!(" ({QEMU} still runs)"),
    };
    format!("{what}{how}{}", last_lines(folder))
}

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
    // A crash ends the guest at once: QEMU does not reboot.
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

/// Gives each vCPU a CPU of its own as far as possible, from the last CPU down: others use the first ones.
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
            // A guest that is not pinned runs, too: its substrate is a virtual machine.
            let _ = task::set_affinity_of(thread, &[*cpu].into_iter().collect::<CpuList>());
        }
    }
}
