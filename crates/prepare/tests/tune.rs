//! Profiles and plans on trees of files, and applying them there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use host::knob::{EthtoolPart, Knob, Machine, Settings as _};
use host::undo::StateDir;
use model::Setting;
use prepare::Kernel;
use prepare::tune::{self, Profile, TuneError, TuneReport};
use windhover_prepare as prepare;

struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.folder.path().join("root").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{content}\n")).unwrap();
        self
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("root").join(path)).unwrap().trim().to_owned()
    }

    fn kernel(&self) -> Kernel {
        std::fs::create_dir_all(self.folder.path().join("root")).unwrap();
        Kernel::at(Machine::at(self.folder.path().join("root")))
    }

    fn state(&self) -> StateDir {
        StateDir::at(self.folder.path().join("state"))
    }

    /// A program in the place of systemctl, which knows the units that have a file.
    fn systemctl(&self, units: &[(&str, &str)]) -> Kernel {
        std::fs::create_dir_all(self.folder.path().join("root/run/systemd/system")).unwrap();
        let units_folder = self.folder.path().join("units");
        std::fs::create_dir_all(&units_folder).unwrap();
        for (unit, state) in units {
            std::fs::write(units_folder.join(unit), state).unwrap();
        }
        let program = self.folder.path().join("systemctl");
        let script = format!(
            "#!/bin/sh\ncd {}\n[ -e \"$2\" ] || {{ echo inactive; exit 4; }}\ncase $1 in is-active) cat \"$2\"; grep -qx active \"$2\" || \
             exit 3;; stop) case $(cat refuses) in *$2*) echo \"Failed to stop $2: denied\" >&2; exit 1;; esac; echo inactive \
             >\"$2\";; start) echo active >\"$2\";; esac\n",
            units_folder.display()
        );
        std::fs::write(units_folder.join("refuses"), "").unwrap();
        let text = program.with_extension("text");
        std::fs::write(&text, script).unwrap();
        // By another program: a child that another test forks now has our descriptor until it becomes its program, and what is
        // open for writing cannot be run (ETXTBSY).
        let made = std::process::Command::new("install").args(["-m", "755"]).args([&text, &program]).status().unwrap();
        assert!(made.success());
        let mut kernel = self.kernel();
        kernel.systemctl = Some(program);
        kernel
    }

    fn unit(&self, unit: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("units").join(unit)).unwrap().trim().to_owned()
    }
}

/// A metal machine of two CPUs with cpufreq, C-states and one NIC of two queues.
fn metal() -> Tree {
    let tree = Tree::new();
    let cpu = "sys/devices/system/cpu";
    tree.file(&format!("{cpu}/online"), "0-1")
        .file(&format!("{cpu}/cpuidle/current_driver"), "intel_idle")
        .file("dev/cpu_dma_latency", "")
        .file(&format!("{cpu}/intel_pstate/no_turbo"), "1")
        .file(&format!("{cpu}/intel_pstate/min_perf_pct"), "20");
    for policy in ["policy0", "policy1"] {
        let folder = format!("{cpu}/cpufreq/{policy}");
        tree.file(&format!("{folder}/scaling_governor"), "powersave")
            .file(&format!("{folder}/scaling_available_governors"), "performance powersave")
            .file(&format!("{folder}/energy_performance_preference"), "balance_performance")
            .file(
                &format!("{folder}/energy_performance_available_preferences"),
                "default performance balance_performance balance_power power",
            );
    }
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
        .file("sys/kernel/mm/ksm/run", "1")
        .file("proc/sys/net/core/busy_poll", "0")
        .file("proc/sys/net/core/busy_read", "0")
        .file("proc/sys/kernel/timer_migration", "1")
        .file("proc/sys/vm/dirty_ratio", "20")
        .file("proc/sys/vm/dirty_bytes", "0")
        .file("sys/class/net/eth0/ifindex", "2")
        .file("sys/class/net/eth0/threaded", "0")
        .file("sys/class/net/eth0/napi_defer_hard_irqs", "0")
        .file("sys/class/net/eth0/gro_flush_timeout", "0");
    for queue in ["rx-0/rps_cpus", "rx-1/rps_cpus", "tx-0/xps_cpus"] {
        tree.file(&format!("sys/class/net/eth0/queues/{queue}"), "0");
    }
    tree.file("sys/class/net/eth0/device/msi_irqs/40", "msix").file("proc/irq/40/smp_affinity_list", "0-1");
    for (property, value) in [
        ("coalesce/rx-usecs", "50"),
        ("coalesce/adaptive-rx", "on"),
        ("ring/rx", "256"),
        ("ring/rx-max", "4096"),
        ("feature/rx-gro", "on"),
        ("feature/tx-tcp-segmentation", "on"),
        ("feature/tx-tcp6-segmentation", "on"),
    ] {
        tree.file(&format!("devices/eth0/{property}"), value);
    }
    tree
}

