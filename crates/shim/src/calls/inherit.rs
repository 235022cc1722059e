//! What descriptors are that came from elsewhere: made by socket(2), inherited at the start, or received from another process.

use crate::kernel::{is_nonblocking, option};
use crate::{page, settings, table};
use bypass_abi::page::Reason;
use libc::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, c_int, msghdr};

/// Flags of a socket; none where it is not accelerated.
pub(super) fn flags_of(domain: c_int, kind: c_int, protocol: c_int, is_nonblocking: bool) -> u32 {
    if !matches!(domain, AF_INET | AF_INET6) || !matches!(kind, SOCK_STREAM | SOCK_DGRAM) {
        page::fall_back(None, Reason::OtherSocket);
        return 0;
    }
    // UDP-Lite, MPTCP, SCTP and ICMP are datagrams or streams, too, and can spin.
    let is_known = matches!((kind, protocol), (SOCK_STREAM, 0 | IPPROTO_TCP) | (SOCK_DGRAM, 0 | IPPROTO_UDP));
    let mut flags = table::SOCKET;
    for (flag, has) in [
        (table::STREAM, kind == SOCK_STREAM),
        (table::IPV6, domain == AF_INET6),
        (table::NONBLOCK, is_nonblocking),
        (table::UNKNOWN_OPTION, !is_known),
    ] {
        if has {
            flags |= flag;
        }
    }
    // A stream comes there when it connects or listens.
    if settings::uses_stack() && kind == SOCK_DGRAM && is_known {
        flags |= table::CANDIDATE;
    }
    flags
}

/// Looks up a descriptor that came from elsewhere: inherited at the start, or received from another process.
pub(crate) fn inherited(fd: c_int) {
    let option = |name: c_int| option(fd, SOL_SOCKET, name);
    let (Some(domain), Some(kind), Some(protocol)) =
        (option(libc::SO_DOMAIN), option(libc::SO_TYPE), option(libc::SO_PROTOCOL))
    else {
        table::open(fd, 0);
        return;
    };
    let mut flags = flags_of(domain, kind, protocol, is_nonblocking(fd));
    if flags != 0 {
        flags |= table::SHARED;
    }
    if flags != 0 && settings::uses_stack() && option(libc::SO_ACCEPTCONN) == Some(1) {
        flags |= table::CANDIDATE | table::LISTENS;
    }
    if flags != 0 && option(libc::SO_RCVLOWAT).is_some_and(|bytes| bytes > 1) {
        flags |= table::PARTIAL;
    }
    table::open(fd, flags);
}

pub(super) unsafe fn each_in(message: *const msghdr, found: fn(c_int)) {
    // SAFETY: a message that is sent, or that the kernel has filled; its control data are walked as in cmsg(3).
    unsafe {
        if (*message).msg_controllen == 0 {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = header.as_ref() {
            if control.cmsg_level == SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
                let bytes = control.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                (0..bytes / size_of::<c_int>()).for_each(|at| found(data.add(at).read_unaligned()));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// Looks up the sockets that the process was started with.
pub(crate) fn look_up_inherited() {
    // SAFETY: reads no more than the buffer holds, from a descriptor that is opened and closed here.
    unsafe {
        let folder = libc::open(c"/proc/self/fd".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC);
        if folder < 0 {
            return;
        }
        let mut buffer = [0_u64; 512];
        loop {
            let room = size_of_val(&buffer);
            let length = libc::syscall(libc::SYS_getdents64, folder, buffer.as_mut_ptr(), room);
            let Some(length) = usize::try_from(length).ok().filter(|length| *length > 0) else { break };
            let bytes = std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), length.min(room));
            each_number(bytes, |fd| {
                if fd != folder {
                    inherited(fd);
                }
            });
        }
        crate::kernel::close(folder);
    }
}

/// The names of entries that getdents64(2) gave, as far as they are numbers.
fn each_number(mut entries: &[u8], mut found: impl FnMut(libc::c_int)) {
    /// Offsets in `struct linux_dirent64`.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    while let Some((length, name)) = entries.get(LENGTH..LENGTH + 2).zip(entries.get(NAME..)) {
        let length = usize::from(length[0]) | usize::from(length[1]) << 8;
        let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(None, |number: Option<libc::c_int>, digit| {
            number.unwrap_or(0).checked_mul(10)?.checked_add(libc::c_int::from(digit - b'0'))
        });
        if let Some(number) = number {
            found(number);
        }
        match entries.get(length.max(1)..) {
            Some(rest) => entries = rest,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_has_two_protocols() {
        for (kind, protocol, is_known) in [
            (SOCK_STREAM, 0, true),
            (SOCK_STREAM, IPPROTO_TCP, true),
            (SOCK_STREAM, libc::IPPROTO_MPTCP, false),
            (SOCK_STREAM, libc::IPPROTO_SCTP, false),
            (SOCK_DGRAM, 0, true),
            (SOCK_DGRAM, IPPROTO_UDP, true),
            (SOCK_DGRAM, libc::IPPROTO_UDPLITE, false),
            (SOCK_DGRAM, libc::IPPROTO_ICMP, false),
        ] {
            let flags = flags_of(AF_INET, kind, protocol, false);
            assert_eq!(flags & table::UNKNOWN_OPTION == 0, is_known, "{kind} {protocol}");
        }
    }
}
