//! Readers of the kernel's text files. Pure functions that no input makes panic.

use model::CpuList;

/// The soft limit of a row of /proc/PID/limits; `u64::MAX` for unlimited.
pub(super) fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    match row.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The flags and the CPUs of `isolcpus=` (`managed_irq,domain,1-3`). Without flags it means `domain`.
pub(super) fn isolcpus(value: &str) -> (Vec<String>, CpuList) {
    let mut flags = Vec::new();
    let mut rest = value;
    while let Some((word, more)) = rest.split_once(',') {
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            break;
        }
        flags.push(word.to_owned());
        rest = more;
    }
    if flags.is_empty() {
        flags.push("domain".to_owned());
    }
    (flags, rest.parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::facts::boot_value;

    #[test]
    fn words_of_the_command_line() {
        assert_eq!(boot_value("a nohz_full=1 nohz_full=2-3", "nohz_full"), Some("2-3"));
        assert_eq!(boot_value("xnohz_full=1", "nohz_full"), None);
        assert_eq!(isolcpus("2-3"), (vec!["domain".to_owned()], "2-3".parse().unwrap()));
        assert_eq!(
            isolcpus("managed_irq,domain,1,3"),
            (vec!["managed_irq".to_owned(), "domain".to_owned()], "1,3".parse().unwrap())
        );
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         8388608              8388608              bytes\nMax realtime priority     unlimited            0\n";
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(8_388_608));
        assert_eq!(soft_limit(limits, "Max realtime priority"), Some(u64::MAX));
    }
}
