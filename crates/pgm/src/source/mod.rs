//! A source: numbers data, sends it at a bounded rate, tells where it is, and repairs (RFC 3208, section 5).
//!
//! It is driven from outside: datagrams that arrived go in by [`Source::handle_datagram`], packets to be sent come out of
//! [`Source::poll_transmit`], and [`Source::poll_timeout`] tells when to call again although nothing arrived. Time is
//! whatever the caller gives, in ns, as long as it does not go back. After [`Source::new`] nothing is allocated.
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
mod counts;
mod parity;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use config::is_window;
pub use config::{ConfigError, SourceConfig};
pub use counts::SourceCounts;

use crate::Sqn;
use crate::packet::{Body, Data, Fragment, Nak, NakList, Options, Packet, ParseError, Reset, Spm};
use crate::rate::Limiter;
use parity::Parity;
use window::Window;

/// Header, sequence number, trail.
const DATA_HEAD_BYTES: usize = 24;
/// Length option and fragment option.
const FRAGMENT_BYTES: usize = 20;
/// The option that tells the length of the others.
const LENGTH_BYTES: usize = 4;
const SYN_BYTES: usize = 4;
const JOIN_BYTES: usize = 8;
/// An SPM with all its options and an IPv6 address, at most.
const SPM_BYTES: usize = 100;
/// An NCF without its list, at most.
const NCF_BYTES: usize = 80;
/// Bytes of parity beside its payload: length, OPT_CURR_TGSIZE, OPT_PARITY_GRP, encoded OPT_FRAGMENT, encoded length.
const PARITY_BYTES: usize = LENGTH_BYTES + GROUP_SIZE_BYTES + 8 + 16 + 2;
/// OPT_CURR_TGSIZE.
const GROUP_SIZE_BYTES: usize = 8;
/// Numbers that one NCF confirms: its own and a list.
const CONFIRMED: usize = 63;
/// Memory that each number of the window takes beside its packet: its slot, and a place among the repairs.
const NUMBER_BYTES: usize = size_of::<window::Slot>() + size_of::<Sqn>();
/// NAKed numbers that may wait for their NCF; more are passed over, and asked for again.
const MOST_NCFS: usize = 4096;

/// A packet to be sent to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct Transmit {
    /// Its length in the caller's buffer.
    pub length: usize,
    /// Whether it bears the IP router alert option: SPM, NCF and RDATA do (section 8), ODATA does not.
    pub router_alert: bool,
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
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum SendError {
    #[error("{packets} packets find no room: {waiting} wait to be sent")]
    Full { packets: usize, waiting: u32 },
    #[error("a message of {bytes} bytes is above the {most} that this window carries")]
    TooLong { bytes: usize, most: usize },
    #[error("the session was ended")]
    Closed,
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
    /// When an SPM is to go out that was asked for; absent: only by the timers.
    spm_ns: Option<u64>,
    /// When the last one went out.
    last_spm_ns: Option<u64>,
    /// When numbers outside the window were confirmed last.
    outside_ns: Option<u64>,
    ambient_ns: u64,
    heartbeat_ns: u64,
    heartbeat_ivl_ns: u64,
    /// SPMs with OPT_FIN or OPT_RST still to be sent before the end counts as announced; absent: the session goes on.
    fins: Option<u32>,
    reset: Option<Reset>,
    parity: Option<Parity>,
    counts: SourceCounts,
}

/// Which data go out next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    New(Sqn),
    Repair(Sqn),
    /// Parity over the group that begins with this number, asked for or not.
    Parity {
        group: Sqn,
        on_demand: bool,
    },
}

impl Next {
    fn class(self) -> Class {
        match self {
            Self::New(_) | Self::Parity { on_demand: false, .. } => Class::Odata,
            Self::Repair(_) | Self::Parity { on_demand: true, .. } => Class::Rdata,
        }
    }
}

