//! When two contents of a kernel's file mean the same.

use model::CpuList;
use std::collections::BTreeSet;

/// How the content of a file is read and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Words, whatever the white space between them.
    Text,
    /// A CPU list: `0,2-3`.
    CpuList,
    /// A CPU mask: `ffffffff,00000003`.
    CpuMask,
    /// One of several words, which the kernel puts in brackets: `always [madvise] never`, `none (full)`.
    Choice,
    /// On or off, whichever way it is written: `Y`, `1`, `on`, `enabled`.
    Switch,
    /// Names in any order, of which the kernel takes only differences (`+cpuset -io`): `cgroup.subtree_control`.
    Controllers,
}

impl Form {
    pub fn value(self, content: &str) -> String {
        let words = content.split_ascii_whitespace();
        match self {
            Self::Choice => {
                let within = |word: &'_ str, [open, close]: [char; 2]| {
                    Some(word.strip_prefix(open)?.strip_suffix(close)?.to_owned())
                };
                let chosen =
                    words.clone().find_map(|word| within(word, ['[', ']']).or_else(|| within(word, ['(', ')'])));
                chosen.unwrap_or_else(|| words.collect::<Vec<_>>().join(" "))
            }
            _ => words.collect::<Vec<_>>().join(" "),
        }
    }

    pub fn same(self, a: &str, b: &str) -> bool {
        let (a, b) = (self.value(a), self.value(b));
        match self {
            Self::Text | Self::Choice => a == b,
            Self::CpuList => match (a.parse::<CpuList>(), b.parse::<CpuList>()) {
                (Ok(a), Ok(b)) => a == b,
                _ => a == b,
            },
            Self::CpuMask => match (CpuList::from_mask(&a), CpuList::from_mask(&b)) {
                (Some(a), Some(b)) => a == b,
                _ => a == b,
            },
            Self::Switch => switch(&a) == switch(&b) && (switch(&a).is_some() || a == b),
            Self::Controllers => words(&a) == words(&b),
        }
    }

    /// What is written to a file that has the value `now` so that it becomes `wanted`.
    pub fn to_write(self, now: &str, wanted: &str) -> String {
        if self != Self::Controllers {
            return wanted.to_owned();
        }
        let (now, wanted) = (words(now), words(wanted));
        let more = wanted.difference(&now).map(|name| format!("+{name}"));
        let less = now.difference(&wanted).map(|name| format!("-{name}"));
        more.chain(less).collect::<Vec<_>>().join(" ")
    }
}

fn words(value: &str) -> BTreeSet<&str> {
    value.split_ascii_whitespace().collect()
}

fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "y" | "on" | "yes" | "enabled" | "true" => Some(true),
        "0" | "n" | "off" | "no" | "disabled" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_in_other_words() {
        assert!(Form::CpuList.same("0-3", "0,1,2-3\n"));
        assert!(!Form::CpuList.same("0-3", "0-2"));
        assert!(Form::CpuMask.same("00000000,0000000f", "f"));
        assert!(Form::CpuMask.same("1,00000000", "0x100000000"));
        assert!(!Form::CpuMask.same("3", "1"));
        assert!(Form::Choice.same("always [madvise] never", "madvise"));
        assert!(!Form::Choice.same("always [madvise] never", "never"));
        assert!(Form::Choice.same("none voluntary (full) lazy", "full"));
        assert!(Form::Switch.same("Y", "1"));
        assert!(!Form::Switch.same("Y", "0"));
        assert!(!Form::Switch.same("foo", "bar"));
        assert!(Form::Controllers.same("cpu cpuset", "cpuset cpu"));
        assert_eq!(Form::Controllers.to_write("cpu io", "cpu cpuset"), "+cpuset -io");
        assert_eq!(Form::CpuList.to_write("0-1", "0"), "0");
        assert!(Form::Text.same("4096\t131072\t6291456", "4096 131072 6291456\n"));
    }
}
