//! bpf(2): maps, programs and links, by the raw call (include/uapi/linux/bpf.h).

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_MAP_DELETE_ELEM: i32 = 3;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_NO_PREALLOC: u32 = 1;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// The largest attribute that is used here: that of BPF_PROG_LOAD.
const ATTRIBUTE_BYTES: usize = 128;

#[derive(Debug, Clone, Copy)]
pub(crate) enum MapKind {
    /// Keys are found by their hash.
    Hash,
    /// The same; its values take memory when they are put in.
    SparseHash,
    /// Numbered values in memory that can be mapped.
    MappedArray,
    /// AF_XDP sockets by queue.
    Xsks,
}

/// One eBPF instruction (Documentation/bpf/standardization/instruction-set.rst).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u8,
    /// Destination register in the lower, source register in the upper four bits.
    pub registers: u8,
    /// Offset of a jump in instructions, or of memory in bytes.
    pub offset: i16,
    pub constant: i32,
}

/// The attribute of a call: fields at the offsets of `union bpf_attr`. Pointers in it must live through the call.
struct Attribute([u8; ATTRIBUTE_BYTES]);

impl Attribute {
    fn new() -> Self {
        Self([0; ATTRIBUTE_BYTES])
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn fd(self, at: usize, fd: &OwnedFd) -> Self {
        self.u32(at, fd.as_raw_fd().cast_unsigned())
    }

    fn pointer(mut self, at: usize, pointer: *const u8) -> Self {
        self.0[at..at + 8].copy_from_slice(&(pointer.addr() as u64).to_ne_bytes());
        self
    }

    fn call(self, command: i32) -> io::Result<i64> {
        let aligned = Aligned(self.0);
        // SAFETY: the kernel reads the attribute, and reads or writes through the pointers that the callers of this module
        // put in: each points to memory that they hold through the call and that is as long as in the command's definition.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const aligned, ATTRIBUTE_BYTES) };
        if done >= 0 { Ok(done) } else { Err(io::Error::last_os_error()) }
    }
}

#[repr(C, align(8))]
struct Aligned([u8; ATTRIBUTE_BYTES]);

pub(crate) fn map(kind: MapKind, key_bytes: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let (number, flags) = match kind {
        MapKind::Hash => (1, 0),
        MapKind::SparseHash => (1, BPF_F_NO_PREALLOC),
        MapKind::MappedArray => (2, BPF_F_MMAPABLE),
        MapKind::Xsks => (17, 0),
    };
    let made = Attribute::new().u32(0, number).u32(4, key_bytes).u32(8, value_bytes).u32(12, entries).u32(16, flags);
    sys::own(made.call(BPF_MAP_CREATE)?)
}

/// Puts a value into a map. Key and value have the lengths that the map was made with.
pub(crate) fn insert(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let attribute = Attribute::new().fd(0, map).pointer(8, key.as_ptr()).pointer(16, value.as_ptr());
    attribute.call(BPF_MAP_UPDATE_ELEM).map(|_| ())
}

pub(crate) fn remove(map: &OwnedFd, key: &[u8]) -> io::Result<()> {
    Attribute::new().fd(0, map).pointer(8, key.as_ptr()).call(BPF_MAP_DELETE_ELEM).map(|_| ())
}

/// Loads an XDP program. `frags`: it also takes frames that are longer than a page.
pub(crate) fn load(program: &[Instruction], frags: bool) -> io::Result<OwnedFd> {
    let length = u32::try_from(program.len()).unwrap_or(u32::MAX);
    let attribute = Attribute::new()
        .u32(0, BPF_PROG_TYPE_XDP)
        .u32(4, length)
        .pointer(8, program.as_ptr().cast::<u8>())
        .pointer(16, c"MIT".as_ptr().cast::<u8>())
        .u32(44, if frags { BPF_F_XDP_HAS_FRAGS } else { 0 });
    sys::own(attribute.call(BPF_PROG_LOAD)?)
}

/// Attaches a program to an interface until the returned descriptor, and every copy of it, is closed.
pub(crate) fn attach(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let attribute = Attribute::new().fd(0, program).u32(4, interface).u32(8, BPF_XDP).u32(12, flags);
    sys::own(attribute.call(BPF_LINK_CREATE)?)
}