fn setting(text: &str) -> Setting {
    text.parse().unwrap()
}

fn profile(settings: &[&str]) -> Profile {
    let settings: Vec<Setting> = settings.iter().map(|text| setting(text)).collect();
    Profile { name: "test".to_owned(), ..Profile::default() }.with(&settings).unwrap()
}

/// Plans, and carries the plan out.
fn apply(profile: &Profile, device: Option<&str>, kernel: &Kernel, state: &StateDir) -> Result<TuneReport, TuneError> {
    tune::apply(&tune::plan_profile(profile, device, kernel)?, kernel, state, "test")
}

/// What would be written: path or name of the knob, and the value.
fn written(kernel: &Kernel, settings: &[&str]) -> Vec<(String, String)> {
    let plan = tune::plan_profile(&profile(settings), Some("eth0"), kernel).unwrap();
    plan.changes.into_iter().map(|planned| (planned.change.knob.to_string(), planned.change.wanted)).collect()
}

fn skipped(kernel: &Kernel, settings: &[&str]) -> Vec<String> {
    let plan = tune::plan_profile(&profile(settings), Some("eth0"), kernel).unwrap();
    plan.skipped.into_iter().map(|skipped| skipped.why).collect()
}

#[test]
fn built_in_profiles_are_whole() {
    let profiles = tune::profiles().unwrap();
    assert_eq!(profiles.len(), 5);
    for profile in profiles {
        assert!(!profile.summary.is_empty() && !profile.settings.is_empty(), "{}", profile.name);
        for reasoned in &profile.settings {
            assert!(reasoned.why.len() > 12 && !reasoned.why.starts_with("profile "), "{}: {reasoned:?}", profile.name);
        }
        assert!(profile.boot.iter().all(|parameter| !parameter.why.is_empty()), "{}", profile.name);
    }
    let paper = Profile::load("paper-2019").unwrap();
    assert_eq!(paper.layers, ["network-latency", "paper-2019"]);
    let value = |key: &str| paper.settings.iter().find(|reasoned| reasoned.setting.key == key).unwrap();
    assert_eq!(value("sysctl.net.core.busy_poll").setting.value, "50");
    assert_eq!(value("sysctl.net.core.busy_poll").layer, "network-latency");
    assert_eq!(value("nic.coalesce.rx-usecs").layer, "paper-2019");
}

#[test]
fn layers_lie_over_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let load = |name: &str| Profile::load(folder.path().join(name).to_str().unwrap());
    write(
        "base.toml",
        "summary = 'b'\n[sysctl]\nvm.swappiness = 10\nvm.stat_interval = { value = 5, why = 'less often' }\n",
    );
    write(
        "top.toml",
        "summary = 't'\nextends = ['throughput', 'base.toml']\n[sysctl]\nvm.stat_interval = 20\n[nic]\nflow = ['udp4 dst-port 1 \
         queue 0', 'udp4 dst-port 2 queue 1']\n",
    );
    let top = load("top.toml").unwrap().with(&[setting("vm.swappiness=60")]).unwrap();
    assert_eq!(top.name, "top");
    let of = |key: &str| -> Vec<(String, String)> {
        let found = top.settings.iter().filter(|reasoned| reasoned.setting.key == key);
        found.map(|reasoned| (reasoned.setting.value.clone(), reasoned.layer.clone())).collect()
    };
    assert_eq!(of("sysctl.vm.stat_interval")[0].0, "20");
    assert_eq!(of("sysctl.vm.swappiness"), [("60".to_owned(), "--set".to_owned())]);
    assert_eq!(of("memory.thp"), [("always".to_owned(), "throughput".to_owned())]);
    assert_eq!(of("nic.flow").len(), 2, "rules do not replace each other");

    for (name, text, word) in [
        ("key.toml", "summary = 's'\n[nic.coalesce]\nrx-usec = 0\n", "nic.coalesce.rx-usecs"),
        ("value.toml", "summary = 's'\n[memory]\nthp = 'sometimes'\n", "madvise"),
        ("shape.toml", "summary = 's'\n[memory]\nthp = { value = 'never', whi = 'x' }\n", "whi"),
        ("list.toml", "summary = 's'\n[memory]\nthp = ['never']\n", "memory.thp"),
        ("none.toml", "[memory]\nthp = 'never'\n", "summary"),
        ("loop.toml", "summary = 's'\nextends = ['loop.toml']\n", "extends itself"),
        ("boot.toml", "summary = 's'\n[boot]\nparameters = [{ value = 'a\"b', why = 'x' }]\n", "boot loader"),
        ("syntax.toml", "summary = \n", "syntax.toml"),
    ] {
        write(name, text);
        let error = load(name).unwrap_err();
        assert!(error.to_string().contains(word), "{name}: {error}");
        assert_eq!((error.exit_code(), error.to_string().lines().count()), (2, 1), "{error}");
    }
    let error = load("missing.toml").unwrap_err().to_string();
    assert!(error.contains("missing.toml: cannot read: No such file"), "{error}");
    let error = Profile::load("latencies").unwrap_err().to_string();
    assert!(error.starts_with("there is no profile 'latencies': the built-in ones are latency, "), "{error}");
}

