//! The process' status page: counters in memory, mapped from a file once it has a socket ([`bypass_abi::page`]).

use crate::{errno, real, settings};
use bypass_abi::page::{self, Kind, Outcome, Reason, at_kind, at_socket};
use descriptors::table::{Entry, IPV6, NONBLOCK, STREAM};
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use xsk::program::address_key;

type Words = [AtomicU64; page::WORDS];

/// Where the counters are while there is no file.
static LOCAL: Words = [const { AtomicU64::new(0) }; page::WORDS];
static WORDS: AtomicPtr<Words> = AtomicPtr::new((&raw const LOCAL).cast_mut());
/// The page of the process that forked this one, where it has a file.
static PARENTS: AtomicPtr<Words> = AtomicPtr::new(std::ptr::null_mut());
/// This process, as far as it came here by fork: a child of vfork still sees its parent's.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static MADE: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn words() -> &'static Words {
    // SAFETY: LOCAL, or a mapping of this size that is never removed.
    unsafe { &*WORDS.load(Acquire) }
}

fn add(at: usize, count: u64) {
    if let Some(word) = words().get(at) {
        word.fetch_add(count, Relaxed);
    }
}

/// The first word of a socket's record.
fn state_of(entry: &Entry) -> Option<&'static AtomicU64> {
    words().get(at_socket(entry.record()?))
}

#[inline(always)]
pub(crate) fn count(kind: Kind, entry: Option<&Entry>, outcome: Outcome, times: u64) {
    add(at_kind(kind, outcome), times);
    if let Some(record) = entry.and_then(Entry::record) {
        add(at_socket(record) + 1 + outcome as usize, times);
    }
}

/// Notes why a socket or call was left to the kernel; ends the process if that fails required acceleration.
#[cold]
pub(crate) fn fall_back(entry: Option<&Entry>, reason: Reason) {
    add(page::AT_REASONS + reason as usize, 1);
    if let Some(word) = entry.and_then(state_of) {
        let mask = (1_u64 << page::REASON_SHIFT) - 1;
        let state = word.load(Relaxed) & mask;
        word.store(state | (reason as u64 + 1) << page::REASON_SHIFT, Relaxed);
    }
    if reason.is_failure() && settings::requires() {
        end(reason);
    }
}

/// Notes that a connection of the stack was left behind in another process: in its page, too, where this one has it by a fork.
#[cold]
pub(crate) fn left_behind(entry: &Entry, reason: Reason) {
    let parents = PARENTS.load(Acquire);
    if !parents.is_null() {
        // SAFETY: a mapping of this size that is never removed.
        let word = unsafe { (*parents).get(page::AT_REASONS + reason as usize) };
        word.inspect(|word| _ = word.fetch_add(1, Relaxed));
    }
    handed_over(entry, reason);
}

/// Notes that the kernel has a socket of the stack from now on.
#[cold]
pub(crate) fn handed_over(entry: &Entry, reason: Reason) {
    if settings::is_verbose() {
        say(&["windhover: not accelerated, because ", reason.what(), "\n"]);
    }
    fall_back(Some(entry), reason);
}

fn say(parts: &[&str]) {
    for part in parts {
        // SAFETY: writes the bytes of the text.
        unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, part.as_ptr(), part.len()) };
    }
}

/// Notes that a socket is accelerated again.
pub(crate) fn accelerated(entry: &Entry) {
    if let Some(word) = state_of(entry) {
        word.fetch_and((1 << page::REASON_SHIFT) - 1, Relaxed);
    }
}

/// Ends the process, as `--require` asks for.
fn end(reason: Reason) -> ! {
    /// As windhover's own failures beside a program (env(1)).
    const OURS: c_int = 125;
    say(&["windhover: a socket is not accelerated, and --require was given: ", reason.what(), "\n"]);
    // SAFETY: takes a number.
    unsafe { libc::_exit(OURS) }
}

pub(crate) fn list(fd: c_int, flags: u32) -> Option<usize> {
    make();
    let mut state = u64::from(fd.unsigned_abs()) + 1;
    for (flag, bit) in [(STREAM, page::STREAM), (IPV6, page::IPV6)] {
        if flags & flag != 0 {
            state |= bit;
        }
    }
    if flags & NONBLOCK != 0 {
        state |= (Reason::NonBlocking as u64 + 1) << page::REASON_SHIFT;
    }
    let words = words();
    for record in 0..page::SOCKETS {
        let word = words.get(at_socket(record))?;
        if word.load(Relaxed) == 0 && word.compare_exchange(0, state, Relaxed, Relaxed).is_ok() {
            let counters = words.get(at_socket(record) + 1..at_socket(record + 1))?;
            counters.iter().for_each(|counter| counter.store(0, Relaxed));
            return Some(record);
        }
    }
    add(page::AT_UNLISTED, 1);
    None
}

