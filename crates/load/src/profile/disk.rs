//! File writes with fsync. A unit of work is one MiB that fsync(2) has confirmed.

use super::Workers;
use crate::LoadError;
use crate::engine::{Shared, WorkerTask};
use crate::sampler::Measure;
use crate::scratch::scratch;
use model::LoadSpec;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const MIB: usize = 1 << 20;
/// A job's file starts over at this size, so that the load never fills a disk.
const MOST_MIB: u64 = 64;

pub(super) fn workers(spec: &LoadSpec, count: u32) -> Result<Workers, LoadError> {
    let scratch = scratch(spec.directory.as_deref())?;
    let jobs = (0..count)
        .map(|number| {
            let path = scratch.path().join(format!("data-{number}"));
            Box::new(move |shared: &Shared| work(shared, &path)) as WorkerTask
        })
        .collect();
    let method = format!("writes of 1 MiB with fdatasync, at most {MOST_MIB} MiB a job");
    Ok(Workers { jobs, measure: Measure::Work, method, scratch: Some(scratch) })
}

fn work(shared: &Shared, path: &Path) -> Result<(), LoadError> {
    let failed = LoadError::writing(path);
    let mut file = File::create(path).map_err(&failed)?;
    let block = vec![0x5A_u8; MIB];
    let mut written = 0;
    while !shared.stopping() {
        if written == MOST_MIB {
            file.seek(SeekFrom::Start(0)).map_err(&failed)?;
            written = 0;
        }
        file.write_all(&block).map_err(&failed)?;
        file.sync_data().map_err(&failed)?;
        written += 1;
        shared.done(1);
    }
    Ok(())
}
