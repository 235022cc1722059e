//! Which real-time variant of Linux this is, if any, by what it leaves in files.

use super::read;
use crate::knob::Machine;
use model::facts::{RealtimeVariant, is_preempt_rt};

/// All that are found: a RHEL RT kernel is a PREEMPT_RT kernel too, and RTnet comes with Xenomai.
pub(crate) fn all(machine: &Machine, preemption: Option<&str>) -> Vec<RealtimeVariant> {
    let mut found = Vec::new();
    let mut add = |name: &str, evidence: String| {
        if !found.iter().any(|variant: &RealtimeVariant| variant.name == name) {
            found.push(RealtimeVariant { name: name.to_owned(), evidence });
        }
    };
    let release = read(machine, "/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = read(machine, "/proc/sys/kernel/version").unwrap_or_default();
    let os = read(machine, "/etc/os-release").or_else(|| read(machine, "/usr/lib/os-release")).unwrap_or_default();
    let system = |wanted: &str| {
        let id = |line: &str| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")).map(str::to_owned);
        os.lines().filter_map(id).any(|ids| ids.trim_matches(['"', '\'']).split(' ').any(|id| id.starts_with(wanted)))
    };

    if let Some(path) = ["/etc/redhawk-release", "/etc/ccur-release"].into_iter().find(|path| machine.exists(path)) {
        add("RedHawk", format!("{path} = {}", read(machine, path).unwrap_or_default()));
    }
    for (path, text) in
        [("/etc/os-release", &os), ("/proc/sys/kernel/osrelease", &release), ("/proc/sys/kernel/version", &version)]
    {
        if text.to_ascii_lowercase().contains("redhawk") {
            add("RedHawk", format!("{path} names RedHawk"));
        }
    }
    // A kernel with these files shields by itself, whatever its name.
    if machine.is_directory("/proc/shield") {
        add("RedHawk", "/proc/shield".to_owned());
    }

    let real_time = is_preempt_rt(preemption);
    if read(machine, "/sys/kernel/realtime").as_deref() == Some("1") {
        add("PREEMPT_RT", "/sys/kernel/realtime = 1".to_owned());
    } else if real_time {
        add("PREEMPT_RT", format!("/proc/sys/kernel/version = {version}"));
    }
    if real_time {
        let named = |suffix: &str| release.contains(suffix);
        let evidence = format!("/proc/sys/kernel/osrelease = {release}");
        if system("rhel") || system("centos") || release.contains(".el") {
            add("RHEL RT", evidence);
        } else if (system("sles") || system("sle") || system("suse") || system("opensuse")) && named("-rt") {
            add("SUSE RT", evidence);
        } else if system("ubuntu") && named("-realtime") {
            add("Ubuntu RT", evidence);
        }
    }

    if machine.is_directory("/proc/xenomai") {
        let version =
            read(machine, "/proc/xenomai/version").map(|text| format!("/version = {text}")).unwrap_or_default();
        add("Xenomai 3 Cobalt", format!("/proc/xenomai{version}"));
    } else if machine.is_directory("/dev/rtdm") && machine.is_directory("/usr/xenomai") {
        add("Xenomai 3 Cobalt", "/dev/rtdm".to_owned());
    } else if let Some(path) =
        ["/usr/xenomai/lib/libmercury.so", "/usr/lib/libmercury.so", "/usr/local/lib/libmercury.so"]
            .into_iter()
            .find(|path| machine.exists(path))
    {
        // Mercury is a library over the plain (real-time) kernel, so only its installation shows.
        add("Xenomai 3 Mercury", path.to_owned());
    }
    if let Some(path) = ["/dev/evl/control", "/sys/devices/virtual/evl"].into_iter().find(|path| machine.exists(path)) {
        add("EVL", path.to_owned());
    }
    if machine.is_directory("/dev/rros") {
        add("RROS", "/dev/rros".to_owned());
    }
    if machine.is_directory("/proc/rtnet") {
        add("RTnet", "/proc/rtnet".to_owned());
    }
    found
}
