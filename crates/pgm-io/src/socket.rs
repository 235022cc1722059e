//! One end of a conversation.

use crate::receiving::{BATCH, Receiving, SMALL, Until, Wakeup};
use crate::sending::{Sending, Shared};
use crate::{EventNote, PgmIoError, PgmSocketOptions, RepairNote};
use clock::Clock;
use model::Fate;
use net::group::{Carrier, GroupOptions, GroupSocket, GroupWait, SendBatch, interface_of};
use net::{NetError, PathError};
use pgm::receiver::{Counts, Event, Repair};
use pgm::source::SourceCounts;
use pgm::{Receiver, Source, SourceConfig, Sqn, Tsi};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Addresses of 127.0.0.0/8 that are tried when the one asked for has an end already.
const LOOPBACKS: u8 = 64;
/// While one message is sent after another without a wait, NAKs are looked for so often.
const HEAR_NS: u64 = 200_000;
/// Nothing ends a wait by hand but a signal and its deadline.
static NEVER: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Its length in bytes: more than the buffer's means that its end was cut off.
    pub bytes: usize,
    pub tsi: Tsi,
    /// The same as a number: see [`RepairNote::from`].
    pub from: u16,
    /// The number of its first packet.
    pub first: Sqn,
    /// How it was repaired; absent: it came by itself.
    pub repair: Option<Repair>,
    /// From its arrival until all before it, one of them repaired, had come; 0: nothing held it.
    pub held_ns: u64,
    /// When its last packet was taken from the kernel.
    pub received_ns: u64,
    /// When the kernel received that packet, in ns since 1970; 0 without stamps.
    pub stack_ns: u64,
}

impl Delivered {
    /// What repairs did to it.
    pub fn fate(&self) -> Fate {
        match (self.repair, self.held_ns) {
            (Some(_), _) => Fate::Repaired,
            (None, 0) => Fate::Untouched,
            (None, _) => Fate::Held,
        }
    }
}

/// What [`PgmSocket::receive`] brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Incoming {
    Message(Delivered),
    Event(Event),
    TimedOut,
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgmSocketCounts {
    pub source: SourceCounts,
    pub receiver: Counts,
    /// Packets of sources that are not among the peers, and messages of those without a number.
    pub foreign: u64,
    /// Packets that never left this host, for a reason that may pass (a full queue, a link that flaps).
    pub unsent: u64,
    /// NAKs and SPMRs that did not leave: refused by the kernel (the address came from the network) or dropped before.
    pub naks_unsent: u64,
    /// Datagrams that the kernel dropped because a receive buffer was full (SO_RXQ_OVFL).
    pub overflowed: u64,
}

/// One end: an optional source on one group, an optional receiver on one group, and their sockets.
#[derive(Debug)]
pub struct PgmSocket {
    shared: Shared,
    receiving: Receiving,
    wait: GroupWait,
    local: IpAddr,
    payload_bytes: Option<usize>,
    max_sources: usize,
    heartbeat_ns: u64,
    linger_ns: u64,
    /// When NAKs were looked for last by a send that had not to wait.
    heard_ns: u64,
}

impl PgmSocket {
    /// Opens the sockets, joins, and takes all memory. A source announces itself with the first call that drives it.
    pub fn open(options: &PgmSocketOptions) -> Result<Self, PgmIoError> {
        if options.source.is_none() && options.receiver.is_none() {
            return Err(PgmIoError::Nothing);
        }
        let groups = [options.source.map(|one| one.group), options.receiver.map(|one| one.group)];
        if let Some(one) = groups.into_iter().flatten().find(|one| one.is_ipv4() != options.network.local.is_ipv4()) {
            return Err(PgmIoError::Family { one, other: options.network.local });
        }
        let windows = [
            options.source.map(|source| source.memory_bytes()),
            options.receiver.map(|receiver| receiver.memory_bytes()),
        ];
        crate::memory::check(windows.into_iter().flatten().fold(0, u64::saturating_add))?;
        let clock = options.clock.map_or_else(Clock::calibrate, Ok)?;
        let mut network = options.network;
        if network.interface == 0 {
            network.interface = interface_of(network.local)?;
        }
        let (own, local) = own(&network, options.source.is_some())?;
        let mtu = net::interface::mtu(&net::interface::name_of(network.interface)?)?;
        let mut payload_bytes = None;
        let now = clock.ns(clock.now());
        let sending = match &options.source {
            None => None,
            Some(config) => {
                own.check_route(config.group)?;
                let in_udp = matches!(network.carrier, Carrier::Udp { .. });
                let room = wire::pgm::packet_room(mtu, in_udp, local.is_ipv6(), network.router_alert);
                let max_packet_bytes = config.max_packet_bytes.min(room);
                let config = SourceConfig { address: local, max_packet_bytes, ..*config };
                let source = Source::new(config, now).map_err(PgmIoError::Source)?;
                payload_bytes = Some(source.packet_payload_bytes());
                let batch = SendBatch::new(&own, BATCH, config.max_packet_bytes);
                Some(Sending::new(source, batch, own.target(config.group), network.router_alert, options.notes))
            }
        };
        let (mut heard, mut longest) = (None, SMALL);
        if let Some(config) = &options.receiver {
            let mut receiver = Receiver::new(*config).map_err(PgmIoError::Receiver)?;
            receiver.reserve(1);
            heard = Some((receiver, GroupSocket::member(&GroupOptions { local, ..network }, config.group)?));
            longest = (mtu as usize).clamp(SMALL, 1 << 16).max(config.max_packet_bytes);
        }
        let receiving = Receiving::new(options, &own, heard, longest);
        let shared = Shared::new(clock, own, sending);
        let wait = GroupWait::blocking(&receiving.sockets(&shared))?;
        Ok(Self {
            shared,
            receiving,
            wait,
            local,
            payload_bytes,
            max_sources: options.receiver.map_or(0, |config| config.max_sources),
            heartbeat_ns: options.source.map_or(0, |config| config.heartbeat_min_ns),
            linger_ns: nanoseconds(options.linger),
            heard_ns: 0,
        })
    }

