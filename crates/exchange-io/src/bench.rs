//! What an image and a frame cost on this machine.

use crate::image::{ImageReader, ImageSpec, ImageWriter, Sample, image_path};
use crate::report::Spread;
use crate::{ImageError, NodeError};
use exchange::{Arrival, Framing, HEADER_BYTES, Header, Monitor, MonitorConfig, OnStale};
use net::group::{Carrier, Extra, GroupOptions, GroupSocket, GroupWait, ReceiveBatch, SendBatch, Target};
use serde::Serialize;
use stats::Histogram;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Calls that are timed together.
const CALLS: u32 = 10_000;
const GROUPS: usize = 101;
/// Rounds in which both kinds of UDP are measured in turn.
const ROUNDS: u32 = 10;
const PATIENCE: Duration = Duration::from_millis(200);

/// Times of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchFigures {
    pub bytes: usize,
    /// Medians of groups of 10,000 calls, uncontended, into an image without a ring.
    pub image_write_ns: f64,
    pub image_read_ns: f64,
    /// Two spinning threads and two images.
    pub image_rtt_ns: Spread,
    /// Blocking calls on connected sockets of the standard library, over loopback: this many bytes and nothing else.
    pub raw_udp_rtt_ns: Spread,
    /// The same with frames, as nodes send, wait for and check them.
    pub exchange_rtt_ns: Spread,
}

/// Measures for about `time`, on two CPUs where the process may use two.
pub fn bench(bytes: usize, time: Duration) -> Result<BenchFigures, NodeError> {
    let (image_write_ns, image_read_ns) = image_costs(bytes)?;
    let image_rtt = image_rtt(bytes, time / 3)?;
    let (mut raw, mut framed) = (Histogram::new(), Histogram::new());
    for _ in 0..ROUNDS {
        raw_udp(bytes, time / 3 / ROUNDS, &mut raw).map_err(failed)?;
        framed_udp(bytes, time / 3 / ROUNDS, &mut framed)?;
    }
    Ok(BenchFigures {
        bytes,
        image_write_ns,
        image_read_ns,
        image_rtt_ns: Spread::new(&image_rtt),
        raw_udp_rtt_ns: Spread::new(&raw),
        exchange_rtt_ns: Spread::new(&framed),
    })
}

fn failed(cause: io::Error) -> NodeError {
    NodeError::Thread { node: "bench".to_owned(), cause }
}

fn path_failed(cause: net::PathError) -> NodeError {
    NodeError::Path { node: "bench".to_owned(), what: "loopback".to_owned(), cause }
}

/// An image for this process alone.
fn image(name: &str, bytes: usize) -> Result<(ImageWriter, ImageReader), ImageError> {
    let node = format!("bench-{}", std::process::id());
    let path = image_path(&node, name, false);
    let spec = ImageSpec {
        layout: 1,
        data_bytes: bytes,
        history: 0,
        topic_id: 0,
        period_ns: 0,
        deadline_ns: 0,
        stale_ns: 0,
        on_stale: OnStale::Mark,
        node,
        topic: name.to_owned(),
    };
    let writer = ImageWriter::create(&path, &spec)?.remove_at_end();
    Ok((writer, ImageReader::open(&path, Some(1))?))
}

fn image_costs(bytes: usize) -> Result<(f64, f64), NodeError> {
    let (mut writer, reader) = image("cost", bytes)?;
    let (mut data, mut sample) = (vec![7; bytes], Sample::default());
    let write = median(|| {
        sample.sequence += 1;
        writer.write(std::hint::black_box(&sample), std::hint::black_box(&data));
    });
    let read = median(|| {
        let _ = std::hint::black_box(reader.latest(std::hint::black_box(&mut data)));
    });
    Ok((write, read))
}

/// The median time of a call, in ns.
fn median(mut call: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..GROUPS)
        .map(|_| {
            let begun = Instant::now();
            (0..CALLS).for_each(|_| call());
            begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(GROUPS / 2).copied().unwrap_or(0.0)
}

/// Pins the calling thread to the `nth` CPU that it may use, if there are as many.
fn place(nth: usize) {
    let cpus = task::allowed_cpus().ok();
    // Without a CPU of its own it only takes longer.
    let _ = cpus.and_then(|cpus| cpus.iter().nth(nth)).map(task::pin);
}

/// Runs `echo` on a thread beside `measure`, each on a CPU; `echo` ends when its flag is set.
fn beside<T>(echo: impl FnOnce(&AtomicBool) + Send, measure: impl FnOnce() -> T + Send) -> Result<T, NodeError>
where
    T: Send,
{
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            place(1);
            echo(&stop);
        });
        let measured = scope
            .spawn(|| {
                place(0);
                measure()
            })
            .join();
        stop.store(true, Ordering::Relaxed);
        measured.map_err(|_| NodeError::Panicked { node: "bench".to_owned() })
    })
}

