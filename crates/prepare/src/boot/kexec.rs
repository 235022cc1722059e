//! A kernel started by the kernel that runs.

use super::{BootError, lockdown, missing, refused};
use crate::Kernel;
use model::{KernelChoice, KernelImage};
use std::io;
use std::path::{Path, PathBuf};

/// Before the words of a campaign, so that the next kernel starts from the line before it. The kernel ignores it.
const MARK: &str = "windhover.kexec";
/// Reboots a kernel that crashes, which leads to the boot loader's default.
const PANIC: &str = "panic=10";

pub(super) fn check(machine: &Kernel, kernel: &KernelChoice) -> Result<KernelImage, BootError> {
    let image = image(machine, kernel)?;
    // Another program's kernel would be lost.
    if machine.machine().is_running() && machine.machine().trimmed("/sys/kernel/kexec_loaded").is_ok_and(|is| is == "0")
    {
        load(machine, kernel)?;
        host::boot::kexec_unload().map_err(|cause| says(machine, kernel, &cause))?;
    }
    Ok(image)
}

pub(super) fn load(machine: &Kernel, kernel: &KernelChoice) -> Result<(), BootError> {
    let path = machine.machine().path(Path::new(&kernel.what));
    let initrd = initrd(machine, &kernel.what).map(|path| machine.machine().path(&path));
    let line = machine.machine().trimmed("/proc/cmdline").unwrap_or_default();
    let line = command_line(&line, &kernel.words);
    host::boot::kexec_load(&path, initrd.as_deref(), &line).map_err(|cause| says(machine, kernel, &cause))
}

/// Everything that can be seen without a system call.
fn image(machine: &Kernel, kernel: &KernelChoice) -> Result<KernelImage, BootError> {
    let files = machine.machine();
    if !files.exists("/sys/kernel/kexec_loaded") {
        return missing("/sys/kernel/kexec_loaded", "boot a kernel with CONFIG_KEXEC_FILE, or use grub:ENTRY");
    }
    if files.trimmed("/proc/sys/kernel/kexec_load_disabled").is_ok_and(|is| is == "1") {
        let remedy = "it stays so until the next boot: reboot without it, or use grub:ENTRY";
        return refused("kernel.kexec_load_disabled is 1", remedy);
    }
    if !files.exists(&kernel.what) {
        return missing(&kernel.what, "install that kernel, or name one of /boot");
    }
    let read = host::boot::kernel_version(&files.path(Path::new(&kernel.what)));
    let Some((release, version)) = read.ok().flatten() else {
        return refused(format!("{} is no kernel", kernel.what), "name a bzImage, such as /boot/vmlinuz-RELEASE");
    };
    let modules = format!("/lib/modules/{release}");
    if !files.is_directory(&modules) && !files.is_directory(format!("/usr{modules}")) {
        return missing(modules, format!("install the modules of {}", kernel.what));
    }
    let words = kernel.words.clone();
    Ok(KernelImage { release: Some(release), version: Some(version).filter(|text| !text.is_empty()), words })
}

/// The initial file system beside a kernel, by the names of the distributions.
fn initrd(machine: &Kernel, kernel: &str) -> Option<PathBuf> {
    let path = Path::new(kernel);
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let release = name.split_once('-').map_or("", |(_, release)| release);
    let names = [
        format!("initrd.img-{release}"),
        format!("initramfs-{release}.img"),
        format!("initrd-{release}"),
        format!("initrd-{release}.img"),
    ];
    names.iter().map(|name| folder.join(name)).find(|path| machine.machine().exists(path))
}

/// The command line of the next kernel: that of the boot loader without what names its files, and the words of the plan.
fn command_line(now: &str, words: &[String]) -> String {
    let of_loader = now.split_ascii_whitespace().take_while(|word| *word != MARK);
    let kept: Vec<&str> =
        of_loader.filter(|word| !["BOOT_IMAGE=", "initrd="].iter().any(|name| word.starts_with(name))).collect();
    let named = |word: &str| word.starts_with("panic=");
    let panics = kept.iter().copied().any(named) || words.iter().any(|word| named(word));
    let own = words.iter().map(String::as_str);
    kept.into_iter().chain([MARK]).chain((!panics).then_some(PANIC)).chain(own).collect::<Vec<_>>().join(" ")
}

