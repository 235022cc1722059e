//! PGM (RFC 3208) in UDP at one end: the state machines of the `pgm` crate over one socket.
//!
//! The socket is bound to the port at every address, because Windows has no socket that is bound to a group. It joins the
//! group that this end hears, and takes the NAKs for the own source too. Both halves of a path share the machines behind
//! a lock, which is taken for a send and for what came, and never while a receive call waits.

use crate::data::{self, Received};
use crate::error::random;
use crate::platform::{self, Completion};
use crate::{WinpointError, error};
use model::{Event, PgmCarrier, PgmCounts, PgmSpec, Repaired};
use pgm::packet::Head;
use pgm::receiver::{Counts, Destination, Message, SessionEvent};
use pgm::source::{Class, SendError, SourceCounts};
use pgm::{Gsi, Receiver, Source, Tsi};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::pgm::events::{EventKind, EventNote, Notes, Numbers};
use wire::{FarRepair, PgmFarEnd, Tier};

const MOST_BYTES: usize = 1 << 16;
/// Buffers of the socket: what comes while a repair is waited for.
const BUFFER_BYTES: usize = 4 << 20;
/// How long a blocking receive call waits while a timer is near. Windows makes of it up to a clock tick.
const NEAR: Duration = Duration::from_millis(1);
/// How much before its time a packet may leave, in ns: less than what a wait is too long.
const AHEAD_NS: u64 = 25_000;
/// Rounds of the machines before one receive call.
const ROUNDS: u32 = 16;
/// Repairs that are kept, and events.
const MOST_NOTES: usize = 1 << 16;
/// What the peer is called in [`EventNote::from`]: there is one.
const PEER: u16 = 0;

/// What a log is filled with before anything was repaired.
const NO_REPAIR: FarRepair = FarRepair { number: u64::MAX, gap: 1, nak_ns: None, ncf_ns: None, data_ns: 1 };

/// What one end publishes and hears.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) spec: &'a PgmSpec,
    pub(crate) ttl: Option<u8>,
    /// The address whose interface carries the groups.
    pub(crate) local: IpAddr,
    pub(crate) publish: IpAddr,
    pub(crate) subscribe: IpAddr,
}

/// A source that nobody else is.
pub(crate) fn source() -> Result<Tsi, WinpointError> {
    let [a, b, c, d, e, f, high, low] = random()?;
    Ok(Tsi { gsi: Gsi([a, b, c, d, e, f]), port: u16::from_be_bytes([high, low]).max(1) })
}

fn v4(address: IpAddr) -> Result<Ipv4Addr, WinpointError> {
    match address.to_canonical() {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(address) => Err(WinpointError::Conflict {
            what: format!("winpoint has PGM over IPv4 only, and {address} is IPv6"),
            remedy: "use IPv4 addresses and groups",
        }),
    }
}

/// What is counted, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    source: SourceCounts,
    receiver: Counts,
}

impl Counted {
    /// Since an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> PgmCounts {
        wire::pgm::counts((&self.source, &self.receiver), (&before.source, &before.receiver))
    }
}

/// The source and the receiver, and what of them the socket has not taken yet.
#[derive(Debug)]
struct Machines {
    source: Source,
    receiver: Receiver,
    own: Tsi,
    /// The one source that is heard; absent: every one.
    peer: Option<Tsi>,
    /// Where the own source publishes, and what the receiver hears.
    group: SocketAddr,
    heard: SocketAddr,
    /// The time that the source was given last.
    source_ns: u64,
    packet: Vec<u8>,
    /// A packet that the socket did not take, and where it goes.
    waiting: Option<(usize, SocketAddr)>,
    /// When the newest of the delivered messages came.
    front_ns: u64,
    tag: u64,
    repairs: Notes<FarRepair>,
    /// Of what was given up: when, in ticks, and how many packets. Repairs may fill `events` before.
    losses: Notes<(u64, u32)>,
    events: Notes<EventNote>,
    /// Packets that this host had no room for.
    unsent: u64,
}

fn now_ns() -> u64 {
    platform::tick_rate().ns(platform::ticks())
}

