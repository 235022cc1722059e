//! The field of 256 elements with the polynomial x⁸ + x⁴ + x³ + x² + 1 (0x11d), of which 2 generates all but nothing.

/// 0x11d without its highest bit, which falls out of a byte.
pub(super) const REDUCTION: u8 = 0x1d;

struct Tables {
    /// Powers of 2, twice over so that a sum of two logarithms needs no remainder.
    power: [u8; 510],
    logarithm: [u8; 256],
}

const TABLES: Tables = tables();

#[expect(clippy::cast_possible_truncation, reason = "a power is below 255")]
const fn tables() -> Tables {
    let mut tables = Tables { power: [0; 510], logarithm: [0; 256] };
    let mut value = 1_u8;
    let mut at = 0;
    while at < 255 {
        tables.power[at] = value;
        tables.power[at + 255] = value;
        tables.logarithm[value as usize] = at as u8;
        value = double(value);
        at += 1;
    }
    tables
}

pub(super) const fn double(value: u8) -> u8 {
    // A mask instead of a product: many of them at once.
    (value << 1) ^ (REDUCTION & 0_u8.wrapping_sub(value >> 7))
}

fn logarithm(value: u8) -> usize {
    usize::from(TABLES.logarithm.get(usize::from(value)).copied().unwrap_or_default())
}

/// 2 to a power below 510.
pub(super) fn power(exponent: usize) -> u8 {
    TABLES.power.get(exponent).copied().unwrap_or_default()
}

pub(super) fn times(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + logarithm(b)) }
}

/// `a / b`; nothing divides by nothing, and gives nothing.
pub(super) fn over(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + 255 - logarithm(b)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as it is taught: shift, add, reduce.
    fn by_hand(a: u8, b: u8) -> u8 {
        let mut product = 0_u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        u8::try_from(product).unwrap()
    }

    #[test]
    fn products_are_those_of_the_polynomial() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(times(a, b), by_hand(a, b), "{a} x {b}");
                if b != 0 {
                    assert_eq!(over(times(a, b), b), a);
                }
            }
        }
    }

    #[test]
    fn two_generates_everything() {
        let all: std::collections::BTreeSet<u8> = (0..255).map(power).collect();
        assert_eq!((all.len(), all.contains(&0)), (255, false));
        assert_eq!(power(255), 1);
    }
}