    /// The engines' time: the clock's ticks in ns.
    pub fn now_ns(&self) -> u64 {
        self.shared.now()
    }

    /// The own unicast address, which may be another than asked for on the loopback interface.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// The longest message that goes into one packet; absent without a source.
    pub fn packet_payload_bytes(&self) -> Option<usize> {
        self.payload_bytes
    }

    /// The sources whose messages are taken, numbered by their order; packets of others are dropped and counted as foreign.
    /// Without peers all are taken. Call it before any was heard; at most [`pgm::ReceiverConfig::max_sources`].
    pub fn set_peers(&mut self, peers: &[Tsi]) -> Result<(), PgmIoError> {
        let most = self.max_sources.min(crate::receiving::MOST_PEERS);
        if peers.len() > most {
            return Err(PgmIoError::TooManyPeers { peers: peers.len(), most });
        }
        if let Some(receiver) = &mut self.receiving.receiver {
            receiver.reserve(peers.len());
        }
        self.receiving.peers.set(peers);
        Ok(())
    }

    /// Publishes a message and waits until its packets have left, as the rate allows; serves NAKs and timers meanwhile.
    pub fn send(&mut self, message: &[u8]) -> Result<Sqn, PgmIoError> {
        let mut taken = None;
        loop {
            let until = match self.shared.publish(message, &mut taken) {
                Ok(Some(until_ns)) => until_ns,
                Ok(None) => {
                    // A caller that is always late would serve no NAK.
                    let now = self.shared.now();
                    if now.saturating_sub(self.heard_ns) >= HEAR_NS {
                        self.heard_ns = now;
                        self.receiving.hear(&self.shared)?;
                    }
                    return Ok(taken.unwrap_or_default());
                }
                Err(PgmIoError::Path(PathError::Interrupted)) => continue,
                Err(error) => return Err(error),
            };
            self.until(until)?;
        }
    }

    /// Waits for a message or an event of an end that subscribes; serves the own source meanwhile.
    pub fn receive(&mut self, buffer: &mut [u8], timeout: Duration) -> Result<Incoming, PgmIoError> {
        if self.receiving.receiver.is_none() {
            return Err(PgmIoError::NoReceiver);
        }
        let deadline_ns = self.shared.now().saturating_add(nanoseconds(timeout));
        let until = Until { deadline_ns, stop: &NEVER, events: true, deliver: true };
        loop {
            return Ok(match self.receiving.wait(&self.shared, &mut self.wait, until, buffer)? {
                Wakeup::Message(message) => Incoming::Message(message),
                Wakeup::Event => match self.receiving.event() {
                    Some(event) => Incoming::Event(event),
                    None => continue,
                },
                Wakeup::TimedOut => Incoming::TimedOut,
                Wakeup::Interrupted | Wakeup::Stopped => Incoming::Interrupted,
            });
        }
    }

    /// Serves NAKs and timers for so long; messages and events stay for [`Self::receive`]. Returns early after a signal.
    pub fn drive(&mut self, time: Duration) -> Result<(), PgmIoError> {
        self.until(self.shared.now().saturating_add(nanoseconds(time)))?;
        Ok(())
    }

