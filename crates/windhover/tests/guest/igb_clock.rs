//! The same devices under instruction counting, for what needs times that hold together: their PTP clocks and stamps.

use super::nic::{FAR, run, wire};
use super::support::{assert_measured, documents, stderr};
use super::tasks::{shell, wait_for};
use std::process::{Command, Stdio};

/// The far end as on another machine, measured from here; ended with the value.
struct Far(std::process::Child);

/// The key of both ends.
const KEY: &str = "/tmp/key";

impl Far {
    fn serving() -> Self {
        assert_eq!(shell(&format!("umask 077; windhover key >{KEY}")).0, Some(0));
        let script = "echo 01234567-89ab-cdef-0123-456789abcdef >/tmp/boot_id; \
                      mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id && exec windhover --quiet serve --bind \"$0\" --key-file \"$1\"";
        let serve = ["netns", "exec", "far", "sh", "-c", script, FAR, KEY];
        let child = Command::new("ip").args(serve).stdin(Stdio::null()).spawn().unwrap();
        let far = Self(child);
        wait_for("the far end serves", || shell("ip netns exec far busybox netstat -ltn").1.contains(":7412"));
        far
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `pace` over the wire.
fn pace(stamps: &str) -> std::process::Output {
    let rate = ["--size", "100", "--rate", "200", "--seconds", "2", "--warmup", "20", "--format", "json"];
    run(&[&["pace", "udp", FAR, "--key-file", KEY, "--stamps", stamps][..], &rate].concat())
}

/// The clock of each device is compared with the wall clock by its driver's best call, and its stamps of what was sent divide
/// each message's way. Both ends have one wall clock, so the true offset is 0.
#[test]
#[ignore = "runs in a guest"]
fn the_devices_clocks_and_their_stamps_are_used() {
    wire();
    let far = Far::serving();
    let off = pace("hardware-sent");
    assert_eq!(shell("hwstamp_ctl -i eth0 -t 1 && ip netns exec far hwstamp_ctl -i eth1 -t 1").0, Some(0));
    let everything = shell("hwstamp_ctl -i eth0 -t 1 -r 1");
    let refused = pace("hardware");
    let output = pace("hardware-sent");
    drop(far);
    assert_eq!(shell("hwstamp_ctl -i eth0 -t 0 && ip netns exec far hwstamp_ctl -i eth1 -t 0").0, Some(0));
    let said = stderr(&off);
    assert!(said.contains("switch them on with 'hwstamp_ctl -i eth0 -t 1'") && said.lines().count() == 1, "{said}");
    assert!(everything.0 != Some(0) && everything.1.contains("out of range"), "{everything:?}");
    let said = stderr(&refused);
    let why = "of what it receives only of PTP packets (rx_filters 0x1031): use --stamps hardware-sent";
    assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    assert_measured(&output);
    let result = &documents(&output)[0];
    let way = &result["one_way"];
    assert_eq!((&way["stamps"], &way["method"]), (&"hardware-sent".into(), &"min-rtt".into()), "{way}");
    let (offset, error) = (way["offset_ns"].as_i64().unwrap(), way["error_ns"].as_i64().unwrap());
    assert!(offset.abs() <= error, "{way}");
    let clocks: Vec<&str> =
        way["clocks"].as_array().unwrap().iter().map(|clock| clock["relation"].as_str().unwrap()).collect();
    assert_eq!(clocks, ["PTP_SYS_OFFSET_EXTENDED of /dev/ptp0", "PTP_SYS_OFFSET_EXTENDED of /dev/ptp1"]);
    for (name, stamps) in [("send", "hardware"), ("wire", "hardware-sent")] {
        let segment = result["segments"].as_array().unwrap().iter().find(|segment| segment["name"] == name).unwrap();
        assert_eq!((&segment["stamps"], &segment["latency"]["count"]), (&stamps.into(), &400.into()), "{segment}");
    }
}
