//! What control messages of the kernel's time stamps hold (kernel: Documentation/networking/timestamping.rst).

use libc::c_int;

/// Times of one message, as the kernel gives them; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pair {
    /// By the stack or the driver, CLOCK_REALTIME.
    pub(crate) software_ns: u64,
    /// By the NIC, in its own clock.
    pub(crate) hardware_ns: u64,
}

impl Pair {
    /// Takes the times of a control message, if any: three `timespec`, the second unused (struct scm_timestamping).
    #[inline]
    pub(crate) fn read(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        if level != libc::SOL_SOCKET || kind != libc::SO_TIMESTAMPING {
            return;
        }
        self.software_ns = timespec(data, 0);
        self.hardware_ns = timespec(data, 2);
    }
}

/// One of the timespecs of a control message in ns; 0 where there is none.
pub(crate) fn timespec(data: &[u8], at: usize) -> u64 {
    const WORD: usize = size_of::<libc::c_long>();
    let word = |at: usize| {
        let bytes = data.get(at * WORD..).and_then(|rest| rest.first_chunk::<WORD>());
        bytes.and_then(|bytes| u64::try_from(libc::c_long::from_ne_bytes(*bytes)).ok()).unwrap_or(0)
    };
    word(2 * at).saturating_mul(1_000_000_000).saturating_add(word(2 * at + 1))
}

/// Takes the number of a sent message out of a control message of the error queue (struct sock_extended_err).
pub(crate) fn read_id(level: c_int, kind: c_int, data: &[u8], id: &mut Option<u32>) {
    const ORIGIN: usize = 4;
    const DATA: usize = 12;
    let of_queue = (level == libc::IPPROTO_IP && kind == libc::IP_RECVERR)
        || (level == libc::IPPROTO_IPV6 && kind == libc::IPV6_RECVERR);
    if of_queue && data.get(ORIGIN) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING) {
        *id = data.get(DATA..).and_then(|rest| rest.first_chunk::<4>()).map(|bytes| u32::from_ne_bytes(*bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_read_where_they_are() {
        let mut data = Vec::new();
        for word in [5_i64, 7, 0, 0, 6, 9] {
            data.extend_from_slice(&word.to_ne_bytes());
        }
        let mut pair = Pair::default();
        pair.read(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data);
        assert_eq!(pair, Pair { software_ns: 5_000_000_007, hardware_ns: 6_000_000_009 });
        let mut pair = Pair::default();
        pair.read(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data[..20]);
        assert_eq!(pair, Pair { software_ns: 5_000_000_007, hardware_ns: 0 }, "what was cut off is not there");
        pair = Pair::default();
        pair.read(libc::SOL_SOCKET, libc::SCM_RIGHTS, &data);
        assert_eq!(pair, Pair::default());

        let mut error = [0_u8; 16];
        error[4] = libc::SO_EE_ORIGIN_TIMESTAMPING;
        error[12..].copy_from_slice(&77_u32.to_ne_bytes());
        let mut id = None;
        read_id(libc::IPPROTO_IP, libc::IP_RECVERR, &error[..13], &mut id);
        assert_eq!(id, None);
        read_id(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &error, &mut id);
        assert_eq!(id, Some(77));
        error[4] = libc::SO_EE_ORIGIN_ICMP;
        let mut other = None;
        read_id(libc::IPPROTO_IP, libc::IP_RECVERR, &error, &mut other);
        assert_eq!(other, None, "an ICMP error is no stamp");
    }
}
