//! Connections of `--stack xdp` while the interface changes.

use super::support::Folder;
use super::wire::{FAR, NEAR, Network, ip};
use super::{bypass, compile};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A change reaches the program within a second; then what was lost is sent again, with time-outs that have grown.
const PATIENCE: Duration = Duration::from_secs(60);
const CHUNK: usize = 256 * 1024;

/// Takes connections to port 7004 and says when each chunk is whole; 0: the end.
fn take(tell: &Sender<usize>) {
    for address in [FAR[0], FAR[1]] {
        let listener = TcpListener::bind((address, 7004)).unwrap();
        let tell = tell.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut chunk = vec![0; CHUNK];
                while stream.read_exact(&mut chunk).is_ok() {
                    let _ = tell.send(chunk.iter().map(|byte| usize::from(*byte)).sum());
                }
                let _ = stream.shutdown(Shutdown::Both);
                let _ = tell.send(0);
            }
        });
    }
}

/// A program that gives what it is fed; it ends with the value.
struct Giver {
    child: Child,
    feed: Option<Sender<Vec<u8>>>,
}

impl Giver {
    fn new(mut child: Child) -> Self {
        let (mut input, (feed, food)) = (child.stdin.take().unwrap(), channel::<Vec<u8>>());
        // A connection that stands still must not hold the test.
        std::thread::spawn(move || food.into_iter().all(|chunk| input.write_all(&chunk).is_ok()));
        Self { child, feed: Some(feed) }
    }

    fn give(&self, told: &Receiver<usize>, byte: u8, what: &str) {
        self.feed.as_ref().unwrap().send(vec![byte; CHUNK]).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(CHUNK * usize::from(byte)), "{what}");
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Catches: a connection that stands still or is reset when the MTU is lowered, when the interface loses its address and gets it again,
/// or when it has another MAC address. The kernel's go on.
#[test]
fn connections_go_on_when_the_interface_changes() {
    let test = "connections_go_on_when_the_interface_changes";
    let folder = Folder::new("bypass-changes");
    let Some(program) = compile(&folder, test, "flows", &[]) else { return };
    let Some(network) = Network::new(test, false) else { return };
    let (tell, told): (_, Receiver<usize>) = channel();
    network.far.run(move || take(&tell));
    let cases = [("packet", 0, "/24"), ("generic", 0, "/24"), ("generic", 1, "/64 nodad")];
    for (number, (backend, family, length)) in cases.into_iter().enumerate() {
        let what = move |step: &str| format!("{step}, {backend}, {}", FAR[family]);
        let line = ["run", "--stack", "xdp", "--require", "--backend", backend, "--", &program, FAR[family], "give"];
        let mut command = bypass(&folder, &line);
        let spawned = network.near.run(move || command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn());
        let mut giver = Giver::new(spawned.unwrap());
        giver.give(&told, 1, &what("nothing changed"));
        network.near.run(|| ip("link set near mtu 1300"));
        giver.give(&told, 2, &what("the MTU is lower"));
        network.near.run(move || {
            ip("link set near mtu 1500");
            ip(&format!("address del {}{} dev near", NEAR[family], &length[..3]));
        });
        // Long enough for the program to learn of it.
        std::thread::sleep(Duration::from_secs(2));
        network.near.run(move || {
            let address = format!("{}{}", NEAR[family], &length[..3]);
            ip(&format!("address add {address} dev near{}", &length[3..]));
        });
        giver.give(&told, 3, &what("the address was gone"));
        network.near.run(move || ip(&format!("link set near address 02:00:00:00:09:0{number}")));
        // The far kernel would ask again after some seconds.
        network.far.run(|| ip("neighbour flush dev far"));
        giver.give(&told, 4, &what("another MAC address"));
        giver.feed = None;
        assert_eq!(told.recv_timeout(PATIENCE), Ok(0), "{}", what("the end"));
        assert_eq!(giver.child.wait().unwrap().code(), Some(0), "{}", what("the end"));
    }
}
