//! AF_PACKET with a receive ring (TPACKET_V2: each frame is handed over by itself, at once) and plain sends past the
//! queueing discipline.
//!
//! The kernel's own stack sees the frames as well. Whoever uses this keeps the kernel's sockets on the served ports quiet.

use crate::error::refused;
use crate::sys::{self, Mapping};
use crate::{Backend, Interface, PortCounters, Protocol, XskError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a place in the ring: room for a TCP segment before segmentation.
const SLOT_BYTES: usize = 1 << 16;
/// Places in the ring, 16 MiB in all; only what frames fill is touched.
const SLOTS: usize = 256;
/// Places in a block, which the kernel allocates as a whole.
const SLOTS_A_BLOCK: usize = 4;
/// The most ports that are served: a jump of classic BPF reaches over 255 instructions.
const MOST_SERVED: usize = 200;
const TPACKET_V2: libc::c_int = 1;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// struct tpacket_req.
#[repr(C)]
#[derive(Clone, Copy)]
struct RingRequest {
    block_bytes: u32,
    blocks: u32,
    slot_bytes: u32,
    slots: u32,
}

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PacketPort {
    fd: OwnedFd,
    ring: Mapping,
    next: usize,
    served: Vec<(Protocol, u16)>,
    frame: Vec<u8>,
    /// Bytes of `frame` that the kernel has not taken yet.
    unsent: usize,
    interface: String,
    counters: PortCounters,
}

impl PacketPort {
    pub(crate) fn open(interface: &Interface) -> Result<Self, XskError> {
        let name = &interface.name;
        let step = |what| {
            move |cause: io::Error| match cause.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    XskError::NotPermitted { interface: name.clone(), what, capabilities: "CAP_NET_RAW" }
                }
                _ => XskError::Step { interface: name.clone(), what, cause },
            }
        };
        // Protocol 0: deaf until it is bound.
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(step("making a packet socket"))?;
        let raw = fd.as_raw_fd();
        let set = |option, value: libc::c_int| {
            sys::set_option(raw, libc::SOL_PACKET, option, &value).map_err(step("setting up a packet socket"))
        };
        set(libc::PACKET_VERSION, TPACKET_V2)?;
        set(PACKET_IGNORE_OUTGOING, 1)?;
        set(libc::PACKET_QDISC_BYPASS, 1)?;
        attach_filter(raw, &[]).map_err(step("setting the filter"))?;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let request = RingRequest {
            block_bytes: number(SLOT_BYTES * SLOTS_A_BLOCK),
            blocks: number(SLOTS / SLOTS_A_BLOCK),
            slot_bytes: number(SLOT_BYTES),
            slots: number(SLOTS),
        };
        sys::set_option(raw, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(step("making the receive ring"))?;
        let ring = Mapping::new(Some(raw), SLOT_BYTES * SLOTS, 0).map_err(step("mapping the receive ring"))?;
        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).unwrap_or(0),
            sll_protocol: u16::try_from(libc::ETH_P_ALL).unwrap_or(0).to_be(),
            sll_ifindex: libc::c_int::try_from(interface.index).unwrap_or(0),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        sys::bind(raw, &address).map_err(step("binding a packet socket"))?;
        let frame = vec![0; usize::try_from(interface.mtu).unwrap_or(SLOT_BYTES).min(SLOT_BYTES) + 14];
        let (interface, counters) = (name.clone(), PortCounters::default());
        Ok(Self { fd, ring, next: 0, served: Vec::new(), frame, unsent: 0, interface, counters })
    }

    pub(crate) fn set_served(&mut self, protocol: Protocol, port: u16, on: bool) -> Result<(), XskError> {
        let mut served = self.served.clone();
        served.retain(|served| *served != (protocol, port));
        if on {
            if served.len() == MOST_SERVED {
                return Err(XskError::TooManyPorts { interface: self.interface.clone(), most: MOST_SERVED });
            }
            served.push((protocol, port));
        }
        attach_filter(self.fd.as_raw_fd(), &served)
            .map_err(|cause| refused(&self.interface, "setting the filter of served ports", cause))?;
        self.served = served;
        Ok(())
    }

    #[inline]
    pub(crate) fn receive(&mut self, budget: usize, mut take: impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < budget {
            let slot = self.ring.at(self.next * SLOT_BYTES, SLOT_BYTES);
            #[expect(clippy::cast_ptr_alignment, reason = "slots begin at multiples of their size")]
            // SAFETY: the slot is inside the mapping; its first word is the status, which both sides access atomically.
            let status = unsafe { &*slot.cast::<AtomicU32>() };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            #[expect(clippy::cast_ptr_alignment, reason = "slots begin at multiples of their size")]
            // SAFETY: the slot begins with a header of this type, and it is this process's while the status is TP_STATUS_USER.
            let head = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
            let (from, length) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
            let fits = from <= SLOT_BYTES && length <= SLOT_BYTES - from;
            if fits && head.tp_snaplen == head.tp_len {
                // SAFETY: the range is inside the slot, which is this process's until the status is written.
                take(unsafe { std::slice::from_raw_parts(slot.add(from), length) });
                self.counters.received += 1;
            } else {
                self.counters.dropped += 1;
            }
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % SLOTS;
            taken += 1;
        }
        taken
    }

    #[inline]
    pub(crate) fn transmit(&mut self, mut build: impl FnMut(&mut [u8]) -> Option<usize>) -> usize {
        let mut built = 0;
        loop {
            if self.unsent == 0 {
                let Some(length) = build(&mut self.frame) else { return built };
                self.unsent = length.min(self.frame.len());
                built += 1;
            }
            match sys::send(self.fd.as_raw_fd(), &self.frame[..self.unsent]) {
                Err(libc::EAGAIN | libc::ENOBUFS) => {
                    self.counters.refused_wakeups += 1;
                    return built;
                }
                Err(_) => self.counters.dropped += 1,
                Ok(()) => self.counters.sent += 1,
            }
            self.unsent = 0;
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        vec![self.fd.as_raw_fd()]
    }

    pub(crate) fn all_descriptors(&self) -> Vec<RawFd> {
        self.descriptors()
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::Packet
    }

    pub(crate) fn counters(&mut self) -> PortCounters {
        // Reading resets the kernel's figure: it is the number since the last time.
        if let Ok([_, dropped]) =
            sys::get_option::<[u32; 2]>(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS)
        {
            self.counters.ring_full += u64::from(dropped);
        }
        self.counters
    }
}

