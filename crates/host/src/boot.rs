//! Loading a kernel for kexec(8) and starting it, and files of kernels.

use nix::errno::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;

/// include/uapi/linux/kexec.h
const KEXEC_FILE_UNLOAD: libc::c_ulong = 1;
const KEXEC_FILE_NO_INITRAMFS: libc::c_ulong = 4;

/// Loads a kernel for the next kexec, in place of the one loaded before (kexec_file_load(2)). Errors are the kernel's:
/// EPERM without CAP_SYS_BOOT, under lockdown or with kexec_load_disabled; ENOEXEC for no kernel; EKEYREJECTED, ENOKEY,
/// EBADMSG or ENODATA for a wrong or missing signature.
pub fn kexec_load(kernel: &Path, initrd: Option<&Path>, command_line: &str) -> io::Result<()> {
    let kernel = File::open(kernel)?;
    let initrd = initrd.map(File::open).transpose()?;
    let line = CString::new(command_line).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let flags = if initrd.is_some() { 0 } else { KEXEC_FILE_NO_INITRAMFS };
    kexec_file_load(kernel.as_raw_fd(), initrd.as_ref().map_or(-1, File::as_raw_fd), &line, flags)
}

pub fn kexec_unload() -> io::Result<()> {
    kexec_file_load(-1, -1, c"", KEXEC_FILE_UNLOAD)
}

fn kexec_file_load(kernel: RawFd, initrd: RawFd, line: &std::ffi::CStr, flags: libc::c_ulong) -> io::Result<()> {
    let length = line.to_bytes_with_nul().len();
    // SAFETY: the descriptors are open or -1, and the line is NUL-terminated with `length` bytes, as the call demands.
    let done = unsafe { libc::syscall(libc::SYS_kexec_file_load, kernel, initrd, length, line.as_ptr(), flags) };
    Errno::result(done).map(drop).map_err(io::Error::from)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// Through the firmware and the boot loader.
    Reboot,
    /// Into the kernel that [`kexec_load`] loaded.
    Kexec,
}

/// Syncs all file systems and goes down at once, without ending processes (reboot(2)), on machines without an init.
pub fn go_down(down: Down) -> io::Result<()> {
    let how = match down {
        Down::Reboot => libc::LINUX_REBOOT_CMD_RESTART,
        Down::Kexec => libc::LINUX_REBOOT_CMD_KEXEC,
    };
    // SAFETY: sync takes nothing; reboot takes a command and is allowed to root alone.
    let done = unsafe {
        libc::sync();
        libc::reboot(how)
    };
    Errno::result(done).map(drop).map_err(io::Error::from)
}

/// Release and version as uname(2) shows them, from a kernel's file (Documentation/arch/x86/boot.rst), else `None`.
pub fn kernel_version(path: &Path) -> io::Result<Option<(String, String)>> {
    let mut file = File::open(path)?;
    let mut header = Vec::new();
    file.by_ref().take(0x210).read_to_end(&mut header)?;
    let at = |range: std::ops::Range<usize>| header.get(range).unwrap_or_default();
    let (b"HdrS", &[low, high]) = (at(0x202..0x206), at(0x20e..0x210)) else { return Ok(None) };
    file.seek(SeekFrom::Start(u64::from(u16::from_le_bytes([low, high])) + 0x200))?;
    let mut text = Vec::new();
    file.take(512).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(text.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let release = text.split_ascii_whitespace().next().unwrap_or_default().to_owned();
    let version = text.find('#').and_then(|start| text.get(start..)).unwrap_or_default().to_owned();
    Ok((!release.is_empty()).then_some((release, version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmlinuz");
        let mut image = vec![0_u8; 0x3000];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x1234_u16.to_le_bytes());
        let text = b"6.1.0-49-amd64 (d@debian.org) #1 SMP Debian 6.1.174-1\0rest";
        image[0x1434..0x1434 + text.len()].copy_from_slice(text);
        std::fs::write(&path, &image).unwrap();
        let (release, version) = kernel_version(&path).unwrap().unwrap();
        assert_eq!((release.as_str(), version.as_str()), ("6.1.0-49-amd64", "#1 SMP Debian 6.1.174-1"));
        for short in [0, 0x204, 0x20f, 0x210] {
            std::fs::write(&path, &image[..short]).unwrap();
            assert_eq!(kernel_version(&path).unwrap(), None, "{short} bytes");
        }
    }
}
