//! Gives a live connection to the kernel (TCP_REPAIR of tcp(7), as CRIU uses it): before another process gets its descriptor, so that
//! all of them mean the same socket, as on Unix. No segment is sent for it.
//!
//! The order: frames of the connection stay with the stack, which is locked and takes none, until the kernel's socket is complete. That
//! one hears nothing until then (a filter). Frames that come meanwhile are dropped, by the stack or by the filter: TCP sends them again.

use super::address;
use super::copied::inherited;
use super::socket::Handle;
use super::state::State;
use crate::kernel::{self, set_option};
use crate::table::{self, Entry, TABLE};
use crate::{errno, page, real};
use bypass_abi::page::Reason;
use libc::{
    IPPROTO_TCP, MSG_DONTWAIT, MSG_NOSIGNAL, SO_BUF_LOCK, SO_RCVBUFFORCE, SO_SNDBUFFORCE, SOCK_CLOEXEC, SOCK_STREAM,
    SOL_SOCKET, TCP_QUEUE_SEQ, TCP_REPAIR, TCP_REPAIR_OPTIONS, TCP_REPAIR_QUEUE, TCP_REPAIR_WINDOW, TCP_TIMESTAMP,
    c_int,
};
use stack::TcpSnapshot;
use user_stack::now;

/// Index of the loopback interface, in each network namespace.
const LOOPBACK: c_int = 1;
/// A value of TCP_REPAIR, queues of TCP_REPAIR_QUEUE, and codes of TCP_REPAIR_OPTIONS (linux/tcp.h, include/net/tcp.h).
const OFF_WITHOUT_PROBE: c_int = -1;
const RECEIVE_QUEUE: c_int = 1;
const SEND_QUEUE: c_int = 2;
const OPTION_MSS: u32 = 2;
const OPTION_WINDOW: u32 = 3;
const OPTION_SACK: u32 = 4;
const OPTION_TIMESTAMPS: u32 = 8;
/// Bytes of one call that fills a queue: more than a segment of the kernel holds is refused.
const PIECE: usize = 16_384;
/// Room of a queue for what the kernel keeps beside the bytes.
const BESIDE: usize = 65_536;
/// How long bytes wait for room that should be there, ms.
const PATIENCE_MS: c_int = 1000;

/// A socket of the kernel that is being made; closed where it does not come to an end. In repair that sends nothing.
struct New(c_int);

impl Drop for New {
    fn drop(&mut self) {
        kernel::close(self.0);
    }
}

impl New {
    fn tcp<T: Copy>(&self, name: c_int, value: &T) -> Option<()> {
        set_option(self.0, IPPROTO_TCP, name, value).then_some(())
    }

