//! The proof of a data path: connections that show the session's token are taken, datagram sockets get the peer whose datagram
//! shows it. All that wait are looked at together, so that silent ones cost the others no time.

use crate::reflector::{Client, Failure, SessionLink, failed};
use net::{DataListener, DataSocket, NetError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use wire::RefuseCode;

/// Between two looks whether the session still wants the proof.
const LOOK: Duration = Duration::from_millis(50);
/// Rest where some have shown a part of a proof, so that poll(2) would return at once for ever.
const REST: Duration = Duration::from_millis(1);
/// Connections that may wait at once; the oldest makes room.
const MOST: usize = 64;

/// Waits for `places` connections, each proved by its first `BYTES` bytes; `place`: the index of a proof. `None`: it ended.
pub(crate) fn accept<const BYTES: usize>(
    listener: &DataListener,
    client: Client,
    places: usize,
    link: &SessionLink,
    place: impl Fn(&[u8; BYTES]) -> Option<usize>,
) -> Result<Option<Vec<DataSocket>>, Failure> {
    let mut taken: Vec<Option<DataSocket>> = (0..places).map(|_| None).collect();
    let mut waiting: VecDeque<DataSocket> = VecDeque::new();
    link.until_proved(|| {
        let (arrived, ready) = look(listener, &waiting);
        let mut unfinished = false;
        let mut ready = ready.into_iter();
        for mut socket in std::mem::take(&mut waiting) {
            if !ready.next().unwrap_or(false) {
                waiting.push_back(socket);
                continue;
            }
            let mut shown = [0; BYTES];
            match recv(socket.as_fd().as_raw_fd(), &mut shown, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT) {
                Ok(bytes) if bytes == BYTES => {
                    // What was looked at is taken.
                    let whole = socket.receive_once(&mut shown, REST).is_ok_and(|taken| taken.is_some());
                    let at = place(&shown).filter(|_| whole);
                    if let Some(place @ None) = at.and_then(|at| taken.get_mut(at)) {
                        *place = Some(socket);
                    }
                }
                Ok(1..) => {
                    unfinished = true;
                    waiting.push_back(socket);
                }
                // Closed or broken.
                Ok(0) | Err(_) => {}
            }
        }
        if arrived && let Some(socket) = listener.accept(Duration::ZERO).map_err(failed)? {
            if socket.peer_address().is_some_and(|from| client.may_use(from.ip())) {
                waiting.push_back(socket);
            }
            if waiting.len() > MOST {
                waiting.pop_front();
            }
        } else if unfinished {
            std::thread::sleep(REST);
        }
        Ok(taken.iter().all(Option::is_some).then(|| taken.drain(..).flatten().collect()))
    })
}

/// Waits a moment: whether a connection arrived, and which of the waiting ones have data.
fn look(listener: &DataListener, waiting: &VecDeque<DataSocket>) -> (bool, Vec<bool>) {
    let mut set = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    set.extend(waiting.iter().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
    // A signal ends the wait early, which is no harm.
    let found = poll(&mut set, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO)).unwrap_or(0) > 0;
    let mut any = set.iter().map(|fd| found && fd.any().unwrap_or(false));
    (any.next().unwrap_or(false), any.collect())
}

/// Waits for a datagram with a proof at each socket; `place`: the socket of a proof. Everything else is ignored and nothing is
/// answered, so no stranger can make this host send anything. `false`: the session ended.
pub(crate) fn prove<const BYTES: usize>(
    sockets: &mut [DataSocket],
    client: Client,
    link: &SessionLink,
    place: impl Fn(&[u8; BYTES]) -> Option<usize>,
) -> Result<bool, Failure> {
    let mut proved = vec![false; sockets.len()];
    // One byte more than a proof, so that a longer datagram is not taken for one.
    let mut datagram = vec![0; BYTES + 1];
    let done = link.until_proved(|| {
        for number in readable(sockets, &proved)? {
            let Some(socket) = sockets.get_mut(number) else { continue };
            let received = match socket.receive_once(&mut datagram, Duration::ZERO) {
                Ok(received) => received,
                // A report of an ICMP error, which anybody may cause.
                Err(NetError::Exchange { .. }) => {
                    std::thread::sleep(REST);
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let Some((bytes, Some(from))) = received else { continue };
            let shown = datagram.get(..bytes).and_then(|shown| shown.try_into().ok());
            if shown.and_then(&place) == Some(number) && client.may_use(from.ip()) {
                socket.set_peer(from).map_err(|error| match error {
                    NetError::FramesHeld { .. } => (RefuseCode::Busy, error.to_string()),
                    other => failed(other),
                })?;
                proved[number] = true;
            }
        }
        Ok(proved.iter().all(|done| *done).then_some(()))
    })?;
    Ok(done.is_some())
}

/// The sockets that something waits at, of those not proved yet.
fn readable(sockets: &[DataSocket], proved: &[bool]) -> Result<Vec<usize>, Failure> {
    let waiting: Vec<usize> = (0..sockets.len()).filter(|number| !proved[*number]).collect();
    let mut set: Vec<PollFd<'_>> =
        waiting.iter().map(|number| PollFd::new(sockets[*number].as_fd(), PollFlags::POLLIN)).collect();
    let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
    match poll(&mut set, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    }
    let ready = waiting.iter().zip(&set).filter(|(_, one)| one.any().unwrap_or(false));
    Ok(ready.map(|(number, _)| *number).collect())
}
