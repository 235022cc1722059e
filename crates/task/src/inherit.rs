//! Taking over descriptors that the starter of this process left open for it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Numbers that were taken, so that no descriptor gets two owners.
static TAKEN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// The descriptor of this number, from [`crate::Launch::inherit_fd`]; closed on exec from then on. Call it before anything
/// else opens descriptors. An error for 0 to 2, and for what was taken before or is not open.
pub fn take_inherited(number: i32) -> io::Result<OwnedFd> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if number <= 2 || !taken.insert(number) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {number} is not for taking")));
    }
    // SAFETY: F_SETFD on any number is harmless; a number that is not open is refused with EBADF.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        taken.remove(&number);
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (checked above), the starter made it for us, and TAKEN gives it out once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd as _;

    #[test]
    fn a_descriptor_is_given_once() {
        let number = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
        let owned = take_inherited(number).unwrap();
        assert!(take_inherited(number).is_err());
        drop(owned);
        assert!(take_inherited(1).is_err());
        assert!(take_inherited(9999).is_err());
    }
}
