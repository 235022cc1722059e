//! The node that most tests need.

use super::node::{Arrival, Node, Outgoing};
use crate::packet::{Head, kind};
use crate::receiver::{Counts, Destination, Event, Message};
use crate::source::{ConfigError, SendError, SourceCounts};
use crate::{Receiver, ReceiverConfig, Source, SourceConfig, Sqn};
use std::net::{IpAddr, Ipv4Addr};

/// A message that a station received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// When it was taken, in ns.
    pub at_ns: u64,
    /// What is known of it.
    pub message: Message,
    /// Its bytes; empty where they are not kept.
    pub bytes: Vec<u8>,
}

/// What a station keeps of the messages that it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Everything.
    #[default]
    All,
    /// Everything but the bytes.
    Facts,
    /// Nothing: they are only counted.
    Nothing,
}

/// A source, a receiver, both or neither. Messages are taken at once when they are whole.
#[derive(Debug)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Station {
    pub source: Option<Source>,
    pub receiver: Option<Receiver>,
    /// What is kept of messages.
    pub keep: Keep,
    /// Whether the receiver's messages stay where they are, as with an application that does not read.
    pub stalled: bool,
    source_group: IpAddr,
    receiver_group: IpAddr,
    buffer: Vec<u8>,
    delivered: Vec<Delivered>,
    events: Vec<(u64, Event)>,
}

impl Station {
    /// A node with a source, a receiver, both or neither, that begins at a time.
    pub fn new(
        now_ns: u64,
        source: Option<SourceConfig>,
        receiver: Option<ReceiverConfig>,
    ) -> Result<Self, ConfigError> {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Ok(Self {
            source: source.map(|config| Source::new(config, now_ns)).transpose()?,
            receiver: receiver.map(Receiver::new).transpose()?,
            keep: Keep::All,
            stalled: false,
            source_group: source.map_or(nowhere, |config| config.group),
            receiver_group: receiver.map_or(nowhere, |config| config.group),
            buffer: vec![0; 1 << 20],
            delivered: Vec::new(),
            events: Vec::new(),
        })
    }

    /// A node that sends.
    pub fn source(config: SourceConfig) -> Result<Self, ConfigError> {
        Self::new(0, Some(config), None)
    }

    /// A node that receives. It still has to join the group ([`super::Network::join`]).
    pub fn receiver(config: ReceiverConfig) -> Result<Self, ConfigError> {
        Self::new(0, None, Some(config))
    }

    /// Hands a message to the source; [`SendError::Closed`] also where there is no source.
    pub fn publish(&mut self, message: &[u8]) -> Result<Sqn, SendError> {
        self.source.as_mut().map_or(Err(SendError::Closed), |source| source.send(message))
    }

    /// Ends the source's session.
    pub fn close(&mut self) {
        if let Some(source) = &mut self.source {
            source.close();
        }
    }

    /// What the source counted; nothing where there is none.
    pub fn source_counts(&self) -> SourceCounts {
        self.source.as_ref().map(Source::counts).unwrap_or_default()
    }

    /// What the receiver counted; nothing where there is none.
    pub fn counts(&self) -> Counts {
        self.receiver.as_ref().map(Receiver::counts).unwrap_or_default()
    }

    /// Messages received, in the order of their delivery.
    pub fn delivered(&self) -> &[Delivered] {
        &self.delivered
    }

    /// The receiver's events, and when.
    pub fn events(&self) -> &[(u64, Event)] {
        &self.events
    }
}

impl Node for Station {
    fn handle_datagram(&mut self, now_ns: u64, arrival: Arrival<'_>) {
        // It goes to sources and, on a link, to receivers too.
        let spmr = Head::of(arrival.bytes).is_ok_and(|head| head.kind == kind::SPMR);
        // What is no packet is counted by the engine.
        if let Some(source) = &mut self.source
            && (spmr || !arrival.to.is_multicast())
        {
            let _ = source.handle_datagram(now_ns, arrival.bytes);
        }
        if let Some(receiver) = &mut self.receiver
            && arrival.to.is_multicast()
        {
            let _ = receiver.handle_datagram(now_ns, arrival.from, arrival.bytes);
        }
    }

    fn handle_timeout(&mut self, now_ns: u64) {
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now_ns);
        }
    }

    fn act(&mut self, now_ns: u64) {
        let Some(receiver) = &mut self.receiver else { return };
        while !self.stalled
            && let Some(message) = receiver.next_message(&mut self.buffer)
        {
            let bytes = match self.keep {
                Keep::All => self.buffer.get(..message.length).unwrap_or_default().to_vec(),
                Keep::Facts => Vec::new(),
                Keep::Nothing => continue,
            };
            self.delivered.push(Delivered { at_ns: now_ns, message, bytes });
        }
        while let Some(event) = receiver.poll_event() {
            self.events.push((now_ns, event));
        }
    }

    fn poll_transmit(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Outgoing> {
        if let Some(source) = &mut self.source
            && let Some(out) = source.poll_transmit(now_ns, buffer)
        {
            return Some(Outgoing { length: out.length, to: self.source_group });
        }
        let out = self.receiver.as_mut()?.poll_transmit(now_ns, buffer)?;
        let to = match out.to {
            Destination::Unicast(address) => address,
            Destination::GroupOnLink => self.receiver_group,
        };
        Some(Outgoing { length: out.length, to })
    }

    fn poll_timeout(&mut self, now_ns: u64) -> Option<u64> {
        let source = self.source.as_mut().and_then(|source| source.poll_timeout(now_ns));
        let receiver = self.receiver.as_ref().and_then(Receiver::poll_timeout);
        source.into_iter().chain(receiver).min()
    }
}
