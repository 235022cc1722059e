//! The sockets of a stream, each proved the client's.

use crate::data_accept;
use crate::reflector::{Client, DataSource, Failure, PROVE, ReflectorEvent, SessionLink, failed, late};
use model::{EndSpec, SocketSpec};
use net::{DataListener, DataSocket, NetError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wire::stream::{PROVE_BYTES, read_prove};
use wire::{OpenRequest, Opened, StreamRequest, Token};

/// Between two looks whether the session still wants the proof.
const LOOK: Duration = Duration::from_millis(50);

/// Opens all sockets and waits until each is proved. `None` when the session ended meanwhile.
pub(super) fn open(
    request: &OpenRequest,
    stream: &StreamRequest,
    source: &DataSource,
    token: &Token,
    link: &SessionLink,
) -> Result<Option<Vec<DataSocket>>, Failure> {
    let &DataSource::Network { local, peer, anywhere } = source else {
        return Err(super::bad("a stream needs a network"));
    };
    let client = Client { address: peer, anywhere };
    // Only a connected socket sends to, and receives from, one peer alone.
    let spec = SocketSpec { connected: true, multicast: None, ..request.socket.clone() };
    let address = request.end.bind.filter(|bind| !bind.is_unspecified());
    let opened = |port, ports| {
        let (token, machine) = (token.clone(), host::boot_id());
        link.report(ReflectorEvent::Opened(Opened { port, address, token, machine, ports, source: None }));
    };
    let count = stream.spec.sockets();
    let deadline = Instant::now() + PROVE;
    let proved = if spec.protocol.is_stream() {
        let listener = DataListener::bind(&spec, &request.end, local).map_err(failed)?;
        opened(listener.local_address().port(), Vec::new());
        let place = |shown: &[u8; PROVE_BYTES]| {
            let (found, number) = read_prove(shown)?;
            (&found == token).then_some(number as usize)
        };
        data_accept::accept(&listener, client, count as usize, deadline, link, place)?
    } else {
        let mut sockets = bind(&spec, &request.end, local, count)?;
        let port = |socket: &DataSocket| socket.local_address().map_or(0, |address| address.port());
        let ports: Vec<u16> = sockets.iter().map(port).collect();
        opened(ports.first().copied().unwrap_or(0), ports);
        prove(&mut sockets, client, token, deadline, link)?.then_some(sockets)
    };
    let Some(sockets) = proved else { return Ok(None) };
    link.report(ReflectorEvent::Proved(sockets.first().and_then(DataSocket::peer_address)));
    Ok(Some(sockets))
}

fn bind(spec: &SocketSpec, end: &EndSpec, local: SocketAddr, count: u32) -> Result<Vec<DataSocket>, Failure> {
    (0..count).map(|_| DataSocket::bind(spec, end, local).map_err(failed)).collect()
}

/// Waits for a datagram with the token and its own number at each socket. Nothing is answered, whatever comes.
fn prove(
    sockets: &mut [DataSocket],
    client: Client,
    token: &Token,
    deadline: Instant,
    link: &SessionLink,
) -> Result<bool, Failure> {
    let mut proved = vec![false; sockets.len()];
    // One byte more than a proof, so that a longer datagram is not taken for one.
    let mut datagram = [0; PROVE_BYTES + 1];
    while !link.halt.is_over() {
        if proved.iter().all(|done| *done) {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Err(late());
        }
        for number in readable(sockets, &proved)? {
            let Some(socket) = sockets.get_mut(number) else { continue };
            let received = match socket.receive_once(&mut datagram, Duration::ZERO) {
                Ok(received) => received,
                // A report of an ICMP error, which anybody may cause.
                Err(NetError::Exchange { .. }) => continue,
                Err(error) => return Err(failed(error)),
            };
            let Some((bytes, Some(from))) = received else { continue };
            let Some((shown, claimed)) = datagram.get(..bytes).and_then(read_prove) else { continue };
            if &shown == token && claimed as usize == number && client.may_use(from.ip()) {
                socket.set_peer(from).map_err(failed)?;
                proved[number] = true;
            }
        }
    }
    Ok(false)
}

/// The sockets that something waits at, of those not proved yet.
fn readable(sockets: &[DataSocket], proved: &[bool]) -> Result<Vec<usize>, Failure> {
    let waiting: Vec<usize> = (0..sockets.len()).filter(|number| !proved[*number]).collect();
    let mut set: Vec<PollFd<'_>> =
        waiting.iter().map(|number| PollFd::new(sockets[*number].as_fd(), PollFlags::POLLIN)).collect();
    let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
    match poll(&mut set, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    }
    let ready = waiting.iter().zip(&set).filter(|(_, one)| one.any().unwrap_or(false));
    Ok(ready.map(|(number, _)| *number).collect())
}
