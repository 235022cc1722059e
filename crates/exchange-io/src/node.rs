//! A node: opens its sockets and images, starts its threads, and collects what they counted.

use crate::NodeError;
use crate::image::{ImageReader, ImageSpec, ImageWriter, image_path};
use crate::pgm::{PgmSender, pgm_receivers};
use crate::publisher::Publisher;
use crate::receiver::{Receive, Received, Receiver, Subscription};
use crate::report::{Address, NodeReport, Published, Rejects};
use crate::sender::Sender;
use crate::tcp::{TcpSender, tcp_receivers};
use exchange::{Cycle, ExchangeFile, Header, Monitor, MonitorConfig, Publication, Quality, Source, Topic, Transport};
use model::Policy;
use net::group::{Carrier, GroupOptions, GroupSocket, ReceiveBatch, SendBatch};
use net::{NetError, PathError};
use stats::Histogram;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use task::TaskError;

/// Datagrams that a receiving thread takes at once, and room for each; a longer one is no frame.
pub(crate) const BATCH: usize = 16;
pub(crate) const ROOM: usize = 2048;
/// Stack that a thread touches before its first cycle.
const STACK: usize = 256 * 1024;
/// From the start of the threads to the first cycle, in ns.
const HEAD_START_NS: u64 = 20_000_000;
const TTL: u8 = 1;

type Thread<T> = JoinHandle<Result<T, PathError>>;

/// A running node. Dropped without [`Node::finish`] its threads end by themselves.
#[derive(Debug)]
pub struct Node {
    name: String,
    stop_publishing: Arc<AtomicBool>,
    stop_receiving: Arc<AtomicBool>,
    publishing: Vec<(String, Thread<Published>)>,
    receiving: Vec<(Transport, SocketAddr, Thread<Received>)>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_publishing.store(true, Ordering::Relaxed);
        self.stop_receiving.store(true, Ordering::Relaxed);
    }
}

impl Node {
    /// Opens everything and starts the threads. Errors: an address, image, policy or CPU that cannot be had; nothing runs then.
    pub fn start(file: &ExchangeFile, node: &exchange::Node) -> Result<Self, NodeError> {
        let receivers = receivers(file, node)?;
        let tcp_receivers = tcp_receivers(file, node)?;
        let pgm_receivers = pgm_receivers(file, node)?;
        let mut publishers = Vec::new();
        for publication in &node.publish {
            let Some(topic) = file.topic(&publication.topic) else { continue };
            publishers.push((publication, publisher(file, node, publication, topic)?));
        }
        if node.locks_memory() {
            task::lock_memory().map_err(|cause| NodeError::Task { node: node.name.clone(), cause })?;
        }
        let mut running = Self {
            name: node.name.clone(),
            stop_publishing: Arc::default(),
            stop_receiving: Arc::default(),
            publishing: Vec::new(),
            receiving: Vec::new(),
        };
        running.receive(node, Transport::Udp, receivers)?;
        running.receive(node, Transport::Tcp, tcp_receivers)?;
        running.receive(node, Transport::Pgm, pgm_receivers)?;
        let first_ns = clock::monotonic_ns() + HEAD_START_NS;
        let common_ns = clock::realtime_ns().saturating_sub(clock::monotonic_ns());
        for (publication, publisher) in publishers {
            let topic = &publisher.topic;
            let cycle = Cycle::new(topic.period_ns(), publication.phase_ns(), first_ns, common_ns, publication.overrun);
            let stop = Arc::clone(&running.stop_publishing);
            let what = format!("'{}' cannot be published", publication.topic);
            let thread = running.spawn(node.policy, publication.cpu, move || publisher.run(cycle, &stop))?;
            running.publishing.push((what, thread));
        }
        Ok(running)
    }

