//! Nodes, their links, and the order in which everything happens.

use super::link::{Link, LinkCounts, Wire};
use super::node::{Arrival, Node};
use crate::packet::Packet;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::net::IpAddr;

/// How often a node may ask to be called again at once.
const PATIENCE: u32 = 10_000;
/// Packets that a node may send at one moment.
const MOST_AT_ONCE: u32 = 1 << 22;
const BUFFER_BYTES: usize = 65_535;

/// A node of a network. Methods of another network panic with it, or take it for a node of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node asks for ever to be called again at once, and does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("node {node} asks for ever to be called at {at_ns} ns")]
pub struct NoProgress {
    /// Which.
    pub node: NodeId,
    /// When.
    pub at_ns: u64,
}

/// A packet that a node sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct SentPacket {
    pub at_ns: u64,
    pub from: NodeId,
    /// Whom to: a node's address, or a group.
    pub to: IpAddr,
    pub bytes: Vec<u8>,
}

impl SentPacket {
    /// The packet in it, if it is one.
    pub fn packet(&self) -> Option<Packet<'_>> {
        Packet::parse(&self.bytes).ok()
    }
}

/// A packet on its way to one node, as a filter sees it.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct PassingPacket<'a> {
    pub at_ns: u64,
    pub from: NodeId,
    /// Whom it goes to; a packet to a group is seen once for each node.
    pub to: NodeId,
    pub bytes: &'a [u8],
}

impl<'a> PassingPacket<'a> {
    /// The packet in it, if it is one.
    pub fn packet(&self) -> Option<Packet<'a>> {
        Packet::parse(self.bytes).ok()
    }
}

type Filter = Box<dyn FnMut(&PassingPacket<'_>) -> bool>;

struct NetworkNode<N> {
    node: N,
    address: IpAddr,
    up: Wire,
    down: Wire,
    groups: Vec<IpAddr>,
    side: u32,
    due_ns: Option<u64>,
    /// The earliest event that calls it.
    wake_ns: Option<u64>,
    /// Its owner may have changed it.
    touched: bool,
    away: bool,
}

/// A packet on its way; several events may mean the same.
#[derive(Default)]
struct PacketInFlight {
    bytes: Vec<u8>,
    from: usize,
    to: Option<IpAddr>,
    users: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Switch { packet: usize },
    Arrive { packet: usize, node: usize },
    Wake { node: usize },
}

/// By time, and of the same time in the order of their making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: u64,
    order: u64,
    what: What,
}

/// Nodes on a switch, in virtual time.
pub struct Network<N> {
    now_ns: u64,
    seed: u64,
    places: Vec<NetworkNode<N>>,
    by_address: HashMap<IpAddr, usize>,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    flying: Vec<PacketInFlight>,
    free: Vec<usize>,
    touched: Vec<usize>,
    buffer: Vec<u8>,
    filter: Option<Filter>,
    record: bool,
    sent: Vec<SentPacket>,
    arrived: u64,
}

impl<N: Node> Network<N> {
    /// A network without nodes at time 0. The same seed and the same calls give the same packets.
    pub fn new(seed: u64) -> Self {
        Self {
            now_ns: 0,
            seed,
            places: Vec::new(),
            by_address: HashMap::new(),
            events: BinaryHeap::new(),
            order: 0,
            flying: Vec::new(),
            free: Vec::new(),
            touched: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            filter: None,
            record: false,
            sent: Vec::new(),
            arrived: 0,
        }
    }

    /// Adds a node with the same link for both directions. Of two nodes with one address the later one receives.
    pub fn add(&mut self, address: IpAddr, link: Link, node: N) -> NodeId {
        let at = self.places.len();
        // Each link draws for itself: one more node changes nothing for the others.
        let seed = |way: u64| self.seed ^ (2 * at as u64 + way + 1).wrapping_mul(0xd134_2543_de82_ef95);
        self.places.push(NetworkNode {
            node,
            address,
            up: Wire::new(link, seed(0)),
            down: Wire::new(link, seed(1)),
            groups: Vec::new(),
            side: 0,
            due_ns: None,
            wake_ns: None,
            touched: false,
            away: false,
        });
        self.by_address.insert(address, at);
        self.touch(at);
        NodeId(at)
    }

