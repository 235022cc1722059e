//! Made with a secret: initial numbers (RFC 6528), time stamp offsets, SYN cookies (RFC 4987, section 3.6).

use crate::Instant;
use crate::address::Flow;
use crate::number::{Seq, low};
use crate::time::SECOND;
use crate::wire::tcp::Options;
use siphasher::sip::SipHasher24;
use std::hash::{Hash as _, Hasher as _};

/// MSS values that a cookie can tell (RFC 4987: three bits).
const SIZES: [u16; 8] = [536, 1220, 1300, 1400, 1440, 1460, 4312, 8960];
/// A cookie is good for this long, and as long again.
const COOKIE_LASTS: u64 = 64 * SECOND;
/// Bits of a time stamp that tell window scale (four) and SACK (one).
const STAMPED: u32 = 5;
const STAMPED_MASK: u32 = (1 << STAMPED) - 1;
const NO_SCALE: u32 = 15;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret(pub(crate) [u8; 16]);

impl Secret {
    fn hash(&self, purpose: u8, flow: &Flow, more: (u64, u32)) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        (purpose, flow, more).hash(&mut hasher);
        hasher.finish()
    }

    /// ISN = M + F(flow, secret), M counting 4 µs (RFC 9293, MUST-8 and MUST-9).
    pub(crate) fn initial_sequence(&self, now: Instant, flow: &Flow) -> Seq {
        Seq(low(now.0 / 4_000)).plus(low(self.hash(1, flow, (0, 0))))
    }

    /// What is added to milliseconds in time stamps of a flow (RFC 7323, section 5.4).
    pub(crate) fn timestamp_offset(&self, flow: &Flow) -> u32 {
        low(self.hash(2, flow, (0, 0)))
    }

    /// The ISN that encodes a connection of which nothing is stored: 5 bits of time, 3 of the MSS, 24 that prove it.
    pub(crate) fn cookie(&self, now: Instant, flow: &Flow, peer: Seq, mss: u16) -> Seq {
        let index = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0);
        self.cookie_at(now.0 / COOKIE_LASTS, flow, peer, crate::number::long(index))
    }

    fn cookie_at(&self, period: u64, flow: &Flow, peer: Seq, index: u32) -> Seq {
        let proof = low(self.hash(3, flow, (period, peer.0 ^ index << 29))) >> 8;
        Seq((low(period) & 31) << 27 | index << 24 | proof)
    }

    /// The MSS that a cookie tells, if it is one of this flow's and not too old.
    pub(crate) fn opened(&self, now: Instant, flow: &Flow, peer: Seq, cookie: Seq) -> Option<u16> {
        let period = now.0 / COOKIE_LASTS;
        let index = cookie.0 >> 24 & 7;
        let is_ours = [Some(period), period.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|period| self.cookie_at(period, flow, peer, index) == cookie);
        SIZES.get(index as usize).copied().filter(|_| is_ours)
    }
}

/// A time stamp that tells what the other end's SYN offered, not later than `value`.
pub(crate) fn stamp(value: u32, options: &Options) -> u32 {
    let scale = options.window_scale.map_or(NO_SCALE, |shift| u32::from(shift.min(14)));
    let told = scale << 1 | u32::from(options.sack_permitted);
    let stamped = value & !STAMPED_MASK | told;
    if stamped > value { stamped.wrapping_sub(1 << STAMPED) } else { stamped }
}

/// What a time stamp of [`stamp`] tells.
pub(crate) fn stamped(echo: u32, options: &mut Options) {
    options.sack_permitted = echo & 1 == 1;
    let scale = echo >> 1 & NO_SCALE;
    options.window_scale = (scale < NO_SCALE).then_some(u8::try_from(scale).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    fn flow() -> Flow {
        Flow {
            remote: Address::from_v4([192, 0, 2, 2]),
            remote_port: 5,
            ..Flow::listening(Address::from_v4([192, 0, 2, 1]), 80)
        }
    }

    #[test]
    fn a_cookie_tells_the_mss_for_two_minutes_and_no_other_does() {
        let secret = Secret([7; 16]);
        let cookie = secret.cookie(Instant(5 * SECOND), &flow(), Seq(9), 1461);
        assert_eq!(secret.opened(Instant(6 * SECOND), &flow(), Seq(9), cookie), Some(1460));
        assert_eq!(secret.opened(Instant(127 * SECOND), &flow(), Seq(9), cookie), Some(1460));
        assert_eq!(secret.opened(Instant(129 * SECOND), &flow(), Seq(9), cookie), None);
        assert_eq!(secret.opened(Instant(6 * SECOND), &flow(), Seq(10), cookie), None);
        assert_eq!(secret.opened(Instant(6 * SECOND), &Flow { remote_port: 6, ..flow() }, Seq(9), cookie), None);
        assert_eq!(Secret([8; 16]).opened(Instant(6 * SECOND), &flow(), Seq(9), cookie), None);
        let guessed = (0..100_000).filter(|at| secret.opened(Instant(0), &flow(), Seq(9), Seq(at * 40_503)).is_some());
        assert!(guessed.count() <= 1);
    }

    #[test]
    fn a_time_stamp_tells_scale_and_sack() {
        for (window_scale, sack_permitted) in [(None, false), (Some(0), true), (Some(14), false)] {
            let options = Options { window_scale, sack_permitted, ..Options::default() };
            for value in [0, 31, 32, 1_000_000, u32::MAX] {
                let echo = stamp(value, &options);
                assert!(value.wrapping_sub(echo) < 64, "{value} {echo}");
                let mut told = Options::default();
                stamped(echo, &mut told);
                assert_eq!(told, options);
            }
        }
    }

    #[test]
    fn initial_sequence_numbers_follow_the_clock_and_differ_by_flow() {
        let secret = Secret([7; 16]);
        let at = |ns| secret.initial_sequence(Instant(ns), &flow());
        assert_eq!(at(8_000).since(at(0)), 2);
        assert_ne!(at(0), secret.initial_sequence(Instant(0), &Flow { remote_port: 6, ..flow() }));
    }
}
