#![allow(
    dead_code,
    unreachable_pub,
    unsafe_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests, each of which takes what it needs"
)]
//! What the tests of the datapaths share: ends for each protocol, an echoing loop, and a way to interrupt a thread.

use clock::Clock;
use model::{EndSpec, IdleDescriptors, Multicast, Protocol, Receive, SocketSpec};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use windhover_net::{DataListener, DataSocket, Path, PathError, PathOptions, PathVisitor, Received};

/// Longer than any step that is expected to succeed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A stop flag that is never set.
pub static NEVER: AtomicBool = AtomicBool::new(false);

pub fn clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    *CLOCK.get_or_init(|| Clock::calibrate().unwrap())
}

pub fn options<'a>(receive: Receive, stop: &'a AtomicBool) -> PathOptions<'a> {
    let timeout_ns = u64::try_from(PATIENCE.as_nanos()).unwrap();
    PathOptions { receive, idle: IdleDescriptors::default(), clock: clock(), timeout_ns, stop }
}

pub fn end(receive: Receive) -> EndSpec {
    EndSpec { receive, ..EndSpec::default() }
}

pub fn loopback(v6: bool) -> SocketAddr {
    if v6 { "[::1]:0".parse().unwrap() } else { "127.0.0.1:0".parse().unwrap() }
}

/// Whether IPv6 works on the loopback interface.
pub fn has_v6() -> bool {
    std::net::UdpSocket::bind("[::1]:0").is_ok()
}

pub fn multicast(group: &str, interface: &str) -> SocketSpec {
    let group: IpAddr = group.parse().unwrap();
    let mut spec = SocketSpec::new(Protocol::Udp);
    spec.multicast = Some(Multicast { group, interface: Some(interface.to_owned()), loopback: true });
    spec
}

/// Both ends of a data connection over loopback, as probe and endpoint make them.
pub fn ends(spec: &SocketSpec, initiator: &EndSpec, reflector: &EndSpec, v6: bool) -> (DataSocket, DataSocket) {
    ends_at(spec, initiator, reflector, loopback(v6))
}

/// As [`ends`], with the reflector at another address.
pub fn ends_at(
    spec: &SocketSpec,
    initiator: &EndSpec,
    reflector: &EndSpec,
    at: SocketAddr,
) -> (DataSocket, DataSocket) {
    match spec.protocol {
        Protocol::Udp | Protocol::Frame => {
            let mut there = DataSocket::bind(spec, reflector, at).unwrap();
            let mut data = at;
            data.set_port(there.local_address().unwrap().port());
            let mut here = DataSocket::connect(spec, initiator, data, PATIENCE).unwrap();
            here.send_once(b"proof", PATIENCE).unwrap();
            let mut buffer = [0; 16];
            let (bytes, from) = there.receive_once(&mut buffer, PATIENCE).unwrap().unwrap();
            assert_eq!(&buffer[..bytes], b"proof");
            there.set_peer(from.unwrap()).unwrap();
            (here, there)
        }
        protocol if protocol.is_connection() => {
            let listener = DataListener::bind(spec, reflector, at).unwrap();
            let here = DataSocket::connect(spec, initiator, listener.local_address(), PATIENCE).unwrap();
            let there = listener.accept(PATIENCE).unwrap().unwrap();
            assert_eq!(there.peer_address(), here.local_address());
            (here, there)
        }
        _ => windhover_net::local_pair(spec, initiator, reflector).unwrap(),
    }
}

/// Sends back whatever comes, until it is stopped or the peer has ended.
pub struct Reflect {
    pub size: usize,
}

impl PathVisitor for Reflect {
    type Output = (u64, Result<Received, PathError>);

    fn visit<P: Path>(self, path: &mut P) -> Self::Output {
        let mut buffer = vec![0; self.size];
        let mut count = 0;
        loop {
            match path.receive(&mut buffer) {
                Ok(Received::Bytes(bytes)) => {
                    if let Err(error) = path.send(&buffer[..bytes], false) {
                        return (count, Err(error));
                    }
                    count += 1;
                }
                Ok(Received::Interrupted) => {}
                other => return (count, other),
            }
        }
    }
}

/// Sends messages of one size and checks that each comes back as it was.
pub struct PingPong {
    pub size: usize,
    pub rounds: u32,
}

impl PathVisitor for PingPong {
    type Output = u32;

    fn visit<P: Path>(self, path: &mut P) -> u32 {
        let mut message = vec![0u8; self.size];
        let mut buffer = vec![0u8; self.size];
        for round in 0..self.rounds {
            for (index, byte) in message.iter_mut().enumerate() {
                *byte = u8::try_from((index + round as usize) % 251).unwrap();
            }
            path.send(&message, false).unwrap();
            loop {
                match path.receive(&mut buffer).unwrap() {
                    Received::Bytes(bytes) => {
                        assert_eq!(bytes, self.size);
                        break;
                    }
                    Received::Interrupted => {}
                    other => panic!("round {round}: {other:?}"),
                }
            }
            assert!(buffer == message, "round {round} came back changed");
        }
        self.rounds
    }
}

/// Runs `work` in a thread of its own and interrupts it each millisecond until it ends, as a watchdog does: one signal
/// alone may come before the call that it shall end. `before` runs first, with the thread at work.
pub fn interrupted<T: Send>(work: impl FnOnce() -> T + Send, before: impl FnOnce()) -> T {
    install_handler();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let worker = scope.spawn(move || {
            // SAFETY: no arguments, cannot fail.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            work()
        });
        let thread = told.recv().unwrap();
        before();
        let end = Instant::now() + PATIENCE;
        while !worker.is_finished() {
            assert!(Instant::now() < end, "the wait was not interrupted");
            // SAFETY: the thread is joined only below, so its handle is valid although it may have ended.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            std::thread::sleep(Duration::from_millis(1));
        }
        worker.join().unwrap()
    })
}

/// A handler that does nothing, without SA_RESTART.
pub fn install_handler() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, so it is async-signal-safe; the action is fully initialised.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Puts this test's thread, and the threads that it starts, into a network namespace of its own with `lo` up. Says
/// SKIPPED and returns false where that is not possible.
pub fn own_namespace(test: &str) -> bool {
    if let Err(errno) = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET) {
        eprintln!("SKIPPED {test}: no network namespace of its own ({errno})");
        return false;
    }
    if !std::process::Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: the command ip is missing");
        return false;
    }
    ip(&["link", "set", "lo", "up"]);
    true
}

/// Runs `ip` in this thread's namespace.
pub fn ip(arguments: &[&str]) {
    let status = std::process::Command::new("ip").args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}");
}