impl Machines {
    /// Does what is due, and sends what may go out now or within the precision of a wait (packets that the peak rate
    /// puts microseconds apart leave together); the source's time runs ahead no further. Gives when to come again.
    fn serve(&mut self, socket: &UdpSocket) -> io::Result<u64> {
        let now = now_ns();
        self.source_ns = self.source_ns.max(now);
        if self.receiver.poll_timeout().is_some_and(|due| due <= now) {
            self.receiver.handle_timeout(now);
        }
        self.collect();
        loop {
            if self.waiting.is_none() {
                self.waiting = self.next_packet(now);
            }
            let Some((length, to)) = self.waiting else {
                match self.source.poll_timeout(self.source_ns) {
                    Some(due) if due > self.source_ns && due <= now.saturating_add(AHEAD_NS) => self.source_ns = due,
                    _ => break,
                }
                continue;
            };
            match socket.send_to(self.packet.get(..length).unwrap_or_default(), to) {
                Err(error) if data::is_nothing(&error) => return Ok(now),
                // Losses on this host are repaired like others; so is any failure of an address that the network named.
                Err(error) if to == self.group && !data::is_icmp(&error) && !data::is_lost(&error) => {
                    return Err(error);
                }
                sent => {
                    self.unsent += u64::from(sent.is_err_and(|error| data::has_no_room(&error)));
                    self.waiting = None;
                }
            }
        }
        let due = [self.source.poll_timeout(self.source_ns), self.receiver.poll_timeout()];
        Ok(due.into_iter().flatten().min().unwrap_or(u64::MAX))
    }

    fn note(&mut self, from: u16, what: Option<EventKind>) {
        if let Some(what) = what {
            self.events.push(EventNote { at_ns: now_ns(), from, what });
        }
    }

    fn next_packet(&mut self, now: u64) -> Option<(usize, SocketAddr)> {
        if let Some(out) = self.source.poll_transmit(self.source_ns, &mut self.packet) {
            if !matches!(out.class, Class::Odata | Class::Spm) {
                let what = self.packet.get(..out.length).and_then(|bytes| EventKind::sent(out.class, bytes));
                self.note(EventNote::OWN, what);
            }
            return Some((out.length, self.group));
        }
        let out = self.receiver.poll_transmit(now, &mut self.packet)?;
        let asked = self.packet.get(..out.length);
        let asked = asked.and_then(|bytes| EventKind::asked(Head::of(bytes).ok()?.kind, bytes));
        self.note(PEER, asked);
        let to = match out.to {
            // With the TTL of the groups: a request that crosses a router harms nobody.
            Destination::GroupOnLink => self.heard,
            Destination::Unicast(to) => SocketAddr::new(to, self.group.port()),
        };
        Some((out.length, to))
    }

    fn collect(&mut self) {
        while let Some(event) = self.receiver.poll_event() {
            if let SessionEvent::Lost { count, .. } = event.what {
                self.losses.push((platform::ticks(), count));
            }
            self.note(PEER, Some(EventKind::Session(event.what)));
        }
    }

    fn hear(&mut self, from: IpAddr, datagram: &[u8]) {
        // What is no packet of the peer's is a stranger's; what is wrong with a packet the machines count.
        let Ok(head) = Head::of(datagram) else { return };
        if head.tsi == self.own {
            if head.goes_to_source() {
                let before = self.source.counts().naks;
                let _ = self.source.handle_datagram(self.source_ns.max(now_ns()), datagram);
                if self.source.counts().naks != before {
                    self.note(PEER, Numbers::of(datagram).map(EventKind::NakReceived));
                }
            }
        } else if self.peer.is_none_or(|peer| peer == head.tsi) {
            let _ = self.receiver.handle_datagram(now_ns(), from, datagram);
            self.note(PEER, EventKind::came(head.kind, datagram));
        }
    }

    fn next(&mut self, buffer: &mut [u8]) -> Option<(Message, Repaired)> {
        let message = self.receiver.next_message(buffer)?;
        let held_ns = self.front_ns.saturating_sub(message.received_ns);
        self.front_ns = self.front_ns.max(message.received_ns);
        let repair_ns = message.repair.map_or(0, |repair| repair.data_ns.saturating_sub(repair.gap_ns));
        if let Some(repair) = message.repair
            && let Some(number) = wire::data::read(Tier::Tagged, self.tag, buffer)
        {
            self.repairs.push(FarRepair::new(number, &repair, platform::tick_rate().ticks(repair.gap_ns)));
        }
        Some((message, Repaired::new(repair_ns, held_ns)))
    }
}