    fn receive(
        &mut self,
        node: &exchange::Node,
        transport: Transport,
        receivers: Vec<(SocketAddr, impl Receive + Send + 'static)>,
    ) -> Result<(), NodeError> {
        for (address, receiver) in receivers {
            let stop = Arc::clone(&self.stop_receiving);
            let thread = self.spawn(node.policy, node.cpu, move || receiver.run(&stop))?;
            self.receiving.push((transport, address, thread));
        }
        Ok(())
    }

    /// Starts a thread and waits until it has its policy and CPU.
    fn spawn<T: Send + 'static>(
        &self,
        policy: Policy,
        cpu: Option<u32>,
        work: impl FnOnce() -> Result<T, PathError> + Send + 'static,
    ) -> Result<Thread<T>, NodeError> {
        let (ready, is_ready) = mpsc::sync_channel(1);
        let prepare = move || -> Result<(), TaskError> {
            cpu.map_or(Ok(()), task::pin)?;
            task::set_timer_slack(Duration::from_nanos(1))?;
            task::prefault_stack(STACK);
            task::apply_policy(policy)
        };
        let body = move || {
            let prepared = prepare();
            let is_prepared = prepared.is_ok();
            let _ = ready.send(prepared);
            // Where it is not prepared the node does not start, and the result is not looked at.
            if is_prepared { work() } else { Err(PathError::Interrupted) }
        };
        let failed = |cause| NodeError::Thread { node: self.name.clone(), cause };
        let thread = std::thread::Builder::new().name("exchange".to_owned()).spawn(body).map_err(failed)?;
        let prepared = is_ready.recv().map_err(|_| failed(io::Error::other("it ended at once")))?;
        prepared.map_err(|cause| NodeError::Task { node: self.name.clone(), cause })?;
        Ok(thread)
    }

    /// Whether a thread ended by itself: [`Node::finish`] says why.
    pub fn has_ended(&self) -> bool {
        self.publishing.iter().any(|(_, thread)| thread.is_finished())
            || self.receiving.iter().any(|(_, _, thread)| thread.is_finished())
    }

    /// Asks the publishers to send their last frames and end.
    pub fn stop_publishing(&self) {
        self.stop_publishing.store(true, Ordering::Relaxed);
    }

    /// Whether all publishers ended.
    pub fn is_silent(&self) -> bool {
        self.publishing.iter().all(|(_, thread)| thread.is_finished())
    }

    /// Ends all threads. Errors: one ended early.
    pub fn finish(mut self) -> Result<NodeReport, NodeError> {
        let mut report = NodeReport {
            node: self.name.clone(),
            published: Vec::new(),
            subscribed: Vec::new(),
            addresses: Vec::new(),
        };
        self.stop_publishing();
        for (what, thread) in std::mem::take(&mut self.publishing) {
            report.published.push(self.joined(what, thread)?);
        }
        self.stop_receiving.store(true, Ordering::Relaxed);
        for (transport, address, thread) in std::mem::take(&mut self.receiving) {
            let received = self.joined(format!("{address} cannot be received"), thread)?;
            let Received { subscribed, rejects, connections, repaired } = received;
            report.subscribed.extend(subscribed);
            report.addresses.push(Address { address, transport, connections, repaired, rejects });
        }
        Ok(report)
    }

    fn joined<T>(&self, what: String, thread: Thread<T>) -> Result<T, NodeError> {
        let node = self.name.clone();
        match thread.join() {
            Ok(Ok(counted)) => Ok(counted),
            Ok(Err(cause)) => Err(NodeError::Path { node, what, cause }),
            Err(_) => Err(NodeError::Panicked { node }),
        }
    }
}

pub(crate) fn group_options(local: IpAddr, port: u16) -> Result<GroupOptions, NetError> {
    Ok(GroupOptions {
        carrier: Carrier::Udp { port },
        local,
        interface: net::group::interface_of(local)?,
        loopback: true,
        ttl: TTL,
        router_alert: false,
        stamps: false,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
        busy_poll_us: None,
    })
}