#[test]
fn settings_of_cpus_mean_a_file_of_each_policy() {
    let tree = metal();
    let kernel = tree.kernel();
    let cpu = "/sys/devices/system/cpu";
    let of = |file: &str, value: &str| -> Vec<(String, String)> {
        [0, 1].map(|policy| (format!("{cpu}/cpufreq/policy{policy}/{file}"), value.to_owned())).into()
    };
    // The preference first: with the governor `performance` the kernel does not take it back.
    let mut expected = of("energy_performance_preference", "performance");
    expected.extend(of("scaling_governor", "performance"));
    assert_eq!(written(&kernel, &["cpufreq.governor=performance", "cpufreq.epp=performance"]), expected);
    assert_eq!(written(&kernel, &["cpufreq.boost=on"]), [(format!("{cpu}/intel_pstate/no_turbo"), "0".to_owned())]);
    assert_eq!(
        written(&kernel, &["cpufreq.min-perf-percent=100"]),
        [(format!("{cpu}/intel_pstate/min_perf_pct"), "100".to_owned())]
    );
    assert_eq!(skipped(&kernel, &["cpufreq.governor=schedutil"]), ["the driver offers only: performance powersave"]);
    assert_eq!(written(&kernel, &["cpuidle.latency-us=3"]), [("/dev/cpu_dma_latency".to_owned(), "3".to_owned())]);

    let other = Tree::new();
    for (file, value) in
        [("scaling_min_freq", "800000"), ("cpuinfo_min_freq", "800000"), ("cpuinfo_max_freq", "3000001")]
    {
        other.file(&format!("{}/cpu0/cpufreq/{file}", &cpu[1..]), value);
    }
    other.file(&format!("{}/cpu0/power/energy_perf_bias", &cpu[1..]), "6").file("sys/class/net/eth0/ifindex", "2");
    assert_eq!(
        written(&other.kernel(), &["cpufreq.min-perf-percent=50", "cpufreq.epp=performance"]),
        [
            (format!("{cpu}/cpu0/power/energy_perf_bias"), "0".to_owned()),
            (format!("{cpu}/cpu0/cpufreq/scaling_min_freq"), "1500000".to_owned()),
        ]
    );
    assert!(skipped(&other.kernel(), &["cpuidle.latency-us=3"])[0].contains("cpu_dma_latency"));
    other.file("dev/cpu_dma_latency", "").file(&format!("{}/cpuidle/current_driver", &cpu[1..]), "none");
    assert!(skipped(&other.kernel(), &["cpuidle.latency-us=3"])[0].contains("no cpuidle driver"));
}