impl Source {
    /// A source that announces itself at once.
    pub fn new(config: SourceConfig, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let (rate, peak) = (config.max_bytes_per_second, config.peak_bytes_per_second);
        Ok(Self {
            config,
            window: Window::new(
                config.first,
                config.window_packets,
                config.max_packet_bytes - DATA_HEAD_BYTES,
                config.fec.map_or(1, |fec| fec.group_packets),
            ),
            limiter: Limiter::new(rate, peak, config.burst_bytes, now_ns),
            ncfs: Queue::new(MOST_NCFS),
            repairs: Queue::new(config.window_packets as usize),
            repairs_in_row: 0,
            spm_sqn: Sqn(0),
            spm_ns: Some(now_ns),
            last_spm_ns: None,
            outside_ns: None,
            ambient_ns: now_ns.saturating_add(config.ambient_ns),
            heartbeat_ns: now_ns.saturating_add(config.heartbeat_min_ns),
            heartbeat_ivl_ns: config.heartbeat_min_ns,
            fins: None,
            reset: None,
            parity: config.fec.map(|fec| Parity::new(fec, &config)),
            counts: SourceCounts::default(),
        })
    }

    /// The longest message that goes into one packet.
    pub fn packet_payload_bytes(&self) -> usize {
        self.payload_beside(if self.config.join_packets.is_some() { LENGTH_BYTES + JOIN_BYTES } else { 0 })
    }

    fn fragment_bytes(&self) -> usize {
        self.payload_beside(FRAGMENT_BYTES + if self.config.join_packets.is_some() { JOIN_BYTES } else { 0 })
    }

    /// The longest payload beside options of `options` bytes, and parity over it.
    fn payload_beside(&self, options: usize) -> usize {
        let options = if self.parity.is_some() { PARITY_BYTES.max(options + GROUP_SIZE_BYTES) } else { options };
        self.config.max_packet_bytes - DATA_HEAD_BYTES - options
    }

    /// Takes a message, in fragments where it is long (section 9.2); the number of its first packet. All or nothing.
    pub fn send(&mut self, message: &[u8]) -> Result<Sqn, SendError> {
        if self.fins.is_some() {
            return Err(SendError::Closed);
        }
        if message.len() <= self.packet_payload_bytes() {
            self.room(1)?;
            return Ok(self.push(message, None));
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
            self.push(part, Some(Fragment { first: begin, offset, length }));
        }
        Ok(first.unwrap_or_default())
    }

    fn push(&mut self, payload: &[u8], fragment: Option<Fragment>) -> Sqn {
        let sqn = self.window.push(payload, fragment);
        if let Some(parity) = &mut self.parity {
            parity.pushed(sqn, payload.len(), fragment.is_some());
        }
        sqn
    }

    fn room(&self, packets: usize) -> Result<(), SendError> {
        if self.window.has_room(packets, self.parity.as_ref().and_then(|parity| parity.due)) {
            return Ok(());
        }
        Err(SendError::Full { packets, waiting: self.window.waiting() })
    }

    /// Ends the session: what waits is sent, then SPMs with OPT_FIN (section 9.7), ever more seldom, and repairs.
    pub fn close(&mut self) {
        if self.fins.is_none() {
            self.fins = Some(self.config.fin_spms.max(1));
            self.spm_ns = Some(0);
            self.end_group(0);
        }
    }

    /// Gives up: only SPMs with OPT_RST follow (section 9.8). The code, 0 to 63, is the application's; 0: not known.
    pub fn abort(&mut self, code: u8) {
        if self.reset.is_none() {
            self.reset = Some(Reset { naks_unanswered: true, code: code.min(63) });
            self.fins = Some(self.config.fin_spms.max(1));
            self.spm_ns = Some(0);
            self.ncfs.0.clear();
            self.repairs.0.clear();
            if let Some(parity) = &mut self.parity {
                parity.clear();
            }
            self.window.forget_unsent();
        }
    }

    /// Whether the session was ended or given up, that was announced (`fin_spms` times), and no data wait. Who can drive it
    /// longer should, for receivers that still miss something: the RFC names TXW_SECS (section 9.7.2).
    pub fn is_finished(&self) -> bool {
        let idle = self.window.waiting() == 0 && self.repairs.0.is_empty() && self.ncfs.0.is_empty();
        self.fins == Some(0) && idle && self.parity.as_ref().is_none_or(Parity::is_idle)
    }

    /// What it did so far.
    pub fn counts(&self) -> SourceCounts {
        self.counts
    }

    /// Packets that wait to be sent for the first time.
    pub fn waiting(&self) -> u32 {
        self.window.waiting()
    }

