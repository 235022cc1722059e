//! A TCP connection for each transaction (netperf's TCP_CRR): connect, request, response, close.
//!
//! **TIME_WAIT.** The end that closes first keeps the connection's address pair for a minute (RFC 9293, 3.6.1). If that
//! were the client, its some 28,000 local ports would be used up within seconds; netperf therefore walks through
//! explicit client ports, and closing with a reset (SO_LINGER 0) would measure another exchange than real programs make.
//! Here the server closes first, right after its response, and the client closes once it has seen that: the client's
//! port is free at once, and when it comes round again the server's kernel accepts the new SYN in TIME_WAIT because its
//! sequence number and time stamp are newer (RFC 6191). Nothing is skipped: both FINs travel in every transaction.

use crate::address::RawAddress;
use crate::bulk::PATIENCE;
use crate::fallback::Fallback;
use crate::listener::DataListener;
use crate::path::{Path, PathError, PathOptions, Received};
use crate::tcp;
use crate::wait::{Patience, Waited};
use crate::{NetError, sys};
use model::{EndSpec, Protocol, Receive, SocketSpec};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

enum Part {
    Done,
    Ended(Received),
}

/// Waits inside the call, or spins.
#[derive(Clone, Copy)]
struct Waiting<'a> {
    spin: bool,
    patience: Patience<'a>,
}

impl<'a> Waiting<'a> {
    fn new(options: &PathOptions<'a>) -> Result<Self, NetError> {
        match options.receive {
            Receive::Block | Receive::Spin => {
                Ok(Self { spin: options.receive == Receive::Spin, patience: Patience::new(options) })
            }
            _ => Err(NetError::Unsupported {
                protocol: Protocol::Tcp,
                why: "with a connection for each transaction waits with block or spin only",
            }),
        }
    }

    /// Fills the buffer. When the time-out is over, it ends or goes on by `gives_up`.
    fn receive(&self, fd: RawFd, buffer: &mut [u8], gives_up: impl Fn() -> bool) -> Result<Part, PathError> {
        let flags = if self.spin { libc::MSG_DONTWAIT } else { libc::MSG_WAITALL };
        let mut filled = 0;
        let mut waited = self.patience.begin();
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let result = sys::recv(fd, rest, flags);
            match usize::try_from(result) {
                Ok(0) => return Err(PathError::Closed),
                Ok(bytes) => filled += bytes,
                Err(_) => match self.after_error(&mut waited, "recv")? {
                    Some(Received::TimedOut) if !gives_up() => waited = self.patience.begin(),
                    Some(ended) => return Ok(Part::Ended(ended)),
                    None => {}
                },
            }
        }
        Ok(Part::Done)
    }

    /// What a failed call means. A call that waits fails with EAGAIN only where the socket has a time-out.
    fn after_error(&self, waited: &mut Waited<'_>, call: &'static str) -> Result<Option<Received>, PathError> {
        if !self.spin && sys::errno() == libc::EAGAIN { Ok(Some(Received::TimedOut)) } else { waited.after_error(call) }
    }

    /// Waits for the peer's end of the stream.
    fn end_of_stream(&self, fd: RawFd) -> Result<Part, PathError> {
        match self.receive(fd, &mut [0], || true) {
            Err(PathError::Closed) => Ok(Part::Done),
            Ok(Part::Done) => Err(PathError::Failed { call: "recv", errno: libc::EPROTO }),
            other => other,
        }
    }

    fn send(&self, fd: RawFd, message: &[u8], gives_up: impl Fn() -> bool) -> Result<Part, PathError> {
        let mut sent = 0;
        let mut waited = self.patience.begin();
        while let Some(rest) = message.get(sent..).filter(|rest| !rest.is_empty()) {
            match usize::try_from(sys::send(fd, rest, libc::MSG_NOSIGNAL)) {
                Ok(bytes) => sent += bytes,
                Err(_) => match self.after_error(&mut waited, "send")? {
                    Some(Received::TimedOut) if !gives_up() => waited = self.patience.begin(),
                    Some(ended) => return Ok(Part::Ended(ended)),
                    None => {}
                },
            }
        }
        Ok(Part::Done)
    }
}

