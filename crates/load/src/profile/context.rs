//! Context switches as in hackbench: each sender of a group (a job) writes to each receiver. A unit: 100 bytes.

use super::Workers;
use crate::LoadError;
use crate::engine::{Shared, WorkerTask};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const MESSAGE: usize = 100;
/// Senders, and as many receivers, of a group. hackbench's 20 would be more threads than some containers allow.
const FAN: usize = 8;
/// Messages that a receiver counts together, because one counter for all would itself be the load.
const TOGETHER: u64 = 64;

pub(super) fn workers(count: u32) -> Result<Workers, LoadError> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        let mut inputs = Vec::new();
        for _ in 0..FAN {
            let (input, output) = UnixStream::pair().map_err(LoadError::socket("pair", "UNIX sockets"))?;
            inputs.push(input);
            jobs.push(Box::new(move |shared: &Shared| receive(shared, output)) as WorkerTask);
        }
        let inputs: Arc<[UnixStream]> = inputs.into();
        for _ in 0..FAN {
            let inputs = Arc::clone(&inputs);
            jobs.push(Box::new(move |shared: &Shared| send(shared, &inputs)) as WorkerTask);
        }
    }
    Ok(Workers::of_threads(jobs, format!("groups of {FAN} senders and {FAN} receivers over UNIX sockets")))
}

/// Receivers drain their sockets until all senders of the group have let go of them: neither can hang.
fn send(shared: &Shared, inputs: &[UnixStream]) -> Result<(), LoadError> {
    let message = [0x5A_u8; MESSAGE];
    loop {
        for mut input in inputs {
            if shared.stopping() {
                return Ok(());
            }
            input.write_all(&message).map_err(LoadError::socket("sending", "UNIX sockets"))?;
        }
    }
}

fn receive(shared: &Shared, mut output: UnixStream) -> Result<(), LoadError> {
    let mut message = [0_u8; MESSAGE];
    let mut count = 0;
    loop {
        match output.read_exact(&mut message) {
            Ok(()) => count += 1,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(cause) => return Err(LoadError::socket("receiving", "UNIX sockets")(cause)),
        }
        if count == TOGETHER {
            shared.done(count);
            count = 0;
        }
    }
}
