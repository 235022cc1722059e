//! The data sockets of this process, so that its evidence can be about them and not about control connections.

use nix::sys::stat::fstat;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// Descriptor and inode: a number is given again after a close, an inode is not within a process' life.
static MADE: Mutex<Vec<(RawFd, u64)>> = Mutex::new(Vec::new());

/// Notes a new data socket. Not for sockets that are made while measuring: it locks and allocates.
pub(crate) fn note(fd: RawFd) {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.retain(is_open);
    made.extend(inode(fd).map(|inode| (fd, inode)));
}

pub fn data_sockets() -> Vec<RawFd> {
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.iter().filter(|one| is_open(one)).map(|(fd, _)| *fd).collect()
}

fn is_open((fd, known): &(RawFd, u64)) -> bool {
    inode(*fd) == Some(*known)
}

fn inode(fd: RawFd) -> Option<u64> {
    // SAFETY: fstat(2) fails with EBADF where the descriptor is closed, and keeps nothing.
    fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok().map(|found| found.st_ino)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_closed_socket_is_forgotten_though_its_number_lives_on() {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = first.as_raw_fd();
        super::note(fd);
        assert!(super::data_sockets().contains(&fd));
        let next = UdpSocket::bind("127.0.0.1:0").unwrap();
        // SAFETY: both are open; the first one's number means the other's socket from here on.
        assert_eq!(unsafe { libc::dup2(next.as_raw_fd(), fd) }, fd);
        assert!(!super::data_sockets().contains(&fd));
    }
}
