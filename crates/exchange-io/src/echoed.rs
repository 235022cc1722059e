//! A topic that one end publishes and another one echoes, for measurements: the loops are those of a node, and tell their caller
//! what happens in each cycle.
//!
//! An echo carries the numbers of the frame that it answers, and the time at which its cycle was due. So the monitor of the end that
//! publishes judges deadlines and ages of the whole round trip by one clock.

use crate::NodeError;
use crate::image::{ImageSpec, ImageWriter, Sample, image_path};
use crate::node::{BATCH, ROOM, group_options};
use crate::publisher::Publisher;
use crate::receiver::{Receiver, Subscription};
use crate::report::Rejects;
use crate::sender::Sender;
use exchange::{Arrival, Counters, Cycle, ExchangeFile, Header, Monitor, MonitorConfig, Topic};
use model::{EndSpec, Pacer, Protocol};
use net::PathError;
use net::group::{Extra, GroupSocket, ReceiveBatch, SendBatch};
use stats::Histogram;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// Both ends make the topics of the same text, so that their layouts are the same.
const FILE: &str = "[[topic]]\nname = \"there\"\nid = 1\nperiod_us = PERIOD\ndeadline_us = DEADLINE\n\
    [[topic.field]]\nname = \"bytes\"\ntype = \"u8\"\ncount = BYTES\n\
    [[topic]]\nname = \"back\"\nid = 2\nperiod_us = PERIOD\ndeadline_us = DEADLINE\n\
    [[topic.field]]\nname = \"bytes\"\ntype = \"u8\"\ncount = BYTES\n\
    [[node]]\nname = \"both\"\nid = 1\naddress = \"127.0.0.1\"\npublish = [{ topic = \"there\" }, { topic = \"back\" }]\n";
/// The numbers of both ends in frames.
const NEAR: u16 = 1;
const FAR: u16 = 2;

/// What is published and echoed in each cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoedTopic {
    pub bytes: u32,
    pub period_us: u32,
    /// From when a cycle is due to the arrival of its echo.
    pub deadline_us: u32,
}

impl EchoedTopic {
    fn topics(self, node: &str) -> Result<[Topic; 2], NodeError> {
        let numbers = [("PERIOD", self.period_us), ("DEADLINE", self.deadline_us), ("BYTES", self.bytes)];
        let text = numbers.iter().fold(FILE.to_owned(), |text, (word, number)| text.replace(word, &number.to_string()));
        let failed = |cause: io::Error| NodeError::Thread { node: node.to_owned(), cause };
        let file = ExchangeFile::read(&text).map_err(|error| failed(io::Error::other(error)))?;
        file.topics.try_into().map_err(|_| failed(io::Error::other("not two topics")))
    }
}

/// The address that an end receives at, open before it is known who sends there.
#[derive(Debug)]
pub struct Inlet {
    node: String,
    local: IpAddr,
    port: u16,
    end: EndSpec,
    socket: GroupSocket,
    batch: ReceiveBatch,
}

impl Inlet {
    /// Opens a port of an own address. Errors: the address cannot be had, or the protocol carries no exchange.
    pub fn open(protocol: Protocol, local: IpAddr, end: &EndSpec) -> Result<Self, NodeError> {
        let node = format!("cycle-{}", std::process::id());
        let socket = match protocol {
            Protocol::Udp => socket(local, end),
            protocol => return Err(NodeError::Protocol { node, protocol }),
        };
        let failed = |cause| NodeError::Net { node: node.clone(), cause };
        let socket = socket.map_err(failed)?;
        socket.limit_waits().map_err(failed)?;
        let port = socket.port().map_err(failed)?;
        let node = format!("{node}-{port}");
        Ok(Self { node, local, port, end: end.clone(), socket, batch: ReceiveBatch::new(BATCH, ROOM) })
    }

    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local, self.port)
    }

    /// Sends a datagram, before the end begins. Errors: the socket is broken.
    pub fn show(&self, bytes: &[u8], to: SocketAddr) -> Result<(), PathError> {
        let mut batch = SendBatch::new(&self.socket, 1, bytes.len());
        if let Some(place) = batch.place().and_then(|place| place.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
            batch.push(bytes.len(), &self.socket.target_at(to), Extra::None);
        }
        batch.flush(&self.socket)
    }

    /// Waits for datagrams, at most 50 ms: the sender of the first that is wanted. Errors: the socket is broken.
    pub fn look(&mut self, wanted: impl Fn(&[u8], IpAddr) -> bool) -> Result<Option<IpAddr>, PathError> {
        self.batch.receive_waiting(&self.socket)?;
        let mut found = None;
        while let Some(datagram) = self.batch.take() {
            found = found.or_else(|| wanted(datagram.bytes, datagram.from).then_some(datagram.from));
        }
        Ok(found)
    }

    /// The end that publishes to the inlet of another one, and hears its echoes. Errors: an image or a socket that cannot be had.
    pub fn talk(self, topic: EchoedTopic, to: SocketAddr, pacer: Pacer) -> Result<(Talker, Listener), NodeError> {
        let [there, back] = topic.topics(&self.node)?;
        let config = MonitorConfig::new(&back, FAR, true);
        let (publisher, receiver) = self.ends((&there, NEAR), (&back, config), to, pacer)?;
        Ok((Talker(publisher), Listener { receiver, config }))
    }

    /// The end that echoes what another one publishes to its inlet. Errors: an image or a socket that cannot be had.
    pub fn echo(self, topic: EchoedTopic, to: SocketAddr) -> Result<Echo, NodeError> {
        let [there, back] = topic.topics(&self.node)?;
        let config = MonitorConfig::new(&there, NEAR, false);
        let (publisher, receiver) = self.ends((&back, FAR), (&there, config), to, Pacer::Sleep)?;
        Ok(Echo { publisher, receiver })
    }

    fn ends(
        self,
        (published, publisher): (&Topic, u16),
        (subscribed, config): (&Topic, MonitorConfig),
        to: SocketAddr,
        pacer: Pacer,
    ) -> Result<(Publisher, Receiver), NodeError> {
        let image = |topic: &Topic| {
            let image = ImageWriter::create(&image_path(&self.node, &topic.name, false), &ImageSpec::new(topic))?;
            Ok::<_, NodeError>(image.numbered(true).remove_at_end())
        };
        // One port for both ways, so that firewalls and captures see one flow.
        let sends = self.socket.duplicate().map_err(|cause| NodeError::Net { node: self.node.clone(), cause })?;
        let publisher = Publisher {
            header: Header {
                topic: published.frame_topic(),
                publisher,
                layout: published.frame_layout(),
                epoch: clock::realtime_ns(),
                ..Header::default()
            },
            data: vec![0; published.bytes()],
            image: image(published)?,
            topic: published.clone(),
            targets: 1,
            sender: Sender::Udp {
                targets: vec![sends.target_at(to)],
                batch: SendBatch::new(&sends, 1, published.framing.header_bytes() + published.bytes()),
                socket: sends,
            },
            input: None,
            wake_ups: Histogram::new(),
            pacer,
        };
        let subscription = Subscription {
            epoch: None,
            topic: subscribed.name.clone(),
            topic_id: subscribed.frame_topic(),
            framing: subscribed.framing,
            sender: to.ip(),
            monitor: Monitor::new(config),
            image: image(subscribed)?,
            clock_error_ns: None,
        };
        let receiver = Receiver {
            socket: self.socket,
            spins: self.end.receive == model::Receive::Spin,
            batch: self.batch,
            subscriptions: vec![subscription],
            rejects: Rejects::default(),
        };
        Ok((publisher, receiver))
    }
}