    /// Serves until then; `false` after a signal.
    fn until(&mut self, deadline_ns: u64) -> Result<bool, PgmIoError> {
        let until = Until { deadline_ns, stop: &NEVER, events: false, deliver: false };
        let got = self.receiving.wait(&self.shared, &mut self.wait, until, &mut [])?;
        Ok(matches!(got, Wakeup::TimedOut))
    }

    /// Ends the own session: sends what waits, announces the end, and repairs until nobody asks for
    /// [`PgmSocketOptions::linger`], at most for `within` or until a signal; nothing without a source. Whether all was
    /// sent and announced, and no repair is asked for. The socket can still be driven afterwards.
    pub fn close(&mut self, within: Duration) -> Result<bool, PgmIoError> {
        let begin = self.shared.now();
        let end = begin.saturating_add(nanoseconds(within));
        let (mut asked, mut quiet_since) = (0, begin);
        loop {
            let now = self.shared.now();
            let Some(mut sending) = self.shared.lock() else { return Ok(true) };
            sending.source.close();
            let naks = sending.source.counts().naks;
            let sent = sending.source.is_finished();
            drop(sending);
            self.shared.serve()?;
            if naks != asked || !sent {
                (asked, quiet_since) = (naks, now);
            }
            let quiet_ns = now.saturating_sub(quiet_since);
            if sent && quiet_ns >= self.linger_ns {
                return Ok(true);
            }
            if now >= end {
                return Ok(false);
            }
            let left = if sent { self.linger_ns - quiet_ns } else { self.heartbeat_ns };
            if !self.until(end.min(now.saturating_add(left.clamp(1_000_000, 10_000_000))))? {
                return Ok(false);
            }
        }
    }

    pub fn counts(&self) -> PgmSocketCounts {
        let (source, unsent) =
            self.shared.lock().map_or_else(Default::default, |sending| (sending.source.counts(), sending.lost()));
        PgmSocketCounts {
            source,
            receiver: self.receiving.receiver.as_ref().map(Receiver::counts).unwrap_or_default(),
            foreign: self.receiving.foreign(),
            unsent,
            naks_unsent: self.receiving.unsent(),
            overflowed: self.receiving.overflowed(),
        }
    }

    /// Repaired messages, and those that waited for them, in the order of delivery.
    pub fn repairs(&self) -> &[RepairNote] {
        &self.receiving.repairs.entries
    }

    pub fn events(&self) -> Vec<EventNote> {
        let mut all = self.receiving.notes.entries.clone();
        all.extend(self.shared.lock().iter().flat_map(|sending| &sending.notes.entries));
        all.sort_by_key(|note| note.at_ns);
        all
    }

    /// Repairs and events that found no room in the log.
    pub fn unlogged(&self) -> (u64, u64) {
        let sent = self.shared.lock().map_or(0, |sending| sending.notes.dropped);
        (self.receiving.repairs.dropped, self.receiving.notes.dropped + sent)
    }

    /// Forgets the log so far, such as that of a warm-up.
    pub fn clear_log(&mut self) {
        self.receiving.repairs.clear();
        self.receiving.notes.clear();
        if let Some(mut sending) = self.shared.lock() {
            sending.notes.clear();
        }
    }

    /// The two halves, and what a loop has to end with.
    pub(crate) fn halves(&mut self) -> (&Shared, &mut Receiving) {
        (&self.shared, &mut self.receiving)
    }
}

/// The socket that sends. Every address of 127.0.0.0/8 is local, so another end on this host is no obstacle.
fn own(options: &GroupOptions, publishes: bool) -> Result<(GroupSocket, IpAddr), PgmIoError> {
    let mut local = options.local;
    loop {
        match (GroupSocket::own(&GroupOptions { local, ..*options }, publishes), options.carrier) {
            (Ok(socket), _) => return Ok((socket, local)),
            (Err(NetError::InUse { .. }), Carrier::Udp { port }) => {
                local = next_loopback(local).ok_or(PgmIoError::AddressInUse { address: options.local, port })?;
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
}

fn next_loopback(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V4(v4) = address else { return None };
    match v4.octets() {
        [127, 0, 0, last] if last < LOOPBACKS => Some(Ipv4Addr::new(127, 0, 0, last + 1).into()),
        _ => None,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_more_addresses() {
        let of = |text: &str| next_loopback(text.parse().unwrap()).map(|next| next.to_string());
        assert_eq!(of("127.0.0.1").as_deref(), Some("127.0.0.2"));
        assert_eq!((of("127.0.0.64"), of("10.0.0.1"), of("::1")), (None, None, None));
    }
}
