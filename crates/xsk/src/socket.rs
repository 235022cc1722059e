//! AF_XDP: one socket for each receive queue, each with its own memory for frames, and the program that feeds them.

use crate::error::refused;
use crate::filter::Filter;
use crate::program;
use crate::rings::Ring;
use crate::sys::{self, Mapping};
use crate::{Backend, Interface, PortCounters, XskError, bpf};
use libc::xdp_desc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Bytes of one frame's memory: a page, the largest that AF_XDP takes without huge pages.
const CHUNK: u32 = 4096;
const CHUNK_BYTES: usize = CHUNK as usize;
/// What the kernel keeps free before a received frame (XDP_PACKET_HEADROOM).
const HEADROOM_BYTES: u32 = 256;
/// The longest IP packet that fits into one frame of AF_XDP, with an Ethernet header and a VLAN tag.
pub const LONGEST_PACKET: u32 = CHUNK - HEADROOM_BYTES - 18;
/// Entries of each ring. As many frames are for sending.
const RING_ENTRIES: u32 = 1024;
/// Frames for receiving. The kernel uses them in turn, so all of them pass through the caches: with 1,024 a hop of 32 bytes over
/// veth took 40 to 150 ns longer than with 256; with 64 no less.
const RECEIVE_FRAMES: u32 = 256;
/// Wake-ups in a row at most; in copy mode the kernel sends TX_BATCH_SIZE frames at each.
const WAKEUPS_A_BATCH: u32 = 8;
/// The longest frame put together of several chunks: a TCP segment before segmentation.
const LONGEST_FRAME: usize = 65_536 + 64;
/// A queue stays taken after its last owner has died: for tens of milliseconds, and longer where the CPUs are busy (the kernel waits
/// for a grace period of RCU).
const QUEUE_PATIENCE: Duration = Duration::from_secs(2);
/// XDP_FLAGS_SKB_MODE and XDP_FLAGS_DRV_MODE of linux/if_link.h.
const ATTACH_GENERIC: u32 = 1 << 1;
const ATTACH_DRIVER: u32 = 1 << 2;

#[derive(Debug)]
struct Queue {
    fd: OwnedFd,
    memory: Mapping,
    receive: Ring<xdp_desc>,
    send: Ring<xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    /// Frames for sending that this socket has.
    spare: Vec<u64>,
    /// A frame of several chunks, as far as it has come.
    partial: Vec<u8>,
    received: u64,
    sent: u64,
    refused_wakeups: u64,
}

/// AF_XDP on all queues of an interface.
#[derive(Debug)]
pub struct XdpPort {
    // Closed first: no frame is redirected to a closed socket.
    link: OwnedFd,
    queues: Vec<Queue>,
    filter: Filter,
    backend: Backend,
}

impl XdpPort {
    /// Opens a socket on each queue and attaches the program.
    pub(crate) fn open(interface: &Interface, backend: Backend) -> Result<Self, XskError> {
        let name = &interface.name;
        // The loopback interface's MTU is that of its largest segment; frames that long come in several chunks.
        if interface.mtu > LONGEST_PACKET && !interface.local_checksums {
            return Err(XskError::MtuTooLarge { interface: name.clone(), mtu: interface.mtu, most: LONGEST_PACKET });
        }
        let step = |what| move |cause| refused(name, what, cause);
        let filter = Filter::open(name)?;
        let xsks = bpf::map(bpf::MapKind::Xsks, 4, 4, interface.queues).map_err(step("making the table of sockets"))?;
        let [ports, addresses, flows] = filter.descriptors();
        let code = program::assemble([ports, addresses, flows, xsks.as_raw_fd()])
            .ok_or_else(|| refused(name, "assembling the XDP program", io::ErrorKind::InvalidData.into()))?;
        let program = bpf::load(&code, true).map_err(step("loading the XDP program"))?;
        let mut queues = Vec::new();
        for number in 0..interface.queues {
            let queue = Queue::open(interface, backend, number)?;
            bpf::insert(&xsks, &number.to_ne_bytes(), &queue.fd.as_raw_fd().to_ne_bytes())
                .map_err(step("putting a socket into the table"))?;
            queues.push(queue);
        }
        let flags = if backend == Backend::Generic { ATTACH_GENERIC } else { ATTACH_DRIVER };
        let link = bpf::attach(&program, interface.index, flags).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => XskError::OtherProgram { interface: name.clone() },
            Some(libc::EOPNOTSUPP | libc::EINVAL) => unsupported(interface, backend, cause),
            _ => refused(name, "attaching the XDP program", cause),
        })?;
        Ok(Self { link, queues, filter, backend })
    }

    /// What is taken.
    pub(crate) fn filter(&mut self) -> &mut Filter {
        &mut self.filter
    }

    #[inline]
    pub(crate) fn receive(&mut self, budget: usize, mut take: impl FnMut(&[u8])) -> usize {
        self.queues.iter_mut().map(|queue| queue.receive(budget, &mut take)).sum()
    }

    #[inline]
    pub(crate) fn transmit(&mut self, build: impl FnMut(&mut [u8]) -> Option<usize>) -> usize {
        self.queues.first_mut().map_or(0, |queue| queue.transmit(build))
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.queues.first().is_some_and(|queue| !queue.send.is_consumed())
    }

    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.queues.iter().map(|queue| queue.fd.as_raw_fd()).collect()
    }

    pub(crate) fn all_descriptors(&self) -> Vec<RawFd> {
        let own = std::iter::once(self.link.as_raw_fd()).chain(self.filter.descriptors());
        own.chain(self.descriptors()).collect()
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) fn counters(&self) -> PortCounters {
        let mut all = PortCounters::default();
        for queue in &self.queues {
            all.received += queue.received;
            all.sent += queue.sent;
            all.refused_wakeups += queue.refused_wakeups;
            let fd = queue.fd.as_raw_fd();
            if let Ok(counted) = sys::get_option::<libc::xdp_statistics>(fd, libc::SOL_XDP, libc::XDP_STATISTICS) {
                all.dropped += counted.rx_dropped + counted.rx_invalid_descs + counted.rx_fill_ring_empty_descs;
                all.ring_full += counted.rx_ring_full;
            }
        }
        all
    }
}