    /// A node hears a group from now on.
    pub fn join(&mut self, node: NodeId, group: IpAddr) {
        let groups = &mut self.places[node.0].groups;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }

    /// Puts a node on a side: sides do not hear each other. All nodes begin on side 0.
    pub fn put_on_side(&mut self, node: NodeId, side: u32) {
        self.places[node.0].side = side;
    }

    /// All nodes hear each other again.
    pub fn heal(&mut self) {
        for place in &mut self.places {
            place.side = 0;
        }
    }

    /// Takes a node away for good: it neither sends nor hears any more. What it knew can still be looked at.
    pub fn stop(&mut self, node: NodeId) {
        let place = &mut self.places[node.0];
        (place.away, place.wake_ns) = (true, None);
        if self.by_address.get(&place.address) == Some(&node.0) {
            self.by_address.remove(&place.address);
        }
    }

    /// Another link from a node to the switch.
    pub fn set_up(&mut self, node: NodeId, link: Link) {
        self.places[node.0].up.change(link);
    }

    /// Another link from the switch to a node.
    pub fn set_down(&mut self, node: NodeId, link: Link) {
        self.places[node.0].down.change(link);
    }

    /// What the link from a node to the switch did.
    pub fn up(&self, node: NodeId) -> LinkCounts {
        self.places[node.0].up.counts
    }

    /// What the link from the switch to a node did.
    pub fn down(&self, node: NodeId) -> LinkCounts {
        self.places[node.0].down.counts
    }

