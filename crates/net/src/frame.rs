//! Messages as bare Ethernet frames past the kernel's network stack, there and back: what an interface and its driver allow at
//! best, without a stack on either end.
//!
//! Each frame has the shape of a UDP datagram between the two ends' addresses, because that is what a network delivers and an
//! XDP program can tell apart. Its headers are built before the loop. A UDP socket of the kernel has the port meanwhile,
//! so no other program gets it; the path was proved over it.

use crate::icmp::checksum;
use crate::path::PathError;
use crate::transport::{ReceiveStep, Transport, broken};
use crate::{NetError, interface, sys};
use model::{EndSpec, FrameBackend, SocketSpec};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use xsk::{Addresses, Backend, Interface, Port, Protocol, XskError};

const MAC_HEADER: usize = 14;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
/// How long a neighbour may take: the kernel asks three times, a second apart. It is usually known already.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long the end of another session on the interface is waited for: it may have been asked to end just now.
const HANDOVER: Duration = Duration::from_millis(500);
/// Sends in a row that find no room before the way is given up: the interface takes nothing any more.
const TRIES: u32 = 10_000;

/// What a frame socket needs once it knows its peer.
#[derive(Debug, Clone)]
pub(crate) struct FrameRequest {
    backend: Option<FrameBackend>,
    ttl: u8,
    device: Option<String>,
    /// A peer asked for them, and not the owner of this process: the interface is for one of them at a time.
    by_peer: bool,
}

impl FrameRequest {
    /// None: the protocol is another.
    pub(crate) fn new(spec: &SocketSpec, end: &EndSpec, by_peer: bool) -> Option<Self> {
        let (ttl, device) = (spec.ttl.unwrap_or(64), end.device.clone());
        (spec.protocol == model::Protocol::Frame).then_some(Self { backend: spec.frame_backend, ttl, device, by_peer })
    }
}

/// The interfaces whose frames this process gave to a peer.
static HELD: Mutex<BTreeMap<InterfaceKey, SocketAddr>> = Mutex::new(BTreeMap::new());

/// An interface: its number, in the network namespace of this inode.
type InterfaceKey = (u64, u32);

/// An interface whose frames a peer has; given back when dropped.
#[derive(Debug)]
struct InterfaceUse(InterfaceKey);

