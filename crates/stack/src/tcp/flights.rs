//! Segments that were sent and are not yet acknowledged: the scoreboard of RFC 6675, with the send times of RFC 8985.

use crate::Instant;
use crate::number::Seq;
use std::collections::VecDeque;

/// What is believed of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Flying,
    /// The other end has it, although not all before it.
    Sacked,
    /// It has to be sent again.
    Lost,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) start: Seq,
    /// Sequence numbers, with that of a FIN.
    pub(crate) length: u32,
    /// Its newest transmission.
    pub(crate) sent_at: Instant,
    pub(crate) retransmissions: u8,
    pub(crate) fate: Fate,
}

impl Flight {
    pub(crate) fn end(&self) -> Seq {
        self.start.plus(self.length)
    }
}

/// All segments from SND.UNA to SND.NXT, in their order.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    segments: VecDeque<Flight>,
    /// As many as are sent at once, so that small segments cannot make the list grow.
    most: usize,
    /// Sequence numbers that are flying: `pipe` of RFC 6675.
    flying: u32,
    lost: usize,
    sacked: usize,
    resent: usize,
}

impl Flights {
    /// For a send buffer of this size.
    pub(crate) fn new(buffer: usize) -> Self {
        let most = (buffer / 256).clamp(64, 4096);
        Self { segments: VecDeque::with_capacity(most + 8), most, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.segments.len() >= self.most
    }

    /// Sequence numbers in the network (`pipe`).
    pub(crate) fn flying(&self) -> u32 {
        self.flying
    }

    pub(crate) fn lost(&self) -> usize {
        self.lost
    }

    pub(crate) fn sacked(&self) -> usize {
        self.sacked
    }

    pub(crate) fn resent(&self) -> usize {
        self.resent
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Flight> {
        self.segments.get(at)
    }

    pub(crate) fn sent(&mut self, start: Seq, length: u32, now: Instant) {
        self.flying += length;
        self.segments.push_back(Flight { start, length, sent_at: now, retransmissions: 0, fate: Fate::Flying });
    }

    /// A segment is sent again, of which at most so much fits into one: the rest becomes a segment of its own.
    pub(crate) fn sent_again(&mut self, at: usize, most: u32, now: Instant) {
        let Some(&flight) = self.segments.get(at) else { return };
        let was_first = flight.retransmissions == 0;
        self.change(at, Fate::Flying);
        if flight.length > most {
            let rest =
                Flight { start: flight.start.plus(most), length: flight.length - most, fate: Fate::Flying, ..flight };
            self.resent += usize::from(!was_first);
            self.segments.insert(at + 1, rest);
            if flight.fate == Fate::Lost {
                self.change(at + 1, Fate::Lost);
            }
        }
        if let Some(place) = self.segments.get_mut(at) {
            place.length = flight.length.min(most);
            place.sent_at = now;
            place.retransmissions = flight.retransmissions.saturating_add(1);
        }
        self.resent += usize::from(was_first);
    }

    pub(crate) fn change(&mut self, at: usize, fate: Fate) {
        let Some(flight) = self.segments.get_mut(at) else { return };
        let before = *flight;
        flight.fate = fate;
        self.uncount(&before);
        match fate {
            Fate::Flying => self.flying += before.length,
            Fate::Sacked => self.sacked += 1,
            Fate::Lost => self.lost += 1,
        }
    }

    fn uncount(&mut self, flight: &Flight) {
        match flight.fate {
            Fate::Flying => self.flying -= flight.length,
            Fate::Sacked => self.sacked -= 1,
            Fate::Lost => self.lost -= 1,
        }
    }

    /// Takes the oldest segment, if all of it is acknowledged.
    pub(crate) fn take_acknowledged(&mut self, acknowledgment: Seq) -> Option<Flight> {
        let flight = *self.segments.front()?;
        if flight.end().after(acknowledgment) {
            return None;
        }
        self.segments.pop_front();
        self.uncount(&flight);
        self.resent -= usize::from(flight.retransmissions > 0);
        Some(flight)
    }

    /// Cuts off what is acknowledged of the oldest segment.
    pub(crate) fn trim(&mut self, acknowledgment: Seq) {
        if let Some(flight) = self.segments.front_mut()
            && flight.start.before(acknowledgment)
        {
            let cut = acknowledgment.since(flight.start).min(flight.length);
            flight.start = acknowledgment;
            flight.length -= cut;
            if flight.fate == Fate::Flying {
                self.flying -= cut;
            }
        }
    }

    /// The first segment that begins at or behind a number.
    pub(crate) fn first_from(&self, start: Seq) -> usize {
        self.segments.partition_point(|flight| flight.start.before(start))
    }

    /// What has to be true: the segments cover all from one number to the other, and the counts fit them.
    #[cfg(any(test, feature = "exercise"))]
    pub(crate) fn check(&self, from: Seq, to: Seq) {
        let mut next = from;
        let (mut flying, mut lost, mut sacked, mut resent) = (0, 0, 0, 0);
        for flight in &self.segments {
            assert!(flight.start == next && flight.length > 0, "{self:?}");
            next = flight.end();
            resent += usize::from(flight.retransmissions > 0);
            match flight.fate {
                Fate::Flying => flying += flight.length,
                Fate::Lost => lost += 1,
                Fate::Sacked => sacked += 1,
            }
        }
        assert_eq!(next, to, "{self:?}");
        assert_eq!((flying, lost, sacked, resent), (self.flying, self.lost, self.sacked, self.resent), "{self:?}");
    }

    /// The newest segment that the other end may not have.
    pub(crate) fn last_missing(&self) -> Option<usize> {
        self.segments.iter().rposition(|flight| flight.fate != Fate::Sacked)
    }

    pub(crate) fn first_lost(&self) -> Option<usize> {
        if self.lost == 0 { None } else { self.segments.iter().position(|flight| flight.fate == Fate::Lost) }
    }
}
