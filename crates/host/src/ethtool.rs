//! ethtool over ioctl(2) SIOCETHTOOL (linux/ethtool.h): what a driver reports of its device, in the calling thread's
//! network namespace. Here are the calls themselves and the facts; what is changed is in [`crate::knob`]. For facts, a
//! command that a driver does not know gives `None`.
//!
//! All structures used are made of 32-bit words and byte strings whose lengths are multiples of four, so they are
//! read as words.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const GSET: u32 = 0x1;
const GDRVINFO: u32 = 0x3;
const GLINK: u32 = 0xa;
const GSTRINGS: u32 = 0x1b;
const GSSET_INFO: u32 = 0x37;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
/// String set of feature names.
const SET_FEATURES: u32 = 4;
/// Bytes of one string of a set.
const STRING_BYTES: usize = 32;
/// More features than any kernel has; the kernel writes all its strings, whatever the count asked for.
const MOST_FEATURES: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Driver {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) firmware: Option<String>,
    pub(crate) bus: Option<String>,
}

pub(crate) struct Ethtool(OwnedFd);

impl Ethtool {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self(socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?))
    }

    /// `words[0]` is the command; the answer comes into `words`.
    fn ask(&self, device: &str, words: &mut [u32]) -> Option<()> {
        self.try_ask(device, words).ok().map(drop)
    }

    /// As [`Self::ask`], with the kernel's reason. `words` must hold as many as the kernel writes for the command.
    pub(crate) fn try_ask(&self, device: &str, words: &mut [u32]) -> io::Result<libc::c_int> {
        self.call(device, words.as_mut_ptr().cast())
    }

    /// For structures with 64-bit numbers, of a multiple of eight bytes.
    pub(crate) fn try_ask_aligned(&self, device: &str, bytes: &mut [u8]) -> io::Result<()> {
        let mut words: Vec<u64> = bytes.as_chunks().0.iter().map(|chunk| u64::from_ne_bytes(*chunk)).collect();
        self.call(device, words.as_mut_ptr().cast())?;
        bytes.copy_from_slice(words.iter().copied().map(u64::to_ne_bytes).collect::<Vec<_>>().as_flattened());
        Ok(())
    }

    fn call(&self, device: &str, data: *mut libc::c_char) -> io::Result<libc::c_int> {
        let mut request = request_for(device).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        request.ifr_ifru.ifru_data = data;
        // SAFETY: `request` has a name and the callers' words: as many as the kernel writes, alive over the call.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut request) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    }

    /// MTU in bytes (netdevice(7), SIOCGIFMTU).
    pub(crate) fn mtu(&self, device: &str) -> Option<u32> {
        let mut request = request_for(device)?;
        // SAFETY: `request` is alive over the call and SIOCGIFMTU writes into it alone.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFMTU as libc::Ioctl, &raw mut request) };
        if answer != 0 {
            return None;
        }
        // SAFETY: after success the kernel has written this member of the union; any bits are a valid integer.
        u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
    }

    pub(crate) fn driver(&self, device: &str) -> Option<Driver> {
        let mut words = [0_u32; 49];
        words[0] = GDRVINFO;
        self.ask(device, &mut words)?;
        Some(driver_from(&words))
    }

    pub(crate) fn link(&self, device: &str) -> Option<bool> {
        let mut words = [GLINK, 0];
        self.ask(device, &mut words)?;
        Some(words[1] != 0)
    }

    pub(crate) fn speed(&self, device: &str) -> Option<u32> {
        let mut words = [0_u32; 11];
        words[0] = GSET;
        self.ask(device, &mut words)?;
        speed_from(&words)
    }

    /// Features by the kernel's names (`tx-generic-segmentation`, `rx-gro`), those that can never be on left out.
    pub(crate) fn features(&self, device: &str) -> Option<BTreeMap<String, bool>> {
        let (count, strings) = self.feature_names(device).ok()??;
        let blocks = count.div_ceil(32);
        let mut features = vec![0_u32; 2 + 4 * blocks];
        features[0] = GFEATURES;
        features[1] = u32::try_from(blocks).ok()?;
        self.ask(device, &mut features)?;
        Some(features_from(&strings, &features, count))
    }

    /// The names of all features that the kernel knows, also those that this device can never have.
    pub(crate) fn all_features(&self, device: &str) -> Option<Vec<String>> {
        let (count, strings) = self.feature_names(device).ok()??;
        Some((0..count).filter_map(|number| feature_name(&strings, number)).collect())
    }

    /// Whether one feature is on; `None` where the device can never have it on.
    pub(crate) fn feature(&self, device: &str, name: &str) -> io::Result<Option<bool>> {
        // A device that is not there is another error than one without the feature.
        self.feature_names(device)?;
        Ok(self.features(device).and_then(|features| features.get(name).copied()))
    }

    pub(crate) fn set_feature(&self, device: &str, name: &str, on: bool) -> io::Result<()> {
        let refused = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let (count, strings) = self.feature_names(device)?.ok_or_else(refused)?;
        let number = (0..count).find(|&number| feature_name(&strings, number).as_deref() == Some(name));
        let number = number.ok_or_else(refused)?;
        let blocks = count.div_ceil(32);
        // Pairs of valid and requested, 32 features a pair.
        let mut words = vec![0_u32; 2 + 2 * blocks];
        words[0] = SFEATURES;
        words[1] = u32::try_from(blocks).map_err(|_| refused())?;
        let (at, bit) = (2 + 2 * (number / 32), 1_u32 << (number % 32));
        words[at] = bit;
        words[at + 1] = if on { bit } else { 0 };
        // Bit 0 of the answer: the device cannot change it (ETHTOOL_F_UNSUPPORTED).
        if self.try_ask(device, &mut words)? & 1 != 0 { Err(refused()) } else { Ok(()) }
    }

    /// How many features there are, and `struct ethtool_gstrings` with their names.
    fn feature_names(&self, device: &str) -> io::Result<Option<(usize, Vec<u32>)>> {
        // cmd, reserved, 64-bit mask of sets, one count a set.
        let mut info = [GSSET_INFO, 0, 0, 0, 0];
        let mask = (1_u64 << SET_FEATURES).to_ne_bytes();
        info[2] = u32::from_ne_bytes([mask[0], mask[1], mask[2], mask[3]]);
        info[3] = u32::from_ne_bytes([mask[4], mask[5], mask[6], mask[7]]);
        self.try_ask(device, &mut info)?;
        let count = info[4] as usize;
        if count == 0 || count > MOST_FEATURES {
            return Ok(None);
        }
        let mut strings = vec![0_u32; 3 + MOST_FEATURES * STRING_BYTES / 4];
        strings[0] = GSTRINGS;
        strings[1] = SET_FEATURES;
        strings[2] = info[4];
        self.try_ask(device, &mut strings)?;
        Ok(Some((count, strings)))
    }
}