fn socket(local: IpAddr, end: &EndSpec) -> Result<GroupSocket, net::NetError> {
    let mut options = group_options(local, 0)?;
    options.send_buffer_bytes = end.send_buffer_bytes;
    options.receive_buffer_bytes = end.receive_buffer_bytes;
    options.busy_poll_us = end.busy_poll_us;
    GroupSocket::own(&options, true)
}

/// Publishes each cycle.
#[derive(Debug)]
pub struct Talker(Publisher);

impl Talker {
    /// Begins a new epoch, which it returns: frames and echoes of the one before are told apart from it.
    pub fn renew(&mut self) -> u64 {
        let header = &mut self.0.header;
        (header.epoch, header.sequence) = (clock::realtime_ns().max(header.epoch + 1), 0);
        header.epoch
    }

    /// Publishes each cycle that is due before `end_ns`, until `stop`; `note` gets the number of each cycle, when it was due, and when its thread looked at the clock, both in ns
    /// of CLOCK_MONOTONIC. Errors: the socket is broken.
    pub fn publish(
        &mut self,
        cycle: &mut Cycle,
        end_ns: u64,
        stop: &AtomicBool,
        note: impl FnMut(u64, u64, u64),
    ) -> Result<(), PathError> {
        self.0.cycles(cycle, end_ns, stop, note)
    }
}

/// Hears the echoes.
#[derive(Debug)]
pub struct Listener {
    receiver: Receiver,
    config: MonitorConfig,
}

impl Listener {
    /// Counts from here on, and only echoes of this epoch: those of one before may still be on their way.
    pub fn renew(&mut self, epoch: u64) {
        for one in &mut self.receiver.subscriptions {
            (one.monitor, one.epoch) = (Monitor::new(self.config), Some(epoch));
        }
    }

    /// Receives until `stop`; `note` gets each new value. Errors: the socket is broken.
    pub fn receive(&mut self, stop: &AtomicBool, mut note: impl FnMut(&Sample)) -> Result<(), PathError> {
        self.receiver.receive(stop, |sample, _| note(sample))
    }

    /// What was counted, where `cycle` is the first that is not awaited any more.
    pub fn finish_before(&mut self, cycle: u64) -> Counters {
        let at = Arrival { monotonic_ns: clock::monotonic_ns(), real_ns: clock::realtime_ns() };
        let Some(subscription) = self.receiver.subscriptions.first_mut() else { return Counters::default() };
        subscription.monitor.finish_before(cycle, at);
        subscription.monitor.counters
    }

    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub fn overflowed(&self) -> u64 {
        self.receiver.batch.overflowed
    }
}

/// Echoes what arrives.
#[derive(Debug)]
pub struct Echo {
    publisher: Publisher,
    receiver: Receiver,
}

impl Echo {
    /// Waits for frames, at most 50 ms, and echoes the new values that `allows` lets pass. Returns how many arrived, and how many were
    /// echoed. Errors: the socket is broken.
    #[inline]
    pub fn turn(&mut self, mut allows: impl FnMut() -> bool) -> Result<[u64; 2], PathError> {
        let Self { publisher, receiver } = self;
        let ([mut arrived, mut echoed], mut end) = ([0; 2], Ok(()));
        receiver.turn_with(receiver.spins, &mut |sample, data| {
            arrived += 1;
            if end.is_ok() && allows() {
                end = publisher.echo(sample, data);
                echoed += 1;
            }
        })?;
        end.map(|()| [arrived, echoed])
    }

    /// Datagrams that were no frames of the client's topic.
    pub fn ignored(&self) -> u64 {
        let Rejects { short, magic, version, length, checksum, unknown_topic, other_sender, .. } =
            self.receiver.rejects;
        short + magic + version + length + checksum + unknown_topic + other_sender
    }

    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub fn overflowed(&self) -> u64 {
        self.receiver.batch.overflowed
    }
}
