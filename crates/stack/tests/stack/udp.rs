//! UDP sockets.

use crate::sim::Link;
use crate::world::{CLIENT, SERVER, pair, socket};
use stack::{Error, UdpOptions};

#[test]
fn datagrams_go_both_ways_in_both_families() {
    for v6 in [false, true] {
        let mut network = pair(1, Link::default());
        let options = UdpOptions::default();
        let client = network.stack(CLIENT).udp_bind(socket(CLIENT, v6, 5000), false, options).unwrap();
        let server = network.stack(SERVER).udp_bind(socket(SERVER, v6, 53), false, options).unwrap();
        let now = network.now;
        network.stack(CLIENT).udp_send(now, client, Some(socket(SERVER, v6, 53)), b"question").unwrap();
        network.run_for(100_000);
        let mut buffer = [0; 100];
        let got = network.stack(SERVER).udp_receive(server, &mut buffer).unwrap();
        assert_eq!((&buffer[..got.length], got.source), (b"question".as_slice(), socket(CLIENT, v6, 5000)));
        assert_eq!(got.destination, socket(SERVER, v6, 53));
        let now = network.now;
        network.stack(SERVER).udp_send(now, server, Some(got.source), b"reply").unwrap();
        network.run_for(100_000);
        let got = network.stack(CLIENT).udp_receive(client, &mut buffer).unwrap();
        assert_eq!(&buffer[..got.length], b"reply");
        assert_eq!(network.stack(CLIENT).udp_receive(client, &mut buffer), Err(Error::WouldBlock));
    }
}

fn bound(network: &mut crate::sim::Network, number: usize, port: u16, options: UdpOptions) -> stack::UdpSocket {
    network.stack(number).udp_bind(socket(number, false, port), false, options).unwrap()
}

fn send(network: &mut crate::sim::Network, from: stack::UdpSocket, to: u16, text: &[u8]) {
    let now = network.now;
    network.stack(CLIENT).udp_send(now, from, Some(socket(SERVER, false, to)), text).unwrap();
    network.run_for(100_000);
}

#[test]
fn what_does_not_fit_is_cut_and_peeking_leaves_it() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    let server = bound(&mut network, SERVER, 53, UdpOptions::default());
    send(&mut network, client, 53, b"a long datagram");
    send(&mut network, client, 53, b"");
    let mut buffer = [0; 6];
    let stack = network.stack(SERVER);
    assert_eq!(stack.udp_peek(server, &mut buffer).unwrap().length, 15);
    assert_eq!(stack.udp_queue(server), Ok((2, 15, 0)));
    assert_eq!(stack.udp_receive(server, &mut buffer).unwrap().length, 15);
    assert_eq!(&buffer, b"a long");
    assert!(stack.udp_readiness(server).unwrap().readable, "an empty datagram is one too");
    assert_eq!(stack.udp_receive(server, &mut buffer).unwrap().length, 0);
    assert!(!stack.udp_readiness(server).unwrap().readable);
}

#[test]
fn datagrams_have_one_frame() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    let server = bound(&mut network, SERVER, 53, UdpOptions::default());
    send(&mut network, client, 53, &[7; 1472]);
    assert_eq!(network.stack(SERVER).udp_receive(server, &mut [0; 2000]).unwrap().length, 1472);
    let now = network.now;
    let to = Some(socket(SERVER, false, 53));
    assert_eq!(network.stack(CLIENT).udp_send(now, client, to, &[7; 1473]), Err(Error::MessageTooLong));
    let six = network.stack(CLIENT).udp_bind(socket(CLIENT, true, 5000), false, UdpOptions::default()).unwrap();
    let to = Some(socket(SERVER, true, 53));
    assert_eq!(network.stack(CLIENT).udp_send(now, six, to, &[7; 1452]), Ok(()));
    assert_eq!(network.stack(CLIENT).udp_send(now, six, to, &[7; 1453]), Err(Error::MessageTooLong));
}

#[test]
fn a_full_socket_drops_and_counts() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    let small = UdpOptions { receive_buffer: 1000, receive_datagrams: 5, ..UdpOptions::default() };
    let server = bound(&mut network, SERVER, 53, small);
    for _ in 0..4 {
        send(&mut network, client, 53, &[7; 300]);
    }
    assert_eq!(network.stack(SERVER).udp_queue(server), Ok((3, 900, 1)));
    for _ in 0..4 {
        send(&mut network, client, 53, &[7; 1]);
    }
    assert_eq!(network.stack(SERVER).udp_queue(server), Ok((5, 902, 3)));
    assert_eq!(network.stack(SERVER).counts().datagrams_dropped, 3);
}

