//! An observer of the calls that carry messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{NEVER, end, ends, options};
use model::{Protocol, Receive, SocketSpec};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::{Arc, Mutex};
use windhover_net::{CallObserver, DataSocket, ObservedCalls, Path, PathVisitor, Received, with_path};

/// Messages, and whether each was sent.
#[derive(Default)]
struct Seen(Mutex<Vec<(Vec<u8>, bool)>>);

impl CallObserver for Seen {
    fn sends(&self, message: &[u8]) {
        self.0.lock().unwrap().push((message.to_vec(), true));
    }

    fn received(&self, message: &[u8]) {
        self.0.lock().unwrap().push((message.to_vec(), false));
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

/// Catches: a kind of path or a way to wait whose calls are not seen, looks that find nothing and are, calls on the other end's
/// descriptor, and calls that are still seen when the observer has ended.
#[test]
fn each_message_is_seen_once_at_the_end_that_is_observed() {
    // A pipe is written to by another descriptor than it is read from.
    for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::UnixStream, Protocol::UnixDgram, Protocol::Pipe] {
        for (receive, sends) in Receive::LINUX.into_iter().flat_map(|receive| [(receive, true), (receive, false)]) {
            let (mut here, mut there) = ends(&SocketSpec::new(protocol), &end(receive), &end(receive), false);
            let seen = Arc::new(Seen::default());
            let descriptor = if sends { here.as_fd() } else { there.as_fd() }.as_raw_fd();
            let observed = ObservedCalls::by(descriptor, Arc::clone(&seen) as Arc<_>);
            std::thread::scope(|scope| {
                scope.spawn(|| one(&mut there, receive, None));
                std::thread::sleep(std::time::Duration::from_millis(2));
                one(&mut here, receive, Some(b"a number"));
            });
            drop(observed);
            one(&mut here, receive, Some(b"not seen"));
            let calls = std::mem::take(&mut *seen.0.lock().unwrap());
            let expected =
                if sends && protocol == Protocol::Pipe { vec![] } else { vec![(b"a number".to_vec(), sends)] };
            assert_eq!(calls, expected, "{protocol} {receive}");
        }
    }
}
