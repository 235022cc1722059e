//! The machine of the campaign: one guest, its disk, and the line by which it reports.

use super::Campaign;
use crate::tests::guest::image;
use crate::{files, process};
use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const DEFAULT: &str = "debian-6.12";
/// For the disk; links between hosts are in every guest.
const MODULES: [&str; 3] = ["virtio_blk", "crc32c_generic", "ext4"];
/// First process of a kernel that kexec brings, and what packs it.
const INIT: &str = include_str!("init.sh");
const PACK: &str = include_str!("pack.sh");
/// Longest that `windhover lab boot` may take to see that its guest has ended.
const SEEN: Duration = Duration::from_secs(60);
/// Room for an initial file system.
const INITRD: u64 = 64_000_000;
/// Size of the disk; what is not written takes no room.
const DISK: u64 = 1_500_000_000;

pub(super) struct Machine {
    binary: PathBuf,
    overlay: PathBuf,
    pub(super) disk: PathBuf,
    pub(super) folder: PathBuf,
    /// The release of each kernel of the campaign.
    pub(super) releases: BTreeMap<String, String>,
}

impl Machine {
    /// Builds everything and fills the disk.
    pub(super) fn make(campaign: &Campaign) -> Result<Self> {
        let folder = process::target().join("guest").join(campaign.name);
        files::create(&folder)?;
        // A copy: what is built meanwhile does not change it.
        let binary = image::stripped(&image::build()?.binary, &folder)?;
        let root = image::Root::make(folder.join("root"))?;
        root.file("kexec-init", INIT.as_bytes())?;
        root.file("pack", PACK.as_bytes())?;
        let (overlay, disk) = (folder.join("overlay.cpio"), folder.join("disk"));
        root.pack(&overlay)?;
        for name in ["log", "boots"] {
            files::write(&folder.join(name), b"")?;
        }
        let mut machine = Self { binary, overlay, disk, folder, releases: BTreeMap::new() };
        root.program("usr/bin/windhover", &machine.binary)?;
        root.program("usr/bin/ip", &image::find("ip")?)?;
        root.file("enter", include_bytes!("enter.sh"))?;
        if campaign.by_systemd {
            systemd(&root)?;
        }
        root.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")?;
        for name in ["dev", "proc", "sys", "run", "mnt", "tmp", "root", "runs", "var/lib"] {
            files::create(&root.folder.join(name))?;
        }
        let mut kernels = Vec::new();
        for (name, words) in campaign.kernels {
            let initrd = machine.initrd(name)?;
            let (release, image) = of_cache(name)?;
            root.copy(&format!("boot/vmlinuz-{release}"), &image)?;
            root.copy(&format!("boot/initrd.img-{release}"), &initrd)?;
            files::create(&root.folder.join("lib/modules").join(&release))?;
            let kernel = format!("kexec:/boot/vmlinuz-{release}{words}");
            machine.releases.insert(kernel.clone(), release);
            kernels.push(kernel);
        }
        root.file("plan.toml", campaign.plan(&kernels).as_bytes())?;
        files::write(&machine.disk, b"")?;
        let (from, disk) = (root.folder.to_string_lossy(), machine.disk.to_string_lossy());
        File::options().write(true).open(&machine.disk).and_then(|file| file.set_len(DISK)).context("the disk")?;
        process::run("/usr/sbin/mkfs.ext4", &["-q", "-F", "-d", &from, &disk])?;
        Ok(machine)
    }

    /// The initial file system by which kexec brings a kernel to the disk: made by that kernel, which has its modules.
    fn initrd(&self, kernel: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("initrd-{kernel}"));
        // That of an earlier run, made in the same way. The kernel itself stays as it is until its folder is removed.
        let (made, wanted) = (self.folder.join(format!("made-{kernel}")), format!("{MODULES:?}{INIT}{PACK}"));
        if files::read(&made).is_ok_and(|made| made == wanted) {
            return Ok(path);
        }
        files::write(&path, b"")?;
        let file = File::options().write(true).open(&path).context("an initial file system")?;
        file.set_len(INITRD)?;
        let told = self.boot(kernel, &path).args(["--", "/pack"]).stderr(Stdio::inherit()).output()?;
        let size: Option<u64> = String::from_utf8_lossy(&told.stdout).trim().parse().ok();
        ensure!(told.status.success(), "packing by {kernel} ended with {}", told.status);
        file.set_len(size.context("packing told no size")?)?;
        files::write(&made, wanted)?;
        Ok(path)
    }

    fn boot(&self, kernel: &str, disk: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(["lab", "boot", kernel, "--mode", "tcg", "--hosts", "0"])
            .args(MODULES.iter().flat_map(|module| ["--module", module]))
            .arg("--overlay")
            .arg(&self.overlay)
            // The host's own cache survives the end of QEMU.
            .arg("--qemu=-drive")
            .arg(format!("--qemu=file={},format=raw,if=virtio,cache=unsafe", disk.display()))
            .stdin(Stdio::null());
        command
    }

    fn append(&self, name: &str) -> Result<File> {
        OpenOptions::new().append(true).open(self.folder.join(name)).context(name.to_owned())
    }

    pub(super) fn text(&self, name: impl AsRef<Path>) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join(name)).unwrap_or_default()).into_owned()
    }

    /// Switches it on; what its kernels print of this cold boot is kept by its number.
    pub(super) fn on(&self, number: u32) -> Result<Power> {
        // The path of a socket has at most 108 bytes.
        let socket = std::env::temp_dir().join(format!("windhover-kexec-{}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let child = self
            .boot(DEFAULT, &self.disk)
            .args(["--qemu=-serial".to_owned(), format!("--qemu=unix:{},server=on,wait=off", socket.display())])
            .arg("--console")
            .arg(self.folder.join(format!("console-{number}")))
            .args(["--", "/bin/sh", "-c", "mkdir -p /mnt && mount -t ext4 /dev/vda /mnt && exec chroot /mnt /enter"])
            .stdout(self.append("boots")?)
            .stderr(self.append("boots")?)
            .spawn()
            .context("cannot start windhover")?;
        let mut power = Power { child, line: None, reports: None };
        let until = Instant::now() + Duration::from_secs(120);
        while power.line.is_none() {
            power.line = UnixStream::connect(&socket).ok();
            ensure!(Instant::now() < until && power.child.try_wait()?.is_none(), "QEMU did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_file(&socket);
        let (sender, reports) = channel();
        let from = power.line.as_ref().context("no line")?.try_clone()?;
        let (mut log, began) = (self.append("log")?, Instant::now());
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                let _ = writeln!(log, "{:>6.1} {line}", began.elapsed().as_secs_f64());
                if !line.is_empty() && sender.send(line).is_err() {
                    return;
                }
            }
        });
        power.reports = Some(reports);
        Ok(power)
    }
}