    /// Takes a datagram's payload: NAKs and SPMRs of this session. Others are counted and dropped.
    pub fn handle_datagram(&mut self, now_ns: u64, datagram: &[u8]) -> Result<(), ParseError> {
        let packet = Packet::parse(datagram).inspect_err(|_| self.counts.ignored += 1)?;
        let mine = packet.tsi == self.config.tsi && packet.data_port == self.config.data_port;
        match packet.body {
            Body::Nak(_) if mine && self.reset.is_some() => self.counts.naks += 1,
            Body::Nak(nak) if mine => {
                self.counts.naks += 1;
                self.counts.parity_naks += u64::from(packet.options.parity);
                for sqn in std::iter::once(nak.sqn).chain(packet.options.nak_list.iter()) {
                    if packet.options.parity {
                        self.asked_parity(now_ns, sqn);
                    } else {
                        self.asked(now_ns, sqn);
                    }
                }
            }
            Body::Spmr if mine => {
                self.counts.spmrs += 1;
                // Section 13.4: not more than one each IHB_MIN.
                self.spm_soon(now_ns, self.config.heartbeat_min_ns);
            }
            _ => self.counts.ignored += 1,
        }
        Ok(())
    }

    fn asked(&mut self, now_ns: u64, sqn: Sqn) {
        self.counts.numbers_asked += 1;
        let pause = self.config.ncf_pause_ns;
        if !self.window.has(sqn) && !self.window.has_skipped(sqn) {
            self.counts.numbers_outside += 1;
            // What was not sent yet cannot be missing.
            if !sqn.is_before(self.window.trail()) {
                return;
            }
            // The SPM's trail shows that asking is in vain. One NAK is confirmed all the same (section 5.2), then none.
            self.spm_soon(now_ns, pause);
            let confirm = self.outside_ns.is_none_or(|at| at == now_ns || now_ns.saturating_sub(at) >= pause);
            if !confirm || !self.ncfs.push(sqn) {
                self.counts.ncfs_spared += 1;
                return;
            }
            self.outside_ns = Some(now_ns);
            return;
        }
        let slot = self.window.slot(sqn);
        let is_over = |sent_ns: Option<u64>| sent_ns.is_none_or(|sent| now_ns.saturating_sub(sent) >= pause);
        let confirm = is_over(slot.ncf_ns);
        // A NAK that crossed the repair asks for nothing new.
        let repair = !slot.repair && is_over(slot.repaired_ns);
        slot.repair |= repair;
        if confirm {
            slot.ncf_ns = Some(now_ns);
        }
        if !confirm || !self.ncfs.push(sqn) {
            self.counts.ncfs_spared += 1;
        }
        if repair && !self.parity_instead(sqn) {
            self.repairs.push(sqn);
        }
    }

    /// An SPM is to go out now, or so long after the last one.
    fn spm_soon(&mut self, now_ns: u64, pause_ns: u64) {
        let due = self.last_spm_ns.map_or(now_ns, |last| now_ns.max(last.saturating_add(pause_ns)));
        self.spm_ns = Some(self.spm_ns.map_or(due, |sooner| sooner.min(due)));
    }

    /// When an SPM is due, as far as the rate does not hold it back.
    fn spm_due_ns(&self) -> u64 {
        self.ambient_ns.min(self.heartbeat_ns).min(self.spm_ns.unwrap_or(u64::MAX))
    }

    /// When the NCFs that wait may go out. They are not held back by what the token bucket lacks, up to its size.
    fn ncf_ready_ns(&mut self, now_ns: u64) -> u64 {
        let waiting = self.ncfs.0.len().max(self.parity.as_ref().map_or(0, |parity| parity.ncfs.0.len()));
        let bytes = NCF_BYTES + 4 * waiting.min(CONFIRMED);
        self.limiter.earliest_urgent(now_ns, bytes)
    }

    /// Whether NCFs wait.
    fn confirms(&self) -> bool {
        !self.ncfs.0.is_empty() || self.parity.as_ref().is_some_and(|parity| !parity.ncfs.0.is_empty())
    }

