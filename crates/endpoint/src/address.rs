//! Which addresses an endpoint may bind without a key.

use std::net::IpAddr;

/// Whether only this machine reaches an address: loopback, or one of `lab`. A range is no evidence: real test networks use
/// 198.18.0.0/15, too (RFC 2544).
pub(crate) fn is_closed(address: IpAddr, lab: &[IpAddr]) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || lab.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_known_labs_are_closed() {
        let lab: [IpAddr; 2] = ["198.18.0.2".parse().unwrap(), "fd00:198:18::2".parse().unwrap()];
        for text in
            ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "198.18.0.2", "::ffff:198.18.0.2", "fd00:198:18::2"]
        {
            assert!(is_closed(text.parse().unwrap(), &lab), "{text}");
        }
        for text in ["0.0.0.0", "::", "10.0.0.1", "198.18.0.1", "198.19.255.255", "fd00:198:18::1", "fe80::1"] {
            assert!(!is_closed(text.parse().unwrap(), &lab), "{text}");
        }
        assert!(!is_closed("198.18.0.2".parse().unwrap(), &[]));
    }
}