#[test]
fn a_full_send_buffer_is_told_and_gets_room_again() {
    let mut network = pair(1, Link::default());
    let small = UdpOptions { send_buffer: 1000, ..UdpOptions::default() };
    let client = bound(&mut network, CLIENT, 5000, small);
    let (now, to) = (network.now, Some(socket(SERVER, false, 53)));
    let stack = network.stack(CLIENT);
    for _ in 0..3 {
        assert_eq!(stack.udp_send(now, client, to, &[7; 300]), Ok(()));
    }
    assert_eq!(stack.udp_send(now, client, to, &[7; 300]), Err(Error::WouldBlock));
    assert!(!stack.udp_readiness(client).unwrap().writable);
    network.flush();
    let readiness = network.stack(CLIENT).udp_readiness(client).unwrap();
    assert_eq!((readiness.writable, readiness.write_edges), (true, 1));
}

#[test]
fn a_connected_socket_has_one_correspondent() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    let other = bound(&mut network, CLIENT, 5001, UdpOptions::default());
    let server = bound(&mut network, SERVER, 53, UdpOptions::default());
    network.stack(SERVER).udp_connect(server, Some(socket(CLIENT, false, 5000))).unwrap();
    send(&mut network, other, 53, b"not for it");
    assert_eq!(network.stack(SERVER).udp_receive(server, &mut [0; 9]), Err(Error::WouldBlock));
    // Another socket may have the same port for all others.
    let rest = bound(&mut network, SERVER, 53, UdpOptions::default());
    send(&mut network, other, 53, b"other");
    send(&mut network, client, 53, b"own");
    assert_eq!(network.stack(SERVER).udp_receive(rest, &mut [0; 9]).unwrap().length, 5);
    assert_eq!(network.stack(SERVER).udp_receive(server, &mut [0; 9]).unwrap().length, 3);
    let addresses = network.stack(SERVER).udp_addresses(server).unwrap();
    assert_eq!(addresses, (socket(SERVER, false, 53), Some(socket(CLIENT, false, 5000))));
    assert_eq!(network.stack(SERVER).udp_connect(server, None), Err(Error::AddressInUse));
    network.stack(SERVER).udp_close(rest).unwrap();
    assert_eq!(network.stack(SERVER).udp_connect(server, None), Ok(()));
    send(&mut network, other, 53, b"all");
    assert_eq!(network.stack(SERVER).udp_receive(server, &mut [0; 9]).unwrap().length, 3);
}

/// Catches: datagrams that are lost, or that anybody may still send, when a socket is connected with some waiting in it.
#[test]
fn what_waits_survives_another_correspondent() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    let other = bound(&mut network, CLIENT, 5001, UdpOptions::default());
    let any = "0.0.0.0:53".parse().unwrap();
    let server = network.stack(SERVER).udp_bind(any, false, UdpOptions::default()).unwrap();
    send(&mut network, other, 53, b"before");
    let (own, far) = (socket(SERVER, false, 53), socket(CLIENT, false, 5000));
    let mut rebind = |local, remote| network.stack(SERVER).udp_rebind(server, local, false, remote);
    assert_eq!(rebind(socket(SERVER, false, 54), Some(far)), Err(Error::InvalidArgument));
    assert_eq!(rebind(socket(CLIENT, false, 53), Some(far)), Err(Error::AddressNotAvailable));
    assert_eq!(rebind(own, Some(far)), Ok(()));
    send(&mut network, other, 53, b"late");
    send(&mut network, client, 53, b"own");
    assert_eq!(network.stack(SERVER).udp_addresses(server).unwrap(), (own, Some(far)));
    let mut lengths = || network.stack(SERVER).udp_receive(server, &mut [0; 9]).map(|got| got.length);
    assert_eq!((lengths(), lengths(), lengths()), (Ok(6), Ok(3), Err(Error::WouldBlock)));
    assert_eq!(network.stack(SERVER).udp_rebind(server, any, false, None), Ok(()));
    send(&mut network, other, 53, b"again");
    assert_eq!(network.stack(SERVER).udp_receive(server, &mut [0; 9]).unwrap().length, 5);
}

