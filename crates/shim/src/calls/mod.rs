//! The calls in front of which this library stands, by what they do. Each does what the C library's does, by calling it.

mod descriptors;
mod establish;
mod names;
mod poll;
mod processes;
mod receive;
mod select;
mod send;
mod stdio;

pub(crate) use descriptors::accepted;
pub(crate) use poll::to_timespec;
pub(crate) use receive::timeout_ns;
pub(crate) use stdio::{Functions, flush};

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
                    descriptors::inherited(fd);
                }
            });
        }
        crate::real::close.get()(folder);
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
