//! A connection leaves the stack, whole, and another TCP of the host goes on with it.

use crate::sim::{Link, Network};
use crate::world::{CLIENT, MS, SERVER, connect, drain, pair, pattern, quick, socket, tcp_flags};
use stack::{Error, Shutdown, TcpOptions, TcpSnapshot, TcpSocket, TcpState};

const RST: u8 = 4;

fn snapshot(network: &mut Network, end: usize, of: TcpSocket) -> TcpSnapshot {
    let now = network.now;
    network.stack(end).tcp_snapshot(now, of).unwrap()
}

/// Catches: a byte that is in none of the lists or in two, and a sequence number that the other end does not expect.
#[test]
fn a_snapshot_fits_what_the_other_end_has() {
    for v6 in [false, true] {
        let mut network = pair(1, Link::default());
        let (client, server, _) = connect(&mut network, v6, quick());
        let data = pattern(9000);
        network.stack(CLIENT).tcp_send(client, &data[..3000], false).unwrap();
        network.run_for(10 * MS);
        let (near, far) = (snapshot(&mut network, CLIENT, client), snapshot(&mut network, SERVER, server));
        assert_eq!((near.local, near.remote), (socket(CLIENT, v6, 4000), socket(SERVER, v6, 80)));
        assert_eq!((far.local, far.remote), (near.remote, near.local));
        assert_eq!((near.state, near.sent.len(), near.unsent.len()), (TcpState::Established, 0, 0));
        assert_eq!((near.send_unacknowledged, &far.unread[..]), (far.receive_next, &data[..3000]));
        assert_eq!((near.shifts, near.sack), ((far.shifts.1, far.shifts.0), true));
        assert!(near.timestamp.is_some() && near.peer_mss >= 1400, "{near:?}");
        assert!(near.send_window <= far.receive_window && near.send_window <= near.largest_send_window);
        // Nothing arrives any more: some of it is on the way, the rest waits for the window.
        network.loses = Some(Box::new(|_, _| true));
        let options = TcpOptions { send_buffer: 1 << 16, ..quick() };
        assert!(options.send_buffer > data.len());
        network.stack(CLIENT).tcp_send(client, &data[3000..], true).unwrap();
        network.stack(CLIENT).tcp_shutdown(client, Shutdown::Write).unwrap();
        network.flush();
        let near = snapshot(&mut network, CLIENT, client);
        assert_eq!((near.state, near.is_send_finished), (TcpState::FinWait1, true));
        assert_eq!([&near.sent[..], &near.unsent[..]].concat(), data[3000..]);
        assert_eq!(near.send_unacknowledged, far.receive_next);
    }
}

/// Catches: the number of a FIN that is counted twice or not at all.
#[test]
fn a_snapshot_counts_the_end_of_each_direction_once() {
    let mut network = pair(1, Link::default());
    let (client, server, _) = connect(&mut network, false, quick());
    network.stack(CLIENT).tcp_send(client, b"last", false).unwrap();
    network.stack(CLIENT).tcp_shutdown(client, Shutdown::Write).unwrap();
    network.run_for(10 * MS);
    let (near, far) = (snapshot(&mut network, CLIENT, client), snapshot(&mut network, SERVER, server));
    assert_eq!((near.state, far.state), (TcpState::FinWait2, TcpState::CloseWait));
    assert_eq!((&far.unread[..], far.is_receive_finished, near.is_receive_finished), (&b"last"[..], true, false));
    // The FIN is sent once more, and acknowledged once more.
    assert_eq!(near.send_unacknowledged.wrapping_add(1), far.receive_next);
    network.loses = Some(Box::new(|_, _| true));
    network.stack(SERVER).tcp_shutdown(server, Shutdown::Write).unwrap();
    network.flush();
    let far = snapshot(&mut network, SERVER, server);
    assert_eq!((far.state, far.send_unacknowledged), (TcpState::LastAck, near.receive_next));
}

