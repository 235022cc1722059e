//! Ports that several sockets have: SO_REUSEPORT (socket(7)), and a port whose listener is another TCP's.

use crate::sim::{Link, Network};
use crate::world::{CLIENT, MS, SERVER, connect, pair, socket};
use stack::{Error, TcpOptions, TcpState, UdpOptions};

/// Sends a datagram from each of 64 ports; to which socket each came.
fn spread(network: &mut Network, sockets: &[stack::UdpSocket]) -> Vec<usize> {
    let from_port = |network: &mut Network, port: u16| {
        let client = network.stack(CLIENT).udp_bind(socket(CLIENT, false, port), false, UdpOptions::default()).unwrap();
        let now = network.now;
        network.stack(CLIENT).udp_send(now, client, Some(socket(SERVER, false, 53)), b"x").unwrap();
        network.run_for(MS);
        network.stack(CLIENT).udp_close(client).unwrap();
        let stack = network.stack(SERVER);
        let got: Vec<usize> =
            (0..sockets.len()).filter(|at| stack.udp_receive(sockets[*at], &mut [0; 8]).is_ok()).collect();
        assert_eq!(got.len(), 1, "one socket gets it");
        got[0]
    };
    (5000..5064).map(|port| from_port(network, port)).collect()
}

/// Catches: a peer whose datagrams go to several sockets, a socket that gets nothing, or a closed one that still does.
#[test]
fn datagrams_of_a_shared_port_are_spread_by_peer() {
    let mut network = pair(1, Link::default());
    let sharing = UdpOptions { shares_port: true, ..UdpOptions::default() };
    let bind =
        |network: &mut Network, options| network.stack(SERVER).udp_bind(socket(SERVER, false, 53), false, options);
    let mut sockets: Vec<_> = (0..3).map(|_| bind(&mut network, sharing).unwrap()).collect();
    assert_eq!(bind(&mut network, UdpOptions::default()), Err(Error::AddressInUse));
    let first = spread(&mut network, &sockets);
    assert!((0..3).all(|at| first.iter().filter(|one| **one == at).count() >= 10), "{first:?}");
    assert_eq!(spread(&mut network, &sockets), first);
    // A connected one has its peer alone.
    network.stack(SERVER).udp_connect(sockets[0], Some(socket(CLIENT, false, 5000))).unwrap();
    let connected = spread(&mut network, &sockets);
    assert!(connected[0] == 0 && connected[1..].iter().all(|one| *one != 0), "{connected:?}");
    network.stack(SERVER).udp_close(sockets.remove(1)).unwrap();
    assert!(spread(&mut network, &sockets)[1..].iter().all(|one| *one == 1));
    for left in sockets {
        network.stack(SERVER).udp_close(left).unwrap();
    }
    let alone = bind(&mut network, UdpOptions::default()).unwrap();
    assert_eq!(bind(&mut network, sharing), Err(Error::AddressInUse));
    network.stack(SERVER).udp_close(alone).unwrap();
}

/// Catches: a listener of a shared port that no connection comes to, or whose closing ends the others.
#[test]
fn connections_of_a_shared_port_are_spread() {
    let mut network = pair(1, Link::default());
    let sharing = TcpOptions { shares_port: true, ..TcpOptions::default() };
    let listen = |network: &mut Network, options| {
        network.stack(SERVER).tcp_listen(socket(SERVER, false, 80), false, 99, options)
    };
    let listeners: Vec<_> = (0..2).map(|_| listen(&mut network, sharing).unwrap()).collect();
    assert_eq!(listen(&mut network, TcpOptions::default()), Err(Error::AddressInUse));
    let connect_from = |network: &mut Network, ports: std::ops::Range<u16>| {
        for port in ports {
            let (now, to) = (network.now, socket(SERVER, false, 80));
            network.stack(CLIENT).tcp_connect(now, socket(CLIENT, false, port), to, TcpOptions::default()).unwrap();
            network.run_for(MS);
        }
    };
    connect_from(&mut network, 4000..4032);
    let accepted = |network: &mut Network, at: usize| {
        std::iter::from_fn(|| network.stack(SERVER).tcp_accept(listeners[at]).ok()).count()
    };
    let counts = [accepted(&mut network, 0), accepted(&mut network, 1)];
    assert!(counts.iter().sum::<usize>() == 32 && counts.iter().all(|count| *count >= 8), "{counts:?}");
    network.stack(SERVER).listener_close(listeners[0]).unwrap();
    connect_from(&mut network, 4032..4040);
    assert_eq!(accepted(&mut network, 1), 8);
}

/// Catches: a segment that is for another TCP of the host and is answered by a reset; a port of one's own that is not.
#[test]
fn segments_of_a_port_that_another_listens_on_are_not_refused() {
    let mut network = pair(1, Link::default());
    let (client, server, listener) = connect(&mut network, false, TcpOptions::default());
    network.stack(SERVER).listener_close(listener).unwrap();
    assert_eq!(network.stack(SERVER).tcp_listeners(80).count(), 0);
    let state_of_another = |network: &mut Network, port| {
        let (now, to) = (network.now, socket(SERVER, false, 80));
        let other = network.stack(CLIENT).tcp_connect(now, socket(CLIENT, false, port), to, TcpOptions::default());
        network.run_for(10 * MS);
        network.stack(CLIENT).tcp_info(other.unwrap()).unwrap().state
    };
    assert_eq!(state_of_another(&mut network, 4001), TcpState::Closed, "refused");
    network.stack(SERVER).yield_port(80);
    assert_eq!(state_of_another(&mut network, 4002), TcpState::SynSent, "left to whom it is for");
    // The connection lives, and a listener of one's own has them again.
    network.stack(CLIENT).tcp_send(client, b"x", false).unwrap();
    network.run_for(10 * MS);
    assert_eq!(network.stack(SERVER).tcp_receive(server, &mut [0; 8]), Ok(1));
    network.stack(SERVER).tcp_listen(socket(SERVER, false, 80), false, 8, TcpOptions::default()).unwrap();
    assert_eq!(state_of_another(&mut network, 4003), TcpState::Established);
}
