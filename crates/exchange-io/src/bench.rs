//! What an image and a frame cost on this machine.

use crate::image::{ImageReader, ImageSpec, ImageWriter, Sample, image_path};
use crate::node::{publisher, receivers};
use crate::publisher::Publisher;
use crate::receiver::{Receive as _, Receiver};
use crate::report::Spread;
use crate::{ImageError, NodeError};
use exchange::{ExchangeFile, Topic};
use net::PathError;
use serde::Serialize;
use stats::Histogram;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Calls that are timed together, and how many times.
const CALLS: u32 = 10_000;
const GROUPS: usize = 101;
/// Rounds in which both kinds of UDP are measured in turn.
const ROUNDS: u32 = 10;
const PATIENCE: Duration = Duration::from_millis(200);
/// Two nodes of this process: `there` goes from the near one to the far one, `back` the other way.
const NODES: &str = "[[node]]\nname = \"bench-PID-near\"\nid = 1\naddress = \"127.0.0.1\"\nport = PORT\n\
    publish = [{ topic = \"there\" }]\nsubscribe = [\"back\"]\n\
    [[node]]\nname = \"bench-PID-far\"\nid = 2\naddress = \"127.0.0.2\"\nport = PORT\n\
    publish = [{ topic = \"back\" }]\nsubscribe = [\"there\"]\n";
const TOPIC: &str = "[[topic]]\nname = \"NAME\"\nid = ID\nperiod_us = 1000\nhistory = 0\n\
    [[topic.field]]\nname = \"bytes\"\ntype = \"u8\"\ncount = BYTES\n";

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
    /// The same by the publishers and receivers of two nodes, with their frames, monitors and images.
    pub exchange_rtt_ns: Spread,
}

/// Measures data of 1 to 1384 bytes for about `time`, on two CPUs where the process may use two.
pub fn bench(bytes: usize, time: Duration) -> Result<BenchFigures, NodeError> {
    let failed = |cause: io::Error| NodeError::Thread { node: "bench".to_owned(), cause };
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()).map_err(failed)?.port();
    let topic = |name, id| TOPIC.replace("NAME", name).replace("ID", id).replace("BYTES", &bytes.to_string());
    let nodes = NODES.replace("PID", &std::process::id().to_string()).replace("PORT", &port.to_string());
    let file = ExchangeFile::read(&format!("{}{}{nodes}", topic("there", "1"), topic("back", "2")));
    let file = file.map_err(|error| failed(io::Error::other(error)))?;
    let (image_write_ns, image_read_ns) = image_costs(&file)?;
    let image_rtt = image_rtt(&file, time / 3)?;
    let (mut raw, mut framed) = (Histogram::new(), Histogram::new());
    for _ in 0..ROUNDS {
        raw_udp(bytes, time / 3 / ROUNDS, &mut raw).map_err(failed)?;
        framed_udp(&file, time / 3 / ROUNDS, &mut framed)?;
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

/// An image of a topic, for this process alone.
fn image(file: &ExchangeFile, name: &str) -> Result<(ImageWriter, ImageReader), ImageError> {
    let path = image_path(&file.nodes[0].name, name, false);
    let writer = ImageWriter::create(&path, &ImageSpec::new(&file.topics[0]))?.remove_at_end();
    Ok((writer, ImageReader::open(&path, None)?))
}

fn image_costs(file: &ExchangeFile) -> Result<(f64, f64), NodeError> {
    let (mut writer, reader) = image(file, "cost")?;
    let (mut data, mut sample) = (vec![7; file.topics[0].bytes()], Sample::default());
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
fn beside<T: Send>(echo: impl FnOnce(&AtomicBool) + Send, measure: impl FnOnce() -> T + Send) -> Result<T, NodeError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            place(1);
            echo(&stop);
        });
        let measured = scope.spawn(|| {
            place(0);
            measure()
        });
        let measured = measured.join();
        stop.store(true, Ordering::Relaxed);
        measured.map_err(|_| NodeError::Panicked { node: "bench".to_owned() })
    })
}

fn image_rtt(file: &ExchangeFile, time: Duration) -> Result<Histogram, NodeError> {
    let bytes = file.topics[0].bytes();
    let ((mut there, arrived), (mut back, answered)) = (image(file, "there")?, image(file, "back")?);
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
            if near.recv(&mut data).is_ok() {
                rtt.record(clock::monotonic_ns() - sent_ns);
            }
        }
        Ok(())
    });
    measured.map_err(io::Error::other)?
}

/// What a node of the file sends and receives with.
fn ends(file: &ExchangeFile, at: usize) -> Result<(Publisher, Receiver), NodeError> {
    let (node, topic): (&exchange::Node, &Topic) = (&file.nodes[at], &file.topics[at]);
    let (_, receiver) = receivers(file, node)?.remove(0);
    Ok((publisher(file, node, &node.publish[0], topic)?, receiver))
}

fn framed_udp(file: &ExchangeFile, time: Duration, rtt: &mut Histogram) -> Result<(), NodeError> {
    let ((mut sends, mut receives), (mut answers, mut hears)) = (ends(file, 0)?, ends(file, 1)?);
    let echo = move |stop: &AtomicBool| {
        for number in 0.. {
            while !matches!(hears.turn(false), Ok(1..)) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
            let _ = answers.cycle(number, clock::monotonic_ns());
        }
    };
    let measured = beside(echo, || -> Result<(), PathError> {
        let begun = Instant::now();
        for number in 0.. {
            if begun.elapsed() >= time {
                break;
            }
            let sent_ns = clock::monotonic_ns();
            sends.cycle(number, sent_ns)?;
            if receives.turn(false)? > 0 {
                rtt.record(clock::monotonic_ns() - sent_ns);
            }
        }
        Ok(())
    });
    let failed = |cause| NodeError::Path { node: "bench".to_owned(), what: "loopback".to_owned(), cause };
    measured?.map_err(failed)
}
