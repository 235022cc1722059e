//! What the machine is made of, as far as it can tell from within.

use super::document::Substrate;
use super::subject::Subject;

pub(super) fn detect(s: &Subject<'_>) -> Substrate {
    if is_container(s) {
        return Substrate::Container;
    }
    let model = s.facts.cpu_model.as_deref().unwrap_or_default();
    let clocks = s.maybe("/sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    // QEMU's generic CPU may also run under KVM, which brings its clock along.
    let emulated = model.contains("QEMU TCG") || (model.contains("QEMU Virtual CPU") && !clocks.contains("kvm-clock"));
    match s.facts.virtualisation.as_deref() {
        _ if emulated || model.contains("gem5") => Substrate::Simulated,
        Some("none") => Substrate::Metal,
        Some(_) => Substrate::Vm,
        None => Substrate::Unknown,
    }
}

fn is_container(s: &Subject<'_>) -> bool {
    /// What container engines call the control groups of their containers.
    const GROUPS: [&str; 6] = ["/docker", "/kubepods", "/lxc", "/containerd", "/libpod", "/machine.slice/"];
    // Only the first PID namespace shows kernel threads. Marks may come from a container's image, systemd's not.
    let inside = !s.tasks().iter().any(|task| task.kernel);
    (inside && ["/.dockerenv", "/run/.containerenv"].iter().any(|path| s.machine.exists(path)))
        || s.machine.exists("/run/systemd/container")
        || s.maybe("/proc/1/environ")
            .is_some_and(|text| text.split('\0').any(|word| word.starts_with("container=") && word.len() > 10))
        || s.maybe("/proc/1/cgroup")
            .is_some_and(|text| text.lines().any(|line| GROUPS.iter().any(|group| line.contains(group))))
}
