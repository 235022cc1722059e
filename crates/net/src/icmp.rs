//! ICMP echo: the far kernel answers, so no endpoint is needed there.
//!
//! An unprivileged ping socket where the kernel allows it (`net.ipv4.ping_group_range`, icmp(7)), else a raw socket.
//! Both give the answers of this socket alone: the kernel filters by identifier (ping socket), or this module does.

mod parse;

pub use parse::{ECHO_HEADER, EchoReply, checksum, parse_echo_reply, strip_ipv4_header, write_echo_request};

use crate::NetError;
use crate::address::RawAddress;
use crate::bound::{bind, local_address};
use crate::path::{PathError, PathOptions, Received};
use crate::transport::{broken, is_lost};
use crate::wait::{Patience, Ready, ready};
use crate::{made, options, sys};
use libc::c_int;
use model::{EndSpec, Protocol, Receive, SocketSpec};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// What a wait for a reply brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Echoed {
    /// A reply to one of this socket's requests; its sequence number shows to which.
    Reply(EchoReply),
    Interrupted,
    /// Spinning only: nothing within [`PathOptions::timeout_ns`].
    TimedOut,
    Stopped,
}

/// A socket that sends echo requests to one host and receives its replies.
pub struct EchoSocket<'a> {
    socket: OwnedFd,
    v6: bool,
    /// Needs CAP_NET_RAW; IPv4 answers begin with the IP header.
    raw: bool,
    identifier: u16,
    receive: Receive,
    patience: Patience<'a>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl<'a> EchoSocket<'a> {
    /// Opens a socket to `target` (its port does not matter). `spec.ttl`, and `end`'s address, device, buffers and busy
    /// polling are applied. `options.receive` may be `block`, `spin` or `poll`. `max_payload` is the largest payload in
    /// bytes that will be sent; nothing is allocated later. Errors: neither kind of socket is permitted, an option was
    /// refused, there is no route, or another receive mode.
    pub fn open(
        target: SocketAddr,
        spec: &SocketSpec,
        end: &EndSpec,
        options: &PathOptions<'a>,
        max_payload: usize,
    ) -> Result<Self, NetError> {
        if !matches!(options.receive, Receive::Block | Receive::Spin | Receive::Poll) {
            return Err(NetError::Unsupported { protocol: Protocol::Icmp, why: "waits with block, spin or poll only" });
        }
        let v6 = target.is_ipv6();
        let (socket, raw) = open_socket(v6)?;
        let fd = socket.as_raw_fd();
        options::apply(fd, v6, spec, end)?;
        made::note(fd);
        if raw {
            only_replies(fd, v6)?;
        }
        receive_ttl(fd, v6);
        // A ping socket's port is its identifier; 0 lets the kernel choose.
        bind(fd, local_address(end, target)?, "ICMP")?;
        let mut peer = target;
        peer.set_port(0);
        sys::connect(fd, RawAddress::new(peer).as_bytes())
            .map_err(|cause| NetError::NoRoute { address: target.ip(), cause })?;
        let identifier = if raw { raw_identifier(fd) } else { identifier(fd)? };
        // IPv4 header with all options (60 bytes) and the echo header.
        let room = max_payload.saturating_add(60 + ECHO_HEADER);
        Ok(Self {
            socket,
            v6,
            raw,
            identifier,
            receive: options.receive,
            patience: Patience::new(options),
            request: vec![0; max_payload.saturating_add(ECHO_HEADER)],
            answer: vec![0; room],
        })
    }

    /// Whether this is a raw socket: the unprivileged kind was not permitted.
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// The identifier in each request and reply (RFC 792, RFC 4443).
    pub fn identifier(&self) -> u16 {
        self.identifier
    }

    /// Sends one request. Errors: the payload is longer than announced or than the path takes, or sending failed.
    pub fn send(&mut self, sequence: u16, payload: &[u8]) -> Result<(), PathError> {
        let bytes = payload.len();
        let Some(request) = self.request.get_mut(..ECHO_HEADER + bytes) else {
            return Err(PathError::TooLarge { bytes });
        };
        write_echo_request(request, self.v6, self.identifier, sequence, payload);
        if sys::send(self.socket.as_raw_fd(), request, libc::MSG_NOSIGNAL) >= 0 {
            return Ok(());
        }
        match sys::errno() {
            libc::EMSGSIZE => Err(PathError::TooLarge { bytes }),
            libc::EINTR => Err(PathError::Interrupted),
            errno if is_lost(errno) => Ok(()),
            errno => Err(broken("send", errno)),
        }
    }

    /// Waits for a reply to an own request. Errors: receiving failed, also for unreachable hosts (EHOSTUNREACH).
    pub fn receive(&mut self) -> Result<Echoed, PathError> {
        let fd = self.socket.as_raw_fd();
        let mut waited = self.patience.begin();
        let flags = if self.receive == Receive::Block { 0 } else { libc::MSG_DONTWAIT };
        loop {
            if self.receive == Receive::Poll {
                let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
                match ready(sys::poll(&mut set, -1), "poll") {
                    Ready::Now => {}
                    Ready::Interrupted => return Ok(ended(self.patience.interrupted())),
                    Ready::Broken(error) => return Err(error),
                }
            }
            let mut ttl = None;
            match usize::try_from(sys::recvmsg(fd, &mut self.answer, flags, &mut ttl)) {
                Ok(bytes) => {
                    if let Some(reply) = self.read(bytes, ttl) {
                        return Ok(Echoed::Reply(reply));
                    }
                }
                Err(_) => {
                    if let Some(what) = waited.after_error("recvmsg")? {
                        return Ok(ended(what));
                    }
                }
            }
        }
    }

    fn read(&self, bytes: usize, ttl: Option<u8>) -> Option<EchoReply> {
        let message = self.answer.get(..bytes)?;
        let (header_ttl, message) = if self.raw && !self.v6 {
            let (ttl, message) = strip_ipv4_header(message)?;
            (Some(ttl), message)
        } else {
            (None, message)
        };
        let mut reply = parse_echo_reply(message)?;
        reply.ttl = ttl.or(header_ttl);
        (reply.identifier == self.identifier && reply.v6 == self.v6).then_some(reply)
    }
}

