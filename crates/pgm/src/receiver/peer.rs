//! One source as a receiver sees it: its window, and the repair of each number in it (sections 6.1 to 6.3).

mod delivery;
mod naks;
mod parity;
mod retreat;

use super::context::ReceiverContext;
use super::origin::Origin;
use super::session::{Rival, SessionExtent};
use super::timers::Timers;
use super::{NakPath, ReceiverConfig, Repair, SessionEvent};
use crate::packet::{Data, Fragment, Options, Spm};
use crate::rate::Limiter;
use crate::{Sqn, Tsi};
use parity::Parity;
use std::collections::VecDeque;
use std::net::IpAddr;

/// SPMRs for one source without an answer.
const MOST_SPMRS: u32 = 10;
/// Numbers believed to be missing at once; that more were sent must show by later data or by time.
const MOST_PROMPT: u32 = 64;

/// The state of a missing number's repair (the state machine of section 6.3, with two states before it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It may only be late: fewer packets than `reorder_packets` came after it.
    Suspect,
    /// The random wait before a NAK.
    BackOff,
    /// The wait is over, but the path of NAKs is unknown.
    Held,
    /// A NAK is out.
    WaitNcf,
    /// An NCF came.
    WaitData,
    /// It is repaired together with its transmission group, which has the timer (section 11.5).
    Grouped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Empty,
    Missing(Phase),
    Have,
    Lost,
    /// No packet has this number (section 11.2).
    Skipped,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    state: State,
    length: usize,
    fragment: Option<Fragment>,
    repair: Repair,
    was_missing: bool,
    queued: bool,
    /// The place in `bytes` that has its payload; absent: that of its number.
    at: Option<u32>,
    ncf_retries: u32,
    data_retries: u32,
}

/// Memory that each number of a window takes beside its packet: its slot, a timer, a place for a NAK and one for a packet.
pub(super) const NUMBER_BYTES: usize = size_of::<Slot>() + size_of::<(u64, u32)>() + 3 * size_of::<u32>();
pub(super) use parity::PLACE_BYTES as PARITY_BYTES;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) tsi: Tsi,
    pub(super) origin: Origin,
    pub(super) path: Option<IpAddr>,
    pub(super) heard_ns: u64,
    /// When an SPMR is due; absent: none is needed.
    pub(super) spmr_ns: Option<u64>,
    spmrs: u32,
    /// The SPMR that is due went to the group.
    pub(super) spmr_told: bool,
    pub(super) naks: VecDeque<Sqn>,
    pub(super) budget: Limiter,
    /// NAKs wait for the budget.
    pub(super) deferred: bool,
    /// The newest SPM, and when it came.
    spm: Option<Sqn>,
    spm_ns: u64,
    /// Packets that do not fit.
    pub(super) rival: Rival,
    /// Data and SPMs that fitted, up to 2.
    pub(super) heard: u8,
    /// Data were among them.
    pub(super) has_data: bool,
    /// The latest datum that was no repair.
    latest: Option<Sqn>,
    /// It is to be forgotten as soon as its messages are delivered.
    pub(super) expired: bool,
    started: bool,
    /// The next number to be delivered, and one after the newest that is known of.
    base: Sqn,
    end: Sqn,
    pub(super) trail: Sqn,
    /// Numbers from here on may still be suspects.
    suspects: Sqn,
    /// Where the numbers end that an SPM alone announced.
    announced: Option<Sqn>,
    /// One after the last number of a session that was ended.
    fin: Option<Sqn>,
    told_fin: bool,
    told_reset: bool,
    /// The source answers no NAK any more (OPT_RST).
    deaf: bool,
    /// The last random wait, and when it began.
    drawn: Option<(u64, u64)>,
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    slot_bytes: usize,
    /// Places in `bytes` without a packet. The one that became free last is taken first: as long as few packets wait, they stay
    /// in the cache, which the whole window would not. Empty with parity, which is made over packets at their own places.
    free: Vec<u32>,
    timers: Timers,
    pub(super) parity: Parity,
}

