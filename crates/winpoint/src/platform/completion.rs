//! Overlapped receive calls that end through an I/O completion port (Windows).
//!
//! Several calls are posted at once on a socket of datagrams, one on a stream. What the system writes to lives on the heap
//! and is freed only when the system has said that the call has ended.
#![expect(unsafe_code, reason = "calls of Windows")]

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::windows::io::AsRawSocket;
use std::ptr::{null, null_mut};
use std::time::Duration;

type Handle = *mut c_void;
type RawSocket = usize;

/// Calls that wait on a socket of datagrams: what comes while one is looked at finds the next one.
const DEPTH: usize = 64;
/// Room of a call: the longest datagram, and its sign.
const ROOM: usize = 1 << 16;
/// Longest wait for calls that were cancelled.
const CANCEL_MS: u32 = 1000;
const INVALID_HANDLE: Handle = usize::MAX as Handle;
const IO_PENDING: i32 = 997;
const WAIT_TIMEOUT: i32 = 258;
/// `sin_family` and `sin6_family`.
const INET: u16 = 2;
const INET6: u16 = 23;

/// OVERLAPPED.
#[repr(C)]
struct Overlapped {
    internal: usize,
    internal_high: usize,
    offset: u64,
    event: Handle,
}

/// WSABUF.
#[repr(C)]
struct Buffer {
    length: u32,
    bytes: *mut u8,
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn CreateIoCompletionPort(file: Handle, port: Handle, key: usize, threads: u32) -> Handle;
    fn GetQueuedCompletionStatus(
        port: Handle,
        bytes: *mut u32,
        key: *mut usize,
        call: *mut *mut Overlapped,
        wait_ms: u32,
    ) -> i32;
    fn CancelIoEx(file: Handle, call: *mut Overlapped) -> i32;
    fn CloseHandle(handle: Handle) -> i32;
}

#[link(name = "ws2_32")]
unsafe extern "system" {
    fn WSARecv(
        socket: RawSocket,
        buffers: *const Buffer,
        count: u32,
        bytes: *mut u32,
        flags: *mut u32,
        call: *mut Overlapped,
        routine: *const c_void,
    ) -> i32;
    fn WSARecvFrom(
        socket: RawSocket,
        buffers: *const Buffer,
        count: u32,
        bytes: *mut u32,
        flags: *mut u32,
        from: *mut Address,
        from_length: *mut i32,
        call: *mut Overlapped,
        routine: *const c_void,
    ) -> i32;
    fn WSAGetLastError() -> i32;
}

/// SOCKADDR_IN or SOCKADDR_IN6, in network order.
#[repr(C, align(8))]
struct Address([u8; 32]);

impl Address {
    fn read(&self) -> Option<SocketAddr> {
        let [family_low, family_high, high, low, rest @ ..] = self.0;
        let port = u16::from_be_bytes([high, low]);
        let ip = match u16::from_le_bytes([family_low, family_high]) {
            INET => IpAddr::V4(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
            INET6 => IpAddr::V6(Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?)),
            _ => return None,
        };
        Some(SocketAddr::new(ip, port))
    }
}

/// One call. The system has it from its posting to its end.
#[repr(C)]
struct Call {
    /// First, so that its address is the call's.
    overlapped: Overlapped,
    buffer: Buffer,
    flags: u32,
    from: Address,
    from_length: i32,
    room: [u8; ROOM],
}

/// What of a stream's bytes nobody has taken yet.
#[derive(Debug)]
struct Rest {
    call: *mut Call,
    from: usize,
    to: usize,
}

/// A port, and the calls of one socket.
#[derive(Debug)]
pub(crate) struct Completion {
    port: Handle,
    socket: RawSocket,
    is_stream: bool,
    calls: Vec<*mut Call>,
    /// Calls that the system has, and those that it did not take.
    posted: usize,
    idle: Vec<*mut Call>,
    rest: Option<Rest>,
}

// SAFETY: the calls and the port belong to it alone. A call on a socket with a completion port is not cancelled when the
// thread that posted it ends (Windows Vista and later, as the reference of ExitThread and of CancelIo says).
unsafe impl Send for Completion {}

impl Completion {
    pub(crate) fn of_datagrams(socket: &UdpSocket) -> io::Result<Self> {
        Self::new(raw(socket.as_raw_socket())?, false, DEPTH)
    }

    pub(crate) fn of_stream(stream: &TcpStream) -> io::Result<Self> {
        Self::new(raw(stream.as_raw_socket())?, true, 1)
    }

    fn new(socket: RawSocket, is_stream: bool, depth: usize) -> io::Result<Self> {
        // SAFETY: the socket is open, and no port is joined to it; without a port a new one is made, or null is given.
        let port = unsafe { CreateIoCompletionPort(socket as Handle, null_mut(), 0, 1) };
        if port.is_null() || port == INVALID_HANDLE {
            return Err(io::Error::last_os_error());
        }
        let mut new = Self {
            port,
            socket,
            is_stream,
            calls: Vec::with_capacity(depth),
            posted: 0,
            idle: Vec::with_capacity(depth),
            rest: None,
        };
        for _ in 0..depth {
            let call = Box::into_raw(Box::new(Call {
                overlapped: Overlapped { internal: 0, internal_high: 0, offset: 0, event: null_mut() },
                buffer: Buffer { length: 0, bytes: null_mut() },
                flags: 0,
                from: Address([0; 32]),
                from_length: 0,
                room: [0x5a; ROOM],
            }));
            new.calls.push(call);
            new.post(call)?;
        }
        Ok(new)
    }