fn ended(what: Received) -> Echoed {
    match what {
        Received::Stopped => Echoed::Stopped,
        Received::TimedOut => Echoed::TimedOut,
        Received::Interrupted | Received::Bytes(_) => Echoed::Interrupted,
    }
}

/// A ping socket, else a raw one, and which it is.
fn open_socket(v6: bool) -> Result<(OwnedFd, bool), NetError> {
    let (domain, protocol) =
        if v6 { (libc::AF_INET6, libc::IPPROTO_ICMPV6) } else { (libc::AF_INET, libc::IPPROTO_ICMP) };
    if let Ok(socket) = sys::socket(domain, libc::SOCK_DGRAM, protocol) {
        return Ok((socket, false));
    }
    match sys::socket(domain, libc::SOCK_RAW, protocol) {
        Ok(socket) => Ok((socket, true)),
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => {
            Err(NetError::PingNotPermitted)
        }
        Err(cause) => Err(NetError::Socket { what: "ICMP", cause }),
    }
}

/// Lets only echo replies into a raw socket (ICMP_FILTER, raw(7); ICMPV6_FILTER, RFC 3542 section 3.2).
fn only_replies(fd: c_int, v6: bool) -> Result<(), NetError> {
    let failed = |cause| NetError::Option { option: "ICMP_FILTER", value: "echo replies only".to_owned(), cause };
    if v6 {
        // A set bit blocks that type.
        let mut blocked = [u32::MAX; 8];
        let kind = usize::from(parse::REPLY_V6);
        blocked[kind / 32] &= !(1 << (kind % 32));
        sys::set_option(fd, libc::IPPROTO_ICMPV6, 1, &blocked).map_err(failed)
    } else {
        let blocked: u32 = !(1 << parse::REPLY_V4);
        sys::set_option(fd, SOL_RAW, 1, &blocked).map_err(failed)
    }
}

/// Level of ICMP_FILTER (linux/in.h, socket.h).
const SOL_RAW: c_int = 255;

/// Asks for the TTL or hop limit with each reply. It is an extra, so a stack without it is no error.
fn receive_ttl(fd: c_int, v6: bool) {
    let on: c_int = 1;
    let _ = if v6 {
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &on)
    } else {
        sys::set_option(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, &on)
    };
}

fn identifier(fd: c_int) -> Result<u16, NetError> {
    let failed = |cause| NetError::ReadOut { what: "the ping socket's identifier", cause };
    let mut own = RawAddress::EMPTY;
    sys::getsockname(fd, own.room()).map_err(failed)?;
    own.decode().map(|own| own.port()).ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))
}

/// An identifier that other processes and other sockets of this one are unlikely to have.
fn raw_identifier(fd: c_int) -> u16 {
    let process = std::process::id();
    let mixed = process ^ (process >> 16) ^ (fd.unsigned_abs() << 11);
    u16::try_from(mixed & 0xffff).unwrap_or(1)
}

/// Whether `address` may be pinged: opens and closes a socket of its family. Errors: neither kind is permitted.
pub fn permitted(address: IpAddr) -> Result<(), NetError> {
    open_socket(address.is_ipv6()).map(drop)
}
