//! Echo messages as bytes (RFC 792, RFC 4443 section 4). Pure; takes any bytes and never panics.

/// Bytes before the payload: type, code, checksum, identifier, sequence number.
pub const ECHO_HEADER: usize = 8;

pub(super) const REPLY_V4: u8 = 0;
pub(super) const REPLY_V6: u8 = 129;
const REQUEST_V4: u8 = 8;
const REQUEST_V6: u8 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoReply {
    /// An ICMPv6 reply (type 129), else an ICMP one (type 0).
    pub v6: bool,
    pub identifier: u16,
    pub sequence: u16,
    pub payload_bytes: usize,
    /// TTL or hop limit that the packet arrived with; the parser does not know it.
    pub ttl: Option<u8>,
}

/// Reads an echo reply; `None`: another, cut short, or (ICMP) a wrong checksum. The kernel checks ICMPv6's.
pub fn parse_echo_reply(message: &[u8]) -> Option<EchoReply> {
    let &[kind, code, _, _, id_high, id_low, sequence_high, sequence_low, ref payload @ ..] = message else {
        return None;
    };
    let v6 = match kind {
        REPLY_V4 => false,
        REPLY_V6 => true,
        _ => return None,
    };
    // The sum over a message that holds its own checksum is 0.
    if code != 0 || (!v6 && checksum(message) != 0) {
        return None;
    }
    Some(EchoReply {
        v6,
        identifier: u16::from_be_bytes([id_high, id_low]),
        sequence: u16::from_be_bytes([sequence_high, sequence_low]),
        payload_bytes: payload.len(),
        ttl: None,
    })
}

/// The TTL of an IPv4 packet and what follows its header (RFC 791 section 3.1); `None` when it is no IPv4 packet.
pub fn strip_ipv4_header(packet: &[u8]) -> Option<(u8, &[u8])> {
    let first = *packet.first()?;
    let length = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || length < 20 {
        return None;
    }
    Some((*packet.get(8)?, packet.get(length..)?))
}

/// Writes an echo request. `request` must be [`ECHO_HEADER`] bytes longer than `payload`; else it is left alone.
pub fn write_echo_request(request: &mut [u8], v6: bool, identifier: u16, sequence: u16, payload: &[u8]) {
    if request.len() != ECHO_HEADER + payload.len() {
        return;
    }
    let (header, body) = request.split_at_mut(ECHO_HEADER);
    header[0] = if v6 { REQUEST_V6 } else { REQUEST_V4 };
    header[1..4].fill(0);
    header[4..6].copy_from_slice(&identifier.to_be_bytes());
    header[6..8].copy_from_slice(&sequence.to_be_bytes());
    body.copy_from_slice(payload);
    if !v6 {
        let sum = checksum(request);
        request[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The Internet checksum (RFC 1071): the complement of the ones' complement sum of big-endian 16-bit words.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    let mut words = bytes.chunks_exact(2);
    for word in words.by_ref() {
        sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        sum += u64::from(u16::from_be_bytes([*last, 0]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(v6: bool, payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0; ECHO_HEADER + payload.len()];
        write_echo_request(&mut message, v6, 0x1234, 0xfffe, payload);
        message[0] = if v6 { REPLY_V6 } else { REPLY_V4 };
        message[2..4].fill(0);
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        message
    }

    #[test]
    fn checksum_of_the_rfc() {
        // RFC 1071 section 3: these bytes sum to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), 0x00ff);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn replies_are_read() {
        for v6 in [false, true] {
            for payload in [&b""[..], b"x", b"some payload"] {
                let found = parse_echo_reply(&reply(v6, payload)).unwrap();
                let payload_bytes = payload.len();
                let wanted = EchoReply { v6, identifier: 0x1234, sequence: 0xfffe, payload_bytes, ttl: None };
                assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn a_request_carries_a_right_checksum() {
        let mut request = [0xaa; ECHO_HEADER + 3];
        write_echo_request(&mut request, false, 7, 9, b"abc");
        assert_eq!(checksum(&request), 0);
        assert_eq!(request[0], REQUEST_V4);
    }

    #[test]
    fn rubbish_is_refused() {
        let good = reply(false, b"payload");
        for cut in 0..good.len() {
            assert_eq!(parse_echo_reply(&good[..cut]), None, "{cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse_echo_reply(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn ipv4_headers() {
        let mut packet = vec![0x45; 1];
        packet.resize(20, 0);
        packet[8] = 63;
        packet.extend_from_slice(b"rest");
        assert_eq!(strip_ipv4_header(&packet), Some((63, &b"rest"[..])));
        // A header of 24 bytes whose options are there.
        packet[0] = 0x46;
        assert_eq!(strip_ipv4_header(&packet), Some((63, &b""[..])));
        packet[0] = 0x4f;
        assert_eq!(strip_ipv4_header(&packet), None);
        packet[0] = 0x44;
        assert_eq!(strip_ipv4_header(&packet), None);
        packet[0] = 0x65;
        assert_eq!(strip_ipv4_header(&packet), None);
        assert_eq!(strip_ipv4_header(&[]), None);
    }
}
