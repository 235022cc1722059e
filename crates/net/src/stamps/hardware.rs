//! What a NIC can stamp, and its clock against the wall clock.

use crate::NetError;
use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// linux/sockios.h: reads how a device stamps (struct hwtstamp_config).
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
/// linux/ethtool.h: reads what a device can stamp (struct ethtool_ts_info).
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// linux/net_tstamp.h.
const HWTSTAMP_TX_ON: i32 = 1;
const HWTSTAMP_FILTER_ALL: i32 = 1;

/// What a NIC can stamp, and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicStamps {
    /// SOF_TIMESTAMPING_* bits (linux/net_tstamp.h).
    pub can: u32,
    /// Its PTP hardware clock, /dev/ptpN.
    pub clock: Option<u32>,
    /// HWTSTAMP_TX_* in effect; absent where the device does not tell.
    pub sends: Option<i32>,
    /// HWTSTAMP_FILTER_* in effect; absent where the device does not tell.
    pub receives: Option<i32>,
}

#[repr(C)]
#[derive(Default)]
struct TsInfo {
    command: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

#[repr(C)]
#[derive(Default)]
struct Config {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

/// Asks a device (ETHTOOL_GET_TS_INFO, SIOCGHWTSTAMP).
///
/// # Errors
/// There is no such device, or it does not tell.
pub fn nic_stamps(device: &str) -> io::Result<NicStamps> {
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
        .or_else(|_| sys::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0))?;
    let mut info = TsInfo { command: ETHTOOL_GET_TS_INFO, phc_index: -1, ..TsInfo::default() };
    sys::interface_ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, device, &mut info)?;
    let mut config = Config::default();
    let told = sys::interface_ioctl(socket.as_raw_fd(), SIOCGHWTSTAMP, device, &mut config).is_ok();
    Ok(NicStamps {
        can: info.so_timestamping,
        clock: u32::try_from(info.phc_index).ok(),
        sends: told.then_some(config.tx_type),
        receives: told.then_some(config.rx_filter),
    })
}

impl NicStamps {
    /// The clock whose time is in the stamps, when the device stamps all messages both ways.
    pub(super) fn usable(self, device: &str) -> Result<u32, NetError> {
        let needed = libc::SOF_TIMESTAMPING_TX_HARDWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let Some(clock) = self.clock.filter(|_| self.can & needed == needed) else {
            let what = format!("{device} has no hardware stamps, only {}: use --stamps kernel", self.words());
            return Err(NetError::Stamps { what });
        };
        if self.sends == Some(HWTSTAMP_TX_ON) && self.receives == Some(HWTSTAMP_FILTER_ALL) {
            return Ok(clock);
        }
        let state = |value: Option<i32>| value.map_or_else(|| "not told".to_owned(), |value| value.to_string());
        Err(NetError::Stamps {
            what: format!(
                "{device} has hardware stamps (/dev/ptp{clock}) that are not on for all messages (tx_type {}, rx_filter {}): switch them on with 'hwstamp_ctl -i {device} -t 1 -r 1'",
                state(self.sends),
                state(self.receives)
            ),
        })
    }

    /// What it can stamp, for people.
    fn words(self) -> String {
        let kinds = [
            (libc::SOF_TIMESTAMPING_TX_HARDWARE, "hardware send"),
            (libc::SOF_TIMESTAMPING_RX_HARDWARE, "hardware receive"),
            (libc::SOF_TIMESTAMPING_TX_SOFTWARE, "software send"),
            (libc::SOF_TIMESTAMPING_RX_SOFTWARE, "software receive"),
        ];
        let has: Vec<&str> = kinds.iter().filter(|(bit, _)| self.can & bit != 0).map(|(_, word)| *word).collect();
        if has.is_empty() { "none at all".to_owned() } else { has.join(", ") }
    }
}

/// How often the two clocks are compared.
const AGAIN_NS: u64 = 100_000_000;
/// Comparisons at once, of which the closest counts.
const TRIES: usize = 5;

/// A NIC's clock against CLOCK_REALTIME. Stamps are moved by the offset of the last comparison, which is never older than
/// 100 ms: two clocks that differ by 50 parts per million are then 5 µs apart.
#[derive(Debug)]
pub(crate) struct HardwareClock {
    device: File,
    /// The clock's time at the last comparison, and the wall clock less it.
    compared_ns: u64,
    offset_ns: i64,
}

impl HardwareClock {
    pub(super) fn open(index: u32) -> Result<Self, NetError> {
        let path = format!("/dev/ptp{index}");
        let failed =
            |cause: io::Error| NetError::Stamps { what: format!("the NIC's clock {path} cannot be read: {cause}") };
        let device = File::open(&path).map_err(failed)?;
        let mut clock = Self { device, compared_ns: 0, offset_ns: 0 };
        clock.compare().map_err(failed)?;
        Ok(clock)
    }

    fn compare(&mut self) -> io::Result<()> {
        let mut closest = u64::MAX;
        for _ in 0..TRIES {
            let before = clock::realtime_ns();
            let now = sys::clock_of(self.device.as_raw_fd())?;
            let width = clock::realtime_ns().saturating_sub(before);
            if width < closest {
                closest = width;
                self.compared_ns = now;
                self.offset_ns = difference(before + width / 2, now);
            }
        }
        Ok(())
    }

    /// A stamp as wall-clock time.
    #[inline]
    pub(crate) fn realtime(&mut self, stamp_ns: u64) -> u64 {
        if stamp_ns.abs_diff(self.compared_ns) > AGAIN_NS {
            // A clock that could be read a moment ago and cannot now keeps its offset.
            let _ = self.compare();
        }
        moved(stamp_ns, self.offset_ns)
    }
}

fn difference(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(0)
}

fn moved(ns: u64, by: i64) -> u64 {
    u64::try_from(i128::from(ns) + i128::from(by)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_hardware_stamps_is_refused_with_what_it_has() {
        let Ok(lo) = nic_stamps("lo") else {
            eprintln!("SKIPPED a_device_without_hardware_stamps_is_refused_with_what_it_has: lo does not tell");
            return;
        };
        assert!(lo.can & libc::SOF_TIMESTAMPING_RX_SOFTWARE != 0, "{lo:?}");
        let text = lo.usable("lo").unwrap_err().to_string();
        assert!(text.contains("lo has no hardware stamps") && text.contains("software receive"), "{text}");
        assert!(!text.contains('\n'));
        assert!(nic_stamps("nosuch0").is_err());
    }

    #[test]
    fn stamps_that_are_off_are_told_with_the_remedy() {
        let all = libc::SOF_TIMESTAMPING_TX_HARDWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let nic = NicStamps { can: all, clock: Some(3), sends: Some(1), receives: Some(1) };
        assert_eq!(nic.usable("eth0").unwrap(), 3);
        for off in [NicStamps { sends: Some(0), ..nic }, NicStamps { receives: None, ..nic }] {
            let text = off.usable("eth0").unwrap_err().to_string();
            assert!(text.contains("hwstamp_ctl -i eth0") && text.contains("/dev/ptp3"), "{text}");
        }
        assert!(NicStamps { clock: None, ..nic }.usable("eth0").is_err());
    }

    #[test]
    fn a_stamp_is_moved_by_the_offset() {
        assert_eq!(moved(100, difference(1_000_000, 400)), 999_700);
        assert_eq!(moved(100, difference(400, 1_000_000)), 0, "before 1970");
        assert_eq!(difference(0, u64::MAX), 0, "no clock is 300 years off");
    }
}
