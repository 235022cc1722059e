//! Advice for the real-time variants of Linux that were found, and changes of the kernel that what was measured fits.

use super::check::{Answer, Check, Observation, checks, note, ok, some_of, warning};
use super::subject::{Skip, Subject, plain};
use model::known::{Symptom, fitting};

pub(super) const CHECKS: &[Check] = checks![
    "sched.variant" by Once(variants),
        reads "the real-time variants found; /proc/shield, /sys/module/xenomai, /sys/class/net/*/oob_port, the drivers of the devices",
        when "one is there",
        why "a variant has tools and sockets of its own: what Windhover sets and measures is the Linux half",
        on [Kernel("the variants' own documents; what was tried is in docs/doctor.md")];
    "sched.known-change" by Once(known_changes),
        reads "uname release, visitors and stalls while measuring",
        when "a change of the kernel that is known to move tails fits both the version and what was measured",
        why "a newer kernel may lack the cause",
        on [Measured("standard deviation 234 µs under load on 6.1, 0.3 µs on 6.12, in simulated time"), Practice];
];

/// The advice for a variant; none where another variant's covers it.
type Advise = fn(&Subject<'_>) -> Option<Observation>;

/// The variants with something to say. PREEMPT_RT has checks of its own: `irq.threads`, `nic.napi-threaded`.
const ADVICE: [(&str, Advise); 9] = [
    ("RedHawk", redhawk),
    ("RHEL RT", rhel),
    ("SUSE RT", suse),
    ("Ubuntu RT", ubuntu),
    ("Xenomai 3 Cobalt", cobalt),
    ("Xenomai 3 Mercury", mercury),
    ("EVL", evl),
    ("RROS", rros),
    ("RTnet", rtnet),
];

const FOREIGN: &str = "windhover's figures are those of Linux's own sockets: it does not measure that half";

fn variants(s: &Subject<'_>) -> Answer {
    let found: Vec<Observation> = ADVICE
        .iter()
        .filter(|(name, _)| s.variants.iter().any(|own| own == name))
        .filter_map(|(_, advise)| advise(s))
        .collect();
    if found.is_empty() {
        return Err(Skip::not_here("no real-time variant with tools of its own is here"));
    }
    Ok(found)
}

/// RedHawk's shield files, and the flag of `windhover shield` that asks for the same.
const SHIELD_FILES: [(&str, &str, &str); 3] =
    [("procs", "-p", "processes"), ("irqs", "-i", "interrupts"), ("ltmrs", "-l", "local timers")];

fn redhawk(s: &Subject<'_>) -> Option<Observation> {
    let files: Vec<_> =
        SHIELD_FILES.iter().filter(|(file, ..)| s.machine.exists(format!("/proc/shield/{file}"))).collect();
    if files.is_empty() {
        let advice = "its own shield is the command shield(1); windhover shield works by control groups and interrupt affinities";
        return Some(note("RedHawk, without its files /proc/shield").advice(advice));
    }
    let state: Vec<String> = files
        .iter()
        .map(|(file, _, what)| {
            let cpus = s.redhawk(file);
            format!("{what}: {}", if cpus.is_empty() { "none".to_owned() } else { format!("CPU {cpus}") })
        })
        .collect();
    let map: Vec<String> = files.iter().map(|(file, flag, _)| format!("{flag} is {file}")).collect();
    let mut answer = note(format!("RedHawk shields by itself ({})", state.join(", "))).advice(format!(
        "use one shield: RedHawk's shield(1) writes /proc/shield; windhover shield writes control groups and interrupt affinities \
         instead ({})",
        map.join(", ")
    ));
    for (file, ..) in files {
        let path = format!("/proc/shield/{file}");
        answer = answer.read(path.clone(), s.maybe(&path).unwrap_or_default());
    }
    Some(answer)
}

/// The profile of tuned for real time, and what it leaves to do.
fn tuned_profile(s: &Subject<'_>, who: &str, other: &str) -> Observation {
    let path = "/etc/tuned/active_profile";
    let profile = s.maybe(path).unwrap_or_else(|| "none".to_owned());
    let variables = "/etc/tuned/realtime-variables.conf";
    let isolated = s.maybe(variables).and_then(|text| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix("isolated_cores")?.trim().strip_prefix('='));
        line.map(|cores| cores.trim().to_owned())
    });
    let answer = if profile == "realtime" {
        let cores = isolated.as_deref().unwrap_or("not set");
        ok(format!("{who} with tuned's profile realtime (isolated_cores {cores})"))
    } else {
        note(format!("{who}, and tuned's profile is not realtime ({profile})"))
            .advice(format!("set isolated_cores in {variables} and run tuned-adm profile realtime, or use windhover shield and tune, not both"))
    };
    answer.read(path, profile).advice(other.to_owned())
}