/// What a refusal of kexec_file_load(2) means.
fn says(machine: &Kernel, kernel: &KernelChoice, cause: &io::Error) -> BootError {
    let what = format!("kexec of {}", kernel.what);
    let remedy = match cause.raw_os_error() {
        Some(EPERM) => match lockdown(machine, &what) {
            Err(locked) => return locked,
            Ok(()) => "run the agent as root, on a kernel without lockdown",
        },
        Some(ENOEXEC) => "it is no kernel for this machine",
        Some(EKEYREJECTED | ENOKEY | EBADMSG | ENODATA) => {
            "its signature is missing or not trusted: install a signed kernel, or turn Secure Boot off"
        }
        Some(ENOSYS) => "boot a kernel with CONFIG_KEXEC_FILE, or use grub:ENTRY",
        _ => "use grub:ENTRY or bootctl:ENTRY",
    };
    BootError::Refused { what: format!("{what}: {cause}"), remedy: remedy.to_owned() }
}

// asm-generic/errno.h; this crate has no libc.
const EPERM: i32 = 1;
const ENOEXEC: i32 = 8;
const ENOSYS: i32 = 38;
const ENODATA: i32 = 61;
const EBADMSG: i32 = 74;
const ENOKEY: i32 = 126;
const EKEYREJECTED: i32 = 129;

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a refusal without its remedy, or with that of another one.
    #[test]
    fn each_refusal_of_kexec_has_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Kernel::at(host::knob::Machine::at(folder.path()));
        let kernel: KernelChoice = "kexec:/boot/vmlinuz-6.1".parse().unwrap();
        let of = |number| says(&machine, &kernel, &io::Error::from_raw_os_error(number)).to_string();
        let signature =
            "its signature is missing or not trusted: install a signed kernel, or turn Secure Boot off".to_owned();
        for number in [EKEYREJECTED, ENOKEY, EBADMSG, ENODATA] {
            let cause = io::Error::from_raw_os_error(number);
            assert_eq!(of(number), format!("kexec of /boot/vmlinuz-6.1: {cause}: {signature}"));
        }
        for (number, words) in [
            (EPERM, "as root, on a kernel without lockdown"),
            (ENOEXEC, "no kernel for this machine"),
            (ENOSYS, "CONFIG_KEXEC_FILE"),
            (22, "use grub:ENTRY or bootctl:ENTRY"),
        ] {
            let said = of(number);
            assert!(said.contains(words), "{number}: {said}");
            assert!(!said.contains('\n') && !said.contains("signature"), "{number}: {said}");
        }
        let security = folder.path().join("sys/kernel/security");
        std::fs::create_dir_all(&security).unwrap();
        std::fs::write(security.join("lockdown"), "none [integrity] confidentiality\n").unwrap();
        let said = of(EPERM);
        assert!(said.contains("locked down (integrity)") && said.ends_with("or without Secure Boot"), "{said}");
    }

    #[test]
    fn words_of_one_kernel_do_not_stay_for_the_next() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let first = command_line("BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro initrd=/x quiet", &words("threadirqs"));
        assert_eq!(first, "root=/dev/vda1 ro quiet windhover.kexec panic=10 threadirqs");
        assert_eq!(
            command_line(&first, &words("isolcpus=1")),
            "root=/dev/vda1 ro quiet windhover.kexec panic=10 isolcpus=1"
        );
        assert_eq!(command_line("ro panic=5", &[]), "ro panic=5 windhover.kexec");
        assert_eq!(command_line("ro", &words("panic=0")), "ro windhover.kexec panic=0");
    }
}