fn image_rtt(bytes: usize, time: Duration) -> Result<Histogram, NodeError> {
    let ((mut there, arrived), (mut back, answered)) = (image("there", bytes)?, image("back", bytes)?);
    let echo = move |stop: &AtomicBool| {
        let (mut data, mut last) = (vec![0; bytes], 0);
        while !stop.load(Ordering::Relaxed) {
            if let Ok(Some(sample)) = arrived.latest(&mut data)
                && sample.sequence != last
            {
                last = sample.sequence;
                back.write(&sample, &data);
            }
        }
    };
    beside(echo, move || {
        let (mut data, mut sample, mut rtt) = (vec![1; bytes], Sample::default(), Histogram::new());
        let begun = Instant::now();
        while begun.elapsed() < time {
            sample.sequence += 1;
            let sent_ns = clock::monotonic_ns();
            there.write(&sample, &data);
            while !matches!(answered.latest(&mut data), Ok(Some(answer)) if answer.sequence == sample.sequence) {
                if begun.elapsed() > time + PATIENCE {
                    return rtt;
                }
            }
            rtt.record(clock::monotonic_ns() - sent_ns);
        }
        rtt
    })
}

fn raw_udp(bytes: usize, time: Duration, rtt: &mut Histogram) -> io::Result<()> {
    let bound = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (near, far) = (bound()?, bound()?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    near.set_read_timeout(Some(PATIENCE))?;
    far.set_read_timeout(Some(PATIENCE))?;
    let echo = |stop: &AtomicBool| {
        let mut data = vec![0; bytes];
        while !stop.load(Ordering::Relaxed) {
            if let Ok(got) = far.recv(&mut data) {
                let _ = far.send(data.get(..got).unwrap_or_default());
            }
        }
    };
    let measured = beside(echo, || -> io::Result<()> {
        let (mut data, begun) = (vec![1; bytes], Instant::now());
        while begun.elapsed() < time {
            let sent_ns = clock::monotonic_ns();
            near.send(&data)?;
            near.recv(&mut data)?;
            rtt.record(clock::monotonic_ns() - sent_ns);
        }
        Ok(())
    });
    measured.map_err(io::Error::other)?
}

/// One end of a conversation in frames, made of what nodes are made of.
struct End {
    socket: GroupSocket,
    wait: GroupWait,
    batch: ReceiveBatch,
    sends: SendBatch,
    to: Target,
    monitor: Monitor,
    header: Header,
    data: Vec<u8>,
}

impl End {
    fn open(bytes: usize, port: u16, [own, other]: [u8; 2]) -> Result<Self, net::NetError> {
        let address = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let local = address(own);
        let options = GroupOptions {
            carrier: Carrier::Udp { port },
            local,
            interface: net::group::interface_of(local)?,
            loopback: true,
            ttl: 1,
            router_alert: false,
            stamps: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            busy_poll_us: None,
        };
        let socket = GroupSocket::own(&options, true)?;
        let config = MonitorConfig {
            publisher: 0,
            layout: 0,
            data_bytes: bytes,
            period_ns: 1_000_000,
            deadline_ns: 1_000_000,
            has_common_clock: true,
        };
        Ok(Self {
            wait: GroupWait::blocking(&[&socket])?,
            batch: ReceiveBatch::new(16, 2048),
            sends: SendBatch::new(&socket, 1, HEADER_BYTES + bytes),
            to: socket.target_at(SocketAddr::new(address(other), port)),
            monitor: Monitor::new(config),
            header: Header::default(),
            data: vec![1; bytes],
            socket,
        })
    }

    fn send(&mut self) -> Result<(), net::PathError> {
        let now = clock::realtime_ns();
        (self.header.scheduled_ns, self.header.sent_ns) = (now, now);
        if let Some(place) = self.sends.place()
            && let Some(bytes) = Framing::Native.encode(&self.header, &self.data, place)
        {
            self.sends.push(bytes, &self.to, Extra::None);
        }
        self.header.sequence += 1;
        self.sends.flush(&self.socket)
    }

    /// Whether a frame came.
    fn receive(&mut self) -> Result<bool, net::PathError> {
        let _ = self.wait.wait(u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX))?;
        self.batch.receive(&self.socket)?;
        let Some(datagram) = self.batch.take() else { return Ok(false) };
        let Ok((header, data)) = Framing::Native.decode(datagram.bytes) else { return Ok(false) };
        let at = Arrival { monotonic_ns: clock::monotonic_ns(), real_ns: clock::realtime_ns() };
        let _ = self.monitor.on_frame(&header, data, at);
        Ok(true)
    }
}

fn framed_udp(bytes: usize, time: Duration, rtt: &mut Histogram) -> Result<(), NodeError> {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()).map_err(failed)?;
    let open = |ends| End::open(bytes, free.port(), ends);
    let opened = open([1, 2]).and_then(|near| Ok((near, open([2, 1])?)));
    let (mut near, mut far) = opened.map_err(|cause| NodeError::Net { node: "bench".to_owned(), cause })?;
    let echo = move |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            if far.receive() == Ok(true) {
                let _ = far.send();
            }
        }
    };
    let measured = beside(echo, || -> Result<(), net::PathError> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let sent_ns = clock::monotonic_ns();
            near.send()?;
            if near.receive()? {
                rtt.record(clock::monotonic_ns() - sent_ns);
            }
        }
        Ok(())
    });
    measured?.map_err(path_failed)
}
