//! UDP sockets.

use crate::world::{CLIENT, SERVER, pair, socket};
use stack::sim::Link;
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
