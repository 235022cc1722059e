//! Hosts of a test: threads, each in a network namespace of its own that ends with it, on one wire.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use clock::Clock;
use model::{IdleDescriptors, Receive};
use net::PathOptions;
use pgm::{Gsi, Tsi};
use pgm_io::{Carrier, PgmIoError, PgmSocket, PgmSocketOptions};
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace.
pub struct Host {
    jobs: Option<Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    pid: u32,
}

impl Host {
    fn new() -> Result<Self, String> {
        let (jobs, todo) = channel::<Job>();
        let (told, tell) = channel();
        let thread = std::thread::spawn(move || {
            let entered = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET);
            let entered = entered.map(|()| u32::try_from(nix::unistd::gettid().as_raw()).unwrap());
            told.send(entered).unwrap();
            while let Ok(job) = todo.recv() {
                job();
            }
        });
        let pid = tell.recv().unwrap().map_err(|errno| format!("no network namespace of its own ({errno})"))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), pid })
    }

    /// Runs something on this host; its sockets stay there.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let job: Job = Box::new(move || {
            // Whoever waited has panicked.
            let _ = done.send(job());
        });
        self.jobs.as_ref().unwrap().send(job).unwrap();
        result.recv().unwrap()
    }

    /// Runs ip(8) here.
    pub fn ip(&self, arguments: &str) {
        let arguments = arguments.to_owned();
        self.run(move || {
            let output = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        });
    }

    fn nft(&self, rules: &'static str) -> Result<String, String> {
        self.run(move || {
            let (given, wanted) = (Stdio::piped(), Stdio::piped());
            let mut nft = Command::new("nft").args(["-f", "-"]).stdin(given).stdout(wanted).spawn().unwrap();
            nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
            let output = nft.wait_with_output().unwrap();
            if !output.status.success() {
                return Err("nft takes no random losses here".to_owned());
            }
            Ok(String::from_utf8(output.stdout).unwrap())
        })
    }

    /// From now on 3 % of the multicast that comes here is dropped.
    pub fn lose(&self) {
        self.nft(
            "table inet lose { chain incoming { type filter hook input priority 0; policy accept;
             meta l4proto { udp, 113 } ip daddr 239.0.0.0/8 numgen random mod 1000 < 30 counter drop;
             meta l4proto { udp, 113 } ip6 daddr ff00::/8 numgen random mod 1000 < 30 counter drop; }; }\n",
        )
        .unwrap();
    }

    /// From now on packets of PGM with the router alert are counted as they arrive, lost or not.
    pub fn count_alerts(&self) {
        self.nft(
            "table inet alert { counter alerts { }; chain incoming { type filter hook prerouting priority 0; policy accept;
             meta l4proto { udp, 113 } ip hdrlength > 5 counter name alerts;
             meta l4proto { udp, 113 } exthdr hbh exists counter name alerts; }; }\n",
        )
        .unwrap();
    }

    /// Packets with the router alert.
    pub fn alerts(&self) -> u64 {
        let text = self.nft("list counters\n").unwrap();
        let (_, rest) = text.split_once("packets ").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    }

    /// From now on everything is taken again.
    pub fn lose_no_more(&self) {
        self.nft("flush ruleset\n").unwrap();
    }

    /// Packets that were dropped.
    pub fn lost(&self) -> u64 {
        let text = self.nft("list ruleset\n").unwrap();
        let counts = text.split("counter packets ").skip(1);
        counts.map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two hosts on a wire, 10.79.0.1 and fd79::1, 10.79.0.2 and fd79::2. Says SKIPPED and returns nothing where that is not
/// possible.
pub fn two_hosts(test: &str) -> Option<(Host, Host)> {
    let skip = |why: &str| eprintln!("SKIPPED {test}: {why}");
    for program in ["ip", "nft"] {
        let found = Command::new(program).arg("-V").stdin(Stdio::null()).output();
        if !found.is_ok_and(|output| output.status.success()) {
            skip(&format!("the command {program} is missing"));
            return None;
        }
    }
    let (a, b) = match (Host::new(), Host::new()) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(why), _) | (_, Err(why)) => {
            skip(&why);
            return None;
        }
    };
    if let Err(why) = b.nft("table ip t { chain c { numgen random mod 100 < 1 counter drop; }; }; flush ruleset\n") {
        skip(&why);
        return None;
    }
    a.ip(&format!("link add wire type veth peer name wire netns {}", b.pid));
    for (host, number) in [(&a, 1), (&b, 2)] {
        host.ip("link set lo up");
        host.ip("link set wire up");
        host.ip(&format!("addr add 10.79.0.{number}/24 dev wire"));
        host.ip(&format!("addr add fd79::{number}/64 dev wire nodad"));
    }
    Some((a, b))
}

/// One host whose loopback interface is up, with nothing else.
pub fn one_host(test: &str) -> Option<Host> {
    let (host, _) = two_hosts(test)?;
    Some(host)
}

/// A source's name.
pub fn tsi(last: u8) -> Tsi {
    Tsi { gsi: Gsi([2, 4, 6, 8, 10, last]), port: 2000 + u16::from(last) }
}

/// The one clock of a test.
pub fn clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    *CLOCK.get_or_init(|| Clock::calibrate().unwrap())
}

/// PGM itself.
pub const RAW: Carrier = Carrier::Raw { protocol: 113 };
/// PGM in UDP.
pub const UDP: Carrier = Carrier::Udp { port: 3056 };

/// An end's own address and the groups there and back.
pub fn addresses(number: u8, v6: bool) -> (IpAddr, IpAddr, IpAddr) {
    let of = |text: &str| text.parse().unwrap();
    if v6 {
        (of(&format!("fd79::{number}")), of("ff15::79:1"), of("ff15::79:2"))
    } else {
        (of(&format!("10.79.0.{number}")), of("239.192.79.1"), of("239.192.79.2"))
    }
}

/// The options of both ends: the first publishes there and hears what comes back.
pub fn ends(carrier: Carrier, v6: bool) -> (PgmSocketOptions, PgmSocketOptions) {
    let end = |number: u8| {
        let (local, there, back) = addresses(number, v6);
        let (to, from) = if number == 1 { (there, back) } else { (back, there) };
        let mut options = PgmSocketOptions::new(carrier, local).publish(tsi(number), 7500, to).subscribe(7500, from);
        options.clock = Some(clock());
        // What was sent before a receiver heard anything is asked for too: also the first packets get lost.
        options.source.as_mut().unwrap().join_packets = Some(8192);
        // Nothing is given up because the other end's thread waits for a CPU of a busy machine: 50 times 2 ms would do that.
        let receiver = options.receiver.as_mut().unwrap();
        (receiver.ncf_retries, receiver.data_retries) = (5000, 5000);
        options
    };
    (end(1), end(2))
}

/// Opens a way. Another test that starts a program has our sockets open for a moment, also those that we have closed.
pub fn open(options: &PgmSocketOptions) -> PgmSocket {
    let begin = Instant::now();
    loop {
        match PgmSocket::open(options) {
            Err(PgmIoError::AddressInUse { .. }) if begin.elapsed() < Duration::from_secs(60) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            way => return way.unwrap(),
        }
    }
}

/// How to wait.
pub fn waiting(receive: Receive, stop: &AtomicBool) -> PathOptions<'_> {
    PathOptions { receive, idle: IdleDescriptors::default(), clock: clock(), timeout_ns: 0, stop }
}
