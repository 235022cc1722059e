//! Memory bandwidth. A unit of work is one MiB copied from one half of a big buffer to the other.

use super::Workers;
use crate::LoadError;
use crate::engine::{Shared, WorkerTask};
use std::hint::black_box;

const MIB: usize = 1 << 20;
/// For each job: beyond the share of a core in the last-level cache of today's servers.
const BUFFER: usize = 64 * MIB;
/// All jobs together take at most this part of the memory that is available.
const PART: usize = 8;

pub(super) fn workers(count: u32) -> Workers {
    let most = available().map_or(BUFFER, |bytes| bytes / PART / count.max(1) as usize);
    // Two chunks at least, or there is nothing to copy.
    let size = BUFFER.min(most / (2 * MIB) * (2 * MIB)).max(2 * MIB);
    let jobs = (0..count).map(|_| Box::new(move |shared: &Shared| work(shared, size)) as WorkerTask).collect();
    Workers::of_threads(jobs, format!("copies within {} MiB a job", size / MIB))
}

/// MemAvailable in bytes (proc_meminfo(5)).
fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of a job")]
fn work(shared: &Shared, size: usize) -> Result<(), LoadError> {
    // Not zero: pages of zeros would all be one page until written.
    let mut buffer = vec![1_u8; size];
    while !shared.stopping() {
        let (from, to) = buffer.split_at_mut(size / 2);
        for (from, to) in from.chunks_exact(MIB).zip(to.chunks_exact_mut(MIB)) {
            to.copy_from_slice(black_box(from));
            shared.done(1);
            if shared.stopping() {
                return Ok(());
            }
        }
        black_box(&mut buffer);
    }
    Ok(())
}
