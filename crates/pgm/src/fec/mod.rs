//! Parity: any k of the n packets of a block give back its k data packets (RFC 3208, appendix A).
//!
//! The RFC asks for "packet-level Reed Solomon Erasure correcting techniques" and names Rizzo's *Effective Erasure Codes
//! for Reliable Computer Communication Protocols* (1997). This is that code: systematic, over the field of 256 elements
//! with the polynomial 0x11d, from a Vandermonde matrix whose rows stand for 0 and the powers of 2. The RFC leaves the
//! polynomial and the order of rows open; these are Rizzo's, and the known answers in the tests come from `zfec`, which
//! descends from Rizzo's own program.
//!
//! It is looked at here as a polynomial: byte b of data packet i is the value at point i of a polynomial of degree below k,
//! byte b of a parity packet its value at a further point. So any k packets determine it, and each packet that is missing
//! is a sum of the k that are there, each times a coefficient that depends on the points alone (Lagrange). No matrix is
//! inverted, and nothing is allocated.
//!
//! ```
//! use pgm::fec::{Basis, combine};
//!
//! let data: [&[u8]; 4] = [b"only", b"four", b"tiny", b"ones"];
//! let mut coefficients = [0; 4];
//! // The first parity packet is number 4 of the block.
//! Basis::of_data(4).coefficients(4, &mut coefficients);
//! let mut parity = [0; 4];
//! combine(&coefficients, |at| data[at], &mut parity);
//! // Packet 2 is lost, the parity packet replaces it.
//! let have = [data[0], data[1], data[3], &parity];
//! Basis::new(&[0, 1, 3, 4]).unwrap().coefficients(2, &mut coefficients);
//! let mut lost = [0; 4];
//! combine(&coefficients, |at| have[at], &mut lost);
//! assert_eq!(&lost, b"tiny");
//! ```
//!
//! [`Config`] configures a [`crate::Source`]; what a receiver needs it learns from SPMs (OPT_PARITY_PRM), if
//! [`crate::ReceiverConfig::parity`] lets it.

mod config;
mod field;
#[cfg(test)]
mod tests;

pub use config::Config;
pub(crate) use config::is_group_size;

/// Most data packets of a group. The RFC wants a power of two, and a block has at most 255 packets.
pub const MAX_GROUP: usize = 128;
/// Most packets of a block, data and parity.
pub const MAX_BLOCK: usize = 255;
/// Bytes that are worked on at once, so that a group's share of them stays in the CPU's cache.
pub(crate) const CHUNK: usize = 512;

/// The packets of a block from which others are made, each by its number in the block (data from 0, parity from k on).
#[derive(Debug, Clone)]
pub struct Basis {
    count: usize,
    points: [u8; MAX_GROUP],
    /// For each point the product of its distances from all others.
    weights: [u8; MAX_GROUP],
}

/// Where a packet of a block lies: first nothing, then the powers of 2.
fn point(number: usize) -> u8 {
    if number == 0 { 0 } else { field::power(number - 1) }
}

impl Basis {
    /// The packets that are there: their numbers, all different, 1 to 128 of them below 255. None where they are not so.
    pub fn new(numbers: &[usize]) -> Option<Self> {
        let mut seen = [false; MAX_BLOCK];
        for number in numbers {
            let seen = seen.get_mut(*number).filter(|seen| !**seen)?;
            *seen = true;
        }
        (1..=MAX_GROUP).contains(&numbers.len()).then(|| Self::of(numbers.iter().copied()))
    }

    /// The data packets of a group of `group` packets, at least 1 and at most [`MAX_GROUP`]: what parity is made from.
    pub fn of_data(group: usize) -> Self {
        Self::of(0..group.clamp(1, MAX_GROUP))
    }

    /// Of different numbers, as many as there are places.
    fn of(numbers: impl ExactSizeIterator<Item = usize>) -> Self {
        let mut basis = Self { count: numbers.len(), points: [0; MAX_GROUP], weights: [1; MAX_GROUP] };
        for (number, place) in numbers.zip(&mut basis.points) {
            *place = point(number);
        }
        let points = basis.points.get(..basis.count).unwrap_or_default();
        for (weight, here) in basis.weights.iter_mut().zip(points) {
            *weight =
                points.iter().filter(|other| *other != here).fold(1, |all, other| field::times(all, here ^ other));
        }
        basis
    }

    /// By what each of the basis' packets counts in the packet with this number: as many coefficients as `out` has room for.
    pub fn coefficients(&self, number: usize, out: &mut [u8]) {
        let wanted = point(number);
        let points = self.points.get(..self.count).unwrap_or_default();
        if let Some(at) = points.iter().position(|point| *point == wanted) {
            out.fill(0);
            if let Some(place) = out.get_mut(at) {
                *place = 1;
            }
            return;
        }
        let all = points.iter().fold(1, |all, point| field::times(all, wanted ^ point));
        for ((place, point), weight) in out.iter_mut().zip(points).zip(&self.weights) {
            *place = field::over(all, field::times(wanted ^ point, *weight));
        }
    }
}

/// Adds up packets, each times its coefficient: `input(i)` counts by `coefficients[i]`. What is shorter than `out` counts as
/// if it went on with zeros.
///
/// It goes through the coefficients bit by bit and doubles in between, so that whole words are added where a table would
/// look up each byte.
pub fn combine<'a>(coefficients: &[u8], input: impl Fn(usize) -> &'a [u8], out: &mut [u8]) {
    let mut from = 0;
    for chunk in out.chunks_mut(CHUNK) {
        combine_from(coefficients, &input, from, chunk);
        from += CHUNK;
    }
}

/// The same from a place in the inputs on; `out` should not be longer than what a cache holds for each of them.
pub(crate) fn combine_from<'a>(coefficients: &[u8], input: &impl Fn(usize) -> &'a [u8], from: usize, out: &mut [u8]) {
    out.fill(0);
    for bit in (0..8).rev() {
        for byte in out.iter_mut() {
            *byte = field::double(*byte);
        }
        for (at, coefficient) in coefficients.iter().enumerate() {
            if coefficient >> bit & 1 == 1 {
                add(out, input(at).get(from..).unwrap_or_default());
            }
        }
    }
}

fn add(out: &mut [u8], input: &[u8]) {
    for (place, byte) in out.iter_mut().zip(input) {
        *place ^= byte;
    }
}
