//! A source: numbers data, sends it at a bounded rate, tells where it is, and repairs (RFC 3208, section 5).
//!
//! It is driven from outside: datagrams that arrived go in by [`Source::handle_datagram`], packets to be sent come out of
//! [`Source::poll_transmit`], and [`Source::poll_timeout`] says when to call again although nothing arrived. Time is
//! whatever the caller says, in ns, as long as it does not go back. After [`Source::new`] nothing is allocated.
//!
//! ```
//! use pgm::packet::{Body, Packet};
//! use pgm::{Source, SourceConfig, Tsi};
//!
//! let config = SourceConfig::new(Tsi::default(), 7500, "239.192.0.1".parse()?, "192.0.2.1".parse()?);
//! let mut source = Source::new(config, 0)?;
//! source.send(b"hello")?;
//! let (mut now_ns, mut datagram) = (0, [0; 1500]);
//! // The source announces itself first, then come the data.
//! for expected in ["SPM", "ODATA"] {
//!     now_ns = source.poll_timeout(now_ns).ok_or("nothing to send")?;
//!     let transmit = source.poll_transmit(now_ns, &mut datagram).ok_or("nothing to send")?;
//!     assert_eq!(Packet::parse(&datagram[..transmit.length])?.body.name(), expected);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod rate;
#[cfg(test)]
mod tests;
mod window;

pub use config::{ConfigError, SourceConfig};

use crate::Sqn;
use crate::packet::{Body, Data, Fragment, Nak, NakList, Options, Packet, ParseError, Spm};
use rate::Limiter;
use window::Window;

/// Header, sequence number, trail.
const DATA_HEAD_BYTES: usize = 24;
/// Length option and fragment option.
const FRAGMENT_BYTES: usize = 20;
/// Length option and SYN option.
const SYN_BYTES: usize = 8;
/// Numbers that one NCF confirms: its own and a list.
const CONFIRMED: usize = 63;
/// NAKed numbers that may wait for their NCF; more are passed over, and asked for again.
const MOST_NCFS: usize = 4096;

/// A packet to be sent to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Its length in the caller's buffer.
    pub length: usize,
    /// Whether it bears the IP router alert option: SPM, NCF and RDATA do (section 8), ODATA does not.
    pub router_alert: bool,
    /// What it is.
    pub class: Class,
}

/// What a packet of a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Confirmation of NAKs.
    Ncf,
    /// Source path message.
    Spm,
    /// A repair.
    Rdata,
    /// New data.
    Odata,
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Its packets find no room behind those that wait to be sent.
    #[error("{packets} packets find no room: {waiting} wait to be sent")]
    Full {
        /// Packets that it needs.
        packets: usize,
        /// Packets that wait.
        waiting: u32,
    },
    /// It would fill the whole window.
    #[error("a message of {bytes} bytes is above the {most} that this window carries")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// The session was ended.
    #[error("the session was ended")]
    Closed,
}

/// What a source did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceCounts {
    /// Packets of new data.
    pub odata: u64,
    /// Repairs.
    pub rdata: u64,
    /// SPMs.
    pub spms: u64,
    /// NCFs.
    pub ncfs: u64,
    /// NAKs received.
    pub naks: u64,
    /// Numbers in them.
    pub numbers_asked: u64,
    /// Of these, no longer (or not yet) in the window.
    pub numbers_outside: u64,
    /// Of these, left without another NCF because one had just been sent, or too many waited.
    pub ncfs_spared: u64,
    /// SPMRs received.
    pub spmrs: u64,
    /// Datagrams that were no packet, or not for this source.
    pub ignored: u64,
    /// Bytes of all packets sent, PGM headers included.
    pub bytes: u64,
}

/// A ring of numbers with all its memory from the start.
#[derive(Debug)]
struct Queue(std::collections::VecDeque<Sqn>, usize);

impl Queue {
    fn new(most: usize) -> Self {
        Self(std::collections::VecDeque::with_capacity(most), most)
    }

    fn push(&mut self, sqn: Sqn) -> bool {
        let room = self.0.len() < self.1;
        if room {
            self.0.push_back(sqn);
        }
        room
    }
}