impl Peer {
    pub(super) fn new(tsi: Tsi, address: IpAddr, config: &ReceiverConfig) -> Self {
        let places = config.window_packets as usize;
        Self {
            tsi,
            origin: Origin::new(address, 0),
            path: None,
            heard_ns: 0,
            spmr_ns: None,
            spmrs: 0,
            spmr_told: false,
            naks: VecDeque::with_capacity(places),
            budget: Limiter::naks_to_one(),
            deferred: false,
            spm: None,
            spm_ns: 0,
            rival: Rival::default(),
            heard: 0,
            has_data: false,
            latest: None,
            expired: false,
            started: false,
            base: Sqn(0),
            end: Sqn(0),
            trail: Sqn(0),
            suspects: Sqn(0),
            announced: None,
            fin: None,
            told_fin: false,
            told_reset: false,
            deaf: false,
            drawn: None,
            slots: vec![Slot::default(); places],
            bytes: vec![0; places * config.max_packet_bytes],
            slot_bytes: config.max_packet_bytes,
            free: if config.parity { Vec::new() } else { (0..config.window_packets).rev().collect() },
            timers: Timers::new(config.window_packets),
            parity: Parity::new(config),
        }
    }

    /// Writes to all of its memory, which the system else maps only when it is needed.
    pub(super) fn touch(&mut self) {
        self.bytes.fill(1);
    }

    /// Forgets everything, keeps the memory.
    pub(super) fn reuse(&mut self, tsi: Tsi, origin: Origin) {
        for place in 0..self.slots.len() {
            self.timers.clear(u32::try_from(place).unwrap_or(u32::MAX));
        }
        self.free.extend(self.slots.iter().filter_map(|slot| slot.at));
        self.slots.fill(Slot::default());
        self.naks.clear();
        (self.budget, self.deferred) = (Limiter::naks_to_one(), false);
        self.parity.reuse();
        (self.tsi, self.origin, self.path, self.spm) = (tsi, origin, None, None);
        (self.has_data, self.latest) = (false, None);
        (self.spmr_ns, self.spmrs, self.started, self.fin) = (None, 0, false, None);
        (self.rival, self.heard, self.expired, self.announced) = (Rival::default(), 0, false, None);
        (self.told_fin, self.told_reset, self.deaf, self.spmr_told) = (false, false, false, false);
    }

    pub(super) fn known(&self) -> SessionExtent {
        SessionExtent {
            started: self.started,
            base: self.base,
            end: self.end,
            spm: self.spm,
            spm_ns: self.spm_ns,
            capacity: self.capacity(),
        }
    }

    /// Goes on where a source was when it was forgotten.
    pub(super) fn resume(&mut self, known: &SessionExtent) {
        (self.spm, self.spm_ns) = (known.spm, known.spm_ns);
        if known.started {
            self.start(known.end);
        }
    }

