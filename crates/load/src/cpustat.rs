//! Busy and whole time of some CPUs, from /proc/stat (proc_stat(5)).

use crate::LoadError;
use model::CpuList;

/// Times of some CPUs together, since boot, in the kernel's ticks of 10 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CpuTimes {
    /// user, nice, system, irq and softirq. Neither waiting for a disk nor time that a hypervisor took is work of the load.
    pub(crate) busy: u64,
    /// `busy` with idle, iowait and steal.
    pub(crate) whole: u64,
}

/// Reads the times of `cpus` into `buffer` and from there.
pub(crate) fn read(cpus: &CpuList, buffer: &mut String) -> Result<CpuTimes, LoadError> {
    use std::io::Read;
    buffer.clear();
    std::fs::File::open("/proc/stat").and_then(|mut file| file.read_to_string(buffer)).map_err(LoadError::cpu_times)?;
    parse(buffer, cpus).ok_or_else(|| LoadError::cpu_times(format!("it has no line for CPUs {cpus}")))
}

/// `None` when none of the CPUs has a line.
fn parse(text: &str, cpus: &CpuList) -> Option<CpuTimes> {
    let mut sum = CpuTimes::default();
    let mut found = false;
    for line in text.lines() {
        let Some((number, values)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        if !number.parse().is_ok_and(|cpu| cpus.contains(cpu)) {
            continue;
        }
        let mut values = values.split_whitespace().map(|value| value.parse::<u64>().unwrap_or(0));
        let mut next = || values.next().unwrap_or(0);
        // guest and guest_nice follow; both are contained in user and nice.
        let [user, nice, system, idle, iowait, irq, softirq, steal] = std::array::from_fn(|_| next());
        let busy = user + nice + system + irq + softirq;
        sum.busy += busy;
        sum.whole += busy + idle + iowait + steal;
        found = true;
    }
    found.then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 0 30 300 30 3 3 3 9 0\ncpu0 10 1 10 100 10 1 2 4 3 0\ncpu1 20 0 20 200 20 2 1 1 6 0\n\
                        cpu10 7 7 7 7 7 7 7 7 7 7\nintr 5 5\n";

    #[test]
    fn only_the_named_cpus_count() {
        let of = |list: &str| parse(STAT, &list.parse().unwrap());
        assert_eq!(of("0"), Some(CpuTimes { busy: 24, whole: 138 }));
        assert_eq!(of("0-1"), Some(CpuTimes { busy: 67, whole: 402 }));
        assert_eq!(of("2"), None);
    }

    #[test]
    fn this_machine_has_such_lines() {
        let times = read(&task::online_cpus().unwrap(), &mut String::new()).unwrap();
        assert!(times.whole >= times.busy && times.whole > 0);
    }
}
