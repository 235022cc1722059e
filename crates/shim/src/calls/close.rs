//! Calls that copy and close descriptors.

use crate::table::{self, OWN, TABLE};
use crate::{descriptor, errno, kernel, page, real, thread, user};
use libc::{c_int, c_uint};

pub(super) fn duplicate(old: c_int, new: c_int) {
    // One that is on the stack is not closed meanwhile.
    let _locked = table::entry(old).and_then(table::Entry::on_stack).map(|_| user::lock());
    table::show(new, &TABLE.duplicate(old, new));
}

fn closing(fd: c_int) {
    let Some(entry) = table::entry(fd).filter(|entry| entry.flags() != 0) else { return };
    // A child of vfork shares this memory, not the descriptors: what it closes stays open here.
    if !page::is_own_process() {
        return;
    }
    if !entry.has_any(OWN) {
        user::closed(fd, entry);
    }
    if entry.visitors.is_visited() && !thread::visits(entry) {
        descriptor::leave_heir(fd, entry);
    }
    table::forget(entry);
}

exports! {
    pub(super) fn close(fd: c_int) -> c_int {
        if table::entry(fd).is_some_and(|entry| entry.has_any(OWN)) && !thread::is_in_stack() {
            // Programs close all numbers that there may be.
            errno::set(libc::EBADF);
            return -1;
        }
        closing(fd);
        real::close.get()(fd)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        let real = |first, last| real::close_range.get()(first, last, flags);
        let only_marks = flags & libc::CLOSE_RANGE_CLOEXEC.cast_signed() != 0;
        if only_marks || first > last || !page::is_own_process() {
            return real(first, last);
        }
        // What the kernel refuses closes nothing. No descriptor has the highest number.
        if real(c_uint::MAX, c_uint::MAX) != 0 {
            return -1;
        }
        between_own(first, last, real)
    }

    fn closefrom(first: c_int) {
        if !page::is_own_process() {
            return real::closefrom.get()(first);
        }
        between_own(u32::try_from(first).unwrap_or(0), c_uint::MAX, |first, last| {
            if last == c_uint::MAX {
                real::closefrom.get()(first.cast_signed());
            } else {
                (first..=last).for_each(|fd| _ = real::close.get()(fd.cast_signed()));
            }
            0
        });
    }

    fn dup(fd: c_int) -> c_int {
        let new = real::dup.get()(fd);
        duplicate(fd, new);
        new
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        replace(fd, to, || real::dup2.get()(fd, to))
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        replace(fd, to, || real::dup3.get()(fd, to, flags))
    }
}

/// Closes a range, less what is this library's own in it.
fn between_own(first: c_uint, last: c_uint, close: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    TABLE.closing(first, last).for_each(closing);
    let mut from = first;
    for own in TABLE.own(first, last) {
        if own > from && close(from, own - 1) != 0 {
            return -1;
        }
        from = own + 1;
    }
    if from <= last { close(from, last) } else { 0 }
}

/// A copy that takes the place of another descriptor.
fn replace(fd: c_int, to: c_int, real: impl FnOnce() -> c_int) -> c_int {
    if fd != to && kernel::fcntl(fd, libc::F_GETFD, 0) >= 0 {
        closing(to);
    }
    let new = real();
    if page::is_own_process() {
        duplicate(fd, new);
    }
    new
}
