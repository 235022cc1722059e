//! What a message takes on an Ethernet line.

use model::Protocol;

/// Preamble and start of frame, header, checksum, gap between frames (IEEE 802.3).
const ETHERNET: u64 = 8 + 14 + 4 + 12;
/// The shortest payload of a frame; shorter ones are filled up.
const LEAST: u64 = 46;

/// Bytes that a message of `size` occupies the line for, all of its packets together.
pub(crate) fn bytes_on_the_wire(size: u32, mtu: u32, protocol: Protocol, v6: bool) -> u64 {
    let size = u64::from(size);
    let ip = if v6 { 40 } else { 20 };
    let most = u64::from(mtu).max(ip + 64);
    if let Some(segment) = protocol.segment_header_bytes() {
        let header = ip + u64::from(segment);
        return split(size, most - header, header);
    }
    let udp = size + 8;
    if ip + udp <= most {
        return split(udp, most - ip, ip);
    }
    // Fragments carry multiples of 8 bytes, and over IPv6 a header of their own (RFC 791, RFC 8200).
    let header = if v6 { ip + 8 } else { ip };
    split(udp, (most - header) / 8 * 8, header)
}

/// `bytes` in packets of at most `each`, with a header each.
fn split(bytes: u64, each: u64, header: u64) -> u64 {
    let whole = bytes / each;
    let rest = bytes % each;
    let frame = |payload: u64| ETHERNET + (header + payload).max(LEAST);
    whole * frame(each) + if rest > 0 || whole == 0 { frame(rest) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_frames_are_1538_bytes_and_a_gigabit_carries_81274() {
        assert_eq!(bytes_on_the_wire(1472, 1500, Protocol::Udp, false), 1538);
        assert_eq!((1e9_f64 / 8.0 / 1538.0).floor(), 81_274.0);
        assert_eq!(bytes_on_the_wire(1448, 1500, Protocol::Tcp, false), 1538);
    }

    #[test]
    fn small_ones_are_filled_up_and_large_ones_cut() {
        assert_eq!(bytes_on_the_wire(8, 1500, Protocol::Udp, false), 84, "the shortest frame");
        assert_eq!(bytes_on_the_wire(18, 1500, Protocol::Udp, false), 84);
        assert_eq!(bytes_on_the_wire(19, 1500, Protocol::Udp, false), 85);
        // 1473 bytes: 1480 in the first fragment, 1 in the second.
        assert_eq!(bytes_on_the_wire(1473, 1500, Protocol::Udp, false), 1538 + 84);
        assert_eq!(bytes_on_the_wire(1452, 1500, Protocol::Udp, true), 1538);
        assert_eq!(bytes_on_the_wire(8952, 9000, Protocol::Udp, true), 9038);
        assert_eq!(bytes_on_the_wire(2896, 1500, Protocol::Tcp, false), 2 * 1538);
    }
}