#[test]
fn settings_of_devices() {
    let tree = metal();
    let kernel = tree.kernel();
    let one = |text: &str| written(&kernel, &[text]);
    assert_eq!(one("nic.coalesce.rx-usecs=0"), [("eth0 coalesce rx-usecs".to_owned(), "0".to_owned())]);
    assert_eq!(one("nic.ring.rx=max"), [("eth0 ring rx".to_owned(), "4096".to_owned())]);
    // Of four parts the device has two.
    assert_eq!(
        one("nic.feature.tso=off"),
        [
            ("eth0 feature tx-tcp-segmentation".to_owned(), "off".to_owned()),
            ("eth0 feature tx-tcp6-segmentation".to_owned(), "off".to_owned()),
        ]
    );
    assert_eq!(one("nic.feature.gro=on"), []);
    // What the two ends negotiate is not to be set, until they no longer do.
    tree.file("devices/eth0/pause/autoneg", "on").file("devices/eth0/pause/rx", "on");
    assert_eq!(
        one("nic.pause.rx=off"),
        [("eth0 pause autoneg".to_owned(), "off".to_owned()), ("eth0 pause rx".to_owned(), "off".to_owned())]
    );
    assert_eq!(one("nic.pause.rx=on"), []);
    let queues = "/sys/class/net/eth0/queues";
    assert_eq!(one("nic.rps-cpus=1"), [0, 1].map(|queue| (format!("{queues}/rx-{queue}/rps_cpus"), "2".to_owned())));
    assert_eq!(one("nic.xps-cpus=all"), [(format!("{queues}/tx-0/xps_cpus"), "3".to_owned())]);
    assert_eq!(one("nic.irq-cpus=1"), [("/proc/irq/40/smp_affinity_list".to_owned(), "1".to_owned())]);
    // Threads of this device's interrupts alone, and of those only what is not so already.
    // A program that calls itself like one is none.
    let (kernel_thread, program) = (2_129_984, 4_194_304);
    for (tid, name, flags, priority) in [
        (90, "irq/40-eth0-rx-0", kernel_thread, 50),
        (91, "irq/41-other", kernel_thread, 50),
        (92, "irq/40-s-eth0-rx", kernel_thread, 60),
        (93, "irq/40-eth0-rx-1", program, 0),
    ] {
        tree.file(&format!("proc/{tid}/comm"), name).file(&format!("proc/{tid}/status"), &format!("Tgid:\t{tid}")).file(
            &format!("proc/{tid}/stat"),
            &format!(
                "{tid} ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 -51 0 1 0 77 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 17 0 {priority} 1"
            ),
        );
    }
    assert_eq!(
        one("nic.thread-policy=fifo:60"),
        [("policy of task 90 (irq/40-eth0-rx-0)".to_owned(), "fifo:60".to_owned())]
    );
    // Without netlink, the files for all instances at once.
    assert_eq!(one("nic.napi.threaded=on"), [("/sys/class/net/eth0/threaded".to_owned(), "1".to_owned())]);
    assert!(skipped(&kernel, &["nic.irq-cpus=7"])[0].contains("CPU 7 is not online"));
    assert!(skipped(&kernel, &["nic.napi.irq-suspend-timeout=9"])[0].contains("no NAPI instance"));
    assert!(skipped(&kernel, &["nic.eee=off"])[0].contains("driver of eth0"));
    let plan = tune::plan(&[setting("nic.eee=off")], None, &kernel).unwrap();
    assert!(plan.skipped[0].why.contains("--nic"));
    assert!(matches!(tune::plan(&[setting("nic.eee=off")], Some("eth9"), &kernel), Err(TuneError::Nic(_))));
}

#[test]
fn what_could_not_be_put_back_is_not_set() {
    let tree = metal();
    assert_eq!(written(&tree.kernel(), &["vm.dirty_ratio=10"]).len(), 1);
    assert!(skipped(&tree.kernel(), &["vm.dirty_bytes=1000000"])[0].contains("in percent"));
    // Bytes are in force: the ratio reads 0, and writing it would clear them.
    tree.file("proc/sys/vm/dirty_bytes", "1000000").file("proc/sys/vm/dirty_ratio", "0");
    assert!(skipped(&tree.kernel(), &["vm.dirty_ratio=10"])[0].contains("in bytes"));
}

#[test]
fn warnings_are_about_what_is_really_set() {
    let tree = metal();
    let warnings =
        |settings: &[&str]| tune::plan_profile(&profile(settings), Some("eth0"), &tree.kernel()).unwrap().warnings;
    assert!(warnings(&["net.core.busy_poll=50"])[0].contains("one CPU"));
    assert_eq!(warnings(&["net.core.busy_poll=0"]), Vec::<String>::new());
    assert!(warnings(&["nic.napi.gro-flush-timeout=200000"])[0].contains("pair"));
    assert_eq!(warnings(&["nic.napi.gro-flush-timeout=200000", "nic.napi.defer-hard-irqs=2"]), Vec::<String>::new());
    assert!(warnings(&["nic.napi.threaded=on"])[0].contains("priority"));
}