/// The initiator's half. Allocates nothing per transaction.
///
/// As a [`Path`] it sends nothing until the answer is waited for; then it makes the whole transaction. The round's time so
/// holds connecting, request, response and the peer's close.
pub struct TransactionClient<'a> {
    spec: &'a SocketSpec,
    end: &'a EndSpec,
    to: SocketAddr,
    raw: RawAddress,
    waiting: Waiting<'a>,
    request: Vec<u8>,
    /// What became of the connections of all transactions that were made so far.
    pub fallback: Fallback,
}

impl<'a> TransactionClient<'a> {
    /// Transactions with the [`TransactionServer`] at `to`; as a path, with requests of `request_bytes`. `options.receive`
    /// may be `block` or `spin`; connecting always waits in its call, since the peer's kernel answers it. Errors: another
    /// receive mode, or an option that is refused: found here rather than in the first transaction.
    pub fn new(
        spec: &'a SocketSpec,
        end: &'a EndSpec,
        to: SocketAddr,
        options: &PathOptions<'a>,
        request_bytes: usize,
    ) -> Result<Self, NetError> {
        drop(tcp::unconnected(spec, end, to)?);
        let (raw, waiting) = (RawAddress::new(to), Waiting::new(options)?);
        Ok(Self { spec, end, to, raw, waiting, request: vec![0; request_bytes], fallback: Fallback::default() })
    }

    /// One transaction: connect, send `request`, receive exactly `response`, see the server close, close. Anything but
    /// [`Received::Bytes`] means that this transaction was given up and its connection closed. Errors: the server has ended,
    /// or no local port is left.
    pub fn transact(&mut self, request: &[u8], response: &mut [u8]) -> Result<Received, PathError> {
        let socket = self.connect()?;
        let socket = match socket {
            Ok(socket) => socket,
            Err(ended) => return Ok(ended),
        };
        let fd = socket.as_raw_fd();
        let length = response.len();
        if let Part::Ended(ended) = self.waiting.send(fd, request, || true)? {
            return Ok(ended);
        }
        if let Part::Ended(ended) = self.waiting.receive(fd, response, || true)? {
            return Ok(ended);
        }
        if let Part::Ended(ended) = self.waiting.end_of_stream(fd)? {
            return Ok(ended);
        }
        self.fallback.count(self.spec.protocol, fd);
        Ok(Received::Bytes(length))
    }

    fn connect(&self) -> Result<Result<OwnedFd, Received>, PathError> {
        let socket = tcp::unconnected(self.spec, self.end, self.to).map_err(|error| not_made(&error))?;
        match sys::connect(socket.as_raw_fd(), self.raw.as_bytes()) {
            Ok(()) => Ok(Ok(socket)),
            Err(cause) => match cause.raw_os_error() {
                Some(libc::EINTR) => Ok(Err(self.waiting.patience.interrupted())),
                Some(libc::ECONNREFUSED) => Err(PathError::Refused),
                Some(libc::EADDRNOTAVAIL) => Err(PathError::NoPort),
                errno => Err(PathError::Failed { call: "connect", errno: errno.unwrap_or(libc::EIO) }),
            },
        }
    }
}

/// What the loop returns for a socket that could not be made or set up.
fn not_made(error: &NetError) -> PathError {
    let failed = |call, cause: &io::Error| PathError::Failed { call, errno: cause.raw_os_error().unwrap_or(libc::EIO) };
    match error {
        NetError::Socket { cause, .. } | NetError::NotInKernel { cause, .. } => failed("socket", cause),
        NetError::Bind { cause, .. } => failed("bind", cause),
        NetError::InUse { .. } => PathError::Failed { call: "bind", errno: libc::EADDRINUSE },
        NetError::Option { cause, .. } | NetError::Device { cause, .. } => failed("setsockopt", cause),
        _ => PathError::Failed { call: "setsockopt", errno: sys::errno() },
    }
}

