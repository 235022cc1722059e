//! TCP streams over loopback. A unit of work is 64 KiB received. Each job is a sender and a receiver.

use super::Workers;
use crate::LoadError;
use crate::engine::{Shared, WorkerTask};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const BLOCK: usize = 64 * 1024;

pub(super) fn workers(count: u32) -> Result<Workers, LoadError> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        let (sender, receiver) = pair().map_err(LoadError::socket("connection", "loopback"))?;
        jobs.push(Box::new(move |shared: &Shared| send(shared, sender)) as WorkerTask);
        jobs.push(Box::new(move |shared: &Shared| receive(shared, receiver)) as WorkerTask);
    }
    Ok(Workers::of_threads(jobs, "TCP streams over 127.0.0.1".to_owned()))
}

fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let own = sender.local_addr()?;
    loop {
        // Anyone on this machine could have connected in between; only our own connection is taken.
        let (receiver, peer) = listener.accept()?;
        if peer == own {
            return Ok((sender, receiver));
        }
    }
}

/// Closing the connection at the end is what ends the receiver, which drains it until then: neither can hang.
fn send(shared: &Shared, mut stream: TcpStream) -> Result<(), LoadError> {
    let block = vec![0x5A_u8; BLOCK];
    while !shared.stopping() {
        stream.write_all(&block).map_err(LoadError::socket("sending", "loopback"))?;
    }
    Ok(())
}

fn receive(shared: &Shared, mut stream: TcpStream) -> Result<(), LoadError> {
    let mut block = vec![0_u8; BLOCK];
    let mut bytes = 0;
    loop {
        match stream.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                bytes += count;
                if bytes >= BLOCK {
                    shared.done((bytes / BLOCK) as u64);
                    bytes %= BLOCK;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(LoadError::socket("receiving", "loopback")(cause)),
        }
    }
}