/// Catches: a connection that is over and has something to read, and cannot move.
#[test]
fn what_is_left_to_read_of_a_connection_that_is_over_moves() {
    let mut network = pair(1, Link::default());
    let (client, server, _) = connect(&mut network, false, quick());
    network.stack(SERVER).tcp_send(server, b"for the client", false).unwrap();
    network.stack(CLIENT).tcp_send(client, b"for the server", false).unwrap();
    network.stack(CLIENT).tcp_shutdown(client, Shutdown::Write).unwrap();
    network.run_for(10 * MS);
    network.stack(SERVER).tcp_shutdown(server, Shutdown::Write).unwrap();
    network.run_for(10 * MS);
    let (near, far) = (snapshot(&mut network, CLIENT, client), snapshot(&mut network, SERVER, server));
    assert_eq!((near.state, near.is_over, &near.unread[..]), (TcpState::TimeWait, true, &b"for the client"[..]));
    assert_eq!((far.state, far.is_over, &far.unread[..]), (TcpState::Closed, true, &b"for the server"[..]));
    network.stack(SERVER).tcp_detach(server).unwrap();
    network.stack(CLIENT).tcp_detach(client).unwrap();
    assert_eq!(network.stack(CLIENT).tcp_detached().count(), 0, "its ends are free");
}

/// Catches: a segment of the stack for a connection that it does not have any more, and a new one between the same ends that it refuses.
#[test]
fn a_detached_connection_is_passed_by_in_silence() {
    let mut network = pair(1, Link::default());
    let (client, server, listener) = connect(&mut network, false, quick());
    network.stack(SERVER).tcp_send(server, &pattern(5000), false).unwrap();
    network.stack(SERVER).tcp_detach(server).unwrap();
    let now = network.now;
    assert_eq!(drain(network.stack(SERVER), now), Vec::<Vec<u8>>::new());
    assert_eq!(network.stack(SERVER).tcp_snapshot(now, server), Err(Error::BadHandle));
    network.trace = Some(Vec::new());
    network.stack(CLIENT).tcp_send(client, b"to whoever has it", false).unwrap();
    network.run_for(300 * MS);
    let sent = network.trace.take().unwrap();
    assert!(sent.iter().any(|one| one.from == CLIENT) && sent.iter().all(|one| one.from == CLIENT), "{sent:?}");
    assert_eq!(network.stack(CLIENT).tcp_info(client).unwrap().state, TcpState::Established);
    // The same ends, anew.
    network.stack(CLIENT).tcp_abort(client).unwrap();
    network.run_for(MS);
    let now = network.now;
    let again = network.stack(CLIENT).tcp_connect(now, socket(CLIENT, false, 4000), socket(SERVER, false, 80), quick());
    network.run_for(100 * MS);
    assert!(network.stack(CLIENT).tcp_readiness(again.unwrap()).unwrap().writable);
    assert!(network.stack(SERVER).tcp_accept(listener).is_ok());
    // One that is over is forgotten: its ends are those of no connection.
    let other = network.stack(SERVER).tcp_detached().count();
    assert_eq!(other, 0);
}

/// Catches: detached connections that are kept for ever, and a reset for those that live.
#[test]
fn detached_connections_are_kept_as_long_as_they_live() {
    let mut network = pair(1, Link::default());
    let (client, server, _) = connect(&mut network, false, quick());
    network.stack(SERVER).tcp_detach(server).unwrap();
    let ends = (socket(SERVER, false, 80), socket(CLIENT, false, 4000));
    assert_eq!(network.stack(SERVER).tcp_detached().collect::<Vec<_>>(), [ends]);
    network.stack(SERVER).tcp_forget_detached(ends.0, ends.1);
    assert_eq!(network.stack(SERVER).tcp_detached().count(), 0);
    network.trace = Some(Vec::new());
    network.stack(CLIENT).tcp_send(client, b"x", false).unwrap();
    network.run_for(100 * MS);
    let flags: Vec<u8> = network.trace.iter().flatten().filter_map(|one| tcp_flags(&one.frame)).collect();
    assert!(flags.iter().any(|flags| flags & RST != 0), "{flags:?}");
}

/// Catches: a snapshot of what is not yet, or no longer, a connection.
#[test]
fn connections_without_both_numbers_do_not_move() {
    let mut network = pair(1, Link::default());
    let now = network.now;
    let begun = network.stack(CLIENT).tcp_connect(now, socket(CLIENT, false, 1), socket(SERVER, false, 9), quick());
    let begun = begun.unwrap();
    assert_eq!(network.stack(CLIENT).tcp_snapshot(now, begun), Err(Error::NotConnected));
    network.run_for(100 * MS);
    assert_eq!(network.stack(CLIENT).tcp_snapshot(now, begun), Err(Error::NotConnected));
}