fn request_for(device: &str) -> Option<libc::ifreq> {
    // SAFETY: ifreq is plain data; all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Some(request)
}

/// struct ethtool_drvinfo: the command, then strings of 32 bytes: driver, version, firmware, bus.
fn driver_from(words: &[u32]) -> Driver {
    let text = |number: usize| {
        let text = string(words.get(1 + number * 8..9 + number * 8)?);
        (!text.is_empty() && text != "N/A" && text != "n/a").then_some(text)
    };
    Driver { name: text(0), version: text(1), firmware: text(2), bus: text(3) }
}

/// struct ethtool_cmd: the lower half of the speed at byte 12, the upper at byte 28; all ones is "unknown".
fn speed_from(words: &[u32]) -> Option<u32> {
    let half = |at: usize| {
        let bytes = words.get(at)?.to_ne_bytes();
        Some(u32::from(u16::from_ne_bytes([bytes[0], bytes[1]])))
    };
    let speed = half(3)? | half(7)? << 16;
    // Drivers that do not know say 0, 0xffff or 0xffffffff.
    (speed != 0 && speed != 0xffff && speed != u32::MAX).then_some(speed)
}

/// Names of ethtool_gstrings, bits of ethtool_gfeatures: blocks of available, requested, active and never changed.
fn features_from(strings: &[u32], features: &[u32], count: usize) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    for number in 0..count {
        let (block, bit) = (number / 32, 1_u32 << (number % 32));
        let (Some(name), Some(bits)) = (feature_name(strings, number), features.get(2 + 4 * block..6 + 4 * block))
        else {
            break;
        };
        let (available, active, fixed) = (bits[0] & bit != 0, bits[2] & bit != 0, bits[3] & bit != 0);
        // "off and cannot be changed" is no setting of this device.
        if !name.is_empty() && (active || (available && !fixed)) {
            found.insert(name, active);
        }
    }
    found
}

