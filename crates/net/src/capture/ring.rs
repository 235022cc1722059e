//! A packet socket with a ring of blocks shared with the kernel (packet(7), TPACKET_V3, packet_mmap.rst). A block is
//! handed over when full or old: no packet wakes the reader.

use super::filter::Instruction;
use super::link::{Head, Link};
use crate::{NetError, sys};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

// Of linux/if_packet.h.
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_TIMESTAMP: libc::c_int = 17;
const TPACKET_V3: libc::c_int = 2;
const STATUS_USER: u32 = 1;
const STATUS_VLAN_VALID: u32 = 1 << 4;
const STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const STATUS_HARDWARE_STAMP: u32 = 1 << 31;
/// Bytes of struct tpacket3_hdr; struct sockaddr_ll follows.
const PACKET_HEAD: usize = 48;
// Of linux/net_tstamp.h.
const STAMP_SOFTWARE: libc::c_int = 1 << 4;
const STAMP_RAW_HARDWARE: libc::c_int = 1 << 6;

/// Bytes of one block. A block holds about a thousand packets cut to 64 bytes of payload.
const BLOCK_BYTES: usize = 1 << 18;
/// Blocks: 32 MiB in all.
const BLOCKS: usize = 128;
/// After so long a block is given over although it has room.
pub(crate) const RETIRE: Duration = Duration::from_millis(60);

#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
    retire_ms: u32,
    private_bytes: u32,
    features: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// To whom a received frame was addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressed {
    /// To one: this host.
    Unicast,
    Multicast,
    Broadcast,
    /// To another host.
    Other,
}

#[derive(Debug, Clone, Copy)]
pub struct CapturedPacket<'a> {
    /// Time in ns since 1970: the system's clock, or the NIC's where `hardware` is set.
    pub time_ns: u64,
    /// The stamp is the NIC's.
    pub hardware: bool,
    pub way: Direction,
    /// To whom, for those that came.
    pub addressed: Addressed,
    /// VLAN tag (protocol and control information) that the kernel took out of the frame.
    pub vlan: Option<(u16, u16)>,
    /// Length on the wire in bytes, without the tag.
    pub sent_bytes: u32,
    /// The frame, cut.
    pub frame: &'a [u8],
}

/// The socket and its ring. Unmapped when dropped.
pub(crate) struct Ring {
    socket: OwnedFd,
    map: *mut u8,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring on one interface with a filter; nothing is captured before the filter is in place. No filter: everything.
    pub(crate) fn open(link: &Link, filter: Option<&[Instruction]>) -> Result<Self, NetError> {
        let kind = match link.head {
            Head::Ethernet => libc::SOCK_RAW,
            Head::Ip => libc::SOCK_DGRAM,
        };
        let failed = |what| move |cause| NetError::Capture { interface: link.name.clone(), what, cause };
        // Protocol 0: deaf until it is bound.
        let socket = sys::socket(libc::AF_PACKET, kind, 0).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => NetError::CaptureNotPermitted,
            _ => failed("making a packet socket")(cause),
        })?;
        let fd = socket.as_raw_fd();
        sys::set_option(fd, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V3).map_err(failed("asking for TPACKET_V3"))?;
        if link.hardware_stamps {
            // Where a packet has no such stamp the kernel's is taken, and the packet says so.
            let stamps = STAMP_RAW_HARDWARE | STAMP_SOFTWARE;
            sys::set_option(fd, libc::SOL_PACKET, PACKET_TIMESTAMP, &stamps)
                .map_err(failed("asking for time stamps"))?;
        }
        if let Some(filter) = filter {
            attach(fd, filter).map_err(failed("setting the filter"))?;
        }
        let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let request = Request {
            block_size: word(BLOCK_BYTES),
            block_count: word(BLOCKS),
            // Only their product counts in this version.
            frame_size: 2048,
            frame_count: word(BLOCK_BYTES / 2048 * BLOCKS),
            retire_ms: word(usize::try_from(RETIRE.as_millis()).unwrap_or(60)),
            private_bytes: 0,
            features: 0,
        };
        sys::set_option(fd, libc::SOL_PACKET, PACKET_RX_RING, &request).map_err(failed("making the ring of 32 MiB"))?;
        // SAFETY: a new mapping at an address of the kernel's choice, as long as the ring that was just made.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BLOCK_BYTES * BLOCKS,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(failed("mapping the ring")(sys::last()));
        }
        let ring = Self { socket, map: map.cast(), next: 0 };
        ring.bind(link.index).map_err(failed("binding the packet socket"))?;
        Ok(ring)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // struct sockaddr_ll: family, protocol in network order, interface; the rest is not looked at.
        let mut address = [0_u8; 20];
        let family = u16::try_from(libc::AF_PACKET).unwrap_or(0).to_ne_bytes();
        let protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or(0).to_be_bytes();
        address[..2].copy_from_slice(&family);
        address[2..4].copy_from_slice(&protocol);
        address[4..8].copy_from_slice(&index.to_ne_bytes());
        sys::bind(self.fd(), &address)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Puts another filter in place of the one before.
    pub(crate) fn filter(&self, filter: &[Instruction]) -> io::Result<()> {
        attach(self.fd(), filter)
    }

    /// Packets that passed the filter, and those of them that found no room, since this was last asked.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let mut words = [0; 3];
        match sys::get_option(self.fd(), libc::SOL_PACKET, PACKET_STATISTICS, &mut words) {
            Ok(count) if count >= 2 => (u64::from(words[0]), u64::from(words[1])),
            _ => (0, 0),
        }
    }

    /// Gives the packets of the ready blocks to `take`, in order, and returns the blocks; whether there were any.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(CapturedPacket<'_>)) -> bool {
        let mut any = false;
        // At most once around, so that a flood does not keep the caller here.
        for _ in 0..BLOCKS {
            let start = self.next * BLOCK_BYTES;
            // SAFETY: the block lies within the mapping of `self`; its aligned status word is only accessed atomically.
            let status = unsafe { AtomicU32::from_ptr(self.map.add(start + 8).cast::<u32>()) };
            if status.load(Ordering::Acquire) & STATUS_USER == 0 {
                break;
            }
            any = true;
            // SAFETY: the block lies within the mapping. While its status says that it is ours the kernel does not
            // write to it; behind the status word nothing is written by us, and the slice ends before it is given back.
            let block = unsafe { std::slice::from_raw_parts(self.map.add(start + 12), BLOCK_BYTES - 12) };
            packets(block, take);
            status.store(0, Ordering::Release);
            self.next = (self.next + 1) % BLOCKS;
        }
        any
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `open` made, and no reference into it outlives `drain`.
        unsafe {
            libc::munmap(self.map.cast(), BLOCK_BYTES * BLOCKS);
        }
    }
}

