//! `cargo xtask test --guest`: tests of what the machine's own kernel cannot do, in a guest with a Debian kernel.
//!
//! `windhover lab boot` boots a Debian kernel without hardware virtualization. What is added here: a static busybox, the
//! test binary and a few tools with the libraries they need. `crates/windhover/tests/guest` holds the tests: ordinary ones,
//! ignored outside a guest. Each of its modules is one boot with the kernel, its command line and the network devices of
//! [`BOOTS`]. After them come the tests of labs in guests, which boot by themselves. Campaigns that boot their own machine
//! are apart (`kexec`).

pub(crate) mod image;
mod kexec;
mod machine;

use crate::tests::{Counts, Harness};
use crate::{packages, process};
use anyhow::{Result, anyhow, bail};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Emulator, shell and tools of the guest, and what unpacks and strips them.
pub(crate) const PACKAGES: [&str; 12] = [
    "qemu-system-x86",
    "debian-archive-keyring",
    "seabios",
    "busybox-static",
    "dash",
    "iproute2",
    "ethtool",
    "linuxptp",
    "util-linux",
    "xz-utils",
    "binutils",
    "dpkg",
];

/// One boot: the tests of the module of its name run in it.
pub(crate) struct Boot {
    name: &'static str,
    kernel: &'static str,
    /// Added to the kernel command line.
    parameters: &'static str,
    modules: &'static [&'static str],
    /// CPUs: 4, of which the tests shield number 3, or 1 under instruction counting.
    cpus: u32,
    /// The kind of its two network devices, which are on one wire; none without.
    nic: Option<&'static str>,
    /// Longest that its tests may take: eight times what they take on a machine with nothing else to do.
    limit: Duration,
    /// Runs only where it is named: long, and of what rarely changes.
    on_demand: bool,
}

/// The newest of Debian 12's kernels: 6.1 has not all of the partition interface yet.
const USUAL: Boot = Boot {
    name: "",
    kernel: "debian-6.12",
    parameters: "",
    modules: &[],
    cpus: 4,
    nic: None,
    limit: Duration::from_secs(400),
    on_demand: false,
};

const BOOTS: [Boot; 11] = [
    // The longest first.
    Boot { name: "partition", ..USUAL },
    Boot { name: "nic", nic: Some("e1000e"), ..USUAL },
    Boot { name: "igb", nic: Some("igb"), on_demand: true, ..USUAL },
    Boot { name: "igb_clock", nic: Some("igb"), cpus: 1, on_demand: true, ..USUAL },
    Boot { name: "igb_rt", nic: Some("igb"), kernel: "debian-6.12-rt", on_demand: true, ..USUAL },
    Boot { name: "borders", modules: &["crc32c_generic", "sctp", "dccp_ipv4"], cpus: 2, on_demand: true, ..USUAL },
    Boot { name: "nohz_full", parameters: "nohz_full=3 rcu_nocbs=3", ..USUAL },
    Boot { name: "isolcpus", parameters: "isolcpus=domain,3", ..USUAL },
    Boot { name: "preempt", limit: Duration::from_secs(800), on_demand: true, ..USUAL },
    Boot { name: "lockdown", parameters: "lockdown=integrity", on_demand: true, ..USUAL },
    Boot { name: VOLUMES, modules: &["loop", "raid1", "dm_mod", "ext4", "crc32c_generic"], on_demand: true, ..USUAL },
];

/// The boot whose tests make volumes, and packages with the tools for that.
const VOLUMES: &str = "volumes";
const VOLUME_TOOLS: [&str; 4] = ["mdadm", "lvm2", "libdevmapper-event1.02.1", "libaio1"];

/// The test of a lab in a guest that always runs: all take four minutes, and boot in the same way.
const USUAL_LAB: &str = "a_lab_in_a_guest_is_measured_by_commands_and_campaigns";
/// What the tests of labs in guests are called among the boots, and those that compare kernels, which run where they are named.
const LABS: &str = "labs";
const KERNELS: &str = "kernels";

/// Guests at a time: a boot is mostly one busy CPU.
const AT_A_TIME: usize = 2;

/// Boots of one guest. With several CPUs, emulation may run a breakpoint that the kernel set while it rewrote its own code
/// and has removed since: that kernel panics (int3) before it is up, now and then twice in a row. A fault that a test
/// finds makes no kernel panic.
const TRIES: usize = 3;

struct Bench {
    image: image::Image,
    folder: PathBuf,
    filters: Vec<String>,
}