impl InterfaceUse {
    /// Bounds what the clients of a server attach, and keeps their figures apart: one at a time for each interface.
    fn take(interface: &Interface, peer: SocketAddr) -> Result<Self, NetError> {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |found| found.ino());
        let key = (namespace, interface.index);
        let until = Instant::now() + HANDOVER;
        loop {
            let holder = match HELD.lock().unwrap_or_else(PoisonError::into_inner).entry(key) {
                Entry::Vacant(free) => {
                    free.insert(peer);
                    return Ok(Self(key));
                }
                Entry::Occupied(taken) => *taken.get(),
            };
            if Instant::now() >= until {
                return Err(NetError::FramesHeld { interface: interface.name.clone(), holder });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for InterfaceUse {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Where things are in a frame of each IP version.
#[derive(Debug, Clone, Copy)]
struct Layout {
    ether_type: [u8; 2],
    protocol_at: usize,
    /// Both addresses, directly followed by the UDP header and so by both ports.
    addresses_at: usize,
    udp_at: usize,
}

const V4: Layout = Layout { ether_type: [0x08, 0x00], protocol_at: 23, addresses_at: 26, udp_at: 34 };
const V6: Layout = Layout { ether_type: [0x86, 0xdd], protocol_at: 20, addresses_at: 22, udp_at: 54 };
/// Room for the headers of IPv6, the longer ones.
const LONGEST_HEADER: usize = V6.udp_at + UDP_HEADER;

#[derive(Debug)]
pub(crate) struct Frames {
    port: Port,
    pub(crate) backend: FrameBackend,
    layout: Layout,
    header: [u8; LONGEST_HEADER],
    /// The length of the message that the header is for.
    built_for: usize,
    /// The addresses and ports of a frame from the peer.
    expected: Vec<u8>,
    /// The longest message in bytes that the path's MTU lets through.
    longest: usize,
    foreign: u64,
    /// Dropped last: the next one finds the interface free.
    _interface: Option<InterfaceUse>,
}

impl Frames {
    /// Takes the frames from `peer` for the port of `own`, and addresses those to it by the kernel's route and neighbour.
    pub(crate) fn open(asked: &FrameRequest, own: SocketAddr, peer: SocketAddr) -> Result<Self, NetError> {
        let scope = match &asked.device {
            Some(device) => interface::index_of(device)?,
            None => crate::bound::scope_of(peer),
        };
        let hop = netlink::hop(peer.ip(), scope, PATIENCE).map_err(NetError::Hop)?;
        let interface = Interface::read(&hop.link.name).map_err(NetError::Frames)?;
        let source = if own.ip().is_unspecified() { hop.source } else { own.ip().to_canonical() };
        let held = asked.by_peer.then(|| InterfaceUse::take(&interface, peer)).transpose()?;
        let (backend, mut port) = open_port(&interface, asked.backend).map_err(NetError::Frames)?;
        port.set_addresses(&[source]).map_err(NetError::Frames)?;
        port.serve(Protocol::Udp, own.port(), &[Addresses::All]).map_err(NetError::Frames)?;
        let own = SocketAddr::new(source, own.port());
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let layout = if peer.is_ipv6() { V6 } else { V4 };
        let mut header = [0; LONGEST_HEADER];
        header[..6].copy_from_slice(&hop.mac);
        header[6..12].copy_from_slice(&interface.mac);
        header[12..14].copy_from_slice(&layout.ether_type);
        if peer.is_ipv6() {
            header[14] = 0x60;
            header[21] = asked.ttl;
        } else {
            header[14] = 0x45;
            // Not to be fragmented.
            header[20] = 0x40;
            header[22] = asked.ttl;
        }
        header[layout.protocol_at] = UDP;
        let flow = flow(own, peer);
        header[layout.addresses_at..layout.addresses_at + flow.len()].copy_from_slice(&flow);
        let headers = layout.udp_at + UDP_HEADER;
        let longest = usize::try_from(hop.mtu).unwrap_or(0).saturating_sub(headers - MAC_HEADER);
        let expected = self::flow(peer, own);
        // No message is that long: the first one has its lengths filled in.
        Ok(Self {
            port,
            backend,
            layout,
            header,
            built_for: usize::MAX,
            expected,
            longest,
            foreign: 0,
            _interface: held,
        })
    }

    /// Fills in the lengths of a message, and what depends on them.
    fn build(&mut self, message: usize) {
        let udp = message + UDP_HEADER;
        let number = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
        let Layout { udp_at, .. } = self.layout;
        self.header[udp_at + 4..udp_at + 6].copy_from_slice(&number(udp));
        if self.layout.udp_at == V6.udp_at {
            self.header[18..20].copy_from_slice(&number(udp));
        } else {
            self.header[16..18].copy_from_slice(&number(udp_at - MAC_HEADER + udp));
            self.header[24..26].fill(0);
            let sum = checksum(&self.header[MAC_HEADER..udp_at]);
            self.header[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        self.built_for = message;
    }

    /// The message in a frame from the peer; `None`: somebody else's.
    #[inline]
    fn message<'a>(layout: Layout, expected: &[u8], frame: &'a [u8]) -> Option<&'a [u8]> {
        let Layout { ether_type, protocol_at, addresses_at, udp_at } = layout;
        let is_ours = frame.get(12..14)? == ether_type
            && *frame.get(protocol_at)? == UDP
            && frame.get(addresses_at..addresses_at + expected.len())? == expected;
        // A short frame is padded: its UDP header knows the length.
        let length = usize::from(u16::from_be_bytes(*frame.get(udp_at + 4..)?.first_chunk()?));
        frame.get(udp_at + UDP_HEADER..udp_at + length).filter(|_| is_ours)
    }
}

/// Addresses and ports as a frame between the two has them.
fn flow(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    [octets(from.ip()), octets(to.ip()), from.port().to_be_bytes().to_vec(), to.port().to_be_bytes().to_vec()].concat()
}

/// Opens the back-end that was asked for, else the first that opens.
fn open_port(interface: &Interface, asked: Option<FrameBackend>) -> Result<(FrameBackend, Port), XskError> {
    let open = |tried| {
        let backend = match tried {
            FrameBackend::ZeroCopy => Backend::ZeroCopy,
            FrameBackend::Native => Backend::Native,
            FrameBackend::Generic => Backend::Generic,
            FrameBackend::Packet => Backend::Packet,
        };
        Port::open(interface, backend).map(|port| (tried, port))
    };
    if let Some(asked) = asked {
        return open(asked);
    }
    // Of several reasons the one that the user can do something about: a driver that lacks XDP is none.
    let mut reason: Option<XskError> = None;
    for tried in FrameBackend::ALL {
        let is_lacking = reason.as_ref().is_none_or(|reason| matches!(reason, XskError::Unsupported { .. }));
        if !is_lacking && tried != FrameBackend::Packet {
            // What is taken or not permitted for one kind of XDP is so for the others.
            continue;
        }
        match open(tried) {
            Ok(opened) => return Ok(opened),
            Err(error) if is_lacking => reason = Some(error),
            Err(_) => {}
        }
    }
    let missing = || XskError::NoInterface { interface: interface.name.clone() };
    Err(reason.unwrap_or_else(missing))
}

pub(crate) struct FrameTransport<'a> {
    frames: &'a mut Frames,
    wait: Vec<libc::pollfd>,
}

impl<'a> FrameTransport<'a> {
    pub(crate) fn new(frames: &'a mut Frames) -> Self {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let wait = frames.port.descriptors().into_iter().map(entry).collect();
        Self { frames, wait }
    }
}

impl Transport for FrameTransport<'_> {
    fn read_fd(&self) -> RawFd {
        self.wait.first().map_or(-1, |entry| entry.fd)
    }

    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        for _ in 0..TRIES {
            if self.try_send(message)? {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(PathError::Failed { call: "sendto", errno: libc::ENOBUFS })
    }

    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<bool, PathError> {
        let frames = &mut *self.frames;
        if message.len() > frames.longest {
            return Err(PathError::TooLarge { bytes: message.len() });
        }
        if frames.built_for != message.len() {
            frames.build(message.len());
        }
        let layout = frames.layout;
        let (header, mut message) = (&frames.header[..layout.udp_at + UDP_HEADER], Some(message));
        let mut fits = true;
        let built = frames.port.transmit(|room| {
            let message = message.take()?;
            let length = header.len() + message.len();
            let Some(room) = room.get_mut(..length) else {
                fits = false;
                return None;
            };
            room[..header.len()].copy_from_slice(header);
            room[header.len()..].copy_from_slice(message);
            if layout.udp_at == V6.udp_at {
                finish_checksum(room);
            }
            Some(length)
        });
        if fits { Ok(built == 1) } else { Err(PathError::TooLarge { bytes: frames.built_for }) }
    }

    #[inline]
    fn receive<const WAIT: bool>(&mut self, buffer: &mut [u8]) -> ReceiveStep {
        let frames = &mut *self.frames;
        let (layout, expected) = (frames.layout, &frames.expected);
        let mut found = None;
        let taken = frames.port.receive(1, |frame| {
            // Each queue of the interface may give one, but a flow has only one queue.
            if found.is_none()
                && let Some(message) = Frames::message(layout, expected, frame)
            {
                let kept = message.len().min(buffer.len());
                buffer[..kept].copy_from_slice(&message[..kept]);
                found = Some(message.len());
            }
        });
        if taken > 0 {
            frames.foreign += (taken - usize::from(found.is_some())) as u64;
            return found.map_or(ReceiveStep::More, ReceiveStep::Whole);
        }
        if frames.port.has_unsent() {
            frames.port.transmit(|_| None);
        }
        if WAIT && sys::poll(&mut self.wait, -1) < 0 {
            return match sys::errno() {
                libc::EINTR => ReceiveStep::Interrupted,
                errno => ReceiveStep::Broken(broken("poll", errno)),
            };
        }
        ReceiveStep::Nothing
    }

    fn drain(&mut self, _scratch: &mut [u8]) -> Result<u64, PathError> {
        let mut dropped = 0;
        loop {
            match self.frames.port.receive(64, |_| ()) {
                0 => return Ok(dropped),
                taken => dropped += taken as u64,
            }
        }
    }

    fn foreign(&self) -> u64 {
        self.frames.foreign
    }
}

/// The UDP checksum, which IPv6 demands (RFC 8200, section 8.1); IPv4 does without (RFC 768).
#[inline]
fn finish_checksum(frame: &mut [u8]) {
    let at = V6.udp_at + 6;
    // The pseudo header's addresses precede the UDP header. Its length and protocol go into the (zero) checksum.
    let rest = u16::try_from(frame.len() - V6.udp_at).unwrap_or(0).wrapping_add(u16::from(UDP));
    frame[at..at + 2].copy_from_slice(&rest.to_be_bytes());
    let sum = match checksum(&frame[V6.addresses_at..]) {
        // Zero means that there is none.
        0 => u16::MAX,
        sum => sum,
    };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Has a kernel's socket drop all that it receives from now on: AF_PACKET shows frames that go to the kernel as well.
pub(crate) fn deafen(fd: RawFd) -> Result<(), NetError> {
    const RETURN: u16 = 0x06;
    let mut nothing = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: nothing.as_mut_ptr() };
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program).map_err(|cause| NetError::Option {
        option: "SO_ATTACH_FILTER",
        value: "nothing".to_owned(),
        cause,
    })
}