#[test]
fn applied_verified_and_undone() {
    let tree = metal();
    let (kernel, state) = (tree.kernel(), tree.state());
    let profile = profile(&[
        "net.core.busy_poll=50",
        "memory.thp=never",
        "nic.coalesce.rx-usecs=0",
        "kernel.sched_min_granularity_ns=1",
    ]);
    let apply_again = || apply(&profile, Some("eth0"), &kernel, &state).unwrap();
    let report = apply_again();
    assert_eq!((report.changed.len(), report.already, report.skipped.len()), (3, 0, 1));
    // A file of a tree takes the word as it is.
    assert_eq!(tree.text("sys/kernel/mm/transparent_hugepage/enabled"), "never");
    assert_eq!(tree.text("devices/eth0/coalesce/rx-usecs"), "0");

    let sets = || tune::applied(&state, Some("test")).unwrap().len();
    let again = apply_again();
    assert_eq!((again.set, again.changed.len(), again.already, sets()), (None, 0, 3, 1));

    let verify = || tune::verify(&profile, Some("eth0"), &kernel, &state).unwrap().0;
    assert_eq!(verify(), []);
    tree.file("proc/sys/net/core/busy_poll", "7").file("proc/12/comm", "tuned");
    let found = verify();
    assert_eq!((found.len(), found[0].wanted.as_str(), found[0].now.as_deref()), (1, "50", Some("7")));
    assert!(found[0].who.as_ref().unwrap().contains("tuned"), "{found:?}");

    let undone = tune::undo(Some("test"), &kernel, &state, false).unwrap();
    assert_eq!((undone.len(), undone[0].report.restored, undone[0].report.conflicts.len()), (1, 2, 1));
    assert_eq!(tree.text("proc/sys/net/core/busy_poll"), "7", "another's value stays");
    assert_eq!(tree.text("devices/eth0/coalesce/rx-usecs"), "50");
    assert_eq!(sets(), 0);
    assert_eq!(tune::undo(None, &kernel, &state, false).unwrap(), []);
    // Not applied: what the profile would change deviates.
    assert_eq!(verify().len(), 3);
}

#[test]
fn what_the_driver_rounds_is_kept_and_not_written_again() {
    let tree = metal();
    let (kernel, state) = (tree.kernel(), tree.state());
    let profile = profile(&["nic.ring.rx=100"]);
    apply(&profile, Some("eth0"), &kernel, &state).unwrap();
    // As if the driver had made 104 of it: in the log, and on the device.
    let sets = tune::applied(&state, None).unwrap();
    let log = state.folder().unwrap().join(format!("{}.jsonl", sets[0].0));
    let text = std::fs::read_to_string(&log).unwrap();
    // Lines without a checksum are taken as they are.
    let unsealed: String =
        text.lines().map(|line| format!("{}}}\n", line.rsplit_once(",\"sum\"").unwrap().0)).collect();
    std::fs::write(&log, unsealed.replace("\"after\":\"100\"", "\"after\":\"104\"")).unwrap();
    tree.file("devices/eth0/ring/rx", "104");
    let again = apply(&profile, Some("eth0"), &kernel, &state).unwrap();
    assert_eq!((again.set, again.changed.len()), (None, 0));
    assert_eq!(tree.text("devices/eth0/ring/rx"), "104");
    assert_eq!(tune::verify(&profile, Some("eth0"), &kernel, &state).unwrap().0, []);
    tune::undo(None, &kernel, &state, false).unwrap();
    assert_eq!(tree.text("devices/eth0/ring/rx"), "256");
}

#[test]
fn services_are_stopped_and_come_back() {
    let tree = metal();
    let kernel = tree.systemctl(&[("irqbalance.service", "active"), ("firewalld.service", "inactive")]);
    let state = tree.state();
    let profile = profile(&["service.irqbalance=stopped", "service.firewalld=stopped", "service.cpuspeed=stopped"]);
    let report = apply(&profile, None, &kernel, &state).unwrap();
    assert_eq!((report.changed.len(), report.already, report.skipped.len()), (1, 1, 1));
    assert!(report.skipped[0].why.contains("no service cpuspeed.service"), "{:?}", report.skipped);
    assert_eq!(tree.unit("irqbalance.service"), "inactive");
    tune::undo(None, &kernel, &state, false).unwrap();
    assert_eq!((tree.unit("irqbalance.service"), tree.unit("firewalld.service")), ("active".into(), "inactive".into()));

    let without = metal();
    without.file("proc/77/comm", "irqbalance");
    assert!(skipped(&without.kernel(), &["service.irqbalance=stopped"])[0].contains("process 77"));
    assert!(skipped(&without.kernel(), &["service.irqbalance=ban-cpus"])[0].contains("emit --systemd"));
}

