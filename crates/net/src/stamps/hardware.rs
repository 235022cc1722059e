//! What a NIC can stamp.

use crate::NetError;
use crate::sys;
use std::io;

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
    /// HWTSTAMP_FILTER_* that the device has, a bit each; 0 where it does not tell.
    pub filters: u32,
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

/// Asks a device (ETHTOOL_GET_TS_INFO, SIOCGHWTSTAMP). Errors: there is no such device, or it does not tell.
pub fn nic_stamps(device: &str) -> io::Result<NicStamps> {
    let mut info = TsInfo { command: ETHTOOL_GET_TS_INFO, phc_index: -1, ..TsInfo::default() };
    // SAFETY: the command is that of `TsInfo`, which is made of integers.
    unsafe { sys::interface_ioctl(libc::SIOCETHTOOL, device, &mut info)? };
    let config = config(device);
    Ok(NicStamps {
        can: info.so_timestamping,
        clock: u32::try_from(info.phc_index).ok(),
        sends: config.as_ref().map(|config| config.tx_type),
        receives: config.map(|config| config.rx_filter),
        filters: info.rx_filters,
    })
}

fn config(device: &str) -> Option<Config> {
    let mut config = Config::default();
    // SAFETY: `Config` is struct hwtstamp_config, which is made of integers.
    unsafe { sys::interface_ioctl(SIOCGHWTSTAMP, device, &mut config).ok()? };
    Some(config)
}

/// Whether the driver stamps received messages now. Some say so that do not tell what they can.
pub(crate) fn stamps_received(device: &str) -> bool {
    config(device).is_some_and(|config| config.rx_filter != 0)
}

impl NicStamps {
    /// The clock of the stamps, if the device stamps all sent messages, with `received` all received ones too.
    pub(super) fn usable(self, device: &str, received: bool) -> Result<u32, NetError> {
        let of_received = if received { libc::SOF_TIMESTAMPING_RX_HARDWARE } else { 0 };
        let needed = libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE | of_received;
        let refused = |what: String| Err(NetError::Stamps { what });
        let Some(clock) = self.clock.filter(|_| self.can & needed == needed) else {
            return refused(format!("{device} has no hardware stamps, only {}: use --stamps kernel", self.words()));
        };
        if self.sends == Some(HWTSTAMP_TX_ON) && (!received || self.receives == Some(HWTSTAMP_FILTER_ALL)) {
            return Ok(clock);
        }
        let has = format!("{device} has hardware stamps (/dev/ptp{clock})");
        if received && self.filters != 0 && self.filters & (1 << HWTSTAMP_FILTER_ALL) == 0 {
            return refused(format!(
                "{has} of all that it sends, but of what it receives only of PTP packets (rx_filters {:#x}): use --stamps hardware-sent",
                self.filters
            ));
        }
        let state = |value: Option<i32>| value.map_or_else(|| "not told".to_owned(), |value| value.to_string());
        let (sends, receives) = (state(self.sends), state(self.receives));
        let (which, filter) = if received { ("all messages", " -r 1") } else { ("messages that it sends", "") };
        refused(format!(
            "{has} that are not on for {which} (tx_type {sends}, rx_filter {receives}): switch them on with 'hwstamp_ctl -i {device} -t 1{filter}'"
        ))
    }

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
        let text = lo.usable("lo", true).unwrap_err().to_string();
        assert!(text.contains("lo has no hardware stamps") && text.contains("software receive"), "{text}");
        assert!(!text.contains('\n'));
        assert!(nic_stamps("nosuch0").is_err());
    }

    #[test]
    fn stamps_that_are_off_are_told_with_the_remedy() {
        let all = libc::SOF_TIMESTAMPING_TX_HARDWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let nic = NicStamps { can: all, clock: Some(3), sends: Some(1), receives: Some(1), filters: 0b11 };
        assert_eq!(nic.usable("eth0", true).unwrap(), 3);
        for off in [NicStamps { sends: Some(0), ..nic }, NicStamps { receives: None, ..nic }] {
            let text = off.usable("eth0", true).unwrap_err().to_string();
            assert!(text.contains("hwstamp_ctl -i eth0") && text.contains("/dev/ptp3"), "{text}");
        }
        assert!(NicStamps { clock: None, ..nic }.usable("eth0", true).is_err());
        // An Intel 82576: hwstamp_ctl would be refused, too.
        let only_ptp = NicStamps { receives: Some(12), filters: 0x1031, ..nic };
        let text = only_ptp.usable("eth0", true).unwrap_err().to_string();
        assert!(text.contains("only of PTP packets (rx_filters 0x1031): use --stamps hardware-sent"), "{text}");
        assert_eq!(only_ptp.usable("eth0", false).unwrap(), 3);
        let off = NicStamps { sends: Some(0), ..only_ptp };
        let text = off.usable("eth0", false).unwrap_err().to_string();
        assert!(text.ends_with("switch them on with 'hwstamp_ctl -i eth0 -t 1'"), "{text}");
    }
}