/// Lets through only unicast frames to served ports: classic BPF, the instructions of linux/bpf_common.h.
fn attach_filter(fd: RawFd, served: &[(Protocol, u16)]) -> io::Result<()> {
    let mut code = filter(served);
    let program = libc::sock_fprog { len: u16::try_from(code.len()).unwrap_or(0), filter: code.as_mut_ptr() };
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn filter(served: &[(Protocol, u16)]) -> Vec<libc::sock_filter> {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_KEPT: u16 = 0x60;
    const KEEP: u16 = 0x02;
    const TO_X: u16 = 0x07;
    const SHIFT_LEFT: u16 = 0x64;
    const OR_X: u16 = 0x4c;
    const JUMP: u16 = 0x05;
    const JUMP_EQUAL: u16 = 0x15;
    const JUMP_BITS: u16 = 0x45;
    const RETURN: u16 = 0x06;
    /// What the kernel knows of a packet, not a byte of it: whether it is for this host (SKF_AD_OFF + SKF_AD_PKTTYPE).
    const PACKET_TYPE: u32 = 0xffff_f004;
    let listed = u8::try_from(served.len()).unwrap_or(0);
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // `to_drop` of instruction `at`: the drop is the last but one, the acceptance the last.
    let drop_at = 21 + listed;
    let to_drop = |at: u8| drop_at - at - 1;
    let mut code = vec![
        op(LOAD_WORD, 0, 0, PACKET_TYPE),
        op(JUMP_EQUAL, 0, to_drop(1), 0),
        op(LOAD_HALF, 0, 0, 12),
        op(JUMP_EQUAL, 0, 8, 0x0800),
        // IPv4: no options, no fragment.
        op(LOAD_BYTE, 0, 0, 14),
        op(JUMP_EQUAL, 0, to_drop(5), 0x45),
        op(LOAD_HALF, 0, 0, 20),
        op(JUMP_BITS, to_drop(7), 0, 0x3fff),
        op(LOAD_BYTE, 0, 0, 23),
        op(KEEP, 0, 0, 0),
        op(LOAD_HALF, 0, 0, 36),
        op(JUMP, 0, 0, 5),
        op(JUMP_EQUAL, 0, to_drop(12), 0x86dd),
        op(LOAD_BYTE, 0, 0, 20),
        op(KEEP, 0, 0, 0),
        op(LOAD_HALF, 0, 0, 56),
        op(JUMP, 0, 0, 0),
        // Protocol and port in one word.
        op(TO_X, 0, 0, 0),
        op(LOAD_KEPT, 0, 0, 0),
        op(SHIFT_LEFT, 0, 0, 16),
        op(OR_X, 0, 0, 0),
    ];
    for (number, (protocol, port)) in (0_u8..).zip(served) {
        let protocol: u32 = match protocol {
            Protocol::Udp => 17,
            Protocol::Tcp => 6,
        };
        // To the acceptance: past the rest of the list and the drop.
        code.push(op(JUMP_EQUAL, listed - number, 0, protocol << 16 | u32::from(*port)));
    }
    code.push(op(RETURN, 0, 0, 0));
    code.push(op(RETURN, 0, 0, u32::MAX));
    code
}