impl Path for TransactionClient<'_> {
    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        let bytes = message.len().min(self.request.len());
        self.request[..bytes].copy_from_slice(&message[..bytes]);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
        let request = std::mem::take(&mut self.request);
        let received = self.transact(&request, buffer);
        self.request = request;
        received
    }
}

/// The reflector's half. Allocates nothing per transaction.
pub struct TransactionServer<'a> {
    listener: &'a DataListener,
    /// Whose connections are served; others are closed at once.
    client: IpAddr,
    /// For a connection.
    waiting: Waiting<'a>,
    /// For what an accepted one has to say.
    serving: Waiting<'a>,
    /// Connections that came from somebody else than the client.
    pub foreign: u64,
    /// Connections that ended before their transaction did.
    pub abandoned: u64,
}

impl<'a> TransactionServer<'a> {
    /// Serves connections from `client` to `listener` ([`DataListener::bind_for_transactions`]); `options.receive` is
    /// `block` or `spin`. Errors: another receive mode, or the listener cannot wait like that.
    pub fn new(listener: &'a DataListener, client: IpAddr, options: &PathOptions<'a>) -> Result<Self, NetError> {
        let waiting = Waiting::new(options)?;
        let timeout_ns = u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
        let serving = Waiting::new(&PathOptions { timeout_ns, ..*options })?;
        sys::set_nonblocking(listener.fd(), waiting.spin).map_err(|cause| NetError::Option {
            option: "O_NONBLOCK",
            value: options.receive.to_string(),
            cause,
        })?;
        Ok(Self { listener, client, waiting, serving, foreign: 0, abandoned: 0 })
    }

    /// One transaction: accept, receive exactly `request`, send `response`, close. Connections of others, and those that
    /// end early, are counted and skipped; so are those that stand still while another one waits, as a client has one at a
    /// time. Errors: accepting failed.
    pub fn serve(&mut self, request: &mut [u8], response: &[u8]) -> Result<Received, PathError> {
        let mut waited = self.waiting.patience.begin();
        loop {
            let (socket, from) = match sys::accept(self.listener.fd()) {
                Ok(accepted) => accepted,
                Err(cause) if cause.raw_os_error() == Some(libc::ECONNABORTED) => continue,
                Err(_) => match waited.after_error("accept4")? {
                    Some(ended) => return Ok(ended),
                    None => continue,
                },
            };
            if from.map(|from| from.ip().to_canonical()) != Some(self.client.to_canonical()) {
                self.foreign += 1;
                continue;
            }
            let fd = socket.as_raw_fd();
            if self.listener.inherit_nodelay(fd).is_err() {
                return Err(PathError::Failed { call: "setsockopt", errno: sys::errno() });
            }
            let others_wait = || {
                let mut set = [libc::pollfd { fd: self.listener.fd(), events: libc::POLLIN, revents: 0 }];
                sys::poll(&mut set, 0) > 0
            };
            let part = match self.serving.receive(fd, request, others_wait) {
                Ok(Part::Done) => self.serving.send(fd, response, others_wait),
                other => other,
            };
            match part {
                Ok(Part::Done) => return Ok(Received::Bytes(request.len())),
                Ok(Part::Ended(Received::TimedOut)) | Err(_) => self.abandoned += 1,
                Ok(Part::Ended(ended)) => return Ok(ended),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_not_made_is_named_with_its_own_cause() {
        let cause = || io::Error::from_raw_os_error(libc::ENOPROTOOPT);
        let call = |error| match not_made(&error) {
            PathError::Failed { call, errno } => (call, errno),
            other => panic!("{other}"),
        };
        assert_eq!(
            call(NetError::NotInKernel { name: "MPTCP", cause: cause(), remedy: "" }),
            ("socket", libc::ENOPROTOOPT)
        );
        assert_eq!(call(NetError::Socket { what: "TCP/IPv4", cause: cause() }), ("socket", libc::ENOPROTOOPT));
        let option = NetError::Option { option: "IP_TTL", value: String::new(), cause: cause() };
        assert_eq!(call(option), ("setsockopt", libc::ENOPROTOOPT));
    }
}