/// A source of one session.
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    window: Window,
    limiter: Limiter,
    ncfs: Queue,
    repairs: Queue,
    /// Repairs sent since the last new data.
    repairs_in_row: u32,
    spm_sqn: Sqn,
    /// An SPM is to go out at once.
    spm_due: bool,
    ambient_ns: u64,
    heartbeat_ns: u64,
    heartbeat_ivl_ns: u64,
    /// SPMs with OPT_FIN that are still to be sent; absent: the session goes on.
    fins: Option<u32>,
    counts: SourceCounts,
}

impl Source {
    /// A source that announces itself at once.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: SourceConfig, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let (rate, peak) = (config.max_bytes_per_second, config.peak_bytes_per_second);
        Ok(Self {
            config,
            window: Window::new(config.first, config.window_packets, config.max_packet_bytes - DATA_HEAD_BYTES),
            limiter: Limiter::new(rate, peak, config.burst_bytes, now_ns),
            ncfs: Queue::new(MOST_NCFS),
            repairs: Queue::new(config.window_packets as usize),
            repairs_in_row: 0,
            spm_sqn: Sqn(0),
            spm_due: true,
            ambient_ns: now_ns.saturating_add(config.ambient_ns),
            heartbeat_ns: now_ns.saturating_add(config.heartbeat_min_ns),
            heartbeat_ivl_ns: config.heartbeat_min_ns,
            fins: None,
            counts: SourceCounts::default(),
        })
    }

    /// The longest message that goes into one packet.
    #[must_use]
    pub fn packet_payload_bytes(&self) -> usize {
        self.config.max_packet_bytes - DATA_HEAD_BYTES
    }

    /// Payload of a fragment.
    fn fragment_bytes(&self) -> usize {
        self.config.max_packet_bytes - DATA_HEAD_BYTES - FRAGMENT_BYTES
    }

    /// Takes a message, in fragments where it is longer than a packet (section 9.2); returns the number of its first packet.
    ///
    /// # Errors
    /// [`SendError`]; nothing of the message was taken then.
    pub fn send(&mut self, message: &[u8]) -> Result<Sqn, SendError> {
        if self.fins.is_some() {
            return Err(SendError::Closed);
        }
        if message.len() <= self.packet_payload_bytes() {
            self.room(1)?;
            return Ok(self.window.push(message, None));
        }
        let most = self.fragment_bytes();
        let packets = message.len().div_ceil(most);
        let half = self.config.window_packets as usize / 2;
        if packets > half {
            return Err(SendError::TooLong { bytes: message.len(), most: half * most });
        }
        self.room(packets)?;
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let mut first = None;
        for (at, part) in message.chunks(most).enumerate() {
            let offset = u32::try_from(at * most).unwrap_or(u32::MAX);
            let begin = *first.get_or_insert_with(|| self.window.next());
            self.window.push(part, Some(Fragment { first: begin, offset, length }));
        }
        Ok(first.unwrap_or_default())
    }

    fn room(&self, packets: usize) -> Result<(), SendError> {
        if self.window.has_room(packets) {
            return Ok(());
        }
        Err(SendError::Full { packets, waiting: self.window.waiting() })
    }

    /// Ends the session: what waits is still sent, then SPMs with OPT_FIN (section 9.7). Repairs go on as long as it is driven.
    pub fn close(&mut self) {
        if self.fins.is_none() {
            self.fins = Some(self.config.fin_spms.max(1));
            self.spm_due = true;
        }
    }

    /// Whether the session was ended and nothing is left to be sent of itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fins == Some(0) && self.window.waiting() == 0 && self.repairs.0.is_empty() && self.ncfs.0.is_empty()
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> SourceCounts {
        self.counts
    }

    /// Packets that wait to be sent for the first time.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.window.waiting()
    }

    /// Takes a datagram's payload. NAKs and SPMRs of this session are heeded; others are counted and dropped.
    ///
    /// # Errors
    /// [`ParseError`] for what is no packet; the source goes on all the same.
    pub fn handle_datagram(&mut self, now_ns: u64, datagram: &[u8]) -> Result<(), ParseError> {
        let packet = match Packet::parse(datagram) {
            Ok(packet) => packet,
            Err(error) => {
                self.counts.ignored += 1;
                return Err(error);
            }
        };
        let mine = packet.tsi == self.config.tsi && packet.data_port == self.config.data_port;
        match packet.body {
            Body::Nak(nak) if mine && !packet.options.parity => {
                self.counts.naks += 1;
                for sqn in std::iter::once(nak.sqn).chain(packet.options.nak_list.iter()) {
                    self.asked(now_ns, sqn);
                }
            }
            Body::Spmr if mine => {
                self.counts.spmrs += 1;
                self.spm_due = true;
            }
            _ => self.counts.ignored += 1,
        }
        Ok(())
    }

    fn asked(&mut self, now_ns: u64, sqn: Sqn) {
        self.counts.numbers_asked += 1;
        if !self.window.has(sqn) {
            self.counts.numbers_outside += 1;
            // The trail of an SPM tells the receiver that asking is in vain.
            self.spm_due |= sqn.is_before(self.window.trail());
            return;
        }
        let pause = self.config.ncf_pause_ns;
        let (mut confirm, mut repair) = (false, false);
        if let Some(slot) = self.window.slot(sqn) {
            confirm = slot.ncf_ns.is_none_or(|sent| now_ns.saturating_sub(sent) >= pause);
            repair = !slot.repair;
            slot.repair = true;
            if confirm {
                slot.ncf_ns = Some(now_ns);
            }
        }
        if !confirm || !self.ncfs.push(sqn) {
            self.counts.ncfs_spared += 1;
        }
        if repair {
            self.repairs.push(sqn);
        }
    }

    /// When to ask for a packet again although nothing has arrived; at or before the caller's now: at once.
    #[must_use]
    pub fn poll_timeout(&mut self, now_ns: u64) -> Option<u64> {
        if self.spm_due || !self.ncfs.0.is_empty() {
            return Some(now_ns);
        }
        let mut next = if self.fins == Some(0) { u64::MAX } else { self.ambient_ns.min(self.heartbeat_ns) };
        if let Some((_, bytes)) = self.next_data() {
            next = next.min(self.limiter.earliest(now_ns, bytes));
        }
        (next < u64::MAX).then_some(next)
    }

    /// Which data go out next, and the most bytes they take.
    fn next_data(&mut self) -> Option<(Class, usize)> {
        // What left the window meanwhile can no longer be repaired.
        while let Some(&sqn) = self.repairs.0.front()
            && !self.window.has(sqn)
        {
            self.repairs.0.pop_front();
        }
        let repair = self.repairs.0.front().copied();
        let data = self.window.first_unsent();
        let (class, sqn) = match (repair, data) {
            (Some(_), Some(sqn)) if self.repairs_in_row >= self.config.repairs_before_data => (Class::Odata, sqn),
            (Some(sqn), _) => (Class::Rdata, sqn),
            (None, Some(sqn)) => (Class::Odata, sqn),
            (None, None) => return None,
        };
        let (payload, fragment) = self.window.payload(sqn);
        let options = if fragment.is_some() { FRAGMENT_BYTES } else { 0 };
        Some((class, DATA_HEAD_BYTES + options + payload.len()))
    }

    /// The next packet to be sent now, written into `buffer`, which has to hold `max_packet_bytes`: what does not
    /// fit is lost. NCFs come first, then SPMs,
    /// then data as far as the rate allows (section 5.1.3).
    pub fn poll_transmit(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.ncfs.0.is_empty() {
            return self.ncf(now_ns, buffer);
        }
        let quiet = self.fins == Some(0);
        if !quiet && now_ns >= self.ambient_ns.min(self.heartbeat_ns) {
            self.spm_due = true;
        }
        if self.spm_due {
            return self.spm(now_ns, buffer);
        }
        let (class, bytes) = self.next_data()?;
        if self.limiter.earliest(now_ns, bytes) > now_ns {
            return None;
        }
        self.data(now_ns, class, buffer)
    }

    fn ncf(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let mut numbers = [Sqn::default(); CONFIRMED];
        let mut count = 0;
        for place in &mut numbers {
            let Some(sqn) = self.ncfs.0.pop_front() else { break };
            *place = sqn;
            count += 1;
        }
        let (first, list) = numbers.get(..count)?.split_first()?;
        let nak = Nak { sqn: *first, source: self.config.address, group: self.config.group };
        let options = Options { nak_list: NakList::Numbers(list), ..Options::default() };
        self.counts.ncfs += 1;
        self.write(now_ns, Body::Ncf(nak), options, Class::Ncf, buffer)
    }

    fn spm(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let spm =
            Spm { sqn: self.spm_sqn, trail: self.window.trail(), lead: self.window.lead(), path: self.config.address };
        self.spm_sqn = self.spm_sqn.next();
        self.spm_due = false;
        if now_ns >= self.ambient_ns {
            self.ambient_ns = now_ns.saturating_add(self.config.ambient_ns);
        }
        if now_ns >= self.heartbeat_ns {
            self.heartbeat_ivl_ns = self.heartbeat_ivl_ns.saturating_mul(2).min(self.config.heartbeat_max_ns);
        }
        self.heartbeat_ns = now_ns.saturating_add(self.heartbeat_ivl_ns);
        // The end is announced once all data were sent.
        let fin = self.window.waiting() == 0 && self.fins.is_some_and(|left| left > 0);
        if fin {
            self.fins = self.fins.map(|left| left - 1);
            self.heartbeat_ivl_ns = self.config.heartbeat_min_ns;
            self.heartbeat_ns = now_ns.saturating_add(self.heartbeat_ivl_ns);
        }
        let join = self.config.join_packets.map(|packets| {
            let held = self.window.lead().next().distance_from(self.window.trail());
            self.window.lead().next().plus(packets.min(held).wrapping_neg())
        });
        let ended = fin || self.fins == Some(0);
        self.counts.spms += 1;
        self.write(now_ns, Body::Spm(spm), Options { join, fin: ended, ..Options::default() }, Class::Spm, buffer)
    }

    fn data(&mut self, now_ns: u64, class: Class, buffer: &mut [u8]) -> Option<Transmit> {
        let sqn = match class {
            Class::Rdata => self.repairs.0.pop_front()?,
            _ => self.window.first_unsent()?,
        };
        if class == Class::Rdata {
            self.repairs_in_row = self.repairs_in_row.saturating_add(1);
            self.counts.rdata += 1;
            if let Some(slot) = self.window.slot(sqn) {
                slot.repair = false;
            }
        } else {
            self.repairs_in_row = 0;
            self.counts.odata += 1;
            self.window.sent();
        }
        let trail = self.window.trail();
        let (payload, fragment) = self.window.payload(sqn);
        let data = Data { sqn, trail, payload };
        let body = if class == Class::Rdata { Body::Rdata(data) } else { Body::Odata(data) };
        // The first number comes again when the numbers have gone around. A first packet without room does without OPT_SYN,
        // which is a MAY (section 9.6.2).
        let first = sqn == self.config.first && self.counts.odata <= u64::from(u32::MAX);
        let options = if fragment.is_some() { FRAGMENT_BYTES + SYN_BYTES / 2 } else { SYN_BYTES };
        let syn = first && DATA_HEAD_BYTES + options + payload.len() <= self.config.max_packet_bytes;
        let options = Options { fragment, syn, ..Options::default() };
        let packet = Packet { tsi: self.config.tsi, data_port: self.config.data_port, body, options };
        let length = packet.write(buffer).ok()?;
        self.heartbeat_ivl_ns = self.config.heartbeat_min_ns;
        self.heartbeat_ns = now_ns.saturating_add(self.heartbeat_ivl_ns);
        Some(self.transmit(now_ns, length, class))
    }

    fn write(
        &mut self,
        now_ns: u64,
        body: Body<'_>,
        options: Options<'_>,
        class: Class,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let packet = Packet { tsi: self.config.tsi, data_port: self.config.data_port, body, options };
        let length = packet.write(buffer).ok()?;
        Some(self.transmit(now_ns, length, class))
    }

    fn transmit(&mut self, now_ns: u64, length: usize, class: Class) -> Transmit {
        self.limiter.take(now_ns, length);
        self.counts.bytes += length as u64;
        Transmit { length, router_alert: class != Class::Odata, class }
    }
}
