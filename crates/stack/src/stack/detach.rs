//! Taking a connection out of the stack, whole, so that another TCP of this host goes on with it.

use super::{Stack, TcpSocket};
use crate::address::Flow;
use crate::tcp::{Connection, TcpState};
use crate::wire::tcp::{ACK, SYN, Segment};
use crate::{Error, Instant};
use std::net::SocketAddr;

/// All that another TCP needs to go on with a connection. Sequence numbers are those on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct TcpSnapshot {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub state: TcpState,
    /// SND.UNA: the number of the first byte of `sent`. A FIN counts as not acknowledged: it is sent again.
    pub send_unacknowledged: u32,
    /// Bytes that were sent and are not acknowledged.
    pub sent: Vec<u8>,
    /// Bytes behind them that were not yet sent.
    pub unsent: Vec<u8>,
    /// A FIN follows these bytes: the application sends no more.
    pub is_send_finished: bool,
    /// RCV.NXT, behind the FIN of the other end where that has come.
    pub receive_next: u32,
    /// Bytes that the application has not yet received. They end before `receive_next`, or before the FIN.
    pub unread: Vec<u8>,
    /// Nothing is received behind them: the other end has closed, or this application receives no more.
    pub is_receive_finished: bool,
    /// Both ends have closed and know it: there is nothing to send any more, not even a FIN, and perhaps something to read.
    pub is_over: bool,
    /// Largest segment of the other end, in bytes without options.
    pub peer_mss: u16,
    /// Shift of the other end's windows, and of this end's.
    pub shifts: (u8, u8),
    pub sack: bool,
    /// This end's time stamp now, where time stamps are used; in ms.
    pub timestamp: Option<u32>,
    /// SND.WND, in bytes.
    pub send_window: u32,
    /// The largest window of the other end so far, in bytes.
    pub largest_send_window: u32,
    /// SND.WL1: the number of the segment that set the window.
    pub send_window_sequence: u32,
    /// The window that was announced to the other end, in bytes from `receive_next` on.
    pub receive_window: u32,
}

impl Connection {
    /// None in a state in which another TCP cannot go on.
    fn snapshot(&self, now: Instant) -> Option<TcpSnapshot> {
        use TcpState::{CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, TimeWait};
        let (send, receive) = (&self.send, &self.receive);
        let is_over = match self.state {
            Established | CloseWait | FinWait1 | FinWait2 | Closing | LastAck => false,
            TimeWait => true,
            Closed if receive.fin_received && send.fin_acknowledged => true,
            _ => return None,
        };
        let whole = |(first, second): (&[u8], &[u8])| [first, second].concat();
        let mut sent = whole(send.buffer.slices());
        let in_flight = send.next.since(send.unacknowledged) as usize;
        let unsent = sent.split_off(in_flight.min(sent.len()));
        Some(TcpSnapshot {
            local: self.flow.local_socket(),
            remote: self.flow.remote_socket(),
            state: self.state,
            send_unacknowledged: send.unacknowledged.minus(u32::from(send.fin_acknowledged)).0,
            sent,
            unsent,
            is_send_finished: send.finished,
            receive_next: receive.next.0,
            unread: whole(receive.buffer.slices()),
            is_receive_finished: receive.fin_received || receive.shut,
            is_over,
            peer_mss: send.peer_mss,
            shifts: (send.shift, receive.shift),
            sack: self.sack,
            timestamp: self.timestamps.then(|| self.timestamp(now)),
            send_window: send.window,
            largest_send_window: send.largest_window.max(send.window),
            send_window_sequence: send.window_sequence.0,
            receive_window: receive.window(),
        })
    }
}

impl Stack {
    /// What another TCP needs to go on with a connection. [`Stack::tcp_detach`] then takes it out.
    ///
    /// Connections can move when both ends know each other, and as long as what was received can be read, unless they ended
    /// with an error. Bytes behind a gap are left out: the other end sends them again. Errors: [`Error::NotConnected`] in
    /// another state, [`Error::BadHandle`].
    pub fn tcp_snapshot(&self, now: Instant, socket: TcpSocket) -> Result<TcpSnapshot, Error> {
        let connection = self.connections.get(socket.0).filter(|one| !one.orphan).ok_or(Error::BadHandle)?;
        connection.snapshot(now).ok_or(Error::NotConnected)
    }

    /// Removes a connection without a segment; its segments pass by until a SYN of these ends. The handle is invalid.
    pub fn tcp_detach(&mut self, socket: TcpSocket) -> Result<(), Error> {
        let connection = self.connections.get_mut(socket.0).filter(|one| !one.orphan).ok_or(Error::BadHandle)?;
        let (flow, is_over) = (connection.flow, matches!(connection.state, TcpState::TimeWait | TcpState::Closed));
        // Its end is not reported.
        connection.orphan = true;
        connection.end(None);
        self.ended(socket.0);
        if !is_over {
            self.detached.insert(flow, ());
        }
        Ok(())
    }

    /// Passes by the segments of a connection that another TCP has, as of one that was detached.
    pub fn tcp_pass(&mut self, local: SocketAddr, remote: SocketAddr) {
        self.detached.insert(Flow::new(local, remote), ());
    }

    /// The connections that are passed by, by local and remote end.
    pub fn tcp_detached(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        self.detached.keys().map(|flow| (flow.local_socket(), flow.remote_socket()))
    }

    /// Forgets that a connection is passed by: it is over.
    pub fn tcp_forget_detached(&mut self, local: SocketAddr, remote: SocketAddr) {
        self.detached.remove(&Flow::new(local, remote));
    }

    /// Whether a segment of no connection belongs to one that was detached.
    pub(super) fn is_detached(&mut self, flow: &Flow, segment: &Segment<'_>) -> bool {
        if self.detached.is_empty() {
            return false;
        }
        if segment.has(SYN) && !segment.has(ACK) {
            self.detached.remove(flow);
        }
        self.detached.contains_key(flow)
    }
}