    /// When to ask for a packet again although nothing has arrived; at or before the caller's now: at once.
    pub fn poll_timeout(&mut self, now_ns: u64) -> Option<u64> {
        if self.confirms() {
            return Some(self.ncf_ready_ns(now_ns));
        }
        let mut next = self.spm_due_ns();
        if next < u64::MAX {
            next = next.max(self.limiter.earliest(now_ns, SPM_BYTES));
        }
        next = next.min(self.parity.as_ref().and_then(|parity| parity.pause_over_ns).unwrap_or(u64::MAX));
        if let Some((_, bytes)) = self.next_data() {
            next = next.min(self.limiter.earliest(now_ns, bytes));
        }
        (next < u64::MAX).then_some(next)
    }

    /// Which data go out next, and the most bytes they take.
    fn next_data(&mut self) -> Option<(Next, usize)> {
        // What left the window meanwhile can no longer be repaired.
        while let Some(&sqn) = self.repairs.0.front()
            && !self.window.has(sqn)
        {
            self.repairs.0.pop_front();
        }
        let repair = self.parity_repair().or_else(|| self.repairs.0.front().copied().map(Next::Repair));
        let due =
            self.parity.as_ref().and_then(|parity| parity.due).map(|group| Next::Parity { group, on_demand: false });
        let new = due.or_else(|| self.window.first_unsent().map(Next::New));
        let next = match (repair, new) {
            (Some(_), Some(new)) if self.repairs_in_row >= self.config.repairs_before_data => new,
            (Some(repair), _) => repair,
            (None, new) => new?,
        };
        let (Next::New(sqn) | Next::Repair(sqn)) = next else { return Some((next, self.parity_packet_bytes(next))) };
        let (payload, fragment) = self.window.payload(sqn);
        let fragment = if fragment.is_some() { FRAGMENT_BYTES } else { 0 };
        let join = if self.config.join_packets.is_some() { LENGTH_BYTES + JOIN_BYTES } else { 0 };
        Some((next, DATA_HEAD_BYTES + fragment + join + payload.len()))
    }

    /// Writes the next packet (`max_packet_bytes` at most): NCFs, then SPMs, then data by the rate (section 5.1.3).
    pub fn poll_transmit(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        if self.confirms() {
            return if self.ncf_ready_ns(now_ns) <= now_ns { self.ncf(now_ns, buffer) } else { None };
        }
        if self.parity.as_ref().and_then(|parity| parity.pause_over_ns).is_some_and(|over| over <= now_ns) {
            self.end_group(now_ns);
        }
        if self.spm_due_ns() <= now_ns {
            let ready = self.limiter.earliest(now_ns, SPM_BYTES) <= now_ns;
            return if ready { self.spm(now_ns, buffer) } else { None };
        }
        let (next, bytes) = self.next_data()?;
        if self.limiter.earliest(now_ns, bytes) > now_ns {
            return None;
        }
        let class = next.class();
        self.repairs_in_row = if class == Class::Rdata { self.repairs_in_row.saturating_add(1) } else { 0 };
        match next {
            Next::New(_) | Next::Repair(_) => self.data(now_ns, class, buffer),
            Next::Parity { group, on_demand } => self.parity_data(now_ns, group, on_demand, buffer),
        }
    }

    fn ncf(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let mut numbers = [Sqn::default(); CONFIRMED];
        let mut count = 0;
        // A list is of single packets or of parity, never of both (section 9.3).
        let parity = self.ncfs.0.is_empty();
        let queue = if parity { &mut self.parity.as_mut()?.ncfs } else { &mut self.ncfs };
        for place in &mut numbers {
            let Some(sqn) = queue.0.pop_front() else { break };
            *place = sqn;
            count += 1;
        }
        // Sections 6.3 and 9.3: the oldest first, none twice.
        let oldest = self.window.trail().plus(1 << 31);
        let numbers = numbers.get_mut(..count)?;
        numbers.sort_unstable_by_key(|sqn| sqn.distance_from(oldest));
        let mut kept = 1;
        for at in 1..count {
            if numbers[at] != numbers[kept - 1] {
                numbers[kept] = numbers[at];
                kept += 1;
            }
        }
        let (first, list) = numbers.get(..kept)?.split_first()?;
        let nak = Nak { sqn: *first, source: self.config.address, group: self.config.group };
        let options = Options { nak_list: NakList::Numbers(list), parity, ..Options::default() };
        self.counts.ncfs += 1;
        self.write(now_ns, Body::Ncf(nak), options, Class::Ncf, buffer)
    }

