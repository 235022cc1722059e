//! Sysctls and features of devices that cannot be: names that no system has, values that the kernel would not take.

use super::{Key, TuneError, profile};
use crate::Kernel;
use host::knob::{EthtoolPart, feature_names};

/// Whether no known system has this setting: then it is mistyped, or of a module that is not loaded.
pub(super) fn is_nowhere(key: &Key) -> bool {
    let known = match key {
        Key::Sysctl(name) => host::facts::is_known_sysctl(name),
        Key::Ethtool(EthtoolPart::Feature, name) => feature_names().is_none_or(|names| names.contains(name)),
        _ => true,
    };
    !known && !profile::is_built_in(key)
}

/// Refuses it with the nearest that there is.
pub(super) fn unknown(kernel: &Kernel, key: &Key) -> TuneError {
    let (near, lacks) = match key {
        Key::Ethtool(_, name) => {
            let near = model::words::nearest(name, feature_names().unwrap_or_default());
            (
                near.map(|known| format!("nic.feature.{known}")),
                "this kernel has no such feature (`ethtool -k lo` lists all)",
            )
        }
        Key::Sysctl(name) => {
            let lacks = "this system has no such sysctl (one of a module that is not loaded is not there either)";
            (nearest(kernel, name).map(|near| format!("sysctl.{near}")), lacks)
        }
        _ => (None, "see docs/tuning.md"),
    };
    let nearest = near.map_or_else(|| format!(": {lacks}"), |near| format!(": did you mean '{near}'?"));
    TuneError::unknown_key(&key.to_string(), &nearest)
}

/// The name that differs least in the first part that is not there.
fn nearest(kernel: &Kernel, name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let mut folder = String::from("/proc/sys");
    for (place, part) in parts.iter().enumerate() {
        let names = kernel.machine().names(&folder).ok()?;
        if names.iter().any(|known| known == part) {
            folder = format!("{folder}/{part}");
            continue;
        }
        let near = model::words::nearest(part, names)?;
        let mut whole: Vec<&str> = parts.clone();
        whole[place] = &near;
        return Some(whole.join("."));
    }
    None
}

/// Refuses words where the kernel has numbers.
pub(super) fn check(key: &Key, now: &str, wanted: &str) -> Result<(), TuneError> {
    let Key::Sysctl(name) = key else { return Ok(()) };
    // Bit masks are written in hexadecimal, and look like a number as long as they have no letter.
    let is_mask = ["mask", "bitmap"].iter().any(|word| name.contains(word));
    let count = |text: &str| text.split_ascii_whitespace().count();
    if is_mask || now.is_empty() || !now.split_ascii_whitespace().all(is_number) {
        return Ok(());
    }
    let why = if !wanted.split_ascii_whitespace().all(is_number_or_list) {
        format!("it is a number ({now} now)")
    } else if count(wanted) > count(now) {
        format!("it has {} numbers ({now} now)", count(now))
    } else {
        return Ok(());
    };
    Err(TuneError::Wrong(format!("{key}={wanted}: {why}")))
}

fn is_number(word: &str) -> bool {
    word.parse::<i128>().is_ok()
}

/// Also `0x1f`, and lists such as those of ports: `80,8000-8080`.
fn is_number_or_list(word: &str) -> bool {
    let hexadecimal = word.strip_prefix("0x").is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok());
    let list = word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '-');
    is_number(word) || hexadecimal || list
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::knob::Machine;

    #[test]
    fn a_name_that_is_not_there_names_the_nearest() {
        let tree = tempfile::tempdir().unwrap();
        for file in ["net/core/busy_poll", "net/core/busy_read", "vm/swappiness"] {
            let path = tree.path().join("proc/sys").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "0\n").unwrap();
        }
        let kernel = Kernel::at(Machine::at(tree.path()));
        for (wrong, near) in [
            ("net.core.busy_pol", Some("net.core.busy_poll")),
            ("net.cor.busy_poll", Some("net.core.busy_poll")),
            ("vm.swapiness", Some("vm.swappiness")),
            ("kernel.no_such_thing", None),
        ] {
            assert_eq!(nearest(&kernel, wrong).as_deref(), near, "{wrong}");
            assert!(is_nowhere(&Key::Sysctl(wrong.to_owned())));
        }
        assert!(!is_nowhere(&Key::Sysctl("kernel.numa_balancing".to_owned())), "older kernels have it");
        if feature_names().is_none() {
            eprintln!("SKIPPED a_name_that_is_not_there_names_the_nearest: this kernel does not list features");
            return;
        }
        for (wrong, near) in [("rx-grro", "'nic.feature.rx-gro'"), ("no-such-thing-at-all", "ethtool -k lo")] {
            let key = Key::Ethtool(EthtoolPart::Feature, wrong.to_owned());
            assert!(
                is_nowhere(&key) && unknown(&kernel, &key).to_string().contains(near),
                "{}",
                unknown(&kernel, &key)
            );
        }
        for known in ["tso", "rx-lro", "generic-receive-offload", "rx-udp-gro-forwarding"] {
            assert!(!is_nowhere(&Key::Ethtool(EthtoolPart::Feature, known.to_owned())), "{known}");
        }
    }

    #[test]
    fn a_word_is_no_number() {
        let check = |name: &str, now: &str, wanted: &str| check(&Key::Sysctl(name.to_owned()), now, wanted).is_ok();
        for (now, wanted) in [
            ("0", "50"),
            ("0", "-1"),
            ("4096 131072 6291456", "1 2 3"),
            ("8080", "80,90-99"),
            ("cubic", "bbr"),
            ("", "x"),
        ] {
            assert!(check("net.a", now, wanted), "{wanted}");
        }
        for (now, wanted) in [("0", "abc"), ("0", "5x"), ("0", "1 2"), ("1 2 3", "1 b 3"), ("7", "--")] {
            assert!(!check("net.a", now, wanted), "{wanted}");
        }
        assert!(check("net.core.rps_default_mask", "0", "ff"));
    }
}
