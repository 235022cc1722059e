//! A network device with a real driver: two e1000e on one wire, the second one alone in the namespace `far`.

use super::state::{ethtool, read};
use super::tasks::{interrupts, shell, wait_for};
use std::fs;

const NEAR: &str = "198.18.0.1";
const FAR: &str = "198.18.0.2";

/// Sets up both ends once; the tests of this boot share them.
fn wire() {
    if !fs::exists("/run/netns/far").unwrap() {
        let (code, said) = shell(&format!(
            "ip netns add far && ip link set eth1 netns far && ip address add {NEAR}/24 dev eth0 && ip link set eth0 up \
             && ip -n far address add {FAR}/24 dev eth1 && ip -n far link set eth1 up"
        ));
        assert_eq!(code, Some(0), "{said}");
    }
    wait_for("the link", || read("/sys/class/net/eth0/carrier") == "1" && ping(1));
}

/// Whether the far end answers that many echo requests.
fn ping(count: u32) -> bool {
    shell(&format!("busybox ping -q -W 2 -c {count} -i 0.1 {FAR}")).0 == Some(0)
}

/// A value in what `ethtool` prints: the last line that begins with this key.
fn value(option: &str, key: &str) -> String {
    let text = ethtool(&[option, "eth0"]);
    let value = text.lines().rev().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap_or("<none>").trim().to_owned()
}

/// Number of the interrupt that the driver calls by this name.
fn irq(action: &str) -> u32 {
    let irqs = super::state::numbered("/sys/class/net/eth0/device/msi_irqs");
    irqs.into_iter().find(|irq| read(format!("/sys/kernel/irq/{irq}/actions")) == action).unwrap()
}

/// What the other tests stand on: an interrupt of the receive queue goes where its mask says.
#[test]
#[ignore = "runs in a guest"]
fn the_driver_has_interrupts_that_can_be_placed() {
    wire();
    assert_eq!(value("-c", "rx-usecs"), "3");
    assert_eq!((value("-g", "RX"), value("-g", "TX")), ("256".to_owned(), "256".to_owned()));
    let irq = irq("eth0-rx-0");
    let mask = format!("/proc/irq/{irq}/smp_affinity_list");
    let before = read(&mask);
    fs::write(&mask, "2").unwrap();
    assert!(ping(3));
    let counted = interrupts(&irq.to_string(), 2);
    assert!(ping(5));
    let now = interrupts(&irq.to_string(), 2);
    fs::write(&mask, &before).unwrap();
    assert!(now > counted, "no interrupt came to CPU 2: {counted}, {now}");
}
