//! An observer of the calls that carry messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{NEVER, end, ends, options};
use model::{Protocol, Receive, SocketSpec};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use windhover_net::{CallObserver, DataSocket, ObservedCalls, Path, PathVisitor, Received, with_path};

#[derive(Default)]
struct Seen(Mutex<Vec<(RawFd, Vec<u8>, bool)>>);

impl CallObserver for Seen {
    fn sends(&self, fd: RawFd, message: &[u8]) {
        self.0.lock().unwrap().push((fd, message.to_vec(), true));
    }

    fn received(&self, fd: RawFd, message: &[u8]) {
        self.0.lock().unwrap().push((fd, message.to_vec(), false));
    }
}

/// Sends a message, or receives one.
struct One<'a>(Option<&'a [u8]>);

impl PathVisitor for One<'_> {
    type Output = ();

    fn visit<P: Path>(self, path: &mut P) {
        match self.0 {
            Some(message) => path.send(message, false).unwrap(),
            None => assert_eq!(path.receive(&mut [0; 8]), Ok(Received::Bytes(8))),
        }
    }
}

fn one(socket: &mut DataSocket, receive: Receive, message: Option<&[u8]>) {
    with_path(socket, &options(receive, &NEVER), One(message)).unwrap();
}

/// Catches: a kind of path or a way to wait whose calls are not seen, looks that find nothing and are, and calls that are still seen
/// when the observer has ended.
#[test]
fn each_message_is_seen_once_at_each_end() {
    for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::UnixStream, Protocol::UnixDgram, Protocol::Pipe] {
        for receive in Receive::LINUX {
            let (mut here, mut there) = ends(&SocketSpec::new(protocol), &end(receive), &end(receive), false);
            let seen = Arc::new(Seen::default());
            let observed = ObservedCalls::by(Arc::clone(&seen) as Arc<_>);
            std::thread::scope(|scope| {
                scope.spawn(|| one(&mut there, receive, None));
                std::thread::sleep(std::time::Duration::from_millis(2));
                one(&mut here, receive, Some(b"a number"));
            });
            drop(observed);
            one(&mut here, receive, Some(b"not seen"));
            let calls = seen.0.lock().unwrap();
            let kinds: Vec<(&[u8], bool)> = calls.iter().map(|(_, message, sends)| (&message[..], *sends)).collect();
            assert_eq!(kinds, [(&b"a number"[..], true), (b"a number", false)], "{protocol} {receive}");
            assert_ne!(calls[0].0, calls[1].0);
        }
    }
}