    fn spm(&mut self, now_ns: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let spm =
            Spm { sqn: self.spm_sqn, trail: self.window.trail(), lead: self.window.lead(), path: self.config.address };
        self.spm_sqn = self.spm_sqn.next();
        self.spm_ns = None;
        self.last_spm_ns = Some(now_ns);
        if now_ns >= self.ambient_ns {
            self.ambient_ns = now_ns.saturating_add(self.config.ambient_ns);
        }
        if now_ns >= self.heartbeat_ns {
            self.heartbeat_ivl_ns = self.heartbeat_ivl_ns.saturating_mul(2).min(self.config.heartbeat_max_ns);
        }
        self.heartbeat_ns = now_ns.saturating_add(self.heartbeat_ivl_ns);
        // The end is announced once all data were sent: some times soon after each other, then as heartbeats.
        let ended = self.window.waiting() == 0 && self.fins.is_some();
        if ended && self.fins.is_some_and(|left| left > 0) {
            self.fins = self.fins.map(|left| left - 1);
            self.heartbeat_ivl_ns = self.config.heartbeat_min_ns;
            self.heartbeat_ns = now_ns.saturating_add(self.heartbeat_ivl_ns);
        }
        let reset = self.reset;
        let options = Options {
            join: self.join(),
            fin: ended && reset.is_none(),
            reset,
            parity_parameters: self.parity.as_ref().map(Parity::parameters),
            current_group_size: self.short_group_of(spm.lead),
            ..Options::default()
        };
        self.counts.spms += 1;
        self.write(now_ns, Body::Spm(spm), options, Class::Spm, buffer)
    }

    /// The oldest data that late joiners may ask for (section 9.4).
    fn join(&self) -> Option<Sqn> {
        let end = self.window.lead().next();
        let held = end.distance_from(self.window.trail());
        self.config.join_packets.map(|packets| end.plus(packets.min(held).wrapping_neg()))
    }

    fn data(&mut self, now_ns: u64, class: Class, buffer: &mut [u8]) -> Option<Transmit> {
        let sqn = match class {
            Class::Rdata => self.repairs.0.pop_front()?,
            _ => self.window.first_unsent()?,
        };
        if class == Class::Rdata {
            self.counts.rdata += 1;
            let slot = self.window.slot(sqn);
            (slot.repair, slot.repaired_ns) = (false, Some(now_ns));
        } else {
            self.counts.odata += 1;
            self.window.sent();
            self.sent_for_parity(now_ns, sqn);
        }
        let current_group_size = self.short_group_of(sqn);
        let trail = self.window.trail();
        let (payload, fragment) = self.window.payload(sqn);
        let data = Data { sqn, trail, payload };
        let body = if class == Class::Rdata { Body::Rdata(data) } else { Body::Odata(data) };
        // The first number recurs when numbers wrap. Without room OPT_SYN is left out, a MAY (section 9.6.2).
        let first = sqn == self.config.first && self.counts.odata <= u64::from(u32::MAX);
        let join = self.join();
        let others = if fragment.is_some() { FRAGMENT_BYTES } else { LENGTH_BYTES };
        let others = others + if join.is_some() { JOIN_BYTES } else { 0 };
        let others = others + if current_group_size.is_some() { GROUP_SIZE_BYTES } else { 0 };
        let syn = first && DATA_HEAD_BYTES + others + SYN_BYTES + payload.len() <= self.config.max_packet_bytes;
        let options = Options { fragment, join, syn, current_group_size, ..Options::default() };
        let packet = Packet { tsi: self.config.tsi, data_port: self.config.data_port, body, options };
        let length = packet.write(buffer).ok()?;
        Some(self.data_out(now_ns, length, class))
    }

    /// Data restart the heartbeat.
    fn data_out(&mut self, now_ns: u64, length: usize, class: Class) -> Transmit {
        self.heartbeat_ivl_ns = self.config.heartbeat_min_ns;
        self.heartbeat_ns = now_ns.saturating_add(self.heartbeat_ivl_ns);
        self.transmit(now_ns, length, class)
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