    /// Gives a call to the system.
    fn post(&mut self, call: *mut Call) -> io::Result<()> {
        // SAFETY: the call is ours, on the heap, and the system does not have it. All that the system is given lies in the call, which
        // stays until its end is taken.
        let done = unsafe {
            (*call).overlapped = Overlapped { internal: 0, internal_high: 0, offset: 0, event: null_mut() };
            (*call).buffer = Buffer { length: ROOM as u32, bytes: (&raw mut (*call).room).cast() };
            (*call).flags = 0;
            (*call).from_length = size_of::<Address>() as i32;
            let (buffer, flags) = (&raw const (*call).buffer, &raw mut (*call).flags);
            let overlapped = &raw mut (*call).overlapped;
            if self.is_stream {
                WSARecv(self.socket, buffer, 1, null_mut(), flags, overlapped, null())
            } else {
                let (from, length) = (&raw mut (*call).from, &raw mut (*call).from_length);
                WSARecvFrom(self.socket, buffer, 1, null_mut(), flags, from, length, overlapped, null())
            }
        };
        // SAFETY: it reads what this thread's last call of Winsock left.
        let error = if done == 0 { IO_PENDING } else { unsafe { WSAGetLastError() } };
        if error == IO_PENDING {
            // A call that is done at once ends through the port too.
            self.posted += 1;
            return Ok(());
        }
        // It is posted again before the next end is waited for.
        self.idle.push(call);
        Err(io::Error::from_raw_os_error(error))
    }

    /// The next call that ended: how many bytes it has, or how it failed. The system no longer has it.
    fn ended(&mut self, wait_ms: u32) -> io::Result<(*mut Call, io::Result<usize>)> {
        let (mut bytes, mut key, mut call) = (0, 0, null_mut());
        // SAFETY: all places are ours.
        let done =
            unsafe { GetQueuedCompletionStatus(self.port, &raw mut bytes, &raw mut key, &raw mut call, wait_ms) };
        let error = io::Error::last_os_error();
        if call.is_null() {
            let is_over = error.raw_os_error() == Some(WAIT_TIMEOUT);
            return Err(if is_over { ErrorKind::TimedOut.into() } else { error });
        }
        self.posted -= 1;
        Ok((call.cast(), if done == 0 { Err(error) } else { Ok(bytes as usize) }))
    }

    /// Takes a datagram, or what has come of a stream (0 bytes: its end), into `buffer`; waits for `wait` at most.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], wait: Duration) -> io::Result<(usize, Option<SocketAddr>)> {
        if let Some(rest) = self.rest.take() {
            return Ok((self.hand_out(rest, buffer), None));
        }
        for call in std::mem::take(&mut self.idle) {
            // While the system has others, this one can wait.
            if let Err(error) = self.post(call)
                && self.posted == 0
            {
                return Err(error);
            }
        }
        let (call, outcome) = self.ended(u32::try_from(wait.as_millis()).unwrap_or(u32::MAX))?;
        let bytes = match outcome {
            Ok(bytes) => bytes.min(ROOM),
            Err(error) => {
                // An ICMP error, or a datagram that is too long: the next one finds the call again.
                let _ = self.post(call);
                return Err(error);
            }
        };
        if self.is_stream && bytes > 0 {
            return Ok((self.hand_out(Rest { call, from: 0, to: bytes }, buffer), None));
        }
        // SAFETY: the system no longer has the call, so nobody else reads or writes it.
        let (from, room) = unsafe { ((*call).from.read(), &(*call).room) };
        let length = bytes.min(buffer.len());
        if let (Some(to), Some(taken)) = (buffer.get_mut(..length), room.get(..length)) {
            to.copy_from_slice(taken);
        }
        // A stream that has ended is not read again. What the system refuses now it says the next time: this came.
        if !self.is_stream {
            let _ = self.post(call);
        }
        Ok((length, from))
    }

    /// A stream's bytes as far as there is room for them; the call is posted again when all are taken.
    fn hand_out(&mut self, rest: Rest, buffer: &mut [u8]) -> usize {
        let Rest { call, from, to } = rest;
        let length = (to - from).min(buffer.len());
        // SAFETY: the system does not have the call, so nobody else writes to it.
        let room = unsafe { &(*call).room };
        if let (Some(place), Some(taken)) = (buffer.get_mut(..length), room.get(from..from + length)) {
            place.copy_from_slice(taken);
        }
        if from + length < to {
            self.rest = Some(Rest { call, from: from + length, to });
        } else {
            let _ = self.post(call);
        }
        length
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        // SAFETY: the socket may be closed already; then its calls have ended, and the call fails.
        unsafe { CancelIoEx(self.socket as Handle, null_mut()) };
        while self.posted > 0 && self.ended(CANCEL_MS).is_ok() {}
        // What the system still has stays allocated: it may write to it.
        if self.posted == 0 {
            for call in self.calls.drain(..) {
                // SAFETY: each came from a box, once, and the system has none of them.
                drop(unsafe { Box::from_raw(call) });
            }
        }
        // SAFETY: the port is ours and open.
        unsafe { CloseHandle(self.port) };
    }
}

fn raw(socket: u64) -> io::Result<RawSocket> {
    usize::try_from(socket).map_err(io::Error::other)
}