    /// Fills the queue that is selected, or sends. Where there is no room, it waits for it.
    fn put(&self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = rest.len().min(PIECE);
            // SAFETY: this many bytes are there.
            let sent = unsafe { real::send.get()(self.0, rest.as_ptr().cast(), length, MSG_DONTWAIT | MSG_NOSIGNAL) };
            match usize::try_from(sent) {
                Ok(sent) => rest = rest.get(sent..)?,
                Err(_) if errno::get() == libc::EAGAIN => {
                    if kernel::poll_one(self.0, libc::POLLOUT, PATIENCE_MS) <= 0 {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
        Some(())
    }
}

/// Makes a socket of the kernel with the state of a connection: in repair, and deaf.
fn rebuild(snapshot: &TcpSnapshot, is_v6: bool, interface: u32) -> Option<New> {
    let new = New(kernel::socket(is_v6, SOCK_STREAM | SOCK_CLOEXEC));
    // The first: it needs CAP_NET_ADMIN, and lets the address be bound that the socket beside and a listener have.
    new.tcp(TCP_REPAIR, &1)?;
    kernel::attach_filter(new.0, &mut [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }]).then_some(())?;
    address::bind(new.0, snapshot.local, is_v6, interface).then_some(())?;
    let unread = u32::try_from(snapshot.unread.len()).ok()?;
    new.tcp(TCP_REPAIR_QUEUE, &SEND_QUEUE)?;
    new.tcp(TCP_QUEUE_SEQ, &snapshot.send_unacknowledged)?;
    new.tcp(TCP_REPAIR_QUEUE, &RECEIVE_QUEUE)?;
    new.tcp(TCP_QUEUE_SEQ, &snapshot.receive_next.wrapping_sub(unread))?;
    // The kernel takes twice of it, for what it keeps beside the bytes.
    for (name, bytes) in
        [(SO_SNDBUFFORCE, snapshot.sent.len() + snapshot.unsent.len()), (SO_RCVBUFFORCE, snapshot.unread.len())]
    {
        if bytes > 0 {
            let _ = set_option(new.0, SOL_SOCKET, name, &c_int::try_from(2 * bytes + BESIDE).unwrap_or(c_int::MAX));
        }
    }
    let (raw, length) = address::raw(snapshot.remote, is_v6, interface);
    // SAFETY: an address and its length. In repair it connects at once, and sends nothing.
    (unsafe { real::connect.get()(new.0, (&raw const raw).cast(), length) } == 0).then_some(())?;
    let shifts = u32::from(snapshot.shifts.0) | u32::from(snapshot.shifts.1) << 16;
    let agreed = [
        Some([OPTION_MSS, u32::from(snapshot.peer_mss)]),
        Some([OPTION_WINDOW, shifts]).filter(|_| shifts > 0),
        Some([OPTION_SACK, 0]).filter(|_| snapshot.sack),
        Some([OPTION_TIMESTAMPS, 0]).filter(|_| snapshot.timestamp.is_some()),
    ];
    for option in agreed.into_iter().flatten() {
        new.tcp(TCP_REPAIR_OPTIONS, &option)?;
    }
    if let Some(timestamp) = snapshot.timestamp {
        // The lowest bit asks for microseconds (Linux 6.7).
        new.tcp(TCP_TIMESTAMP, &(timestamp.wrapping_add(1) & !1))?;
    }
    // The receive queue is selected still.
    new.put(&snapshot.unread)?;
    new.tcp(TCP_REPAIR_QUEUE, &SEND_QUEUE)?;
    new.put(&snapshot.sent)?;
    let windows = [
        snapshot.send_window_sequence,
        snapshot.send_window,
        snapshot.largest_send_window,
        snapshot.receive_window,
        snapshot.receive_next,
    ];
    new.tcp(TCP_REPAIR_WINDOW, &windows)?;
    Some(new)
}

/// Lets it live: it hears, sends, and has what the program has set so far on the socket beside.
fn awake(new: &New, snapshot: &TcpSnapshot, beside: c_int, is_v6: bool) {
    let _ = if snapshot.is_over {
        // No FIN of it may leave, and nothing for it comes: a new connection may have the same ends. Loopback does not lead there.
        set_option(new.0, SOL_SOCKET, libc::SO_BINDTOIFINDEX, &LOOPBACK);
        new.tcp(TCP_REPAIR, &OFF_WITHOUT_PROBE)
    } else {
        kernel::detach_filter(new.0);
        // It asks the other end what it has, by a window probe.
        new.tcp(TCP_REPAIR, &0)
    };
    let _ = new.put(&snapshot.unsent);
    // The FIN of the other end has come already: to the program this is the same.
    for (is_due, how) in [(snapshot.is_receive_finished, libc::SHUT_RD), (snapshot.is_send_finished, libc::SHUT_WR)] {
        if is_due {
            kernel::shut_down(new.0, how);
        }
    }
    // Queues were made to fit: from now on they grow and shrink by themselves, unless the program has set them.
    let _ = set_option(new.0, SOL_SOCKET, SO_BUF_LOCK, &0);
    inherited(beside, is_v6).iter().for_each(|option| option.give(new.0));
    let status = kernel::fcntl(beside, libc::F_GETFL, 0);
    kernel::fcntl(new.0, libc::F_SETFL, status & (libc::O_NONBLOCK | libc::O_ASYNC));
}

impl State {
    /// Gives a connection to the kernel, under the same descriptors; false where it stays.
    pub(super) fn hand_over(&mut self, id: u32) -> bool {
        let fds: Vec<(c_int, &'static Entry)> = TABLE.all_of_stack(id).collect();
        let Some((beside, entry)) = fds.first().copied() else { return false };
        let Some((engine, socket)) = self.both(id) else { return false };
        let Handle::Tcp(handle) = socket.handle else { return false };
        let (is_v6, port, interface) = (socket.is_v6, socket.port, engine.interface().index);
        let Ok(snapshot) = engine.stack().tcp_snapshot(now(), handle) else { return false };
        let Some(new) = rebuild(&snapshot, is_v6, interface) else { return false };
        if engine.detach(handle).is_err() {
            return false;
        }
        engine.withdraw(port);
        awake(&new, &snapshot, beside, is_v6);
        TABLE.set_all(entry, 0, table::ON_STACK);
        for (fd, _) in &fds {
            let flags = if kernel::closes_on_exec(*fd) { libc::O_CLOEXEC } else { 0 };
            // SAFETY: takes numbers only. The number is the program's, and stays so.
            unsafe { real::dup3.get()(new.0, *fd, flags) };
        }
        self.unwatched(id);
        let _ = self.sockets.remove(id);
        self.wake(id);
        self.turned();
        page::handed_over(entry, Reason::HandedOver);
        true
    }
}