    /// Whether the session was ended, and all of it was delivered or lost.
    pub(super) fn is_finished(&self) -> bool {
        self.told_fin && self.base == self.end
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    fn place(&self, sqn: Sqn) -> u32 {
        sqn.0 & (self.capacity() - 1)
    }

    fn slot(&self, sqn: Sqn) -> Slot {
        self.slots[self.place(sqn) as usize]
    }

    /// Where the payload of a number begins that is at this place.
    fn begin(&self, sqn: Sqn, at: Option<u32>) -> usize {
        at.unwrap_or(self.place(sqn)) as usize * self.slot_bytes
    }

    fn state(&self, sqn: Sqn) -> State {
        self.slots[self.place(sqn) as usize].state
    }

    fn slot_mut(&mut self, sqn: Sqn) -> &mut Slot {
        let place = self.place(sqn) as usize;
        &mut self.slots[place]
    }

    /// How far a number is ahead of what is kept of the delivered ones.
    pub(super) fn ahead(&self, sqn: Sqn) -> u32 {
        sqn.distance_from(self.floor())
    }

    /// Whether a number is known of and was not delivered.
    fn holds(&self, sqn: Sqn) -> bool {
        self.started && sqn.distance_from(self.base) < self.end.distance_from(self.base)
    }

    fn start(&mut self, first: Sqn) {
        self.started = true;
        (self.base, self.end, self.trail, self.suspects) = (first, first, first, first);
    }

    pub(super) fn timer(&self) -> Option<u64> {
        [self.timers.first(), self.parity.timer()].into_iter().flatten().min()
    }

    pub(super) fn data(&mut self, now_ns: u64, data: &Data<'_>, options: &Options<'_>, with: &mut ReceiverContext) {
        if !self.started {
            // Section 6.1: what is asked for begins with the first data heard, unless the source offers more.
            self.start(self.join(data.sqn, data.trail, options, &with.config));
        }
        self.advance(data.trail, with);
        if data.payload.len() > self.slot_bytes {
            with.counts.ignored += 1;
            return;
        }
        if data.sqn.is_before(self.base) {
            with.counts.duplicates += 1;
            return;
        }
        if data.sqn.distance_from(self.floor()) >= self.capacity() && !self.make_room(data.sqn, with) {
            with.counts.overflows += 1;
            return;
        }
        // Making room may have shown that the source is farther on.
        if data.sqn.is_before(self.base) {
            with.counts.duplicates += 1;
            return;
        }
        if !data.sqn.is_before(self.end) {
            self.expect(now_ns, data.sqn, with);
            self.end = data.sqn.next();
            // Its place may still hold what was delivered a window ago.
            *self.slot_mut(data.sqn) = Slot::default();
            self.parity.vacate(self.place(data.sqn));
        }
        match self.slot(data.sqn).state {
            State::Have => {
                with.counts.duplicates += 1;
                return;
            }
            State::Missing(_) => self.timers.clear(self.place(data.sqn)),
            // It was given up too early, and no event was made yet.
            State::Lost => with.counts.lost = with.counts.lost.saturating_sub(1),
            State::Empty | State::Skipped => {}
        }
        self.make_way(data.sqn);
        self.heard_ns = now_ns;
        self.heard = self.heard.saturating_add(1).min(2);
        self.has_data = true;
        if self.fin.is_some_and(|fin| !data.sqn.is_before(fin)) {
            // It goes on after all.
            (self.fin, self.told_fin) = (None, false);
        }
        let at = self.free.pop();
        let begin = self.begin(data.sqn, at);
        if let Some(bytes) = self.bytes.get_mut(begin..begin + data.payload.len()) {
            bytes.copy_from_slice(data.payload);
        }
        let slot = self.slot_mut(data.sqn);
        slot.state = State::Have;
        slot.at = at;
        slot.length = data.payload.len();
        slot.fragment = options.fragment;
        slot.repair.data_ns = now_ns;
        with.counts.recovered += u64::from(slot.was_missing);
        with.counts.packets += 1;
        self.no_longer_suspect(now_ns, with);
        self.short_group(now_ns, data.sqn, options.current_group_size, with);
        self.progressed(now_ns, data.sqn, with);
        self.close_groups(now_ns, with);
    }

    /// All numbers before this one are known of: those that did not come are missing.
    fn expect(&mut self, now_ns: u64, until: Sqn, with: &mut ReceiverContext) {
        let missing = until.distance_from(self.end);
        for ahead in 0..missing {
            let sqn = self.end.plus(ahead);
            self.parity.vacate(self.place(sqn));
            if self.parity.skips(sqn) {
                *self.slot_mut(sqn) = Slot { state: State::Skipped, ..Slot::default() };
                continue;
            }
            let grouped = self.by_group(sqn);
            let phase = if grouped { Phase::Grouped } else { Phase::Suspect };
            let repair = Repair { gap_ns: now_ns, ..Repair::default() };
            *self.slot_mut(sqn) = Slot { state: State::Missing(phase), repair, was_missing: true, ..Slot::default() };
            with.counts.missing += 1;
            if grouped {
                continue;
            }
            if with.config.reorder_packets == 0 && missing <= MOST_PROMPT {
                self.back_off(now_ns, sqn, with);
            } else {
                self.timers.set(self.place(sqn), now_ns.saturating_add(with.config.repeat_ns));
            }
        }
        if missing > 0 && !self.suspects.is_after(self.base) {
            self.suspects = self.base;
        }
    }

    fn back_off(&mut self, now_ns: u64, sqn: Sqn, with: &mut ReceiverContext) {
        if self.deaf {
            self.give_up(sqn, with);
            return;
        }
        // Numbers that begin to wait at the same moment wait equally long: so they are asked for by one list (section 9.3).
        let wait = match self.drawn {
            Some((at, wait)) if at == now_ns => wait,
            _ => with.random.scaled(with.config.back_off_ns.saturating_add(1)),
        };
        self.drawn = Some((now_ns, wait));
        self.slot_mut(sqn).state = State::Missing(Phase::BackOff);
        self.timers.set(self.place(sqn), now_ns.saturating_add(wait));
    }

    fn no_longer_suspect(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        let tolerated = with.config.reorder_packets;
        if tolerated == 0 {
            return;
        }
        self.suspects = self.suspects.later(self.base);
        while self.suspects.is_before(self.end) && self.end.previous().distance_from(self.suspects) >= tolerated {
            if self.slot(self.suspects).state == State::Missing(Phase::Suspect) {
                self.back_off(now_ns, self.suspects, with);
            }
            self.suspects = self.suspects.next();
        }
    }

    /// Makes room for a number beyond the window by giving up what is too old, but not what the application has not taken.
    fn make_room(&mut self, sqn: Sqn, with: &mut ReceiverContext) -> bool {
        let base = self.boundary(sqn.plus((self.capacity() - 1).wrapping_neg()));
        let mut kept = false;
        for at in self.base.until(self.end.earlier(base)) {
            match self.slot(at).state {
                State::Have => kept = true,
                State::Missing(_) => self.give_up(at, with),
                State::Empty | State::Lost | State::Skipped => {}
            }
        }
        self.settle(with);
        if !kept && base.is_after(self.base) {
            if base.is_after(self.end) {
                with.lost_unseen(self.tsi, self.end, base.distance_from(self.end));
                self.end = base;
            }
            self.base = base;
            self.leapt();
        }
        !kept
    }

    fn give_up(&mut self, sqn: Sqn, with: &mut ReceiverContext) {
        self.timers.clear(self.place(sqn));
        self.slot_mut(sqn).state = State::Lost;
        with.counts.lost += 1;
    }

    /// The source can repair nothing before this.
    fn advance(&mut self, trail: Sqn, with: &mut ReceiverContext) {
        if !trail.is_after(self.trail) {
            return;
        }
        let from = self.trail.later(self.base);
        self.trail = trail;
        self.give_up_all(from.until(trail.earlier(self.end)), with);
        self.settle(with);
    }

    /// Passes over what is lost at the front.
    #[inline]
    fn settle(&mut self, with: &mut ReceiverContext) {
        // It is asked several times a packet, and seldom is there anything to do.
        let lost = if self.base == self.end {
            self.trail.is_after(self.base) || self.fin == Some(self.base)
        } else {
            matches!(self.state(self.base), State::Lost | State::Skipped)
        };
        if lost {
            self.pass_lost(with);
        }
    }

    #[inline(never)]
    fn pass_lost(&mut self, with: &mut ReceiverContext) {
        loop {
            while self.base.is_before(self.end) {
                match self.state(self.base) {
                    State::Lost => with.events.lost(self.tsi, self.base, 1),
                    State::Skipped => {}
                    State::Empty | State::Missing(_) | State::Have => break,
                }
                self.base = self.base.next();
            }
            if self.pass_skipped() {
                continue;
            }
            // All that is known of was delivered, and the source is farther on.
            if self.base != self.end || !self.trail.is_after(self.base) {
                break;
            }
            let count = self.trail.distance_from(self.base);
            with.lost_unseen(self.tsi, self.base, count);
            (self.base, self.end) = (self.trail, self.trail);
            self.leapt();
        }
        if self.fin == Some(self.base) && self.base == self.end && !self.told_fin {
            self.told_fin = true;
            with.events.push(self.tsi, SessionEvent::Finished);
        }
    }

    pub(super) fn spm(&mut self, now_ns: u64, spm: &Spm, options: &Options<'_>, with: &mut ReceiverContext) {
        (self.spm, self.spm_ns) = (Some(spm.sqn), now_ns);
        self.heard_ns = now_ns;
        self.heard = self.heard.saturating_add(1).min(2);
        let known = self.path.is_some();
        let path = if with.config.nak_path == NakPath::Spm { spm.path } else { self.origin.address };
        self.path = (!options.neighbour_unreachable).then_some(path);
        (self.spmr_ns, self.spmrs, self.spmr_told) = (None, 0, false);
        if let Some(reset) = options.reset
            && !self.told_reset
        {
            self.told_reset = true;
            with.events.push(self.tsi, SessionEvent::Reset { code: reset.code });
        }
        self.deaf |= options.reset.is_some_and(|reset| reset.naks_unanswered);
        if !known && self.path.is_some() {
            self.release(now_ns, with);
        }
        if options.neighbour_unreachable || spm.has_no_window() {
            return;
        }
        if !self.started {
            self.start(self.join(spm.lead.next(), spm.trail, options, &with.config));
        }
        self.offered(options.parity_parameters);
        self.advance(spm.trail, with);
        let end = spm.lead.next();
        let paused = end == self.end;
        // No farther than there is room: the rest is noticed later.
        let room = self.floor().plus(self.capacity());
        let end = end.earlier(room);
        self.withdraw(end, with);
        if end.is_after(self.end) {
            self.expect(now_ns, end, with);
            self.end = end;
            self.announced = Some(end);
        }
        self.short_group(now_ns, spm.lead, options.current_group_size, with);
        self.close_groups(now_ns, with);
        if paused {
            self.ask_partial(now_ns, with);
        }
        if options.fin {
            self.fin = Some(spm.lead.next());
        }
        if self.deaf {
            self.give_up_all(self.undelivered(), with);
        }
        self.settle(with);
    }

    /// Whether a number is missing, or is the next one.
    pub(super) fn lacks(&self, sqn: Sqn) -> bool {
        self.started && (sqn == self.end || (self.holds(sqn) && matches!(self.state(sqn), State::Missing(_))))
    }

    /// The source sends from another address: where NAKs go is to be learnt anew.
    pub(super) fn moved(&mut self, now_ns: u64, with: &mut ReceiverContext) {
        self.spm = None;
        if self.path.take().is_some() {
            self.need_path(now_ns, with);
        }
    }

    /// Ends the session: what is missing is lost. Whether nothing is left to be delivered.
    pub(super) fn end_session(&mut self, with: &mut ReceiverContext) -> bool {
        self.give_up_all(self.undelivered(), with);
        self.has_message(with).is_none()
    }

    /// Another session of the same source, from its beginning as far as the window holds it; what was sent before is lost.
    pub(super) fn restart(&mut self, trail: Sqn, newest: Sqn, with: &mut ReceiverContext) {
        self.reuse(self.tsi, self.origin);
        with.counts.restarts += 1;
        with.events.push(self.tsi, SessionEvent::Restarted);
        let room = newest.plus((self.capacity() / 2).wrapping_neg());
        let first = trail.later(room);
        self.start(first);
        let lost = first.distance_from(trail);
        if lost > 0 {
            with.lost_unseen(self.tsi, trail, lost);
        }
    }

    /// The first number that is wanted where `first` was the first that was heard: farther back where the source offers it
    /// (section 9.4), as far as it has it and half of the window leaves room for what comes meanwhile.
    fn join(&self, first: Sqn, trail: Sqn, options: &Options<'_>, config: &ReceiverConfig) -> Sqn {
        let Some(join) = options.join.filter(|join| config.join && join.is_before(first)) else { return first };
        let room = first.plus((self.capacity() / 2).wrapping_neg());
        first.earlier(join.later(trail).later(room))
    }

    /// Gives up those of some numbers that are missing.
    fn give_up_all(&mut self, numbers: impl Iterator<Item = Sqn>, with: &mut ReceiverContext) {
        for sqn in numbers {
            if let State::Missing(_) = self.state(sqn) {
                self.give_up(sqn, with);
            }
        }
    }

    /// Numbers that are known of and were not delivered.
    fn undelivered(&self) -> impl Iterator<Item = Sqn> + use<> {
        self.base.until(if self.started { self.end } else { self.base })
    }
}
