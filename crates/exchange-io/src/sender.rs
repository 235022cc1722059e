//! What a publisher sends its frames with.

use crate::pgm::PgmSender;
use crate::report::Connection;
use crate::tcp::TcpSender;
use exchange::{Framing, Header};
use net::PathError;
use net::group::{Extra, GroupSocket, SendBatch, Target};

#[derive(Debug)]
pub(crate) enum Sender {
    Udp { socket: GroupSocket, targets: Vec<Target>, batch: SendBatch },
    Tcp(TcpSender),
    Pgm(Box<PgmSender>),
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
            Self::Pgm(pgm) => return pgm.send(framing, header, data),
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

    /// Does what is due between cycles, until a time of CLOCK_MONOTONIC or less long. Errors: the socket is broken.
    #[inline]
    pub(crate) fn serve(&mut self, until_ns: u64) -> Result<(), PathError> {
        if let Self::Pgm(pgm) = self { pgm.serve(until_ns) } else { Ok(()) }
    }

    /// Ends; returns the number of frames that were not sent, and the connections.
    pub(crate) fn finish(self) -> (u64, Vec<Connection>) {
        match self {
            Self::Udp { batch, .. } => (batch.lost, Vec::new()),
            Self::Pgm(pgm) => (pgm.finish(), Vec::new()),
            Self::Tcp(tcp) => {
                let connections = tcp.finish();
                (connections.iter().map(|connection| connection.replaced + connection.unsent).sum(), connections)
            }
        }
    }
}
