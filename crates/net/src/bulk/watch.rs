//! What TCP tells over time about the connections that send.

use super::{congestion, tcp_figures};
use crate::socket::DataSocket;
use model::stream::{StreamSent, TcpInterval};

/// Reads tcp_info of several connections once a second. Ask it from a thread that does not send.
#[derive(Debug)]
pub struct TcpWatch<'a> {
    sockets: Vec<&'a DataSocket>,
    /// Segments that were sent again by the last reading, of all connections.
    before: u64,
    began: u64,
    seconds: Vec<TcpInterval>,
}

impl<'a> TcpWatch<'a> {
    /// Begins with what was sent again so far (a SYN, say). Connections that are not TCP are left out.
    pub fn new(sockets: impl IntoIterator<Item = &'a DataSocket>) -> Self {
        let sockets: Vec<_> = sockets.into_iter().filter(|socket| tcp_figures(socket).is_some()).collect();
        let mut watch = Self { sockets, before: 0, began: 0, seconds: Vec::new() };
        watch.before = watch.read().1;
        watch.began = watch.before;
        watch
    }

    /// The present figures, and the segments sent again so far.
    fn read(&self) -> (TcpInterval, u64) {
        let figures: Vec<_> = self.sockets.iter().filter_map(|socket| tcp_figures(socket)).collect();
        let again = figures.iter().map(|one| u64::from(one.retransmits)).sum();
        let rtt: u64 = figures.iter().map(|one| u64::from(one.rtt_us) * 1000).sum();
        let interval = TcpInterval {
            retransmits: 0,
            rtt_ns: rtt / (figures.len() as u64).max(1),
            window_bytes: figures.iter().map(|one| one.window_bytes).sum(),
        };
        (interval, again)
    }

    /// A second is over.
    pub fn sample(&mut self) {
        if self.sockets.is_empty() {
            return;
        }
        let (mut interval, again) = self.read();
        interval.retransmits = again.saturating_sub(self.before);
        // Connections that failed meanwhile take their count along.
        self.before = self.before.max(again);
        self.seconds.push(interval);
    }

    /// What was sent again so far.
    pub fn retransmits(&self) -> u64 {
        self.before - self.began
    }

    /// Adds all that TCP reported to what was sent.
    pub fn finish(self, sent: &mut StreamSent) {
        let Some(first) = self.sockets.first() else { return };
        sent.congestion = congestion(first);
        sent.retransmits = Some(self.retransmits());
        let rtts = self.seconds.iter().map(|second| second.rtt_ns);
        sent.rtt_max_ns = rtts.clone().max();
        sent.rtt_mean_ns = rtts.sum::<u64>().checked_div(self.seconds.len() as u64);
        sent.seconds = self.seconds;
    }
}
