//! A capture of a measurement's flows into a file, on a thread of its own.

use super::file::{CaptureCounts, CaptureFile, CaptureSpec};
use super::filter::{self, Flow, FlowFilter, GroupFlow};
use super::link::Link;
use super::ring::{CapturedPacket, RETIRE, Ring};
use super::write::Interface;
use crate::{NetError, interface, route, sys};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

enum Command {
    Follow(FlowFilter, String, SyncSender<Result<(), NetError>>),
    Count(SyncSender<CaptureCounts>),
    Stop,
}

/// Tells a running capture what to do. May be used by any thread; each call waits for its answer.
#[derive(Debug)]
pub struct Capture {
    commands: Mutex<Sender<Command>>,
    wake: OwnedFd,
}

impl Capture {
    /// Makes or empties the file; a thread of its own runs the loop. Errors: the file or the capture is not permitted.
    pub fn create(spec: CaptureSpec) -> Result<(Self, CaptureLoop), NetError> {
        check_permission()?;
        let payload_bytes = spec.payload_bytes;
        Self::into_file(CaptureFile::create(spec)?, payload_bytes)
    }

    /// The same with a file in memory, which is gone with this process. Errors: as [`Self::create`].
    pub fn in_memory(spec: CaptureSpec) -> Result<(Self, CaptureLoop, File), NetError> {
        check_permission()?;
        let failed = |cause| NetError::Descriptors { what: "a file in memory", cause };
        let memory = sys::memory_file(c"windhover-packets", 0).map_err(failed)?;
        let file = File::from(memory.try_clone().map_err(failed)?);
        let payload_bytes = spec.payload_bytes;
        let (capture, work) = Self::into_file(CaptureFile::new(spec, file, true).map_err(failed)?, payload_bytes)?;
        Ok((capture, work, File::from(memory)))
    }

    fn into_file(file: CaptureFile, payload_bytes: u32) -> Result<(Self, CaptureLoop), NetError> {
        let (woken, wake) = sys::pipe().map_err(|cause| NetError::Descriptors { what: "a pipe", cause })?;
        let nonblocking = sys::set_nonblocking(woken.as_raw_fd(), true);
        nonblocking.map_err(|cause| NetError::Descriptors { what: "a pipe", cause })?;
        let (commands, heard) = channel();
        let work = CaptureLoop { heard, woken: Some(woken), ports: Vec::new(), file, payload_bytes, dropped: 0 };
        Ok((Self { commands: Mutex::new(commands), wake }, work))
    }

    /// Captures this flow too, from now on; a flow that is followed already is narrowed to what is known better now.
    /// `device` is where its packets pass; without one the routing table says. Errors: there is no such interface or no
    /// route, or the kernel refuses.
    pub fn follow(&self, flow: Flow, device: Option<&str>) -> Result<(), NetError> {
        let name = interface_to(flow.far, device)?;
        self.tell(FlowFilter::One(flow), name)
    }

    /// Captures what a group-based protocol sends too, from now on: to its groups, from anybody, and unicast between
    /// its members, both ways. `device` is the interface of its groups; without one the routing table says. Errors:
    /// there is no such interface or no route, or the kernel refuses.
    pub fn follow_group(&self, flow: GroupFlow, device: Option<&str>) -> Result<(), NetError> {
        let Some(group) = flow.groups.first() else { return Ok(()) };
        let name = interface_to(SocketAddr::new(*group, 9), device)?;
        self.tell(FlowFilter::Group(flow), name)
    }

    fn tell(&self, flow: FlowFilter, name: String) -> Result<(), NetError> {
        let (answer, heard) = sync_channel(1);
        self.send(Command::Follow(flow, name, answer));
        // A loop that is over captures nothing more, and has said why.
        heard.recv().unwrap_or(Ok(()))
    }

    /// What became of the packets so far. Those of the last moments may not be written yet.
    pub fn counts(&self) -> CaptureCounts {
        let (answer, heard) = sync_channel(1);
        self.send(Command::Count(answer));
        heard.recv().unwrap_or_default()
    }

    /// Ends the loop once it has taken what is under way.
    pub fn stop(&self) {
        self.send(Command::Stop);
    }

    fn send(&self, command: Command) {
        let commands = self.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if commands.send(command).is_ok() {
            // The pipe holds thousands; a full one wakes the reader too.
            let _ = sys::write(self.wake.as_raw_fd(), &[0]);
        }
    }
}

/// Asked before a file is made: who may not capture loses none.
fn check_permission() -> Result<(), NetError> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0).map_err(|cause| match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => NetError::CaptureNotPermitted,
        _ => NetError::Socket { what: "packet", cause },
    });
    socket.map(drop)
}

/// The interface that packets to `far` pass: the device, or what the routing table says.
fn interface_to(far: SocketAddr, device: Option<&str>) -> Result<String, NetError> {
    match device {
        Some(device) => interface::name_of(interface::named(device)?),
        None => route::lookup(far)?.interface.ok_or(NetError::NoInterfaceWithAddress { address: far.ip() }),
    }
}

