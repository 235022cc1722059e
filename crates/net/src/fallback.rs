//! What became of MPTCP connections.

use crate::socket::DataSocket;
use crate::sys;
use libc::c_int;
use model::Protocol;
use std::os::fd::RawFd;

/// Fallbacks of MPTCP connections to TCP, which the kernel does not report, where the peer or the path lacks MPTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fallback {
    /// Connections that were asked to be MPTCP.
    pub asked: u64,
    /// Those of them that are TCP.
    pub fell_back: u64,
    /// Those of which the kernel does not say what they are.
    pub unknown: u64,
}

impl Fallback {
    /// Counts one connection. Fallback is for good (RFC 8684, section 3.7), so that its end is the time to look.
    pub(crate) fn count(&mut self, protocol: Protocol, fd: RawFd) {
        if protocol != Protocol::Mptcp {
            return;
        }
        self.asked += 1;
        match fell_back(fd) {
            Some(fell_back) => self.fell_back += u64::from(fell_back),
            None => self.unknown += 1,
        }
    }

    pub fn of<'a>(sockets: impl IntoIterator<Item = &'a DataSocket>) -> Self {
        let mut counted = Self::default();
        sockets.into_iter().for_each(|socket| counted.count(socket.protocol(), socket.read_fd()));
        counted
    }
}

/// Whether an MPTCP socket's connection is TCP; nothing where the kernel does not say.
fn fell_back(fd: RawFd) -> Option<bool> {
    // linux/tcp.h (Linux 6.9), linux/socket.h and linux/mptcp.h.
    const TCP_IS_MPTCP: c_int = 43;
    const SOL_MPTCP: c_int = 284;
    const MPTCP_INFO: c_int = 1;
    let mut value = [0];
    if sys::get_option(fd, libc::IPPROTO_TCP, TCP_IS_MPTCP, &mut value).is_ok() {
        return Some(value[0] == 0);
    }
    match sys::get_option(fd, SOL_MPTCP, MPTCP_INFO, &mut value) {
        Ok(_) => Some(false),
        Err(cause) => {
            let release = nix::sys::utsname::uname().ok();
            let release = release.as_ref().and_then(|uname| uname.release().to_str()).unwrap_or_default();
            fell_back_by(cause.raw_os_error(), release)
        }
    }
}

/// By MPTCP_INFO's error and the release: TCP gives EOPNOTSUPP or ENOPROTOOPT; MPTCP EOPNOTSUPP before Linux 5.16.
fn fell_back_by(errno: Option<c_int>, release: &str) -> Option<bool> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next()?, numbers.next()?);
    (version >= (5, 16) && matches!(errno, Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT))).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mptcp_info_fails_with_means_tcp_only_where_the_kernel_has_it() {
        for (errno, release, meant) in [
            (libc::EOPNOTSUPP, "6.1.0-13-amd64", Some(true)),
            (libc::ENOPROTOOPT, "6.1.0-13-amd64", Some(true)),
            (libc::ENOPROTOOPT, "5.16.0", Some(true)),
            (libc::EOPNOTSUPP, "5.15.0-91-generic", None),
            (libc::ENOPROTOOPT, "5.9", None),
            (libc::EINVAL, "6.8.12", None),
            (libc::EOPNOTSUPP, "", None),
        ] {
            assert_eq!(fell_back_by(Some(errno), release), meant, "{errno} {release}");
        }
        assert_eq!(fell_back_by(None, "6.1.0"), None);
    }
}
