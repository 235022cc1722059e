//! Lists of CPUs in the kernel's list format (`0,2-5,8-14:2`).

use crate::ModelError;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The highest CPU number accepted; the kernel's own limit (NR_CPUS) is at most 8192.
pub const MAX_CPU: u32 = 8191;

/// A set of CPU numbers, written as the kernel writes it (Documentation/admin-guide/kernel-parameters, "cpu lists").
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuList(BTreeSet<u32>);

impl CpuList {
    /// Whether the list names no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many CPUs are named.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a CPU is in the list.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs of a kernel mask: hexadecimal 32-bit words, highest first. `None`: malformed or above [`MAX_CPU`].
    pub fn from_mask(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for (place, word) in text.trim().rsplit(',').enumerate() {
            let bits = u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()?;
            let base = u32::try_from(place).ok()?.checked_mul(32).filter(|base| *base <= MAX_CPU)?;
            cpus.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit));
        }
        cpus.last().is_none_or(|&last| last <= MAX_CPU).then_some(Self(cpus))
    }

    /// The CPUs as a mask that the kernel reads: 32-bit words in hexadecimal, the highest first and without leading zeros.
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / 32 + 1);
        let word =
            |place: u32| self.iter().filter(|cpu| cpu / 32 == place).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
        let highest = format!("{:x}", word(words - 1));
        (0..words - 1).rev().fold(highest, |mask, place| format!("{mask},{:08x}", word(place)))
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs of either list.
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// The CPUs of both lists.
    pub fn common(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// The CPUs of this list that the other does not name.
    pub fn without(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Whether the other list names all CPUs of this one.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether the lists share a CPU.
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&cpu| cpu == last + 1) {
                last = next;
            }
            f.write_str(separator)?;
            if first == last {
                write!(f, "{first}")?;
            } else {
                write!(f, "{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for CpuList {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = |why: &str| ModelError::grammar("CPU list", text, why);
        let number = |digits: &str| {
            let cpu = digits.trim().parse::<u32>().ok().filter(|&cpu| cpu <= MAX_CPU);
            cpu.ok_or_else(|| bad("CPU numbers are 0 to 8191, as in 0,2-5"))
        };
        let mut cpus = BTreeSet::new();
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Ok(Self(cpus));
        }
        for part in trimmed.split(',') {
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, number(step)?),
                None => (part, 1),
            };
            if step == 0 {
                return Err(bad("a step of 0 never ends"));
            }
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if last < first {
                return Err(bad("a range goes upwards"));
            }
            cpus.extend((first..=last).step_by(step as usize));
        }
        Ok(Self(cpus))
    }
}

text! { CpuList { "type": "string", "description": "CPUs as the kernel lists them, such as 0,2-5" } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_ranges_as_the_kernel_does() {
        let list: CpuList = "5,0,2-4,8-14:2".parse().unwrap();
        assert_eq!(list.to_string(), "0,2-5,8,10,12,14");
        assert_eq!(list.len(), 9);
        assert!("".parse::<CpuList>().unwrap().is_empty());
    }

    #[test]
    fn masks_there_and_back() {
        for list in ["", "0", "0-1", "31-33", "5,64", "0-127", "8191"] {
            let cpus: CpuList = list.parse().unwrap();
            assert_eq!(CpuList::from_mask(&cpus.to_mask()), Some(cpus), "{list}");
        }
        for (list, mask) in [("0-1", "3"), ("", "0"), ("0,33", "2,00000001"), ("31", "80000000")] {
            assert_eq!(list.parse::<CpuList>().unwrap().to_mask(), mask);
        }
        assert_eq!(CpuList::from_mask("0x100000003").map(|cpus| cpus.to_string()).as_deref(), Some("0-1,32"));
        assert_eq!(CpuList::from_mask("x"), None);
        assert_eq!(CpuList::from_mask(&"0,".repeat(9000)), None);
        assert_eq!(CpuList::from_mask(&format!("1{}", ",0".repeat(256))), None, "CPU 8192");
    }

    #[test]
    fn refuses_nonsense() {
        for text in ["a", "3-1", "1,,2", "0-9:0", "99999", "-1"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
