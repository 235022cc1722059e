//! What a publisher sends its frames with.

use crate::report::Connection;
use crate::tcp::TcpSender;
use exchange::{Framing, Header};
use net::PathError;
use net::group::{Extra, GroupSocket, SendBatch, Target};

pub(crate) enum Sender {
    Udp { socket: GroupSocket, targets: Vec<Target>, batch: SendBatch },
    Tcp(TcpSender),
}

impl Sender {
    /// Sends a frame to all targets. Errors: the socket is broken.
    #[inline]
    pub(crate) fn send(
        &mut self,
        framing: Framing,
        header: &Header,
        data: &[u8],
        now_ns: u64,
    ) -> Result<(), PathError> {
        let (socket, targets, batch) = match self {
            Self::Udp { socket, targets, batch } => (socket, targets, batch),
            Self::Tcp(tcp) => {
                tcp.send(framing, header, data, now_ns);
                return Ok(());
            }
        };
        for target in targets.iter() {
            let Some(place) = batch.place() else { break };
            let Some(bytes) = framing.encode(header, data, place) else { break };
            batch.push(bytes, target, Extra::None);
        }
        while let Err(error) = batch.flush(socket) {
            if error != PathError::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends; returns the number of frames that were not sent, and the connections.
    pub(crate) fn finish(self) -> (u64, Vec<Connection>) {
        match self {
            Self::Udp { batch, .. } => (batch.lost, Vec::new()),
            Self::Tcp(tcp) => {
                let connections = tcp.finish();
                (connections.iter().map(|connection| connection.replaced + connection.unsent).sum(), connections)
            }
        }
    }
}
