//! Where tracefs is. A system that has not mounted it keeps it so: a mount of our own hangs on a descriptor (fsopen(2),
//! fsmount(2)), is seen by no other process and ends with it.

use crate::TraceError;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// A tracefs that is there as long as this lives.
#[derive(Debug)]
pub(crate) struct Tracefs {
    path: PathBuf,
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    pub(crate) fn find() -> Result<Self, TraceError> {
        let mounted = MOUNTED.iter().map(Path::new).find(|path| path.join("instances").is_dir());
        if let Some(path) = mounted {
            return Ok(Self { path: path.to_owned(), _mount: None });
        }
        let mount = open(c"tracefs").map_err(TraceError::NoTracefs)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { path, _mount: Some(mount) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A mount of a file system without a place in the tree of mounts.
fn open(kind: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string that lives over the call; the call gives a new descriptor or -1.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: FSCONFIG_CMD_CREATE takes no key, value or number; the descriptor is the context made above.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes numbers; the descriptor is the context made above; gives a new descriptor or -1.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

fn owned(answer: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(answer) {
        // SAFETY: the kernel has just made this descriptor for this call, and no other code knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
