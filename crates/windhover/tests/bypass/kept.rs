//! Peers of a program that is killed behind `--stack xdp` learn of it.

use super::support::Folder;
use super::wire::{FAR, Network, REACHED};
use super::{bypass, compile};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read as _;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Says of each connection to port 7004 that it began, and that it ended.
fn watch(tell: &Sender<&'static str>) {
    for address in REACHED {
        let listener = TcpListener::bind((address, 7004)).unwrap();
        let tell = tell.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let tell = tell.clone();
                std::thread::spawn(move || {
                    let _ = tell.send("began");
                    let _ = stream.read_to_end(&mut Vec::new());
                    let _ = tell.send("ended");
                });
            }
        });
    }
}

/// Catches: a killed program whose peers wait for ever. (The kernel ends the connections that it has by itself.)
#[test]
fn peers_of_a_killed_program_learn_of_it() {
    let test = "peers_of_a_killed_program_learn_of_it";
    let folder = Folder::new("bypass-kept");
    let Some(program) = compile(&folder, test, "flows", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    let (tell, told): (_, Receiver<&'static str>) = channel();
    network.far.run(move || watch(&tell));
    network.near.run(move || {
        let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGSEGV, Signal::SIGKILL];
        for (backend, address) in [("packet", REACHED[0]), ("generic", REACHED[1]), ("generic", FAR[0])] {
            for signal in signals {
                let line =
                    ["run", "--stack", "xdp", "--require", "--backend", backend, "--", &program, address, "give"];
                let mut child = bypass(&folder, &line).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
                assert_eq!(told.recv_timeout(PATIENCE), Ok("began"), "{signal} {backend} {address}");
                kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
                child.wait().unwrap();
                assert_eq!(told.recv_timeout(PATIENCE), Ok("ended"), "{signal} {backend} {address}");
            }
        }
    });
}