pub(crate) fn unlist(record: usize) {
    if let Some(word) = words().get(at_socket(record)) {
        word.store(0, Relaxed);
    }
}

/// Notes that a socket is on the stack in this process.
pub(crate) fn on_stack(entry: &Entry) {
    accelerated(entry);
    if let Some(word) = state_of(entry) {
        word.fetch_or(page::ON_STACK, Relaxed);
    }
}

/// Notes that the kernel has a socket again.
pub(crate) fn off_stack(entry: &Entry) {
    if let Some(word) = state_of(entry) {
        word.fetch_and(!page::ON_STACK, Relaxed);
    }
}

/// Says why the interface cannot be used, once.
#[cold]
pub(crate) fn refused(why: &str) {
    say(&["windhover: not accelerated, because ", why, "\n"]);
}

fn show(at: usize, value: u64) {
    if let Some(word) = words().get(at) {
        word.store(value, Relaxed);
    }
}

fn show_bytes(at: usize, bytes: [u8; 16]) {
    for (word, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        show(at + word, u64::from_ne_bytes(*eight));
    }
}

/// The first 15 bytes of a name; the last of the 16 bytes stays 0.
fn short_name(name: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().zip(name.iter().take(15)).for_each(|(slot, byte)| *slot = *byte);
    short
}

pub(crate) fn show_engine(engine: &mut user_stack::Engine) {
    show_bytes(page::AT_ENGINE, short_name(engine.interface().name.as_bytes()));
    let backend = xsk::Backend::ALL.iter().position(|one| *one == engine.backend()).map_or(0, |at| at as u64 + 1);
    let counted = engine.counters();
    let all = [backend, counted.received, counted.sent, counted.dropped, counted.ring_full];
    all.into_iter().enumerate().for_each(|(at, value)| show(page::AT_ENGINE + 2 + at, value));
}

pub(crate) fn show_connection(
    record: usize,
    state: u8,
    ends: Option<(std::net::SocketAddr, std::net::SocketAddr)>,
    info: &stack::TcpInfo,
) {
    let at = at_socket(record);
    show(at + page::SOCKET_TCP, u64::from(state));
    show(at + page::SOCKET_UNSENT, u64::from(info.unacknowledged) + u64::from(info.unsent));
    show(at + page::SOCKET_UNREAD, u64::from(info.unread));
    show(at + page::SOCKET_RETRANSMITS, info.retransmits);
    show(at + page::SOCKET_ROUND_TRIP, info.round_trip_ns);
    show(at + page::SOCKET_NUMBER, 1 << 32 | u64::from(info.first_unacknowledged));
    let Some((local, remote)) = ends else { return };
    for (place, end) in [local, remote].into_iter().enumerate() {
        show_bytes(at + page::SOCKET_ENDS + place * 2, address_key(end.ip()));
    }
    show(at + page::SOCKET_ENDS + 4, u64::from(local.port()) << 16 | u64::from(remote.port()));
}

/// The capture that another process asks for; 0: none.
pub(crate) fn asked_capture() -> u64 {
    words().get(page::AT_CAPTURE).map_or(0, |word| word.load(Relaxed))
}

/// Shows which capture gets the frames, where no other one is asked for.
pub(crate) fn show_capture(request: u64) {
    if let Some(word) = words().get(page::AT_CAPTURE) {
        let _ = word.compare_exchange(0, request, Relaxed, Relaxed);
    }
}

/// Shows that a capture is over, or the error number with which it was refused.
pub(crate) fn end_capture(request: u64, refused: c_int) {
    show(page::AT_CAPTURE_REFUSED, u64::from(refused.unsigned_abs()));
    if let Some(word) = words().get(page::AT_CAPTURE) {
        let _ = word.compare_exchange(request, 0, Release, Relaxed);
    }
}

pub(crate) fn busy_polled(entry: &Entry) {
    if let Some(word) = state_of(entry) {
        word.fetch_or(page::BUSY_POLLED, Relaxed);
    }
}

/// Whether this memory belongs to the calling process alone. A child of vfork borrows its parent's.
pub(crate) fn is_own_process() -> bool {
    PROCESS.load(Relaxed) == process()
}

fn process() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::getpid() }.unsigned_abs()
}

pub(crate) fn init() {
    PROCESS.store(process(), Relaxed);
}

/// In a child after fork: counts for itself.
pub(crate) fn forked() {
    PROCESS.store(process(), Relaxed);
    LOCAL.iter().for_each(|word| word.store(0, Relaxed));
    // The parent's file stays mapped: the child may be about to run another program.
    let parents = WORDS.swap((&raw const LOCAL).cast_mut(), AcqRel);
    let is_file = !std::ptr::eq(parents, &raw const LOCAL);
    PARENTS.store(if is_file { parents } else { std::ptr::null_mut() }, Release);
    MADE.store(false, Relaxed);
}

