//! Much data by TCP over a wire that loses, delays, doubles and damages segments: every byte arrives, and none waits for long.
//!
//! `cargo xtask test --bypass trouble` runs all of it; a short cut is among the normal tests.

use super::bypass;
use super::support::{Folder, Watchdog};
use super::wire::{FAR, NEAR, Network, Trouble};
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// What a receiver may wait for the next byte, by the goal of `--stack xdp`.
const STALL: Duration = Duration::from_secs(1);

/// Time in which this machine had a CPU for the test: steps of a thread that sleeps between them. Other programs in a real-time
/// class stop all of a transfer, and the steps.
static STEPS: AtomicU64 = AtomicU64::new(0);
const STEP: Duration = Duration::from_millis(2);

fn own_time() -> Duration {
    STEP * u32::try_from(STEPS.load(Ordering::Relaxed)).unwrap()
}

fn start_own_time() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(STEP);
                STEPS.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
}

/// Ports of `flows.c`: where the far end listens, and the near one.
const TO_FAR: u16 = 7004;
const TO_NEAR: u16 = 7005;

/// How a transfer goes.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// The near end is behind `--stack xdp`. The far one is the kernel's in any case.
    behind: bool,
    near_sends: bool,
}

const XDP_SENDS: Way = Way { name: "xdp to kernel", behind: true, near_sends: true };
const XDP_RECEIVES: Way = Way { name: "kernel to xdp", behind: true, near_sends: false };
/// What the kernel makes of the same wire.
const CONTROL: Way = Way { name: "kernel to kernel", behind: false, near_sends: true };

/// What a receiver saw.
struct Received {
    took: Duration,
    /// The longest time between two bytes, and as [`own_time`] has it.
    stall: Duration,
    own_stall: Duration,
    /// The bytes that were as they were sent, and whether these were all.
    right: usize,
    all: bool,
}

/// Takes a stream to its end.
fn receive(mut stream: impl Read, content: &[u8]) -> Received {
    let mut buffer = vec![0; 1 << 16];
    let (mut right, mut stall, mut own_stall, mut is_right) = (0, Duration::ZERO, Duration::ZERO, true);
    let mut began = None;
    let (mut last, mut own_last) = (Instant::now(), own_time());
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let (now, own_now) = (Instant::now(), own_time());
        if began.is_some() {
            stall = stall.max(now - last);
            own_stall = own_stall.max(own_now - own_last);
        }
        (began, last, own_last) = (began.or(Some(now)), now, own_now);
        is_right &= content.get(right..right + length) == Some(&buffer[..length]);
        right += if is_right { length } else { 0 };
    }
    let took = began.map_or(Duration::ZERO, |began| last - began);
    Received { took, stall, own_stall, right, all: is_right && right == content.len() }
}

/// A process that is killed when its time is over, or the value is dropped.
struct Limited {
    child: Child,
    watchdog: Option<Watchdog>,
}

