//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::{ip, life, registry};
use std::path::Path;

/// A file of the registry: what may be planned from it goes to `ip` line by line.
pub fn registry(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(record) = registry::parse(Path::new("lab.json"), text) else { return };
    for batch in record.batches() {
        assert!(batch.lines.iter().all(|line| !line.contains('\n')), "a line that is two commands");
    }
}

/// What `ip -json` answers about a port and its routes.
pub fn ip_json(bytes: &[u8]) {
    for item in ip::items(bytes) {
        let port = life::port_from("eth0", &item);
        assert!(port.addresses.iter().all(|address| !address.contains('\n')));
        let _ = life::foreign_route(&item);
    }
}
