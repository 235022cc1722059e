//! Checks that memory for the windows is available: the kernel may kill a process that uses overcommitted memory.

use crate::PgmIoError;
use std::fs::read_to_string;

pub(crate) fn check(need_bytes: u64) -> Result<(), PgmIoError> {
    let refused =
        |free_bytes| PgmIoError::Memory { need_mib: need_bytes.div_ceil(1 << 20), free_mib: free_bytes >> 20 };
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| bytes_of(&text, "MemAvailable:"));
    let free_bytes = [machine, group()].into_iter().flatten().min();
    if let Some(free_bytes) = free_bytes.filter(|free_bytes| *free_bytes < need_bytes) {
        return Err(refused(free_bytes));
    }
    // A limit of the process (RLIMIT_AS) shows here; nothing is used of it.
    let fits = usize::try_from(need_bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    if fits { Ok(()) } else { Err(refused(limit().unwrap_or(0))) }
}

/// What a line of /proc tells in kB, in bytes.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

/// What the limit of the own control group (version 2) leaves.
fn group() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let value = |file: &str| read_to_string(format!("/sys/fs/cgroup{path}/{file}")).ok()?.trim().parse::<u64>().ok();
    Some(value("memory.max")?.saturating_sub(value("memory.current")?))
}

/// RLIMIT_AS, less what is mapped already.
fn limit() -> Option<u64> {
    let limits = read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let most: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(bytes_of(&read_to_string("/proc/self/status").ok()?, "VmSize:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_and_what_can_is_not() {
        check(1 << 20).unwrap();
        for bytes in [1 << 50, u64::MAX] {
            let error = check(bytes).unwrap_err().to_string();
            assert!(error.contains(&format!("{} MiB", bytes.div_ceil(1 << 20))) && !error.contains('\n'), "{error}");
        }
        assert_eq!(bytes_of("MemTotal: 9 kB\nMemAvailable:    4 kB\n", "MemAvailable:"), Some(4096));
        assert_eq!(bytes_of("MemTotal: 9 kB\n", "MemAvailable:"), None);
    }
}