/// Boots the guests whose tests match a filter (`BOOT` or `BOOT::TEST`; no filter is all but those on demand) and counts their tests.
pub(crate) fn run(filters: &[String]) -> Result<Counts> {
    if let Some(campaign) = kexec::CAMPAIGNS.iter().find(|campaign| filters == [campaign.name]) {
        return kexec::run(campaign);
    }
    let wanted: Vec<&Boot> = BOOTS.iter().filter(|boot| is_wanted(boot, filters)).collect();
    let is_named = |name: &str| filters.iter().any(|filter| filter == name);
    // They measure: one at a time.
    let all = ("guest_lab", "", is_named(LABS));
    let labs = [("guest_lab", USUAL_LAB, filters.is_empty()), all, (KERNELS, "", is_named(KERNELS))];
    let labs: Vec<_> = labs.into_iter().filter(|(_, _, runs)| *runs).collect();
    if wanted.is_empty() && labs.is_empty() {
        let names: Vec<&str> = {
            let campaigns = kexec::CAMPAIGNS.iter().map(|campaign| campaign.name);
            BOOTS.iter().map(|boot| boot.name).chain([LABS, KERNELS]).chain(campaigns).collect()
        };
        bail!("no boot is called '{}'; there are: {}", filters.join(" "), names.join(" "));
    }
    packages::ensure(&PACKAGES, "for the tests in a guest")?;
    let folder = process::target().join("guest");
    crate::files::create(&folder)?;
    let of_volumes = wanted.iter().any(|boot| boot.name == VOLUMES);
    let tools = of_volumes.then(|| packages::unpacked(&VOLUME_TOOLS, "volume-tools")).transpose()?;
    let bench = Bench { image: image::make(&folder, tools.as_deref())?, folder, filters: filters.to_vec() };
    let (queue, labs) = (Mutex::new(wanted.into_iter()), Mutex::new(labs.into_iter()));
    let counts = Mutex::new(Counts::default());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(boot) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                        let began = Instant::now();
                        let ended = boot_again(&bench, boot);
                        let Ok(mut counts) = counts.lock() else { break };
                        report(boot, ended, began.elapsed(), &mut counts);
                    }
                    // Labs measure: one at a time. The first worker without a boot has them all.
                    let Ok(mut labs) = labs.lock() else { return Ok(()) };
                    labs.try_for_each(|(test, name, _)| {
                        let tests = ["--package", "windhover", "--test", test].map(str::to_owned);
                        let arguments = ["--ignored", "--show-output", "--test-threads=1", name].map(str::to_owned);
                        let counted = crate::tests::cargo_test(&tests, &arguments, None, &mut |_| ())?;
                        counts.lock().map(|mut counts| counts.add(counted)).map_err(|_| anyhow!("a worker panicked"))
                    })
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    counts.into_inner().map_err(|_| anyhow!("a thread that boots guests panicked"))
}

/// How a boot ended, and what it is called in the count of those that were tried once more.
type Tried = (Result<machine::Ended>, Vec<String>);

/// Boots until the kernel does not crash, up to [`TRIES`] times.
fn boot_again(bench: &Bench, boot: &Boot) -> Tried {
    let mut retried = Vec::new();
    loop {
        let ended = machine::boot(bench, boot);
        match &ended {
            Ok(machine::Ended { crashed: true, console, why, .. }) if retried.len() + 1 < TRIES => {
                println!("the kernel of guest {} crashed ({why}):\n{}", boot.name, tail(console, 40));
                retried.push(format!("guest {}: its kernel crashed", boot.name));
            }
            _ => return (ended, retried),
        }
    }
}

fn is_wanted(boot: &Boot, filters: &[String]) -> bool {
    let is_named = filters.iter().any(|filter| filter.split("::").next() == Some(boot.name));
    is_named || filters.is_empty() && !boot.on_demand
}

/// Prints what a boot's tests said and adds them up. A guest that ended before its tests did is a failed test.
fn report(boot: &Boot, (ended, retried): Tried, took: Duration, counts: &mut Counts) {
    println!("-- guest {}: {:.0} s", boot.name, took.as_secs_f64());
    counts.retried.extend(retried);
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            println!("test {} could not be booted ... FAILED\n{error:#}", boot.name);
            counts.failed += 1;
            return;
        }
    };
    let mut harness = Harness::default();
    for line in without_passed(&ended.output) {
        if harness.line(line) {
            println!("{line}");
        }
    }
    let finished = harness.finished;
    if finished && harness.counts.passed + harness.counts.failed == 0 {
        println!("no test of this boot ran");
        counts.failed += 1;
    }
    counts.add(harness.counts);
    if !finished {
        let last = ended.output.lines().last().unwrap_or_default();
        println!("test {} ended early ({}), in: {last} ... FAILED", boot.name, ended.why);
        counts.failed += 1;
    }
    if !finished || !ended.powered_off {
        println!("last of its console:\n{}", tail(&ended.console, 40));
    }
}

/// The lines of a harness that captures nothing, without what passed tests printed.
fn without_passed(output: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    // Where the lines of the test that is running begin.
    let mut begun = None;
    for line in output.lines() {
        let line = line.trim_end_matches('\r');
        match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            Some((_, "ok")) => {}
            Some((_, said)) => {
                begun = Some(lines.len());
                lines.push(line.strip_suffix(said).unwrap_or(line));
                lines.extend(Some(said).filter(|said| !said.is_empty()));
            }
            None => lines.push(line),
        }
        if line == "ok"
            && let Some(begun) = begun.take()
        {
            let skipped: Vec<&str> = lines.drain(begun..).filter(|line| line.starts_with("SKIPPED ")).collect();
            lines.extend(skipped);
        }
    }
    lines
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod unit {
    use super::{BOOTS, is_wanted, tail, without_passed};

    #[test]
    fn what_passing_tests_said_is_left_out() {
        let output = "test a ... ok\r\ntest b ... noise\nmore\nok\ntest c ... SKIPPED c: why\nok\ntest d ... panicked\nFAILED\ntest e ... hm";
        let expected = ["SKIPPED c: why", "test d ... ", "panicked", "FAILED", "test e ... ", "hm"];
        assert_eq!(without_passed(output), expected);
    }

    #[test]
    fn a_filter_chooses_the_boot_it_begins_with() {
        let chosen = |filter: &str| -> Vec<&str> {
            let filters = [filter.to_owned()];
            BOOTS.iter().filter(|boot| is_wanted(boot, &filters)).map(|boot| boot.name).collect()
        };
        assert_eq!(chosen("nic::rings"), ["nic"]);
        assert_eq!(chosen("ni"), Vec::<&str>::new());
    }

    #[test]
    fn the_tail_of_a_short_text_is_all_of_it() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