/// One end of a conversation, or a half of it.
#[derive(Debug)]
pub(crate) struct Conversation {
    socket: Arc<UdpSocket>,
    machines: Arc<Mutex<Machines>>,
    datagram: Vec<u8>,
    /// What the last message's repairs cost.
    pub(crate) repaired: Repaired,
    /// The time-out that the socket has; absent: it does not wait.
    patience: Option<Duration>,
}

impl Conversation {
    /// Opens the socket, joins, and takes the memory of the windows.
    pub(crate) fn open(ends: &Ends<'_>, own: Tsi, tag: u64) -> Result<Self, WinpointError> {
        let Ends { spec, .. } = ends;
        spec.check()?;
        if spec.carrier != PgmCarrier::Udp {
            let what =
                "winpoint has PGM in UDP only: Windows gives raw sockets no datagrams of its own protocols".to_owned();
            return Err(WinpointError::Conflict { what, remedy: "use the carrier udp" });
        }
        let (local, group, heard) = (v4(ends.local)?, v4(ends.publish)?, v4(ends.subscribe)?);
        let socket = socket(ends, local, heard).map_err(|cause| match cause.kind() {
            io::ErrorKind::AddrInUse => WinpointError::PortInUse { port: spec.udp_port },
            _ => error::data("opening the socket of PGM")(cause),
        })?;
        let mut source = wire::pgm::source(spec, own, group.into(), local.into());
        if let Some(mtu) = platform::mtu(local) {
            source.max_packet_bytes = source.max_packet_bytes.min(wire::pgm::packet_room(mtu, true, false, false));
        }
        let receiver = wire::pgm::receiver(spec, heard.into(), 1, u64::from_ne_bytes(random()?));
        let wrong = |cause: String| WinpointError::Conflict { what: cause, remedy: "change the settings of PGM" };
        let mut receiver = Receiver::new(receiver).map_err(|cause| wrong(cause.to_string()))?;
        receiver.reserve(1);
        let machines = Machines {
            source: Source::new(source, now_ns()).map_err(|cause| wrong(cause.to_string()))?,
            receiver,
            own,
            peer: None,
            group: SocketAddr::new(group.into(), spec.udp_port),
            heard: SocketAddr::new(heard.into(), spec.udp_port),
            source_ns: 0,
            packet: vec![0x5a; MOST_BYTES],
            waiting: None,
            front_ns: 0,
            tag,
            repairs: Notes::new(MOST_NOTES, NO_REPAIR),
            losses: Notes::new(MOST_NOTES, (u64::MAX, u32::MAX)),
            events: Notes::new(MOST_NOTES, EventNote::NOTHING),
            unsent: 0,
        };
        let machines = Arc::new(Mutex::new(machines));
        let datagram = vec![0x5a; MOST_BYTES];
        let mut new =
            Self { socket: Arc::new(socket), machines, datagram, repaired: Repaired::default(), patience: None };
        new.set_blocking(true).map_err(error::data("setting up the socket of PGM"))?;
        Ok(new)
    }

    pub(crate) fn half(&self) -> Self {
        Self {
            socket: Arc::clone(&self.socket),
            machines: Arc::clone(&self.machines),
            datagram: vec![0x5a; MOST_BYTES],
            repaired: Repaired::default(),
            patience: self.patience,
        }
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.lock().unsent
    }

    fn lock(&self) -> MutexGuard<'_, Machines> {
        // A panic while it was held left no half-done packet behind.
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hear_only(&self, peer: Tsi) {
        self.lock().peer = Some(peer);
    }

    pub(crate) fn set_blocking(&mut self, blocks: bool) -> io::Result<()> {
        self.patience = blocks.then_some(data::LOOK);
        self.socket.set_nonblocking(!blocks)?;
        self.socket.set_read_timeout(self.patience)
    }

    /// Publishes a message unless it was `taken` before; whether it was taken now or then, and whether all of it has left.
    pub(crate) fn publish(&mut self, message: &[u8], taken: bool) -> io::Result<(bool, bool)> {
        let mut machines = self.lock();
        let taken = taken
            || match machines.source.send(message) {
                Ok(_) => true,
                Err(SendError::Full { .. }) => false,
                Err(error) => return Err(io::Error::other(error)),
            };
        machines.serve(&self.socket)?;
        Ok((taken, taken && machines.source.waiting() == 0 && machines.waiting.is_none()))
    }