pub(crate) fn publisher(
    file: &ExchangeFile,
    node: &exchange::Node,
    publication: &Publication,
    topic: &Topic,
) -> Result<Publisher, NodeError> {
    let socket = group_options(node.address, 0).and_then(|options| GroupSocket::own(&options, false));
    // Over TCP and PGM it only shows that the address is there.
    let socket = socket.map_err(|cause| NodeError::Net { node: node.name.clone(), cause })?;
    let targets = file.targets(topic);
    let input = match publication.source {
        Source::Pattern => None,
        Source::Image => Some(ImageReader::open(&image_path(&node.name, &topic.name, true), Some(topic.layout()))?),
    };
    let header = Header {
        quality: Quality::Good,
        topic: topic.frame_topic(),
        publisher: node.id,
        layout: topic.frame_layout(),
        epoch: clock::realtime_ns(),
        ..Header::default()
    };
    let image = ImageWriter::create(&image_path(&node.name, &topic.name, false), &ImageSpec::new(topic))?;
    Ok(Publisher {
        header,
        data: vec![0; topic.bytes()],
        image: image.numbered(true).remove_at_end(),
        topic: topic.clone(),
        targets: targets.len(),
        sender: match topic.transport {
            Transport::Udp => {
                let frame_bytes = topic.framing.header_bytes() + topic.bytes();
                let batch = SendBatch::new(&socket, targets.len().max(1), frame_bytes);
                let targets = targets.into_iter().map(|to| socket.target_at(to)).collect();
                Sender::Udp { socket, targets, batch }
            }
            Transport::Tcp => Sender::Tcp(TcpSender::new(file, node, topic)?),
            Transport::Pgm => {
                let group = targets.first().copied().unwrap_or(SocketAddr::new(node.address, 0));
                Sender::Pgm(Box::new(PgmSender::new(node, topic, group, header.epoch)?))
            }
        },
        input,
        wake_ups: Histogram::new(),
        pacer: publication.wait,
    })
}

/// What a node subscribes over a transport, by the address at which it arrives.
pub(crate) fn subscriptions(
    file: &ExchangeFile,
    node: &exchange::Node,
    transport: Transport,
) -> Result<BTreeMap<SocketAddr, Vec<Subscription>>, NodeError> {
    let mut places: BTreeMap<SocketAddr, Vec<Subscription>> = BTreeMap::new();
    for name in &node.subscribe {
        let (Some(topic), Some(publisher)) = (file.topic(name), file.publisher(name)) else { continue };
        if topic.transport != transport {
            continue;
        }
        let clock = node.clock.as_ref().filter(|_| topic.framing.is_native());
        let clock_error_ns = clock.map(exchange::ClockClaim::error_ns);
        // A node that subscribes its own topic has two images of it.
        let is_own = publisher.id == node.id;
        let image_node = if is_own { format!("{}.own", node.name) } else { node.name.clone() };
        let image = ImageWriter::create(&image_path(&image_node, name, false), &ImageSpec::new(topic))?;
        let place = topic.group.unwrap_or(SocketAddr::new(node.address, node.port));
        places.entry(place).or_default().push(Subscription {
            epoch: None,
            topic: name.clone(),
            topic_id: topic.frame_topic(),
            framing: topic.framing,
            sender: publisher.address,
            monitor: Monitor::new(MonitorConfig::new(topic, publisher.id, clock_error_ns.is_some())),
            image: image.numbered(topic.framing.is_numbered()).remove_at_end(),
            clock_error_ns,
        });
    }
    Ok(places)
}

/// One receiver of datagrams for each address: that of the node, and groups.
pub(crate) fn receivers(file: &ExchangeFile, node: &exchange::Node) -> Result<Vec<(SocketAddr, Receiver)>, NodeError> {
    let failed = |cause| NodeError::Net { node: node.name.clone(), cause };
    let open = |(place, subscriptions): (SocketAddr, Vec<Subscription>)| {
        let options = group_options(node.address, place.port()).map_err(failed)?;
        let socket = if place.ip().is_multicast() {
            GroupSocket::member(&options, place.ip())
        } else {
            GroupSocket::own(&options, true)
        };
        let socket = socket.map_err(failed)?;
        socket.limit_waits().map_err(failed)?;
        let batch = ReceiveBatch::new(BATCH, ROOM);
        let receiver = Receiver { socket, spins: node.spin, batch, subscriptions, rejects: Rejects::default() };
        Ok((place, receiver))
    };
    subscriptions(file, node, Transport::Udp)?.into_iter().map(open).collect()
}

#[cfg(test)]
mod tests;
