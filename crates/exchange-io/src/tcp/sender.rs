//! The publisher's connections. Threads of their own connect, so that a cycle only sends.

use super::{BUFFER_BYTES, place};
use crate::NodeError;
use crate::report::Connection;
use exchange::{ExchangeFile, FrameQueue, Framing, Header, Topic};
use net::NetError;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// From one attempt to connect to the next one.
const RETRY: Duration = Duration::from_millis(20);
/// Between looks for a broken connection.
const LOOK: Duration = Duration::from_millis(100);
const CONNECT: Duration = Duration::from_millis(500);
/// A connection that took nothing for so long is made anew: the subscriber's host may have ended without a word. In ns.
const STALLED_NS: u64 = 5_000_000_000;
const STACK: usize = 128 * 1024;

/// Sends the frames of one topic.
#[derive(Debug)]
pub(crate) struct TcpSender {
    frame: Box<[u8]>,
    targets: Vec<Target>,
}

/// A subscriber.
#[derive(Debug)]
struct Target {
    to: SocketAddr,
    stream: Option<TcpStream>,
    queue: FrameQueue,
    /// When the connection last took bytes.
    taken_ns: u64,
    connects: u64,
    unsent: u64,
    /// To and from the thread that connects.
    made: Receiver<TcpStream>,
    broken: SyncSender<TcpStream>,
}

impl TcpSender {
    /// Starts to connect to all subscribers of a topic. Errors: an address or a thread that cannot be had.
    pub(crate) fn new(file: &ExchangeFile, node: &exchange::Node, topic: &Topic) -> Result<Self, NodeError> {
        let longest = topic.framing.header_bytes() + topic.bytes();
        let target = |to: SocketAddr| {
            let peer = place(to, node.address).map_err(|cause| NodeError::Net { node: node.name.clone(), cause })?;
            // Each holds one connection at most.
            let ((give, made), (broken, take)) = (sync_channel(1), sync_channel(1));
            let connector = Connector { from: node.address, to: peer, made: give, broken: take };
            let thread = std::thread::Builder::new().name("connect".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || connector.run());
            thread.map_err(|cause| NodeError::Thread { node: node.name.clone(), cause })?;
            let queue = FrameQueue::new(longest);
            Ok::<_, NodeError>(Target { to, stream: None, queue, taken_ns: 0, connects: 0, unsent: 0, made, broken })
        };
        let targets = file.targets(topic).into_iter().map(target).collect::<Result<_, _>>()?;
        Ok(Self { frame: vec![0; longest].into_boxed_slice(), targets })
    }

    #[inline]
    pub(crate) fn send(&mut self, framing: Framing, header: &Header, data: &[u8], now_ns: u64) {
        let Some(bytes) = framing.encode(header, data, &mut self.frame) else { return };
        let frame = self.frame.get(..bytes).unwrap_or_default();
        self.targets.iter_mut().for_each(|target| target.send(frame, now_ns));
    }

    pub(crate) fn finish(self) -> Vec<Connection> {
        self.targets.into_iter().map(Target::finish).collect()
    }
}

impl Target {
    #[inline]
    fn send(&mut self, frame: &[u8], now_ns: u64) {
        if self.stream.is_none() {
            self.stream = self.made.try_recv().ok();
            self.taken_ns = now_ns;
            self.connects += u64::from(self.stream.is_some());
        }
        let Some(mut stream) = self.stream.as_ref() else {
            self.unsent += 1;
            return;
        };
        self.queue.push(frame);
        match stream.write(self.queue.unsent()) {
            Ok(count) => {
                self.queue.sent(count);
                self.taken_ns = now_ns;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                    && now_ns.saturating_sub(self.taken_ns) < STALLED_NS => {}
            Err(_) => self.give_up(),
        }
    }

    /// The thread that connects closes the connection, too.
    fn give_up(&mut self) {
        self.unsent += self.queue.clear();
        if let Some(stream) = self.stream.take() {
            let _ = self.broken.try_send(stream);
        }
    }

    /// Ends, and returns what was counted.
    fn finish(mut self) -> Connection {
        let unsent = self.unsent + self.queue.clear();
        Connection { to: self.to, connects: self.connects, replaced: self.queue.replaced, unsent }
    }
}

/// Makes a connection whenever there is none.
struct Connector {
    from: IpAddr,
    to: SocketAddr,
    made: SyncSender<TcpStream>,
    broken: Receiver<TcpStream>,
}

impl Connector {
    /// Until the publisher ended.
    fn run(&self) {
        let mut is_connected = false;
        loop {
            match self.broken.try_recv() {
                Ok(stream) => {
                    drop(stream);
                    is_connected = false;
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            if !is_connected {
                is_connected = self.connect().is_ok_and(|stream| self.made.try_send(stream).is_ok());
            }
            std::thread::sleep(if is_connected { LOOK } else { RETRY });
        }
    }

    fn connect(&self) -> Result<TcpStream, NetError> {
        let stream = net::tcp::connect(self.to, Some(self.from), None, CONNECT)?;
        let failed = |cause| NetError::Connect { address: self.to, cause };
        setsockopt(&stream, sockopt::SndBuf, &BUFFER_BYTES).map_err(|errno| failed(errno.into()))?;
        stream.set_nonblocking(true).map_err(failed)?;
        Ok(stream)
    }
}
