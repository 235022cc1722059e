//! Hops over two virtual wires and a router, in network namespaces that the test makes for itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "a test")]

use nix::sched::{CloneFlags, unshare};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use windhover_netlink::{HopError, Socket, hop};

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A process that holds the namespace of the far end, ended with this value.
struct Far(Child);

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Catches: a neighbour that is not asked for, one of another interface, a router that is passed over, a route's MTU that is
/// ignored, and a wait without end for who never answers.
#[test]
fn the_mac_address_is_that_of_the_next_hop_and_who_does_not_answer_is_named() {
    let name = "the_mac_address_is_that_of_the_next_hop";
    std::thread::spawn(move || {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("SKIPPED {name}: no network namespace of its own: {errno}: run as root");
            return;
        }
        let far = Command::new("unshare")
            .args(["-n", "sh", "-c", "echo; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut far = Far(far);
        let mut line = [0];
        std::io::Read::read_exact(far.0.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = far.0.id().to_string();
        ip(&format!("link add near type veth peer name far netns {pid}"));
        ip("address add 10.9.0.1/24 dev near");
        ip("-6 address add fd09::1/64 dev near nodad");
        ip("link set near up");
        for command in [
            "link set far address 02:00:00:00:09:02",
            "address add 10.9.0.2/24 dev far",
            "-6 address add fd09::2/64 dev far nodad",
            "link set far up",
        ] {
            let done =
                Command::new("nsenter").args(["-t", &pid, "-n", "ip"]).args(command.split(' ')).status().unwrap();
            assert!(done.success(), "{command}");
        }
        ip("route add 203.0.113.0/24 via 10.9.0.2 mtu 1400");
        ip("-6 route add 2001:db8::/64 via fd09::2");

        let patience = Duration::from_secs(5);
        for (to, source, mtu) in [
            ("10.9.0.2", "10.9.0.1", 1500),
            ("203.0.113.7", "10.9.0.1", 1400),
            ("fd09::2", "fd09::1", 1500),
            ("2001:db8::7", "fd09::1", 1500),
        ] {
            let hop = hop(to.parse().unwrap(), 0, patience).unwrap();
            assert_eq!(hop.mac, [2, 0, 0, 0, 9, 2], "{to}");
            assert_eq!((hop.source, hop.mtu), (source.parse::<IpAddr>().unwrap(), mtu), "{to}");
            assert_eq!((hop.link.name.as_str(), hop.link.kind.as_deref()), ("near", Some("veth")), "{to}");
            assert!(hop.link.is_up && !hop.link.is_without_neighbours && hop.link.mac.is_some(), "{to}");
        }
        let socket = Socket::route().unwrap();
        let index = socket.route_to("10.9.0.2".parse().unwrap(), 0).unwrap().interface.unwrap();
        let known = socket.neighbour(index, "10.9.0.2".parse().unwrap()).unwrap().unwrap();
        assert_eq!(known.mac, Some([2, 0, 0, 0, 9, 2]));
        assert_eq!(socket.neighbour(index, "10.9.0.77".parse().unwrap()).unwrap(), None);

        let begun = Instant::now();
        let silent = hop("10.9.0.77".parse().unwrap(), 0, Duration::from_millis(50)).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(matches!(silent, HopError::NoNeighbour { cause: None, .. }), "{silent}");
        assert!(silent.to_string().contains("10.9.0.77 on near"), "{silent}");
        let nowhere = hop("198.51.100.1".parse().unwrap(), 0, patience).unwrap_err();
        assert!(matches!(nowhere, HopError::NoRoute { .. }), "{nowhere}");
    })
    .join()
    .unwrap();
}