    /// Every packet on its way to a node is shown to this, at the switch; false loses it.
    pub fn set_filter(&mut self, filter: impl FnMut(&PassingPacket<'_>) -> bool + 'static) {
        self.filter = Some(Box::new(filter));
    }

    /// Nothing is filtered any more.
    pub fn clear_filter(&mut self) {
        self.filter = None;
    }

    /// Keeps every packet that is sent from now on, or does so no more.
    pub fn record(&mut self, record: bool) {
        self.record = record;
    }

    /// The packets that were kept, in the order of their sending.
    pub fn sent(&self) -> &[SentPacket] {
        &self.sent
    }

    /// Forgets them.
    pub fn forget_sent(&mut self) {
        self.sent.clear();
    }

    /// Packets that reached a node so far.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Virtual time in ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A node.
    pub fn node(&self, node: NodeId) -> &N {
        &self.places[node.0].node
    }

    /// A node, to be changed: the network looks after it when time goes on.
    pub fn node_mut(&mut self, node: NodeId) -> &mut N {
        self.touch(node.0);
        &mut self.places[node.0].node
    }

    fn touch(&mut self, at: usize) {
        if !std::mem::replace(&mut self.places[at].touched, true) {
            self.touched.push(at);
        }
    }

    /// Sends a packet in a node's name.
    pub fn send_as(&mut self, node: NodeId, to: IpAddr, bytes: &[u8]) {
        self.send(node.0, to, bytes);
    }

    fn schedule(&mut self, at_ns: u64, what: What) {
        self.order += 1;
        self.events.push(Reverse(Event { at_ns, order: self.order, what }));
    }

    fn send(&mut self, from: usize, to: IpAddr, bytes: &[u8]) {
        if self.record {
            self.sent.push(SentPacket { at_ns: self.now_ns, from: NodeId(from), to, bytes: bytes.to_vec() });
        }
        let arrivals = self.places[from].up.carry(self.now_ns, bytes.len());
        let users = arrivals.iter().flatten().count();
        if users == 0 {
            return;
        }
        let packet = self.free.pop().unwrap_or_else(|| {
            self.flying.push(PacketInFlight::default());
            self.flying.len() - 1
        });
        let flying = &mut self.flying[packet];
        flying.bytes.clear();
        flying.bytes.extend_from_slice(bytes);
        (flying.from, flying.to) = (from, Some(to));
        flying.users = u32::try_from(users).unwrap_or(u32::MAX);
        for at_ns in arrivals.into_iter().flatten() {
            self.schedule(at_ns, What::Switch { packet });
        }
    }

    /// One that meant a packet is done with it.
    fn release(&mut self, packet: usize) {
        self.flying[packet].users -= 1;
        if self.flying[packet].users == 0 {
            self.free.push(packet);
        }
    }

    fn switch(&mut self, packet: usize) {
        let to = self.flying[packet].to;
        for node in 0..self.places.len() {
            if to.is_some_and(|to| to.is_multicast() && self.places[node].groups.contains(&to)) {
                self.downwards(packet, node);
            }
        }
        let one = to.filter(|to| !to.is_multicast());
        if let Some(node) = one.and_then(|to| self.by_address.get(&to).copied()) {
            self.downwards(packet, node);
        }
        self.release(packet);
    }

    fn downwards(&mut self, packet: usize, node: usize) {
        let flying = &self.flying[packet];
        let from = flying.from;
        if node == from || self.places[node].side != self.places[from].side {
            return;
        }
        let crossing = PassingPacket { at_ns: self.now_ns, from: NodeId(from), to: NodeId(node), bytes: &flying.bytes };
        if self.filter.as_mut().is_some_and(|filter| !filter(&crossing)) {
            return;
        }
        let place = &mut self.places[node];
        if place.away {
            return;
        }
        for at_ns in place.down.carry(self.now_ns, flying.bytes.len()).into_iter().flatten() {
            self.flying[packet].users += 1;
            self.schedule(at_ns, What::Arrive { packet, node });
        }
    }

    fn arrive(&mut self, packet: usize, node: usize) -> Result<(), NoProgress> {
        let flying = &self.flying[packet];
        let from = self.places[flying.from].address;
        let place = &mut self.places[node];
        if let Some(to) = flying.to.filter(|_| !place.away) {
            self.arrived += 1;
            place.node.handle_datagram(self.now_ns, Arrival { from, to, bytes: &flying.bytes });
        }
        self.release(packet);
        self.serve(node)
    }

    /// Something happened to a node.
    fn serve(&mut self, at: usize) -> Result<(), NoProgress> {
        let now = self.now_ns;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut rounds = 0;
        let done = loop {
            let place = &mut self.places[at];
            if place.away {
                break true;
            }
            if place.due_ns.is_some_and(|due| due <= now) {
                place.node.handle_timeout(now);
            }
            place.node.act(now);
            let mut packets = 0;
            while let Some(out) = self.places[at].node.poll_transmit(now, &mut buffer) {
                self.send(at, out.to, buffer.get(..out.length).unwrap_or_default());
                packets += 1;
                if packets > MOST_AT_ONCE {
                    break;
                }
            }
            let place = &mut self.places[at];
            place.due_ns = place.node.poll_timeout(now);
            let Some(due) = place.due_ns else { break true };
            if due > now {
                // A timer that was put off costs nothing: the event of the old one finds that it is not due yet.
                if place.wake_ns.is_none_or(|wake| due < wake) {
                    place.wake_ns = Some(due);
                    self.schedule(due, What::Wake { node: at });
                }
                break true;
            }
            rounds += 1;
            if rounds > PATIENCE || packets > MOST_AT_ONCE {
                break false;
            }
        };
        self.buffer = buffer;
        if done { Ok(()) } else { Err(NoProgress { node: NodeId(at), at_ns: now }) }
    }

    /// Does the next thing that happens until then; false where nothing does.
    pub fn step(&mut self, until_ns: u64) -> Result<bool, NoProgress> {
        if let Some(at) = self.touched.pop() {
            self.places[at].touched = false;
            self.serve(at)?;
            return Ok(true);
        }
        let Some(Reverse(event)) = self.events.peek().copied().filter(|Reverse(event)| event.at_ns <= until_ns) else {
            return Ok(false);
        };
        self.events.pop();
        self.now_ns = self.now_ns.max(event.at_ns);
        match event.what {
            What::Switch { packet } => self.switch(packet),
            What::Arrive { packet, node } => self.arrive(packet, node)?,
            What::Wake { node } => {
                // An earlier call may have been asked for since.
                if self.places[node].wake_ns == Some(event.at_ns) {
                    self.places[node].wake_ns = None;
                    self.serve(node)?;
                }
            }
        }
        Ok(true)
    }

    /// Lets everything happen until then.
    pub fn run_until(&mut self, until_ns: u64) -> Result<(), NoProgress> {
        while self.step(until_ns)? {}
        self.now_ns = self.now_ns.max(until_ns);
        Ok(())
    }

    /// Lets everything happen for so long.
    pub fn run_for(&mut self, ns: u64) -> Result<(), NoProgress> {
        self.run_until(self.now_ns.saturating_add(ns))
    }
}