fn attach(fd: RawFd, filter: &[Instruction]) -> io::Result<()> {
    let too_long = || io::Error::from_raw_os_error(libc::E2BIG);
    let program =
        Program { length: u16::try_from(filter.len()).map_err(|_| too_long())?, instructions: filter.as_ptr() };
    // The kernel copies the instructions during the call.
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// The packets of one block, without its first 12 bytes (version, offset, status).
fn packets(block: &[u8], take: &mut dyn FnMut(CapturedPacket<'_>)) {
    const GONE: usize = 12;
    let word = |bytes: &[u8], at: usize| -> Option<u32> { Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)) };
    let half = |bytes: &[u8], at: usize| -> Option<u16> { Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)) };
    let count = word(block, 12 - GONE).unwrap_or(0);
    let mut at = word(block, 16 - GONE).unwrap_or(0) as usize;
    for _ in 0..count {
        let Some(packet) = at.checked_sub(GONE).and_then(|at| block.get(at..)) else { return };
        let one = || -> Option<CapturedPacket<'_>> {
            let status = word(packet, 20)?;
            let kept = word(packet, 12)? as usize;
            let start = usize::from(half(packet, 24)?);
            let frame = packet.get(start..start.checked_add(kept)?)?;
            let vlan = (status & STATUS_VLAN_VALID != 0).then_some(()).and_then(|()| {
                let kind = if status & STATUS_VLAN_TPID_VALID != 0 { half(packet, 36)? } else { 0x8100 };
                Some((kind, u16::try_from(word(packet, 32)? & 0xffff).ok()?))
            });
            let (way, addressed) = match packet.get(PACKET_HEAD + 10)? {
                4 => (Direction::Out, Addressed::Unicast),
                1 => (Direction::In, Addressed::Broadcast),
                2 => (Direction::In, Addressed::Multicast),
                3 => (Direction::In, Addressed::Other),
                _ => (Direction::In, Addressed::Unicast),
            };
            Some(CapturedPacket {
                time_ns: u64::from(word(packet, 4)?) * 1_000_000_000 + u64::from(word(packet, 8)?),
                hardware: status & STATUS_HARDWARE_STAMP != 0,
                way,
                addressed,
                vlan,
                sent_bytes: word(packet, 16)?,
                frame,
            })
        };
        if let Some(taken) = one() {
            take(taken);
        }
        match word(packet, 0) {
            Some(distance) if distance > 0 => at += distance as usize,
            _ => return,
        }
    }
}
