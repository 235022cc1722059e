//! The sockets of a stream, each proved the client's.

use crate::data_accept;
use crate::reflector::{Client, DataSource, Failure, ReflectorEvent, SessionLink, failed};
use model::SocketSpec;
use net::{DataListener, DataSocket};
use wire::stream::{PROVE_BYTES, read_prove};
use wire::{OpenRequest, StreamRequest, Token};

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
    let opened = |port, ports| link.opened(token, port, address, (ports, None));
    let count = stream.spec.sockets();
    let place = |shown: &[u8; PROVE_BYTES]| {
        let (found, number) = read_prove(shown)?;
        (&found == token).then_some(number as usize)
    };
    let proved = if spec.protocol.is_stream() {
        let listener = DataListener::bind(&spec, &request.end, local).map_err(failed)?;
        opened(listener.local_address().port(), Vec::new());
        data_accept::accept(&listener, client, count as usize, link, place)?
    } else {
        let bind = |_| DataSocket::bind(&spec, &request.end, local).map_err(failed);
        let mut sockets = (0..count).map(bind).collect::<Result<Vec<_>, _>>()?;
        let port = |socket: &DataSocket| socket.local_address().map_or(0, |address| address.port());
        let ports: Vec<u16> = sockets.iter().map(port).collect();
        opened(ports.first().copied().unwrap_or(0), ports);
        data_accept::prove(&mut sockets, client, link, place)?.then_some(sockets)
    };
    let Some(sockets) = proved else { return Ok(None) };
    link.report(ReflectorEvent::Proved(sockets.first().and_then(DataSocket::peer_address)));
    Ok(Some(sockets))
}