#[test]
fn one_socket_serves_both_families() {
    let mut network = pair(1, Link::default());
    let any = "[::]:53".parse().unwrap();
    let server = network.stack(SERVER).udp_bind(any, true, UdpOptions::default()).unwrap();
    for v6 in [false, true] {
        let client = network.stack(CLIENT).udp_bind(socket(CLIENT, v6, 5000), false, UdpOptions::default()).unwrap();
        let now = network.now;
        network.stack(CLIENT).udp_send(now, client, Some(socket(SERVER, v6, 53)), b"x").unwrap();
        network.run_for(100_000);
        let got = network.stack(SERVER).udp_receive(server, &mut [0; 9]).unwrap();
        assert_eq!((got.source, got.destination), (socket(CLIENT, v6, 5000), socket(SERVER, v6, 53)));
        let now = network.now;
        network.stack(SERVER).udp_send(now, server, Some(got.source), b"y").unwrap();
        network.run_for(100_000);
        assert_eq!(network.stack(CLIENT).udp_receive(client, &mut [0; 9]).unwrap().source, socket(SERVER, v6, 53));
    }
}

#[test]
fn an_unreachable_port_is_told_to_a_connected_socket() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    let ends = crate::wire::Ends {
        macs: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]],
        from: socket(SERVER, false, 53),
        to: socket(CLIENT, false, 5000),
    };
    let about = crate::wire::udp(&ends.reversed(), b"x");
    let message = crate::wire::icmp(&ends, 3, 3, 0, &about);
    let now = network.now;
    // To one that is not connected, or to another, nothing is reported (RFC 1122, section 4.1.3.3).
    let _ = network.stack(CLIENT).handle_frame(now, &message);
    assert_eq!(network.stack(CLIENT).udp_take_error(client), Ok(None));
    network.stack(CLIENT).udp_connect(client, Some(socket(SERVER, false, 53))).unwrap();
    let _ = network.stack(CLIENT).handle_frame(now, &message);
    assert!(network.stack(CLIENT).udp_readiness(client).unwrap().error);
    assert_eq!(network.stack(CLIENT).udp_receive(client, &mut [0; 9]), Err(Error::ConnectionRefused));
    assert_eq!(network.stack(CLIENT).udp_receive(client, &mut [0; 9]), Err(Error::WouldBlock));
}

#[test]
fn a_narrower_path_shortens_datagrams() {
    let mut network = pair(1, Link::default());
    let client = bound(&mut network, CLIENT, 5000, UdpOptions::default());
    network.stack(CLIENT).udp_connect(client, Some(socket(SERVER, false, 53))).unwrap();
    let ends = crate::wire::Ends {
        macs: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]],
        from: socket(SERVER, false, 53),
        to: socket(CLIENT, false, 5000),
    };
    let about = crate::wire::udp(&ends.reversed(), &[7; 1400]);
    let now = network.now;
    let _ = network.stack(CLIENT).handle_frame(now, &crate::wire::icmp(&ends, 3, 4, 1000, &about));
    assert_eq!(network.stack(CLIENT).udp_send(now, client, None, &[7; 973]), Err(Error::MessageTooLong));
    assert_eq!(network.stack(CLIENT).udp_send(now, client, None, &[7; 972]), Ok(()));
}

#[test]
fn a_datagram_without_a_hop_is_refused_and_the_hop_asked_for() {
    let mut stack = stack::Stack::new(crate::world::config(CLIENT));
    let client = stack.udp_bind(socket(CLIENT, false, 5000), false, UdpOptions::default()).unwrap();
    let to = socket(SERVER, false, 53);
    let now = stack::Instant(0);
    assert_eq!(stack.udp_send(now, client, Some(to), b"x"), Err(Error::HostUnreachable));
    assert_eq!(stack.poll_event(), Some(stack::Event::NeighbourNeeded(to.ip())));
    assert_eq!(stack.udp_send(now, client, None, b"x"), Err(Error::DestinationRequired));
    assert_eq!(stack.udp_send(now, client, Some("224.0.0.1:5".parse().unwrap()), b"x"), Err(Error::NetworkUnreachable));
    let hop = stack::Hop { mac: [2; 6], mtu: 1500, source: socket(CLIENT, false, 1).ip() };
    stack.set_hop(to.ip(), hop);
    let mut frame = [0; 100];
    let length = stack.udp_send_frame(client, Some(to), b"x", &mut frame).unwrap();
    assert_eq!((length, &frame[..6]), (14 + 20 + 8 + 1, [2; 6].as_slice()));
}
