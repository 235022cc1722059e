//! Arithmetic. A unit of work is 2^18 rounds of a mixing function, well under a millisecond.

use super::Workers;
use crate::LoadError;
use crate::engine::{Shared, WorkerTask};
use std::hint::black_box;

const ROUNDS: u32 = 1 << 18;

pub(super) fn workers(count: u32) -> Workers {
    let jobs = (0..count).map(|number| Box::new(move |shared: &Shared| work(shared, number)) as WorkerTask).collect();
    Workers::of_threads(jobs, "multiplications and shifts".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of a job")]
fn work(shared: &Shared, number: u32) -> Result<(), LoadError> {
    let mut state = u64::from(number) + 1;
    while !shared.stopping() {
        for _ in 0..ROUNDS {
            // A product and a shift that each need the one before: the pipeline stays busy, the caches do not.
            state = (state ^ (state >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        state = black_box(state);
        shared.done(1);
    }
    Ok(())
}