impl Limited {
    fn new(command: &mut Command, limit: Duration) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let watchdog = Some(Watchdog::new(&child, limit));
        Self { child, watchdog }
    }

    /// Waits for its end, which has to be a good one.
    fn end(mut self, what: &str) {
        let status = self.child.wait().unwrap();
        self.watchdog = None;
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(status.success(), "{what}: {status}: {errors}");
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Some(_watchdog) = self.watchdog.take() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Everything that transfers share.
struct Transfers {
    network: Network,
    folder: Arc<Folder>,
    program: String,
    content: Arc<Vec<u8>>,
}

impl Transfers {
    fn new(test: &str, bytes: u32) -> Option<Self> {
        let folder = Folder::new(&format!("bypass-{test}"));
        let program = super::compile(&folder, test, "flows", &[])?;
        start_own_time();
        let network = Network::new(test, true)?;
        // Words that repeat after 16 GiB: what is at a wrong place is seen.
        let content: Vec<u8> = (0..bytes / 4).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        std::fs::write(folder.0.join("content"), &content).unwrap();
        Some(Self { network, folder: Arc::new(folder), program, content: Arc::new(content) })
    }

    /// One transfer; what was seen of it, for people.
    fn once(&self, name: &str, trouble: Trouble, way: Way, v6: bool, limit: Duration) -> (Received, String) {
        let wire = self.network.join(trouble, 1 + u64::from(way.near_sends));
        let what = format!("{name}, {}", way.name);
        let far = FAR[usize::from(v6)];
        let (words, content) = (["give", "take"][usize::from(!way.near_sends)], Arc::clone(&self.content));
        let (folder, program) = (Arc::clone(&self.folder), self.program.clone());
        let address = if way.near_sends { far } else { NEAR[usize::from(v6)] };
        let near = move || {
            let line = [program.as_str(), address, words];
            let run = ["run", "--stack", "xdp", "--require", "--"];
            let mut command = Command::new(&program);
            command.args(&line[1..]);
            if way.behind {
                command = bypass(&folder, &[&run[..], &line].concat());
            }
            let input = if way.near_sends {
                Stdio::from(std::fs::File::open(folder.0.join("content")).unwrap())
            } else {
                Stdio::null()
            };
            Limited::new(command.stdin(input), limit)
        };
        let end = Instant::now() + limit;
        let received = if way.near_sends {
            let listener = self.network.far.run(move || TcpListener::bind((far, TO_FAR)).unwrap());
            let near = self.network.near.run(near);
            listener.set_nonblocking(true).unwrap();
            let stream = patiently(&what, end, || listener.accept().ok()).0;
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(limit)).unwrap();
            let received = receive(&stream, &content);
            drop(stream);
            near.end(&what);
            received
        } else {
            let mut near = self.network.near.run(near);
            let whole = Arc::clone(&content);
            let (give_up, what) = (end, what.clone());
            self.network.far.run(move || {
                let mut stream = patiently(&what, give_up, || TcpStream::connect((address, TO_NEAR)).ok());
                std::thread::spawn(move || {
                    let _ = stream.write_all(&whole);
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    let _ = stream.read(&mut [0]);
                });
            });
            let received = receive(near.child.stdout.take().unwrap(), &content);
            near.end(name);
            received
        };
        let took = received.took.as_secs_f64();
        let [stall, own] = [received.stall, received.own_stall].map(|stall| stall.as_millis());
        let (bytes, counts) = (received.right, wire.end());
        // With BBR a kernel does not heed losses; the stack does, as Reno and CUBIC do.
        let control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
        let text = format!(
            "{what}: {bytes} bytes in {took:.2} s, longest stall {stall} ms, {own} ms of them with a CPU; {counts}; \
             congestion control of the kernel: {}",
            control.trim()
        );
        assert!(received.all, "other bytes than were sent, or not all of them: {text}");
        (received, text)
    }
}

/// Tries until something is there.
fn patiently<T>(what: &str, end: Instant, mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: no connection");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Catches: bytes that are lost, doubled or accepted although they were damaged on the way, at either end.
#[test]
fn every_byte_arrives_over_a_wire_with_all_troubles() {
    let test = "every_byte_arrives_over_a_wire_with_all_troubles";
    let Some(transfers) = Transfers::new(test, 4_000_000) else { return };
    let trouble = Trouble { lost: 100, delayed: 200, doubled: 200, damaged: 100 };
    for (way, v6) in [(XDP_SENDS, false), (XDP_RECEIVES, true)] {
        let (_, text) = transfers.once("all troubles", trouble, way, v6, Duration::from_secs(60));
        println!("{text}");
    }
}

/// 100 MB over each kind of wire. The kernel's own transfer is the measure of what a wire allows.
#[test]
#[ignore = "cargo xtask test --bypass"]
fn a_hundred_megabytes_over_wires_with_trouble() {
    let Some(transfers) = Transfers::new("a_hundred_megabytes_over_wires_with_trouble", 100_000_000) else { return };
    let none = Trouble::default();
    let wires = [
        ("no trouble", none),
        ("1 % lost", Trouble { lost: 100, ..none }),
        ("10 % lost", Trouble { lost: 1000, ..none }),
        ("5 % reordered", Trouble { delayed: 500, ..none }),
        ("5 % doubled", Trouble { doubled: 500, ..none }),
        ("1 % damaged", Trouble { damaged: 100, ..none }),
        ("all troubles", Trouble { lost: 100, delayed: 200, doubled: 200, damaged: 100 }),
    ];
    let mut late = Vec::new();
    for (name, trouble) in wires {
        for way in [XDP_SENDS, XDP_RECEIVES, CONTROL] {
            let (received, text) = transfers.once(name, trouble, way, false, Duration::from_secs(300));
            println!("\nBYPASS trouble: {text}");
            if received.own_stall > STALL && way.behind {
                late.push(text);
            }
        }
    }
    assert!(late.is_empty(), "stalls over {STALL:?}: {late:#?}");
}