fn feature_name(strings: &[u32], number: usize) -> Option<String> {
    let start = 3 + number * STRING_BYTES / 4;
    strings.get(start..start + STRING_BYTES / 4).map(string)
}

/// A string in words, up to its first zero byte.
fn string(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, length: usize) -> Vec<u32> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(length, 0);
        bytes.chunks(4).map(|chunk| u32::from_ne_bytes(chunk.try_into().unwrap())).collect()
    }

    #[test]
    fn a_driver_that_does_not_know_its_firmware_gives_none() {
        let mut answer = vec![GDRVINFO];
        for text in ["ixgbe", "6.1.0", "N/A", "0000:01:00.0"] {
            answer.extend(words(text, 32));
        }
        answer.resize(49, 0);
        let driver = driver_from(&answer);
        assert_eq!(driver.name.as_deref(), Some("ixgbe"));
        assert_eq!(driver.firmware, None);
        assert_eq!(driver.bus.as_deref(), Some("0000:01:00.0"));
    }

    #[test]
    fn speeds_above_65_gbit_use_both_halves() {
        let mut answer = [0_u32; 11];
        let low = |value: u16| {
            let bytes = value.to_ne_bytes();
            u32::from_ne_bytes([bytes[0], bytes[1], 0, 0])
        };
        (answer[3], answer[7]) = (low(0x86a0), low(1));
        assert_eq!(speed_from(&answer), Some(100_000));
        (answer[3], answer[7]) = (low(0xffff), low(0xffff));
        assert_eq!(speed_from(&answer), None);
    }

    #[test]
    fn features_that_can_never_be_on_are_left_out() {
        let mut strings = vec![GSTRINGS, SET_FEATURES, 3];
        for name in ["rx-gro", "tx-nocache-copy", "rx-vlan-filter"] {
            strings.extend(words(name, 32));
        }
        // rx-gro on, tx-nocache-copy off and changeable, rx-vlan-filter off for ever.
        let features = [GFEATURES, 1, 0b011, 0b001, 0b001, 0b100];
        let found = features_from(&strings, &features, 3);
        assert_eq!(found, BTreeMap::from([("rx-gro".to_owned(), true), ("tx-nocache-copy".to_owned(), false)]));
        assert_eq!(features_from(&strings[..20], &features, 40).len(), 2);
    }

    #[test]
    fn the_loopback_device_answers() {
        let ethtool = Ethtool::open().unwrap();
        assert_eq!(ethtool.link("lo"), Some(true));
        assert!(ethtool.mtu("lo").is_some_and(|mtu| mtu >= 1280));
        assert!(ethtool.features("lo").is_some_and(|features| features.contains_key("tx-generic-segmentation")));
        assert_eq!(ethtool.link("no-such-device"), None);
        assert_eq!(ethtool.mtu("a-name-that-is-too-long"), None);
    }
}
