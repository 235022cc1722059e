//! Doctors of many systems: each a tree of files made from one text file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

#[path = "systems/expected.rs"]
mod expected;
mod systems;

use expected::{SYSTEMS, options};
use host::knob::Machine;
use proptest::prelude::*;
use std::collections::BTreeSet;
use systems::System;
use windhover_prepare::doctor::{self, DoctorOptions, Document, Severity, Substrate, compare, unknown_check};
use windhover_prepare::tune::Key;

fn examine(machine: &Machine, options: &DoctorOptions) -> Document {
    doctor::examine(machine, options).unwrap()
}

fn worst(document: &Document, id: &str) -> Option<Severity> {
    document.of(id).map(|finding| finding.severity).max()
}

#[test]
fn each_system_has_the_findings_that_it_must_have_and_no_worse_ones() {
    for expected in SYSTEMS {
        let system = System::load(expected.system);
        let document = examine(&Machine::at(system.root()), &options(expected));
        let name = expected.system;
        assert_eq!(document.substrate, expected.substrate, "{name}");
        let variants: Vec<&str> = document.realtime.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(variants, expected.variants, "{name}");
        let recorded = (!variants.is_empty()).then(|| variants.join(", "));
        assert_eq!(document.machine.realtime_variant, recorded, "{name}");
        for id in expected.bad {
            assert_eq!(worst(&document, id), Some(Severity::Bad), "{name}: {id}: {:#?}", document.skipped);
        }
        for id in expected.warnings {
            assert_eq!(worst(&document, id), Some(Severity::Warning), "{name}: {id}: {:#?}", document.skipped);
        }
        for id in expected.quiet {
            let found = worst(&document, id);
            assert!(
                matches!(found, Some(Severity::Note | Severity::Ok)),
                "{name}: {id}: {:#?} {:#?}",
                document.of(id).collect::<Vec<_>>(),
                document.skipped
            );
        }
        for (id, because) in expected.skipped {
            let skipped = document.skipped.iter().find(|skipped| skipped.id == *id);
            assert_eq!(skipped.map(|skipped| skipped.because), Some(*because), "{name}: {id}: {skipped:?}");
            assert_eq!(worst(&document, id), None, "{name}: {id} is skipped and found");
        }
        // Nothing bad that was not foreseen.
        let bad: BTreeSet<&str> = document
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Bad)
            .map(|finding| finding.id.as_str())
            .collect();
        assert_eq!(bad, expected.bad.iter().copied().collect(), "{name}");
    }
}