#[test]
fn a_refusal_puts_everything_back() {
    let tree = metal();
    let kernel = tree.systemctl(&[("a.service", "active"), ("b.service", "active")]);
    std::fs::write(tree.folder.path().join("units/refuses"), "b.service").unwrap();
    let state = tree.state();
    let profile = profile(&["service.a=stopped", "service.b=stopped", "net.core.busy_poll=50"]);
    let error = apply(&profile, None, &kernel, &state).unwrap_err();
    assert!(error.to_string().ends_with("; everything changed before it is put back"), "{error}");
    assert!(error.to_string().contains("b.service") && error.to_string().contains("denied"), "{error}");
    assert_eq!(error.exit_code(), 1);
    assert_eq!((tree.unit("a.service"), tree.text("proc/sys/net/core/busy_poll")), ("active".into(), "0".into()));
    assert_eq!(tune::applied(&state, None).unwrap(), []);
}

/// What was shown is what is done: another's change after the plan adds nothing to it.
#[test]
fn the_plan_that_was_shown_is_carried_out() {
    let tree = metal();
    let (kernel, state) = (tree.kernel(), tree.state());
    let wanted = profile(&["net.core.busy_poll=50", "net.core.busy_read=0"]);
    let shown = tune::plan_profile(&wanted, None, &kernel).unwrap();
    tree.file("proc/sys/net/core/busy_poll", "7").file("proc/sys/net/core/busy_read", "9");
    let report = tune::apply(&shown, &kernel, &state, "test").unwrap();
    assert_eq!((report.changed.len(), report.changed[0].planned.now.as_str()), (1, "7"));
    assert_eq!(tree.text("proc/sys/net/core/busy_read"), "9");
    tune::undo(None, &kernel, &state, false).unwrap();
    assert_eq!(tree.text("proc/sys/net/core/busy_poll"), "7");
}

/// A ring's change asks for a second look at the device. When that fails, the first look's changes must not stay.
#[test]
fn a_device_that_vanishes_meanwhile_leaves_no_settings_behind() {
    let tree = metal();
    let kernel = tree.systemctl(&[("a.service", "active")]);
    let program = tree.folder.path().join("systemctl");
    let script = std::fs::read_to_string(&program).unwrap();
    let device = tree.folder.path().join("root/sys/class/net/eth0");
    let vanish = format!("#!/bin/sh\n[ $1 != stop ] || rm -r {}\n", device.display());
    std::fs::write(&program, script.replacen("#!/bin/sh\n", &vanish, 1)).unwrap();
    let state = tree.state();
    let wanted = profile(&["nic.ring.rx=100", "service.a=stopped"]);
    let error = apply(&wanted, Some("eth0"), &kernel, &state).unwrap_err();
    assert!(error.to_string().contains("eth0"), "{error}");
    assert_eq!((tree.unit("a.service"), tree.text("devices/eth0/ring/rx")), ("active".into(), "256".into()));
    assert_eq!(tune::applied(&state, None).unwrap(), []);
}

#[test]
fn knobs_of_one_setting() {
    let tree = metal();
    let changes = tune::knob_of(&setting("nic.feature.tso=off"), Some("eth0"), &tree.kernel()).unwrap();
    let part = EthtoolPart::Feature;
    let knob = |name: &str| Knob::Ethtool { device: "eth0".to_owned(), part, name: name.to_owned() };
    let knobs: Vec<Knob> = changes.iter().map(|change| change.knob.clone()).collect();
    assert_eq!(knobs, [knob("tx-tcp-segmentation"), knob("tx-tcp6-segmentation")]);
    assert_eq!(tree.kernel().read(&knobs[0]).unwrap(), "on");
    assert!(tune::knob_of(&setting("kernel.sched_min_granularity_ns=1"), None, &tree.kernel()).unwrap().is_empty());
    assert!(tune::knob_of(&setting("colour=red"), None, &tree.kernel()).is_err());
}
