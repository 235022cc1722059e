//! The table of this process' descriptors ([`Table`]), and the records of its sockets in the status page.

use crate::page;
use bypass_abi::page::Reason;
pub(crate) use descriptors::table::{
    CANDIDATE, EPOLL, Entry, INSTANCE, IPV6, LEFT, LISTENS, NONBLOCK, ON_STACK, OWN, PARTIAL, SHARED, SOCKET, STREAM,
    Shown, Table, UNKNOWN_OPTION, USED,
};
use libc::c_int;

/// Descriptors that have an entry.
const SIZE: usize = 1 << 16;

pub(crate) static TABLE: Table<SIZE> = Table::new();

#[inline(always)]
pub(crate) fn entry(fd: c_int) -> Option<&'static Entry> {
    TABLE.entry(fd)
}

#[inline(always)]
pub(crate) fn socket(fd: c_int) -> Option<&'static Entry> {
    TABLE.socket(fd)
}

pub(crate) fn open(fd: c_int, flags: u32) {
    show(fd, &TABLE.open(fd, flags));
}

pub(crate) fn show(fd: c_int, shown: &Shown<'_>) {
    if shown.is_too_large {
        page::fall_back(None, Reason::LargeDescriptor);
    }
    if let Some(record) = shown.free {
        page::unlist(record);
    }
    if let Some(entry) = shown.list {
        list(fd, entry);
    }
}

pub(crate) fn list(fd: c_int, entry: &Entry) {
    entry.set_record(page::list(fd, entry.flags()));
}

pub(crate) fn forget(entry: &Entry) {
    if let Some(record) = entry.forget() {
        page::unlist(record);
    }
}

pub(crate) fn add_to_epoll(fd: c_int) {
    show(fd, &TABLE.add_to_epoll(fd));
}

/// Notes a connection that a listening socket gave.
pub(crate) fn accepted(listening: c_int, fd: c_int, flags: c_int) {
    // What listens is unknown, or not of the internet; what came out of it has a number that may have been a socket's.
    let kept = socket(listening).map_or(0, |from| from.flags() & (SOCKET | STREAM | IPV6 | PARTIAL));
    let nonblocking = if kept != 0 && flags & libc::SOCK_NONBLOCK != 0 { NONBLOCK } else { 0 };
    open(fd, kept | nonblocking);
}