#[test]
fn the_prepared_machine_has_not_one_warning() {
    let expected = SYSTEMS.iter().find(|expected| expected.system == "preempt-rt").unwrap();
    let document = examine(&Machine::at(System::load("preempt-rt").root()), &options(expected));
    let warnings: Vec<_> = document.findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[test]
fn a_stored_snapshot_may_say_of_threads_only_whether() {
    let expected = SYSTEMS.iter().find(|expected| expected.system == "mlx5-ipoib").unwrap();
    let found = ["mlx5-ipoib", "mlx5-ipoib-stored-switches"]
        .map(|name| examine(&Machine::at(System::load(name).root()), &options(expected)).findings);
    assert_eq!(found[0], found[1]);
}

#[test]
fn a_snapshot_that_is_none_is_told() {
    let mut system = System::load("preempt-rt");
    system.put(doctor::SNAPSHOT_FILE, r#"{"devices": {"eth0": {"napi": "?"}}}"#);
    let error = doctor::examine(&Machine::at(system.root()), &DoctorOptions::default()).unwrap_err().to_string();
    assert!(error.contains("windhover-snapshot.json: invalid type"), "{error}");
}

#[test]
fn every_check_answers_once_on_every_system() {
    for expected in SYSTEMS {
        let document = examine(&Machine::at(System::load(expected.system).root()), &options(expected));
        for check in doctor::checks() {
            let found = document.of(check.id).count();
            let skipped = document.skipped.iter().filter(|skipped| skipped.id == check.id).count();
            assert!(
                (found > 0) != (skipped > 0) && skipped <= 1,
                "{}: {}: {found} {skipped}",
                expected.system,
                check.id
            );
        }
        for finding in &document.findings {
            if finding.severity >= Severity::Warning {
                assert!(!finding.remedies.is_empty(), "{}: {} has no remedy", expected.system, finding.id);
                assert!(!finding.read.is_empty(), "{}: {} read nothing", expected.system, finding.id);
            }
            assert!(finding.text.len() < 400 && !finding.text.contains('\n'), "{finding:?}");
        }
    }
}

#[test]
fn an_empty_tree_is_skipped_not_found_in_order() {
    let empty = tempfile::tempdir().unwrap();
    let document = examine(&Machine::at(empty.path()), &DoctorOptions::default());
    let claimed: Vec<&str> = document.findings.iter().map(|finding| finding.id.as_str()).collect();
    // That a file is absent is itself the answer of this one.
    assert_eq!(claimed, ["net.conntrack"]);
    assert_eq!(document.substrate, Substrate::Unknown);
}

#[test]
fn settings_of_remedies_are_settings_that_tune_knows() {
    let mut seen = BTreeSet::new();
    for expected in SYSTEMS {
        let document = examine(&Machine::at(System::load(expected.system).root()), &options(expected));
        for remedy in document.findings.iter().flat_map(|finding| &finding.remedies) {
            if let doctor::Remedy::Tune { setting, nic } = remedy {
                let (key, _) = Key::normal(setting).unwrap_or_else(|error| panic!("{setting}: {error}"));
                assert_eq!(nic.is_some(), key.is_of_nic(), "{setting}");
                seen.insert(setting.key.clone());
            }
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
}

#[test]
fn the_scope_is_what_was_asked_for_else_the_shield_else_what_is_isolated() {
    let mut system = System::load("preempt-rt");
    let of = |system: &System| examine(&Machine::at(system.root()), &DoctorOptions::default()).scope;
    assert_eq!((of(&system).cpus.to_string().as_str(), of(&system).from), ("3", doctor::ScopeOrigin::Isolated));
    system.put(
        "/run/windhover/3b1f6b0e-0000-4000-8000-000000000006/shield.json",
        r#"{"format":1,"set":"0001","spec":{"processes":"2-3"},"backend":"v2"}"#,
    );
    assert_eq!((of(&system).cpus.to_string().as_str(), of(&system).from), ("2-3", doctor::ScopeOrigin::Shield));
    // One of another boot is gone.
    system.put("/proc/sys/kernel/random/boot_id", "3b1f6b0e-0000-4000-8000-0000000000ff\n");
    assert_eq!(of(&system).from, doctor::ScopeOrigin::Isolated);
    let asked = DoctorOptions { cpus: "1".parse().unwrap(), ..DoctorOptions::default() };
    let scope = examine(&Machine::at(system.root()), &asked).scope;
    assert_eq!((scope.cpus.to_string().as_str(), scope.from), ("1", doctor::ScopeOrigin::Asked));
}

/// Catches: since Linux 6.12 the root's list of isolated CPUs has those isolated at boot, too, and every such host was called BAD,
/// with the remedy to remove isolcpus=.
#[test]
fn cpus_isolated_at_boot_are_in_no_partition() {
    let mut system = System::load("preempt-rt");
    system.put("/proc/cmdline", "root=/dev/sda1 isolcpus=domain,managed_irq,3 nohz_full=3 rcu_nocbs=3\n");
    system.put("/sys/devices/system/cpu/isolated", "3\n");
    let of = |system: &System| {
        let document = examine(&Machine::at(system.root()), &DoctorOptions::default());
        let bad = document.findings.into_iter().filter(|finding| finding.severity == Severity::Bad);
        bad.filter(|finding| finding.id == "cpu.housekeeping").map(|finding| finding.text).collect::<Vec<_>>()
    };
    for (partition, effective, expected) in [
        ("member", "0-3", false),
        ("isolated", "2", false),
        ("isolated invalid (x)", "3", false),
        ("isolated", "2-3", true),
    ] {
        system.put("/sys/fs/cgroup/windhover/cpuset.cpus.partition", &format!("{partition}\n"));
        system.put("/sys/fs/cgroup/windhover/cpuset.cpus.effective", &format!("{effective}\n"));
        let said = of(&system);
        assert_eq!(
            said == ["CPU 3 is isolated at boot and in an isolated partition too"],
            expected,
            "{partition}: {said:?}"
        );
        assert!(expected || said.is_empty(), "{partition}: {said:?}");
    }
}

#[test]
fn which_bypass_stacks_can_run_follows_from_families_capabilities_and_devices() {
    let mut system = System::load("metal");
    let expected = SYSTEMS.iter().find(|expected| expected.system == "metal").unwrap();
    let nic = expected.nic.unwrap();
    let mut says =
        |families: &str, capabilities: &str, features: Option<u64>, (mtu, program): (u32, Option<u32>), id: &str| {
            system.put("/proc/net/protocols", families);
            system.put("/proc/self/status", &format!("Name:\twindhover\nCapEff:\t{capabilities}\n"));
            let text = std::fs::read_to_string(system.root().join("windhover-snapshot.json")).unwrap();
            let mut snapshot: doctor::Snapshot = serde_json::from_str(&text).unwrap();
            let device = snapshot.devices.entry(nic.to_owned()).or_default();
            (device.xdp_features, device.xdp_program) = (features, program);
            snapshot.host.nics.iter_mut().filter(|one| one.name == nic).for_each(|one| one.mtu = Some(mtu));
            system.put("/windhover-snapshot.json", &serde_json::to_string(&snapshot).unwrap());
            let document = examine(&Machine::at(system.root()), &options(expected));
            let found = document.findings.iter().filter(|finding| finding.id == id);
            found
                .map(|finding| (finding.severity, finding.text.clone(), format!("{:?}", finding.remedies)))
                .collect::<Vec<_>>()
        };
    let (both, all) = ("protocol size\nXDP 960\nPACKET 1472\n", "000001ffffffffff");
    for (families, capabilities, severity, words) in [
        (both, all, Severity::Ok, "spin and xdp (over AF_XDP or AF_PACKET) can run here"),
        ("PACKET 1472\n", all, Severity::Note, "over AF_PACKET only) can run here: the kernel has no AF_XDP"),
        // CAP_NET_RAW alone, then all but CAP_BPF with CAP_SYS_ADMIN in its place, then nothing.
        (both, "0000000000002000", Severity::Note, "AF_XDP needs CAP_NET_ADMIN and CAP_BPF"),
        (both, "0000000000203000", Severity::Ok, "xdp (over AF_XDP or AF_PACKET)"),
        (both, "0000000000000000", Severity::Note, "xdp cannot: it lacks CAP_NET_ADMIN and CAP_NET_RAW and CAP_BPF"),
        ("TCP 1\n", all, Severity::Note, "xdp cannot: it lacks AF_XDP and AF_PACKET"),
    ] {
        let found = says(families, capabilities, None, (1500, None), "net.bypass");
        assert!(found.len() == 1 && found[0].0 == severity && found[0].1.contains(words), "{capabilities}: {found:?}");
    }
    for (features, device, severity, words) in [
        (0x7f, (1500, None), Severity::Ok, "AF_XDP zero-copy"),
        (0x23, (1500, None), Severity::Ok, "AF_XDP native (with copies)"),
        (0, (1500, None), Severity::Note, "AF_XDP generic or AF_PACKET only"),
        (0x7f, (9000, None), Severity::Note, "AF_XDP takes 3822 at most"),
        (0x7f, (1500, Some(12)), Severity::Note, "has an XDP program already (number 12)"),
    ] {
        let found = says(both, all, Some(features), device, "nic.xdp");
        assert!(found.iter().any(|one| one.0 == severity && one.1.contains(words)), "{features}: {found:?}");
    }
    assert!(says(both, all, None, (1500, None), "nic.xdp").is_empty(), "nobody knows");
    for features in [None, Some(0x7f)] {
        let found = says(both, all, features, (1500, Some(12)), "nic.xdp");
        assert!(found.len() == 1 && found[0].1.contains("(number 12)"), "{features:?}: {found:?}");
        assert!(found[0].2.contains(&format!("ip link set dev {nic} xdp off")), "{found:?}");
    }
}

#[test]
fn what_was_measured_decides_over_what_was_read() {
    let mut system = System::load("preempt-rt");
    let expected = SYSTEMS.iter().find(|expected| expected.system == "preempt-rt").unwrap();
    let text = std::fs::read_to_string(system.root().join("windhover-snapshot.json")).unwrap();
    let mut snapshot: doctor::Snapshot = serde_json::from_str(&text).unwrap();
    let measured = snapshot.measured.as_mut().unwrap();
    measured.local_timer = 250;
    measured.rcu = 130;
    measured.longest_ns = 670_000;
    measured.smi = Some(2);
    measured.interrupts.insert("16".to_owned(), 5);
    measured.throttle.as_mut().unwrap().longest_ns = 52_000_000;
    system.put("/windhover-snapshot.json", &serde_json::to_string(&snapshot).unwrap());
    let document = examine(&Machine::at(system.root()), &options(expected));
    for (id, severity) in [
        ("cpu.tick", Severity::Warning),
        ("cpu.steal-noise", Severity::Warning),
        ("cpu.smi", Severity::Warning),
        ("irq.on-shield", Severity::Warning),
        ("sched.rt-throttle", Severity::Bad),
    ] {
        assert_eq!(worst(&document, id), Some(severity), "{id}: {:#?}", document.of(id).collect::<Vec<_>>());
    }
    let throttle = document.of("sched.rt-throttle").next().unwrap();
    assert!(throttle.text.contains("fair server"), "the limit is off, so it is not that: {throttle:?}");
    // Who came is named, and then the gaps are these, not the machine's.
    let came = doctor::Visitor { kind: "process".to_owned(), name: "cc1".to_owned(), count: 7, ..Default::default() };
    snapshot.measured.as_mut().unwrap().visitors = vec![came];
    system.put("/windhover-snapshot.json", &serde_json::to_string(&snapshot).unwrap());
    let document = examine(&Machine::at(system.root()), &options(expected));
    assert_eq!(worst(&document, "cpu.foreign-tasks"), Some(Severity::Bad));
    assert!(document.of("cpu.foreign-tasks").any(|finding| finding.text.contains("cc1 ×7")));
    assert_eq!(worst(&document, "cpu.steal-noise"), Some(Severity::Note));
}

#[test]
fn each_real_time_variant_has_its_own_advice() {
    let advice = |name: &str, change: &dyn Fn(&mut System)| -> String {
        let mut system = System::load(name);
        change(&mut system);
        let document = examine(&Machine::at(system.root()), &DoctorOptions::default());
        let said = document.of("sched.variant").map(|finding| {
            assert!(finding.severity <= Severity::Note, "{name}: {finding:?}");
            let steps: Vec<String> = finding.remedies.iter().map(ToString::to_string).collect();
            format!("{} | {}", finding.text, steps.join(" | "))
        });
        said.collect::<Vec<_>>().join("\n")
    };
    let asis = |_: &mut System| {};
    for (name, words) in [
        (
            "redhawk",
            &["processes: CPU 1, interrupts: CPU 1, local timers: CPU 1", "-p is procs, -i is irqs, -l is ltmrs"][..],
        ),
        ("rhel8-tuned", &["profile realtime", "tuna"]),
        (
            "suse-rt",
            &["profile is not realtime (throughput-performance)", "cset shield needs control groups of version 1"],
        ),
        ("ubuntu-rt", &["pro enable realtime-kernel"]),
        ("xenomai-mercury", &["figures are those of the kernel"]),
        (
            "xenomai-cobalt",
            &["xeno-config --skin=posix", "corectl --status", "RTnet has a network stack", "none is for 10 Gbit/s"],
        ),
        ("evl", &["out-of-band ports are eth0", "SOCK_OOB", "does not measure that half"]),
        ("rros", &["fork of libevl"]),
    ] {
        let said = advice(name, &asis);
        for words in words {
            assert!(said.contains(words), "{name}: {words}\n{said}");
        }
    }
    assert_eq!(advice("metal", &asis), "", "a stock kernel has no such advice");
    // RedHawk's user space is RHEL's, its kernel is not.
    assert!(!advice("redhawk", &asis).contains("tuna"));
    let without = |system: &mut System| std::fs::remove_dir_all(system.root().join("proc/shield")).unwrap();
    assert!(advice("redhawk", &without).contains("without its files /proc/shield"));
    let no_port = |system: &mut System| system.put("/sys/class/net/eth0/oob_port", "0\n");
    assert!(advice("evl", &no_port).contains("no device is an out-of-band port"));
    assert!(advice("evl", &no_port).contains("evl net -ei DEV"));
    let nics = |system: &mut System| {
        let nic = |name: &str, driver: &str| serde_json::json!({"name": name, "driver": driver, "bus": "0000:01:00.0"});
        let snapshot = serde_json::json!({"host": {"nics": [nic("eth0", "igb"), nic("eth1", "ixgbe")]}});
        system.put("/windhover-snapshot.json", &snapshot.to_string());
    };
    let said = advice("xenomai-cobalt", &nics);
    assert!(said.contains("it has a driver for eth0 (igb); it has none for eth1 (ixgbe)"), "{said}");
}

#[test]
fn a_known_change_needs_the_version_and_what_was_measured() {
    let found = |release: &str, visitor: &str| {
        let mut system = System::load("metal");
        system.put("/proc/sys/kernel/osrelease", &format!("{release}\n"));
        let snapshot = serde_json::json!({"measured": {"cpu": 1, "duration_ns": 1, "visitors": [
            {"kind": "kernel thread", "name": visitor, "count": 12}]}});
        system.put("/windhover-snapshot.json", &snapshot.to_string());
        let document = examine(&Machine::at(system.root()), &DoctorOptions::default());
        let mut own = document.of("sched.known-change").map(|finding| (finding.severity, format!("{finding:?}")));
        own.next().unwrap()
    };
    let (severity, text) = found("6.1.0-49-amd64", "ksoftirqd/1");
    assert!(
        severity == Severity::Warning && text.contains("d15121be7485") && text.contains("12 times to CPU 1"),
        "{text}"
    );
    assert!(text.contains("stable kernels may have the revert"), "{text}");
    assert_eq!(found("6.1.0-49-amd64", "kworker/1:0").0, Severity::Ok);
    assert_eq!(found("6.8.9-200.fc39.x86_64", "ksoftirqd/1").0, Severity::Ok);
}

#[test]
fn two_kernels_are_told_apart_by_their_options() {
    let of = |config: Option<&str>, id: &str| {
        let mut document = examine(&Machine::at(System::load("metal").root()), &DoctorOptions::default());
        document.machine.kernel_config = config.map(str::to_owned);
        document.machine.kernel_config_id = Some(id.to_owned());
        document.machine.interrupt_threads.insert("irq eth0".to_owned(), format!("fifo:{}", id.len()));
        document
    };
    let (a, b) = (of(Some("CONFIG_HZ=250\nCONFIG_VETH=m\n"), "1"), of(Some("CONFIG_HZ=1000\nCONFIG_VETH=y\n"), "22"));
    let compared = compare(&a, &b);
    let find = |words: &str| compared.differences.iter().find(|one| one.what.contains(words)).unwrap();
    assert!(find("CONFIG_HZ (ticks").should_match && find("CONFIG_HZ").b.as_deref() == Some("1000"));
    assert!(!find("further options").should_match);
    assert_eq!(find("thread irq eth0").a.as_deref(), Some("fifo:1"));
    assert_eq!(compared.differences.len(), 3, "{compared:#?}");
    let unsaved = compare(&a, &of(None, "22"));
    assert!(
        unsaved.differences.iter().any(|one| one.what == "kernel configuration" && one.should_match),
        "{unsaved:#?}"
    );
}

#[test]
fn the_fair_server_matters_where_somebody_can_starve() {
    let mut system = System::load("preempt-rt");
    system.put("/sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000\n");
    let expected = SYSTEMS.iter().find(|expected| expected.system == "preempt-rt").unwrap();
    let of = |system: &System| worst(&examine(&Machine::at(system.root()), &options(expected)), "sched.fair-server");
    assert_eq!(of(&system), Some(Severity::Ok));
    let status = std::fs::read_to_string(system.root().join("proc/700/status")).unwrap();
    system.put("/proc/700/status", &status.replace("0-2", "0-3"));
    assert_eq!(of(&system), Some(Severity::Warning));
}

#[test]
fn only_what_was_asked_for_is_examined() {
    let system = System::load("metal");
    let options = DoctorOptions { only: vec!["mem".to_owned(), "cpu.freq".to_owned()], ..DoctorOptions::default() };
    let document = examine(&Machine::at(system.root()), &options);
    let ids: BTreeSet<&str> = document
        .findings
        .iter()
        .map(|finding| finding.id.as_str())
        .chain(document.skipped.iter().map(|skipped| skipped.id.as_str()))
        .collect();
    assert!(ids.iter().all(|id| id.starts_with("mem.") || *id == "cpu.freq"), "{ids:?}");
    assert_eq!(ids.len(), 7, "{ids:?}");
    assert_eq!(unknown_check(&options.only), None);
    let wrong = vec!["cpu".to_owned(), "cpu.nothing".to_owned()];
    assert_eq!(unknown_check(&wrong).map(String::as_str), Some("cpu.nothing"));
}

#[test]
fn a_document_reads_what_it_writes() {
    for expected in SYSTEMS {
        let document = examine(&Machine::at(System::load(expected.system).root()), &options(expected));
        let text = serde_json::to_string_pretty(&document).unwrap();
        let read: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(read, document, "{}", expected.system);
        assert_eq!(read.format, doctor::FORMAT);
    }
}

#[test]
fn two_ends_differ_where_they_should_match() {
    let examine_for = |name: &str| {
        let expected = SYSTEMS.iter().find(|expected| expected.system == name).unwrap();
        examine(&Machine::at(System::load(name).root()), &options(expected))
    };
    let (metal, again, guest) = (examine_for("metal"), examine_for("metal"), examine_for("vm-lockdown"));
    let same = compare(&metal, &again);
    assert!(!same.differs() && same.differences.is_empty(), "{same:#?}");
    assert!(same.same_machine);
    let other = compare(&metal, &guest);
    assert!(other.differs() && !other.same_machine);
    let of = |what: &str| other.differences.iter().find(|difference| difference.what == what);
    assert!(of("kernel_release").unwrap().should_match);
    assert!(of("clocksource").unwrap().should_match);
    assert!(of("sysctl net.core.busy_poll").unwrap().should_match);
    assert!(!of("memory_bytes").unwrap().should_match);
    assert!(of("ens1f0/eth0 coalesce rx-usecs").unwrap().should_match);
    // The guest's is not known, which says nothing against it.
    assert!(!of("cpufreq_governor").is_some_and(|difference| difference.should_match));
    assert!(of("finding clock.source").unwrap().should_match);
    let first_free = other.differences.iter().position(|difference| !difference.should_match).unwrap();
    assert!(other.differences[first_free..].iter().all(|difference| !difference.should_match));

    // On one machine findings are compared for the same CPUs alone: what was not asked about is no difference.
    let worse = |document: &doctor::Document| {
        let mut worse = document.clone();
        let finding = worse.findings.iter_mut().find(|finding| finding.severity == doctor::Severity::Note).unwrap();
        finding.severity = doctor::Severity::Warning;
        worse
    };
    let mut whole = worse(&metal);
    assert!(compare(&metal, &whole).differs() && compare(&metal, &whole).examined_for.is_none());
    whole.scope.cpus = model::CpuList::default();
    let of_others = compare(&metal, &whole);
    assert!(!of_others.differs(), "{of_others:#?}");
    assert!(of_others.differences.iter().any(|one| one.a.as_ref().is_some_and(|a| a.starts_with("note: "))));
    let [a, b] = of_others.examined_for.unwrap();
    assert!(a.contains(&format!("CPU {}", metal.scope.cpus)) && !b.contains("CPU"), "{a}, {b}");

    // One knob is enough.
    let mut tuned = again;
    tuned.machine.sysctls.insert("kernel.timer_migration".to_owned(), "0".to_owned());
    let one = compare(&metal, &tuned);
    assert_eq!(one.differences.len(), 1, "{one:#?}");
    assert!(one.differs());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the kernel's files hold, the doctor finds something and does not fall over.
    #[test]
    fn no_content_makes_it_panic(
        which in 0..SYSTEMS.len(),
        noise in prop::collection::vec((any::<u16>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 60),
    ) {
        let expected = &SYSTEMS[which];
        let system = System::load(expected.system);
        let files = system.files();
        for (file, (cut, how, bytes)) in files.iter().zip(noise.iter().cycle()) {
            let mut content = std::fs::read(file).unwrap();
            let at = usize::from(*cut) % (content.len() + 1);
            match how % 6 {
                0 => content = bytes.clone(),
                1 => content.truncate(at),
                2 => content.splice(at..at, bytes.iter().copied()).for_each(drop),
                3 => content.extend(b"-99999999999999999999 18446744073709551615 ffffffffffffffffffff"),
                4 => content.reverse(),
                _ => {}
            }
            std::fs::write(file, content).unwrap();
        }
        let machine = Machine::at(system.root());
        if let Err(error) = doctor::Snapshot::take(&machine) {
            let text = machine.text(doctor::SNAPSHOT_FILE).unwrap();
            prop_assert!(serde_json::from_str::<doctor::Snapshot>(&text).is_err(), "{error}");
            std::fs::remove_file(machine.path(doctor::SNAPSHOT_FILE.as_ref())).unwrap();
        }
        let document = examine(&machine, &options(expected));
        prop_assert!(!document.findings.is_empty());
        prop_assert!(!compare(&document, &doctor::record(&machine).unwrap()).a.is_empty());
    }
}
