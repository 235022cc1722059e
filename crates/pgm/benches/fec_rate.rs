//! How fast parity is made, and how fast packets are computed from it: one thread, no network.
//!
//! `cargo bench -p windhover-pgm --bench fec_rate -- [seconds each]`
//!
//! MB/s are of data that were protected (or repaired), not of bytes that were read for it: to make one parity packet over k
//! data packets, or to compute one that is missing, k packets are read.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use pgm::fec::{Basis, MAX_GROUP, combine};
use std::hint::black_box;
use std::time::Instant;

const BYTES: usize = 1400;

/// Calls it for so long; calls a second.
fn rate(seconds: f64, mut once: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut calls = 0_u32;
    loop {
        once();
        calls += 1;
        let passed = begin.elapsed().as_secs_f64();
        if passed >= seconds {
            return f64::from(calls) / passed;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args().filter(|word| word != "--bench").nth(1).map_or(Ok(0.5), |text| text.parse())?;
    println!("| group | parity, lost | encode, MB/s of data | decode, MB/s of data repaired | parity packet, µs |");
    println!("|---|---|---|---|---|");
    for (group, count) in [(8, 1), (16, 1), (16, 2), (16, 4), (32, 4), (64, 8), (128, 16)] {
        let data: Vec<Vec<u8>> =
            (0..group).map(|number| (0..BYTES).map(|at| (number * 31 + at * 7).to_le_bytes()[0]).collect()).collect();
        let basis = Basis::of_data(group);
        let mut parity = vec![vec![0; BYTES]; count];
        let mut coefficients = [0; MAX_GROUP];
        let encode = rate(seconds, || {
            for (index, out) in parity.iter_mut().enumerate() {
                basis.coefficients(group + index, &mut coefficients[..group]);
                combine(&coefficients[..group], |at| &data[at], black_box(out));
            }
        });
        // The first packets are lost; the parity replaces them.
        let numbers: Vec<usize> = (count..group + count).collect();
        let have: Vec<&[u8]> = data[count..].iter().chain(&parity).map(Vec::as_slice).collect();
        let mut lost = vec![vec![0; BYTES]; count];
        let decode = rate(seconds, || {
            let Some(basis) = Basis::new(black_box(&numbers)) else { return };
            for (number, out) in lost.iter_mut().enumerate() {
                basis.coefficients(number, &mut coefficients[..group]);
                combine(&coefficients[..group], |at| have[at], black_box(out));
            }
        });
        if lost != data[..count] {
            return Err("what was computed is not what was lost".into());
        }
        println!(
            "| {group} | {count} | {:.0} | {:.0} | {:.1} |",
            encode * (group * BYTES) as f64 / 1e6,
            decode * (count * BYTES) as f64 / 1e6,
            1e6 / (encode * count as f64)
        );
    }
    Ok(())
}