fn unsupported(interface: &Interface, backend: Backend, cause: io::Error) -> XskError {
    XskError::Unsupported { interface: interface.name.clone(), backend: backend.word(), cause }
}

impl Queue {
    fn open(interface: &Interface, backend: Backend, number: u32) -> Result<Self, XskError> {
        let step = |what| move |cause| refused(&interface.name, what, cause);
        let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(step("making an AF_XDP socket"))?;
        let raw = fd.as_raw_fd();
        let frames = RECEIVE_FRAMES + RING_ENTRIES;
        let chunk = CHUNK_BYTES as u64;
        let memory = Mapping::new(None, frames as usize * CHUNK_BYTES, 0).map_err(step("making memory for frames"))?;
        let region = libc::xdp_umem_reg {
            addr: memory.at(0, memory.len()).addr() as u64,
            len: memory.len() as u64,
            chunk_size: CHUNK,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        sys::set_option(raw, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)
            .map_err(step("registering memory for frames"))?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            sys::set_option(raw, libc::SOL_XDP, ring, &RING_ENTRIES).map_err(step("making a ring"))?;
        }
        let offsets: libc::xdp_mmap_offsets = sys::get_option(raw, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(step("asking for the rings' layout"))?;
        let far = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
        let mapped = step("mapping a ring");
        let mut fill =
            Ring::map(raw, far(libc::XDP_UMEM_PGOFF_FILL_RING), &offsets.fr, RING_ENTRIES).map_err(mapped)?;
        let completion =
            Ring::map(raw, far(libc::XDP_UMEM_PGOFF_COMPLETION_RING), &offsets.cr, RING_ENTRIES).map_err(mapped)?;
        let receive = Ring::map(raw, libc::XDP_PGOFF_RX_RING, &offsets.rx, RING_ENTRIES).map_err(mapped)?;
        let send = Ring::map(raw, libc::XDP_PGOFF_TX_RING, &offsets.tx, RING_ENTRIES).map_err(mapped)?;
        // The first frames are for receiving.
        for frame in 0..fill.free(RECEIVE_FRAMES) {
            fill.write(u64::from(frame) * chunk);
        }
        fill.publish();
        bind(raw, interface, backend, number)?;
        let spare = (RECEIVE_FRAMES..frames).map(|frame| u64::from(frame) * chunk).collect();
        let partial = Vec::with_capacity(LONGEST_FRAME);
        Ok(Self {
            fd,
            memory,
            receive,
            send,
            fill,
            completion,
            spare,
            partial,
            received: 0,
            sent: 0,
            refused_wakeups: 0,
        })
    }

    #[inline]
    fn receive(&mut self, budget: usize, take: &mut impl FnMut(&[u8])) -> usize {
        let waiting = self.receive.waiting(u32::try_from(budget).unwrap_or(u32::MAX));
        if waiting == 0 {
            return 0;
        }
        let mut taken = 0;
        for _ in 0..waiting {
            let descriptor = self.receive.read();
            taken += usize::from(self.take_chunk(&descriptor, take));
            // The chunk goes back at once: its content was used. There is room, because each chunk comes from this ring.
            self.fill.free(1);
            self.fill.write(descriptor.addr & !(CHUNK_BYTES as u64 - 1));
        }
        self.receive.release();
        self.fill.publish();
        if self.fill.needs_wakeup() {
            sys::wake_receiver(self.fd.as_raw_fd());
        }
        self.received += taken as u64;
        taken
    }

    /// Hands over the frame that ends with this chunk, and tells whether one did.
    #[inline]
    fn take_chunk(&mut self, descriptor: &xdp_desc, take: &mut impl FnMut(&[u8])) -> bool {
        let at = usize::try_from(descriptor.addr).unwrap_or(usize::MAX);
        let length = descriptor.len as usize;
        let start = self.memory.at(at, length);
        // SAFETY: the range is inside the mapping, and between the receive ring and the fill ring the chunk is this socket's.
        let chunk = unsafe { std::slice::from_raw_parts(start, length) };
        let more = descriptor.options & libc::XDP_PKT_CONTD != 0;
        if !more && self.partial.is_empty() {
            take(chunk);
            return true;
        }
        // Longer ones than can be are cut; whoever reads them finds that their length is wrong.
        let room = LONGEST_FRAME - self.partial.len();
        self.partial.extend_from_slice(&chunk[..length.min(room)]);
        if !more {
            take(&self.partial);
            self.partial.clear();
        }
        !more
    }

    #[inline]
    fn transmit(&mut self, mut build: impl FnMut(&mut [u8]) -> Option<usize>) -> usize {
        for _ in 0..self.completion.waiting(RING_ENTRIES) {
            let frame = self.completion.read();
            self.spare.push(frame);
        }
        self.completion.release();
        let mut built = 0;
        while self.send.free(1) == 1
            && let Some(&frame) = self.spare.last()
        {
            let start = self.memory.at(usize::try_from(frame).unwrap_or(usize::MAX), CHUNK_BYTES);
            // SAFETY: the range is inside the mapping, and a spare frame is this socket's alone.
            let room = unsafe { std::slice::from_raw_parts_mut(start, CHUNK_BYTES) };
            let Some(length) = build(room) else { break };
            self.spare.pop();
            let len = u32::try_from(length.min(CHUNK_BYTES)).unwrap_or(0);
            self.send.write(xdp_desc { addr: frame, len, options: 0 });
            built += 1;
        }
        if built > 0 {
            self.send.publish();
        }
        self.sent += built as u64;
        self.wake_sender();
        built
    }

    /// Makes the kernel take what was published, where it does not do so by itself.
    #[inline]
    fn wake_sender(&mut self) {
        for _ in 0..WAKEUPS_A_BATCH {
            if self.send.is_consumed() || !self.send.needs_wakeup() {
                return;
            }
            match sys::wake_sender(self.fd.as_raw_fd()) {
                Ok(()) => {}
                // For the moment: EAGAIN when more than a batch waits, the others when the interface has no room.
                Err(_) => self.refused_wakeups += 1,
            }
        }
    }
}

/// Binds the socket to its queue. Waits for a queue whose last owner has just died.
fn bind(fd: RawFd, interface: &Interface, backend: Backend, queue: u32) -> Result<(), XskError> {
    let copying = if backend == Backend::ZeroCopy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    // Frames of several chunks (Linux 6.6) where the kernel and the driver have them.
    let mut flags = copying | libc::XDP_USE_NEED_WAKEUP | libc::XDP_USE_SG;
    let until = Instant::now() + QUEUE_PATIENCE;
    loop {
        let address = libc::sockaddr_xdp {
            sxdp_family: u16::try_from(libc::AF_XDP).unwrap_or(0),
            sxdp_flags: flags,
            sxdp_ifindex: interface.index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let Err(cause) = sys::bind(fd, &address) else { return Ok(()) };
        match cause.raw_os_error() {
            Some(libc::EBUSY) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Some(libc::EBUSY) => return Err(XskError::QueueTaken { interface: interface.name.clone(), queue }),
            Some(libc::EINVAL | libc::EOPNOTSUPP) if flags & libc::XDP_USE_SG != 0 => flags &= !libc::XDP_USE_SG,
            Some(libc::EINVAL | libc::EOPNOTSUPP) => return Err(unsupported(interface, backend, cause)),
            _ => return Err(refused(&interface.name, "binding an AF_XDP socket", cause)),
        }
    }
}