/// Makes the file, once a process.
fn make() {
    if MADE.swap(true, Relaxed) {
        return;
    }
    describe();
    let errno = errno::get();
    let mut path = [0; PATH];
    if let Some(path) = path_of_page(&mut path)
        && let Some(file) = open_new(path)
    {
        let is_mapped = map(file);
        // SAFETY: opened above, its number is used nowhere else; the path ends with NUL.
        unsafe {
            real::close.get()(file);
            if !is_mapped {
                libc::unlink(path.as_ptr());
            }
        }
    }
    errno::set(errno);
}

/// At the end of a process: removes its file.
pub(crate) fn remove() {
    let is_mapped = !std::ptr::eq(WORDS.load(Relaxed), &raw const LOCAL);
    let mut path = [0; PATH];
    if is_mapped
        && is_own_process()
        && let Some(path) = path_of_page(&mut path)
    {
        // Whoever has it open knows by this that the process was not killed.
        show(page::AT_MAGIC, 0);
        // SAFETY: the path ends with NUL.
        unsafe { libc::unlink(path.as_ptr()) };
    }
}

/// Longest path of a page, in bytes.
const PATH: usize = 512;

/// `FOLDER/PID`, where pages are asked for.
fn path_of_page(buffer: &mut [u8; PATH]) -> Option<&CStr> {
    let mut end = 0;
    let mut push = |byte: u8| -> Option<()> {
        *buffer.get_mut(end)? = byte;
        end += 1;
        Some(())
    };
    settings::folder().next()?;
    for byte in settings::folder() {
        push(byte)?;
    }
    push(b'/')?;
    let mut digits = [0; 10];
    let mut rest = PROCESS.load(Relaxed);
    for digit in &mut digits {
        *digit = b'0' + u8::try_from(rest % 10).ok()?;
        rest /= 10;
    }
    for digit in digits.iter().rev().skip_while(|digit| **digit == b'0') {
        push(*digit)?;
    }
    push(0)?;
    CStr::from_bytes_with_nul(buffer.get(..end)?).ok()
}

fn open_new(path: &CStr) -> Option<c_int> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    for _ in 0..2 {
        // SAFETY: the path ends with NUL.
        let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
        if file >= 0 {
            return Some(file);
        }
        if errno::get() != libc::EEXIST {
            return None;
        }
        // Of the program that this process was before, or of a dead one with the same number.
        // SAFETY: the path ends with NUL.
        unsafe { libc::unlink(path.as_ptr()) };
    }
    None
}

/// Moves the counters to the file, and tells whether it did. On a full disk they stay where they are.
fn map(file: c_int) -> bool {
    let Ok(length) = libc::off_t::try_from(page::BYTES) else { return false };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, of a file that is as long as the mapping.
    let mapped = unsafe {
        // A file with holes would end the program (SIGBUS) at its first write to a page for which there is no room.
        if libc::posix_fallocate(file, 0, length) != 0 {
            return false;
        }
        libc::mmap(std::ptr::null_mut(), page::BYTES, protection, libc::MAP_SHARED, file, 0)
    };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: mapped above, page-aligned, of this size, zeroed, and never unmapped.
    let new = unsafe { &*mapped.cast::<Words>() };
    for (to, from) in new.iter().zip(&LOCAL).skip(1) {
        to.store(from.load(Relaxed), Relaxed);
    }
    WORDS.store(mapped.cast(), Release);
    if let Some(magic) = new.get(page::AT_MAGIC) {
        magic.store(page::MAGIC, Release);
    }
    true
}

/// Writes who this process is. Called while the counters are still in memory.
fn describe() {
    show(page::AT_VERSION, page::VERSION);
    show(page::AT_PID, u64::from(process()));
    show(page::AT_STARTED, started().unwrap_or(0));
    show_bytes(page::AT_NAME, short_name(program()));
    for (at, value) in settings::values().iter().enumerate() {
        show(page::AT_SETTINGS + at, *value);
    }
}

/// Name of the file that was executed. It was the process' name then; threads, also the first, may have got others.
fn program() -> &'static [u8] {
    // SAFETY: takes a number only.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if path.is_null() {
        return b"?";
    }
    // SAFETY: a string that the kernel has put above the stack, for as long as the program runs.
    let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// When this process started: field 22 of /proc/self/stat.
fn started() -> Option<u64> {
    let mut text = [0_u8; 1024];
    // SAFETY: opens, reads no more than the buffer holds, closes.
    let length = unsafe {
        let file = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = real::read.get()(file, text.as_mut_ptr().cast(), text.len());
        real::close.get()(file);
        usize::try_from(length).ok()?
    };
    let text = text.get(..length)?;
    // The name, field 2, is in parentheses and may hold any byte.
    let after = text.iter().rposition(|byte| *byte == b')')?;
    let field = text.get(after + 2..)?.split(|byte| *byte == b' ').nth(19)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}