struct Port {
    link: Link,
    ring: Ring,
    flows: Vec<FlowFilter>,
    /// Its number in the file for packets stamped by the system's clock, and for those stamped by the NIC's.
    numbers: [Option<u32>; 2],
    passed: u64,
    dropped: u64,
}

pub struct CaptureLoop {
    heard: Receiver<Command>,
    /// Ready when there is a command; absent once there is nobody who gives any.
    woken: Option<OwnedFd>,
    ports: Vec<Port>,
    file: CaptureFile,
    payload_bytes: u32,
    dropped: u64,
}

impl CaptureLoop {
    /// Captures until told to stop, or until every handle is gone. Returns what became of the packets.
    pub fn run(mut self) -> CaptureCounts {
        let mut end = None;
        loop {
            self.wait(end);
            self.drain();
            loop {
                match self.heard.try_recv() {
                    Ok(Command::Follow(flow, name, answer)) => {
                        let _ = answer.send(self.follow(flow, &name));
                    }
                    Ok(Command::Count(answer)) => {
                        let _ = answer.send(self.counts());
                    }
                    // What was sent last lies in a block that the kernel has not given over yet.
                    Ok(Command::Stop) => end = end.or(Some(Instant::now() + 3 * RETIRE)),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        end = end.or(Some(Instant::now() + 3 * RETIRE));
                        // Its pipe is over too, and would be ready for ever.
                        self.woken = None;
                        break;
                    }
                }
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        self.drain();
        self.finish()
    }

    fn wait(&mut self, end: Option<Instant>) {
        let waiting = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative descriptor is not looked at (poll(2)).
        let woken = self.woken.as_ref().map_or(-1, |woken| woken.as_raw_fd());
        let mut set = vec![waiting(woken)];
        set.extend(self.ports.iter().map(|port| waiting(port.ring.fd())));
        let left = end.map(|end| end.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let left_ms = left.map_or(-1, |left| libc::c_int::try_from(left.as_millis()).unwrap_or(-1));
        if sys::poll(&mut set, left_ms) > 0 && set.first().is_some_and(|woken| woken.revents != 0) {
            let mut bytes = [0; 64];
            while sys::read(woken, &mut bytes) == 64 {}
        }
    }

    fn drain(&mut self) {
        let (file, payload) = (&mut self.file, self.payload_bytes);
        for port in &mut self.ports {
            let (link, numbers) = (&port.link, &mut port.numbers);
            port.ring.drain(&mut |taken: CapturedPacket<'_>| {
                // Two clocks are two interfaces: nobody subtracts times of one from times of the other unawares.
                let number = numbers[usize::from(taken.hardware)];
                let number = number.unwrap_or_else(|| file.interface(&described(link, taken.hardware, payload)));
                numbers[usize::from(taken.hardware)] = Some(number);
                file.packet(number, &taken);
            });
        }
        if !self.file.is_open() {
            // The rest would be for nothing, and cost the measurement.
            self.count();
            self.ports.clear();
        }
    }

    fn follow(&mut self, flow: FlowFilter, name: &str) -> Result<(), NetError> {
        if !self.file.is_open() {
            return Ok(());
        }
        let payload = self.payload_bytes;
        if let Some(port) = self.ports.iter_mut().find(|port| port.link.name == name) {
            match port.flows.iter_mut().find(|known| known.is(&flow)) {
                Some(known) => *known = flow,
                None => port.flows.push(flow),
            }
            let program = filter::program(&port.flows, port.link.head.bytes(), payload);
            return port.ring.filter(&program).map_err(|cause| NetError::Capture {
                interface: name.to_owned(),
                what: "setting the filter",
                cause,
            });
        }
        let link = Link::named(name)?;
        let flows = vec![flow];
        let ring = Ring::open(&link, Some(&filter::program(&flows, link.head.bytes(), payload)))?;
        let number = self.file.interface(&described(&link, false, payload));
        // An interface without packets is in the file too.
        self.file.flush();
        self.ports.push(Port { link, ring, flows, numbers: [Some(number), None], passed: 0, dropped: 0 });
        Ok(())
    }

    fn count(&mut self) {
        for port in &mut self.ports {
            let (passed, dropped) = port.ring.counts();
            port.passed += passed;
            port.dropped += dropped;
            self.dropped += dropped;
        }
    }

    fn counts(&mut self) -> CaptureCounts {
        self.count();
        self.file.counts(self.dropped)
    }

    fn finish(mut self) -> CaptureCounts {
        self.count();
        for port in &self.ports {
            if let Some(number) = port.numbers[0] {
                self.file.statistics(number, port.passed, port.dropped);
            }
        }
        self.file.flush();
        self.counts()
    }
}

/// An interface of the file: what one clock stamps.
fn described(link: &Link, hardware: bool, payload_bytes: u32) -> Interface<'_> {
    let description = if hardware { "time stamps of the NIC's clock" } else { "time stamps of the system's clock" };
    // The longest headers: Ethernet with a tag, IPv6, TCP with options; or what a group-based protocol has of its own.
    let snap = 18 + 40 + 60 + filter::GROUP_HEAD + payload_bytes;
    Interface { link: link.head.number(), snap, name: &link.name, description, speed_bps: link.speed_bps }
}