fn rhel(s: &Subject<'_>) -> Option<Observation> {
    // RedHawk's user space is that of RHEL; its kernel is not.
    let is_own = !s.variants.iter().any(|name| name == "RedHawk");
    is_own.then(|| {
        tuned_profile(
            s,
            "RHEL's real-time kernel",
            "its own tools: tuna places threads and interrupts, rteval and rtla measure",
        )
    })
}

fn suse(s: &Subject<'_>) -> Option<Observation> {
    Some(tuned_profile(
        s,
        "SUSE's real-time kernel",
        "its own tool cset shield needs control groups of version 1; windhover shield uses both versions",
    ))
}

fn ubuntu(s: &Subject<'_>) -> Option<Observation> {
    let release = s.facts.kernel_release.as_deref().unwrap_or_default();
    Some(
        note("Ubuntu's real-time kernel: it comes without a tuned profile, and isolates no CPU by itself")
            .read("/proc/sys/kernel/osrelease", release)
            .advice("pro enable realtime-kernel chooses the kernel; windhover shield and tune do the rest"),
    )
}

fn cobalt(s: &Subject<'_>) -> Option<Observation> {
    let path = "/proc/xenomai/version";
    let state = host::facts::boot_value(s.command_line(), "xenomai.state").unwrap_or("not on the command line");
    Some(
        note("Cobalt runs beside Linux: sockets of ordinary programs, Windhover's too, are Linux's, and their times are those of the Linux half")
            .read(path, s.maybe(path).unwrap_or_default())
            .read("/proc/cmdline xenomai.state", state)
            .advice("Cobalt's own sockets need its wrapper at link time (xeno-config --skin=posix --ldflags)")
            .command("corectl --status")
            .advice(FOREIGN),
    )
}

fn mercury(_: &Subject<'_>) -> Option<Observation> {
    Some(note("Mercury is a library over this kernel: figures are those of the kernel, and all other checks apply"))
}

fn evl(s: &Subject<'_>) -> Option<Observation> {
    let all = || s.names("/sys/class/net");
    let port = |name: &String| s.maybe(&format!("/sys/class/net/{}/oob_port", plain(name)));
    let known: Vec<(String, bool)> =
        all().into_iter().filter_map(|name| port(&name).map(|value| (name, value == "1"))).collect();
    let ports: Vec<&String> = known.iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
    let text = match (known.is_empty(), ports.is_empty()) {
        (true, _) => "EVL: this kernel shows no out-of-band ports".to_owned(),
        (false, true) => "EVL: no device is an out-of-band port".to_owned(),
        (false, false) => format!("EVL: out-of-band ports are {}", some_of(&ports, 6)),
    };
    let mut answer = note(format!("{text}; Windhover's sockets are in-band, their times are those of the Linux half"));
    for (name, on) in &known {
        answer = answer.read(format!("/sys/class/net/{name}/oob_port"), u8::from(*on));
    }
    if ports.is_empty() {
        answer = answer.command("evl net -ei DEV");
    }
    let driver = "out-of-band all the way needs a driver made for it; with others packets pass the in-band NAPI. EVL's sockets \
                  are SOCK_OOB: UDP over IPv4 and raw packets";
    Some(answer.advice(driver).advice(FOREIGN))
}