/// systemd of this machine's package: what boots, runs services of `multi-user.target`, and goes down.
const SYSTEMD: [&str; 3] = ["usr/lib/systemd/systemd", "usr/lib/systemd/systemd-shutdown", "usr/bin/systemctl"];
const UNITS: &str = "usr/lib/systemd/system";
const SYSTEM_UNITS: &str = "basic.target final.target kexec.target local-fs-pre.target local-fs.target multi-user.target \
    network-online.target network.target paths.target reboot.target shutdown.target slices.target \
    sockets.target swap.target sysinit.target systemd-kexec.service systemd-reboot.service umount.target";
const OWN_UNITS: [&str; 2] = ["windhover-resume.service", "windhover-undo.service"];
/// Kills the campaign once, while it measures.
const KILLER: &str = "[Service]\nExecStart=/kill\n";
/// How often that has the unit started again.
pub(super) const KILLED: usize = 1;

/// Makes systemd the first process of the kernels that kexec brings, with our units as an installed package has them.
fn systemd(root: &image::Root) -> Result<()> {
    root.link("lib/systemd", "/usr/lib/systemd")?;
    for program in SYSTEMD {
        root.program(program, &Path::new("/").join(program))?;
    }
    // systemd complains of units that may be executed.
    let add = |unit: &str, text: &str| files::put(&root.folder, &format!("{UNITS}/{unit}"), text.as_bytes(), 0o644);
    for unit in SYSTEM_UNITS.split(' ') {
        add(unit, &files::read(&Path::new("/").join(UNITS).join(unit))?)?;
    }
    let own =
        OWN_UNITS.iter().map(|unit| Ok((*unit, files::read(&process::root().join("packaging/systemd").join(unit))?)));
    for (unit, text) in own.chain([Ok(("killer.service", KILLER.to_owned()))]).collect::<Result<Vec<_>>>()? {
        add(unit, &text)?;
        root.link(&format!("etc/systemd/system/multi-user.target.wants/{unit}"), &format!("/{UNITS}/{unit}"))?;
    }
    root.file("kill", include_bytes!("kill.sh"))?;
    root.link("etc/systemd/system/default.target", &format!("/{UNITS}/multi-user.target"))?;
    root.file("etc/machine-id", b"0123456789abcdef0123456789abcdef\n")?;
    root.file("etc/hostname", b"guest\n")?;
    root.file("etc/os-release", b"ID=test\nPRETTY_NAME=Test\n")?;
    let log = "[Manager]\nShowStatus=yes\nLogTarget=console\nLogLevel=info\nDefaultStandardOutput=tty\n";
    root.file("etc/systemd/system.conf", log.as_bytes())
}

/// A kernel's release and file, where `windhover lab boot` keeps it.
fn of_cache(name: &str) -> Result<(String, PathBuf)> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).context("no HOME")?;
    let folder = cache.join("windhover/kernels").join(name);
    let release = files::read(&folder.join("release"))?.trim().to_owned();
    let image = folder.join(format!("boot/vmlinuz-{release}"));
    Ok((release, image))
}

/// The machine while it is on; switched off when dropped, because QEMU ends with its owner.
pub(super) struct Power {
    pub(super) child: Child,
    line: Option<UnixStream>,
    reports: Option<Receiver<String>>,
}

impl Drop for Power {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Power {
    pub(super) fn report(&self) -> Option<String> {
        match self.reports.as_ref()?.recv_timeout(Duration::from_millis(50)) {
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(Duration::from_millis(50));
                None
            }
            report => report.ok(),
        }
    }

    pub(super) fn order(&mut self, order: &str) {
        // One that is off hears nothing.
        let _ = self.line.as_mut().map(|line| writeln!(line, "{order}"));
    }

    /// Ends QEMU; `windhover lab boot` has to see it.
    pub(super) fn cut(&mut self) -> Result<()> {
        // The keeper of the guest's folder is one, too.
        let is_qemu =
            |pid: &u32| files::read(Path::new(&format!("/proc/{pid}/comm"))).is_ok_and(|name| name.starts_with("qemu"));
        let qemu: Vec<u32> = process::children(self.child.id()).into_iter().filter(is_qemu).collect();
        let [qemu] = qemu[..] else { bail!("windhover lab boot runs {} guests", qemu.len()) };
        kill(Pid::from_raw(i32::try_from(qemu)?), Signal::SIGKILL).context("ending QEMU")?;
        let ended = process::wait(&mut self.child, SEEN)?.context("windhover lab boot did not see the end of QEMU")?;
        ensure!(ended.code() == Some(1), "windhover lab boot ended with {ended} when QEMU was killed");
        Ok(())
    }
}
