//! The initiator's control session as blocking calls, and the data path that it opens.

use crate::data::{DataPath, is_nothing};
use crate::error::{data, random};
use crate::pgm::{self, Conversation, Ends};
use crate::{Task, WinpointError};
use model::{ProbeSpec, Receive, SocketSpec};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use wire::{ClientConfig, ClientEvent, ClientSession, OpenRequest, PaceRequest, PgmRequest, SessionError, StopReport};

/// How long a connection or one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the data path may take to be proved, and the time between two showings of the token.
const PROVE: Duration = Duration::from_secs(5);
const PROVE_AGAIN: Duration = Duration::from_millis(50);
/// How long PGM is served between two showings of the token.
const SERVE: Duration = Duration::from_millis(10);
/// How long the end of a source is announced.
const CLOSE: Duration = Duration::from_millis(300);

/// `ADDR`, `ADDR:PORT` or a name, by default with an endpoint's port. Errors: [`WinpointError::Address`].
pub fn resolve(text: &str) -> Result<SocketAddr, WinpointError> {
    let failed = |cause| WinpointError::Address { text: text.to_owned(), cause };
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, wire::DEFAULT_PORT));
    }
    let mut found = if text.contains(':') {
        text.to_socket_addrs().map_err(failed)?
    } else {
        (text, wire::DEFAULT_PORT).to_socket_addrs().map_err(failed)?
    };
    found.next().ok_or_else(|| failed(ErrorKind::NotFound.into()))
}

pub(crate) struct Peer {
    control: Control,
    /// What the reflector's owner allows, in messages a second.
    pub(crate) max_rate_pps: u32,
    pub(crate) data: DataPath,
    pub(crate) tag: u64,
    /// The reflector's data address, and ours.
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<SocketAddr>,
}

fn request(spec: &ProbeSpec, socket: &SocketSpec, pgm: Option<PgmRequest>) -> OpenRequest {
    let pace = spec.pace();
    let fastest = pace.map(|pace| pace.rates_pps.iter().copied().fold(1.0, f64::max).ceil());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 or more; `as` saturates")]
    let pace = fastest.map(|fastest| PaceRequest { rate_pps: fastest as u32, pgm, ..PaceRequest::default() });
    let plain = OpenRequest::new(spec.probe(), socket.protocol, spec.sizes.max());
    OpenRequest { socket: socket.clone(), end: spec.reflector.clone(), pace, ..plain }
}

impl Peer {
    /// Connects, makes the handshake, and opens and proves the data path, whose receive calls wait by `receive`.
    pub(crate) fn open(task: &Task, receive: Receive) -> Result<Self, WinpointError> {
        let name = task.control.to_string();
        let socket = task.spec.socket()?;
        let failed = |cause| WinpointError::Connect { address: name.clone(), cause };
        let stream = TcpStream::connect_timeout(&task.control, PATIENCE).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let own = stream.local_addr().map_err(failed)?;
        let machine = ClientSession::new(ClientConfig::new(task.key.clone(), random()?));
        let mut control = Control { stream, machine, name: name.clone() };
        let ready = control.answer("making the handshake")?;
        let ClientEvent::Ready { hello, .. } = ready else { return Err(control.out_of_order("making the handshake")) };
        let pgm = socket
            .pgm
            .as_ref()
            .map(|spec| Ok::<_, WinpointError>((spec, pgm::source()?, u64::from_ne_bytes(random()?))));
        let pgm = pgm.transpose()?;
        let asked = pgm.as_ref().map(|(_, own, tag)| PgmRequest { source: (*own).into(), tag: *tag });
        control.machine.open(request(&task.spec, socket, asked)).map_err(|cause| control.failed(cause))?;
        let ClientEvent::Opened(opened) = control.answer("opening the data path")? else {
            return Err(control.out_of_order("opening the data path"));
        };
        let ip = opened.address.unwrap_or(task.control.ip());
        let remote = SocketAddr::new(ip, opened.port);
        let protocol = socket.protocol;
        let tag = pgm.as_ref().map_or(opened.token.tag(), |(_, _, tag)| *tag);
        let mut path = match pgm {
            None => DataPath::connect(protocol, remote, own.ip()).map_err(data("connecting the data path"))?,
            Some((spec, source, tag)) => {
                let (publish, subscribe) = (spec.group, spec.reply_group());
                let ends = Ends { spec, ttl: socket.ttl, local: own.ip(), publish, subscribe };
                let conversation = Conversation::open(&ends, source, tag)?;
                conversation
                    .hear_only(opened.source.ok_or_else(|| control.out_of_order("opening the data path"))?.into());
                DataPath::pgm(conversation)
            }
        };
        let proof = wire::data::prove(&opened.token);
        let began = Instant::now();
        let mut shown = false;
        loop {
            if let Some((conversation, _)) = path.conversation() {
                conversation.drive(None, SERVE).map_err(data("proving the data path"))?;
            }
            // A stream delivers it; datagrams may be lost.
            if !(shown && protocol.is_stream()) {
                path.send(&proof).map_err(data("proving the data path"))?;
                shown = true;
            }
            match control.wait(PROVE_AGAIN)? {
                Some(ClientEvent::Proved { .. }) => break,
                Some(_) => return Err(control.out_of_order("proving the data path")),
                None if began.elapsed() < PROVE => {}
                None => return Err(WinpointError::NotProved { protocol, address: name }),
            }
        }
        path.wait_by(receive, socket.nodelay).map_err(data("setting up the data path"))?;
        let local = path.local_address();
        let max_rate_pps = hello.limits.max_rate_pps;
        Ok(Self { control, max_rate_pps, data: path, tag, remote, local })
    }