fn rros(_: &Subject<'_>) -> Option<Observation> {
    let text = "RROS runs beside Linux: Windhover's sockets are in-band, their times are those of the Linux half";
    Some(note(text).advice("its library is a fork of libevl").advice(FOREIGN))
}

/// Drivers that RTnet in the tree of Xenomai 3 has.
const RTNET: [&str; 11] =
    ["8139too", "e1000", "e1000e", "igb", "r8169", "tulip", "natsemi", "pcnet32", "via-rhine", "fec", "macb"];

fn rtnet(s: &Subject<'_>) -> Option<Observation> {
    let is_driven = |nic: &&model::NicFacts| nic.driver.as_deref().is_some_and(|driver| RTNET.contains(&driver));
    let real = s.snapshot.host.nics.iter().filter(|nic| nic.bus.as_ref().is_some_and(|bus| !bus.is_empty()));
    let word =
        |nic: &model::NicFacts| format!("{} ({})", nic.name, nic.driver.as_deref().unwrap_or("driver not known"));
    let (driven, others): (Vec<_>, Vec<_>) = real.partition(is_driven);
    let names = |nics: Vec<&model::NicFacts>| some_of(nics.into_iter().map(word), 6);
    let mut text = "RTnet has a network stack and drivers of its own".to_owned();
    if !driven.is_empty() {
        text.push_str(&format!("; it has a driver for {}", names(driven)));
    }
    if !others.is_empty() {
        text.push_str(&format!("; it has none for {}", names(others)));
    }
    Some(
        note(text)
            .read("/proc/rtnet", "there")
            .advice(format!("its drivers are {} and older ones; none is for 10 Gbit/s", RTNET.join(", ")))
            .advice("its sockets need Cobalt's wrapper; UDP, basic TCP and raw packets")
            .advice(FOREIGN),
    )
}

fn known_changes(s: &Subject<'_>) -> Answer {
    let Some(measured) = &s.snapshot.measured else { return Err(Skip::not_asked("needs --measure")) };
    let release = s.facts.kernel_release.as_deref().unwrap_or_default();
    let mut seen: Vec<(Symptom, String)> = Vec::new();
    let ksoftirqd: u64 = measured
        .visitors
        .iter()
        .filter(|visitor| visitor.name.starts_with("ksoftirqd/"))
        .map(|visitor| visitor.count)
        .sum();
    if ksoftirqd > 0 {
        seen.push((Symptom::KsoftirqdTail, format!("ksoftirqd came {ksoftirqd} times to CPU {}", measured.cpu)));
    }
    let unlimited = s.facts.sysctls.get("kernel.sched_rt_runtime_us").is_some_and(|us| us == "-1");
    if let Some(throttle) = measured.throttle.as_ref().filter(|throttle| unlimited && throttle.is_throttled()) {
        let stall = throttle.longest_ns as f64 / 1e6;
        seen.push((
            Symptom::UnlimitedStall,
            format!("a FIFO thread was kept off CPU {} for {stall:.1} ms", throttle.cpu),
        ));
    }
    let mut found = Vec::new();
    for (symptom, what) in &seen {
        for change in fitting(release, s.facts.preemption.as_deref(), *symptom) {
            found.push(
                warning(format!("{what}, and {}", change.what))
                    .read("/proc/sys/kernel/osrelease", release)
                    .read("source", &change.source)
                    .advice(change.remedy.clone())
                    .advice(format!("the version alone does not prove it: {}", change.caveat)),
            );
        }
    }
    if found.is_empty() {
        found.push(
            ok("no known change of the kernel fits what was measured").read("/proc/sys/kernel/osrelease", release),
        );
    }
    Ok(found)
}
