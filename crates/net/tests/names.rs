//! Names and routes in a namespace that has only its loopback interface, and in one with two ends.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, unsafe_code, reason = "tests")]

mod common;

use model::Family;
use std::net::SocketAddr;
use windhover_net::{NetError, resolve, route};

#[test]
fn names_resolve_without_any_network() {
    if !common::own_namespace("names_resolve_without_any_network") {
        return;
    }
    assert_eq!(resolve("localhost", 7, Some(Family::Ipv4)).unwrap(), "127.0.0.1:7".parse::<SocketAddr>().unwrap());
    assert_eq!(resolve("127.0.0.1:8", 7, None).unwrap().to_string(), "127.0.0.1:8");
    assert!(route::is_local("127.0.0.1".parse().unwrap()).unwrap());
    assert!(!route::is_local("198.18.0.1".parse().unwrap()).unwrap());
    let error = route::lookup("198.18.0.1:1".parse().unwrap()).unwrap_err();
    assert!(matches!(error, NetError::NoRoute { .. }), "{error}");
}

#[test]
fn local_is_what_stays_in_the_namespace() {
    if !common::own_namespace("local_is_what_stays_in_the_namespace") {
        return;
    }
    // A pair of devices of one namespace: traffic between their addresses never touches them.
    common::ip(&["link", "add", "here", "type", "veth", "peer", "name", "there"]);
    for (device, address) in [("here", "198.18.7.1/24"), ("there", "198.18.7.2/24")] {
        common::ip(&["address", "add", address, "dev", device]);
        common::ip(&["link", "set", device, "up"]);
    }
    common::ip(&["link", "set", "here", "mtu", "1400"]);
    assert!(route::is_local("198.18.7.1".parse().unwrap()).unwrap());
    assert!(route::is_local("198.18.7.2".parse().unwrap()).unwrap());
    assert!(!route::is_local("198.18.7.3".parse().unwrap()).unwrap());
    let found = route::lookup("198.18.7.3:1".parse().unwrap()).unwrap();
    assert!(!found.local);
    assert_eq!(found.interface.as_deref(), Some("here"));
    assert_eq!(found.source, Some("198.18.7.1".parse().unwrap()));
    assert_eq!(found.mtu, Some(1400));
    assert_eq!(route::source_for("198.18.7.3:1".parse().unwrap()).unwrap().to_string(), "198.18.7.1");
    // A route may have a limit of its own.
    common::ip(&["route", "add", "198.18.8.0/24", "via", "198.18.7.3", "mtu", "1200"]);
    assert_eq!(route::lookup("198.18.8.1:1".parse().unwrap()).unwrap().mtu, Some(1200));
    assert_eq!(windhover_net::interface::with_address("198.18.7.2".parse().unwrap()).unwrap(), "there");
}
