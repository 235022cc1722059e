//! A wire between two guests: each has one end of a pair of datagram sockets as its network device.

use crate::GuestSpec;
use crate::emulator::option_value;
use crate::inside::PORTS;
use std::path::Path;

const DRIVER: &str = "virtio_net";
/// What Linux calls the first network device without a rule that renames it.
const DEVICE: &str = "eth0";

/// A guest with one host, on an end of the wire: number 0 or 1. `folder` holds the ends.
pub fn joined(spec: &GuestSpec, number: u8, folder: &Path) -> GuestSpec {
    let end = |number: u8| option_value(&folder.join(format!("wire-{number}")));
    let (near, far) = (end(number), end(1 - number.min(1)));
    let mut joined = GuestSpec { hosts: 1, first: number.into(), ..spec.clone() };
    joined.words.push(format!("{PORTS}={DEVICE}"));
    joined.modules.push(DRIVER.to_owned());
    // No boot from the network, which would cost seconds. Addresses of 52:54:00 are QEMU's.
    joined.devices.extend([
        "-netdev".to_owned(),
        format!("dgram,id=wire,local.type=unix,local.path={near},remote.type=unix,remote.path={far}"),
        "-device".to_owned(),
        format!("virtio-net-pci,netdev=wire,romfile=,mac=52:54:00:77:68:{number:02x}"),
    ]);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_sends_to_the_other() {
        let ends: Vec<GuestSpec> =
            (0..2).map(|number| joined(&GuestSpec::new("debian-6.1"), number, Path::new("/f"))).collect();
        let path = |spec: &GuestSpec, which: &str| {
            let netdev = spec.devices.iter().find(|word| word.starts_with("dgram,")).unwrap();
            netdev.split(',').find_map(|word| word.strip_prefix(which)).unwrap().to_owned()
        };
        assert_eq!(path(&ends[0], "local.path="), path(&ends[1], "remote.path="));
        assert_eq!(path(&ends[1], "local.path="), path(&ends[0], "remote.path="));
        assert_ne!(path(&ends[0], "local.path="), path(&ends[1], "local.path="));
        assert_ne!(ends[0].devices.last(), ends[1].devices.last(), "one hardware address");
        assert_eq!((ends[1].first, ends[1].words.as_slice()), (1, &["windhover.ports=eth0".to_owned()][..]));
    }
}