    /// Takes a message that is there, or comes with one receive call.
    pub(crate) fn receive(&mut self, completion: Option<&mut Completion>, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(received) = self.next(buffer) {
            return Ok(received);
        }
        self.take(completion, data::LOOK)?;
        Ok(self.next(buffer).unwrap_or(Received::Nothing))
    }

    fn next(&mut self, buffer: &mut [u8]) -> Option<Received> {
        let (message, repaired) = self.lock().next(buffer)?;
        self.repaired = repaired;
        Some(Received::Bytes(message.length))
    }

    /// One receive call, `longest` at most, and what time has made due before and after it.
    fn take(&mut self, completion: Option<&mut Completion>, longest: Duration) -> io::Result<()> {
        let mut left_ns = 0;
        // A wait would last longer than what is due soon; but what comes is taken in between.
        for _ in 0..ROUNDS {
            left_ns = self.lock().serve(&self.socket)?.saturating_sub(now_ns());
            if left_ns > AHEAD_NS || self.patience.is_none() {
                break;
            }
        }
        let wait = if Duration::from_nanos(left_ns) > longest { longest.max(NEAR) } else { NEAR };
        let got = match completion {
            Some(completion) => completion.receive(&mut self.datagram, wait),
            None => {
                if self.patience.is_some_and(|patience| patience != wait) {
                    self.patience = Some(wait);
                    self.socket.set_read_timeout(self.patience)?;
                }
                self.socket.recv_from(&mut self.datagram).map(|(bytes, from)| (bytes, Some(from)))
            }
        };
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        match got {
            Ok((bytes, Some(from))) => machines.hear(from.ip(), self.datagram.get(..bytes).unwrap_or_default()),
            Ok((_, None)) => {}
            Err(error) if data::is_nothing(&error) || data::is_icmp(&error) || data::is_too_long(&error) => {}
            Err(error) => return Err(error),
        }
        machines.serve(&self.socket).map(|_| ())
    }

    /// Serves both machines for so long; messages that come stay.
    pub(crate) fn drive(&mut self, mut completion: Option<&mut Completion>, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.take(completion.as_deref_mut(), left.min(data::LOOK))?;
            if self.patience.is_none() {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Drops messages that have come, and forgets repairs and losses so far; gives the counts.
    pub(crate) fn begin(&mut self, scratch: &mut [u8]) -> Counted {
        let mut machines = self.lock();
        while machines.next(scratch).is_some() {}
        machines.repairs.clear();
        machines.losses.clear();
        machines.events.clear();
        Counted { source: machines.source.counts(), receiver: machines.receiver.counts() }
    }

    /// What was done since then.
    pub(crate) fn end(&self, before: &Counted) -> PgmFarEnd {
        let machines = self.lock();
        let after = Counted { source: machines.source.counts(), receiver: machines.receiver.counts() };
        let mut counts = after.since(before);
        counts.unlogged += machines.repairs.dropped + machines.events.dropped;
        PgmFarEnd::new(counts, &machines.repairs.entries, machines.losses.entries.iter().copied())
    }

    /// What happened since then, from `begin` in ticks on.
    pub(crate) fn events(&self, begin: u64) -> Vec<Event> {
        let begin_ns = platform::tick_rate().ns(begin);
        self.lock().events.entries.iter().filter_map(|note| note.event(begin_ns, None)).collect()
    }

    /// Announces the end of the own source, and repairs for so long.
    pub(crate) fn close(&mut self, completion: Option<&mut Completion>, time: Duration) {
        self.lock().source.close();
        // A peer that is gone needs no announcement.
        let _ = self.drive(completion, time);
    }
}

fn socket(ends: &Ends<'_>, local: Ipv4Addr, heard: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Smaller ones are what the system gives.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, ends.spec.udp_port)).into())?;
    socket.set_multicast_if_v4(&local)?;
    socket.set_multicast_ttl_v4(ends.ttl.unwrap_or(1).into())?;
    socket.set_multicast_loop_v4(ends.spec.loopback || local.is_loopback())?;
    socket.join_multicast_v4(&heard, &local)?;
    Ok(socket.into())
}