    /// Begins a size: the reflector waits for messages when this returns.
    pub(crate) fn start(&mut self, size: u32) -> Result<(), WinpointError> {
        const DURING: &str = "starting a size";
        let control = &mut self.control;
        control.machine.start(size, size).map_err(|cause| control.failed(cause))?;
        match control.answer(DURING)? {
            ClientEvent::Started => Ok(()),
            _ => Err(control.out_of_order(DURING)),
        }
    }

    /// Ends a size: the reflector's report, if it comes, and how the path broke, if it did (`broken`: already).
    pub(crate) fn stop(&mut self, broken: Option<String>) -> (Option<StopReport>, Option<String>) {
        match self.stopped() {
            Ok(report) => (Some(report), broken),
            Err(error) => (None, broken.or_else(|| Some(error.to_string()))),
        }
    }

    fn stopped(&mut self) -> Result<StopReport, WinpointError> {
        const DURING: &str = "stopping a size";
        let control = &mut self.control;
        control.machine.stop().map_err(|cause| control.failed(cause))?;
        match control.answer(DURING)? {
            ClientEvent::Stopped(report) => Ok(*report),
            _ => Err(control.out_of_order(DURING)),
        }
    }

    /// Closes the session; failures no longer matter.
    pub(crate) fn close(mut self) {
        if let Some((conversation, completion)) = self.data.conversation() {
            conversation.close(completion, CLOSE);
        }
        let _ = self.control.machine.close();
        let _ = self.control.flush();
    }
}

struct Control {
    stream: TcpStream,
    machine: ClientSession,
    name: String,
}

impl Control {
    fn flush(&mut self) -> Result<(), WinpointError> {
        while let Some(bytes) = self.machine.poll_transmit() {
            let written = self.stream.write_all(&bytes);
            written.map_err(|cause| WinpointError::Control { address: self.name.clone(), cause })?;
        }
        Ok(())
    }

    /// The next event, which the far end owes us.
    fn answer(&mut self, during: &'static str) -> Result<ClientEvent, WinpointError> {
        let silent = WinpointError::Silent { address: self.name.clone(), during, seconds: PATIENCE.as_secs() };
        self.wait(PATIENCE)?.ok_or(silent)
    }

    /// The next event, or none within `patience`.
    fn wait(&mut self, patience: Duration) -> Result<Option<ClientEvent>, WinpointError> {
        let began = Instant::now();
        let mut buffer = [0; 4096];
        loop {
            self.flush()?;
            if let Some(event) = self.machine.poll_event() {
                return Ok(Some(event));
            }
            let left = patience.saturating_sub(began.elapsed());
            let control = |cause| WinpointError::Control { address: self.name.clone(), cause };
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).map_err(control)?;
            let done = match self.stream.read(&mut buffer) {
                Ok(0) => self.machine.handle_end(),
                Ok(bytes) => self.machine.handle_bytes(buffer.get(..bytes).unwrap_or_default()),
                Err(error) if is_nothing(&error) && left.is_zero() => return Ok(None),
                Err(error) if is_nothing(&error) => Ok(()),
                Err(error) => return Err(control(error)),
            };
            done.map_err(|cause| self.failed(cause))?;
        }
    }

    fn failed(&self, cause: SessionError) -> WinpointError {
        WinpointError::Session { address: self.name.clone(), cause }
    }

    fn out_of_order(&self, during: &'static str) -> WinpointError {
        WinpointError::OutOfOrder { address: self.name.clone(), during }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_is_an_endpoint_s() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:7412"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("::1", "[::1]:7412"),
            ("[::1]", "[::1]:7412"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(resolve(text).unwrap().to_string(), expected, "{text}");
        }
        assert!(resolve("127.0.0.1:99999").unwrap_err().to_string().contains("127.0.0.1:99999"));
    }
}
