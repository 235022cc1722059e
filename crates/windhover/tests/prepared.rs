//! Real agents and campaigns that shield a CPU and change settings of this machine: what is so meanwhile, and that
//! everything is as before afterwards, however an agent ends. One at a time, seconds each.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use model::{CpuList, Setting, ShieldBackend, ShieldSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{
    Folder, alone_on_machine, assert_code, assert_run_measured, can_make_namespaces, cell_files, is_root,
    run_directory, stderr, stdout, windhover,
};
use wire::{AGENT_LIMIT, Decoder, Reply, Request};

/// How long a busy machine may take to put back what is put back after a process.
const PATIENCE: Duration = Duration::from_secs(60);

/// The right to change this machine, and where its undo logs are.
struct Machine {
    _lock: fs::File,
    folder: Folder,
}

impl Machine {
    fn take(test: &str) -> Option<Self> {
        let online: CpuList = read("/sys/devices/system/cpu/online").parse().unwrap();
        let why = match () {
            () if !is_root() => "a shield needs root",
            () if !online.contains(0) || !online.contains(1) => "it takes CPUs 0 and 1",
            () => {
                let lock = alone_on_machine().unwrap();
                return Some(Self { _lock: lock, folder: Folder::new(test) });
            }
        };
        eprintln!("SKIPPED {test}: {why}");
        None
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = windhover(arguments);
        command.env("WINDHOVER_STATE", self.folder.0.join("state")).env_remove("WINDHOVER_KILL_AT");
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.command(&["shield", "--reset"]).output();
        let _ = self.command(&["undo", "--all"]).output();
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// What shields and settings change, as far as these tests look.
fn state() -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = [
        "/proc/sys/kernel/sched_rt_runtime_us",
        "/proc/sys/vm/stat_interval",
        "/proc/irq/default_smp_affinity",
        "/sys/devices/virtual/workqueue/cpumask",
        "/proc/1/status",
    ]
    .into_iter()
    .map(|path| (path.to_owned(), read(path)))
    .collect();
    let init = all.get("/proc/1/status").and_then(|status| line(status, "Cpus_allowed_list:"));
    all.insert("/proc/1/status".to_owned(), init.unwrap_or_default());
    for folder in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpuset"] {
        let names: BTreeSet<String> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.contains("windhover"))
            .collect();
        all.insert(folder.to_owned(), names.into_iter().collect::<Vec<_>>().join(" "));
    }
    all
}

fn line(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

/// A real agent at the other end of a pipe.
struct Agent {
    child: Child,
    decoder: Decoder,
}

impl Agent {
    fn start(machine: &Machine) -> Self {
        let child = machine
            .command(&["agent"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, decoder: Decoder::new(AGENT_LIMIT) }
    }

    fn ask(&mut self, request: &Request) -> Reply {
        self.child.stdin.as_mut().unwrap().write_all(&request.to_frame().unwrap()).unwrap();
        let mut buffer = [0; 4096];
        loop {
            if let Some(payload) = self.decoder.pop().unwrap() {
                return Reply::from_payload(&payload).unwrap();
            }
            let length = self.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(length > 0, "the agent ended");
            self.decoder.feed(&buffer[..length]);
        }
    }

    fn prepare(&mut self, shield: Option<ShieldSpec>, settings: &[&str]) -> Reply {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        self.ask(&Request::Prepare { shield, settings, device: None, shielded: false })
    }

    fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It puts back what it changed when its input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn shield(backend: ShieldBackend) -> ShieldSpec {
    let cpu: CpuList = "1".parse().unwrap();
    ShieldSpec { processes: cpu.clone(), interrupts: cpu, backend, unlimited_realtime: true, ..ShieldSpec::default() }
}

/// Waits until the machine is as it was; what still differs otherwise.
fn is_as(before: &BTreeMap<String, String>, patience: Duration) -> Result<(), String> {
    let end = Instant::now() + patience;
    loop {
        let now = state();
        if now == *before {
            return Ok(());
        }
        if Instant::now() > end {
            let differs = before.iter().filter(|(name, value)| now.get(*name) != Some(value));
            let told = differs.map(|(name, value)| format!("{name}: '{value}' before, '{}' now", now[name]));
            return Err(told.collect::<Vec<_>>().join("; "));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_agent_keeps_in_force_what_was_asked_for_last() {
    let Some(machine) = Machine::take("an_agent_keeps_in_force_what_was_asked_for_last") else { return };
    let before = state();
    let mut agent = Agent::start(&machine);
    // Unlike this process it is no ancestor of the agent.
    let mut bystander = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    for backend in [ShieldBackend::Auto, ShieldBackend::Affinity] {
        let reply = agent.prepare(Some(shield(backend)), &[]);
        let Reply::Prepared { shield: Some(report), changed, .. } = reply else { panic!("no shield: {reply:?}") };
        assert!(changed > 0 && report.backend != ShieldBackend::Auto, "{report:?}");
        assert_eq!(read("/proc/sys/kernel/sched_rt_runtime_us"), "-1");
        assert_ne!(state(), before);
        let allowed = line(&read(&format!("/proc/{}/status", bystander.id())), "Cpus_allowed_list:").unwrap();
        assert!(!allowed.parse::<CpuList>().unwrap().contains(1), "{allowed}");
    }
    // The same once more changes nothing; a setting joins it; without the shield only the setting is left.
    let again = agent.prepare(Some(shield(ShieldBackend::Affinity)), &["vm.stat_interval=7"]);
    assert!(matches!(again, Reply::Prepared { shield: Some(_), .. }), "{again:?}");
    assert_eq!(
        (read("/proc/sys/vm/stat_interval").as_str(), read("/proc/sys/kernel/sched_rt_runtime_us").as_str()),
        ("7", "-1")
    );
    let Reply::Prepared { shield: None, changed: 1, .. } = agent.prepare(None, &["vm.stat_interval=7"]) else {
        panic!("the setting alone")
    };
    let rt = "/proc/sys/kernel/sched_rt_runtime_us";
    assert_eq!((read("/proc/sys/vm/stat_interval").as_str(), read(rt)), ("7", before[rt].clone()));
    // What this system lacks is told, not an error; what no system has is.
    let Reply::Prepared { changed: 0, notes, .. } = agent.prepare(None, &["nic.feature.gro=on"]) else {
        panic!("a setting that is not here")
    };
    assert!(notes.iter().any(|note| note.contains("nic.feature.gro")), "{notes:?}");
    for unknown in ["no.such.key", "sysctl.kernel.no_such_thing"] {
        let Reply::Failed { code: 2, message } = agent.prepare(None, &[&format!("{unknown}=1")]) else {
            panic!("an unknown key")
        };
        assert!(message.contains(unknown) && !message.contains('\n'), "{message}");
    }
    assert_eq!(agent.ask(&Request::Restore), Reply::Restored { problems: Vec::new() });
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    is_as(&before, PATIENCE).unwrap();
}

#[test]
fn however_an_agent_ends_the_machine_is_as_before() {
    let Some(machine) = Machine::take("however_an_agent_ends_the_machine_is_as_before") else { return };
    let before = state();
    for end in ["bye", "closed pipe", "-TERM", "-KILL"] {
        let mut agent = Agent::start(&machine);
        let made = agent.prepare(Some(shield(ShieldBackend::Auto)), &["vm.stat_interval=7"]);
        assert!(matches!(made, Reply::Prepared { shield: Some(_), .. }), "{made:?}");
        assert_ne!(state(), before);
        match end {
            "bye" => assert_eq!(agent.ask(&Request::Bye), Reply::Bye),
            "closed pipe" => drop(agent.child.stdin.take()),
            signal => agent.signal(signal),
        }
        agent.child.wait().unwrap();
        is_as(&before, PATIENCE).unwrap_or_else(|what| panic!("after {end}: {what}"));
    }
}

#[test]
fn a_refused_shield_leaves_nothing_behind_and_the_agent_goes_on() {
    let Some(machine) = Machine::take("a_refused_shield_leaves_nothing_behind_and_the_agent_goes_on") else { return };
    let before = state();
    let mut agent = Agent::start(&machine);
    let boot = ShieldSpec { processes: "0".parse().unwrap(), ..shield(ShieldBackend::Auto) };
    let Reply::Failed { code: 2, message } = agent.prepare(Some(boot), &["vm.stat_interval=7"]) else {
        panic!("the boot CPU")
    };
    assert!(message.contains("CPU 0"), "{message}");
    is_as(&before, Duration::ZERO).unwrap();
    // A setting of a good shield that is refused takes the shield with it.
    let Reply::Failed { code: 2, .. } = agent.prepare(Some(shield(ShieldBackend::Auto)), &["no.such.key=1"]) else {
        panic!("an unknown key")
    };
    is_as(&before, PATIENCE).unwrap();
    // Another's shield would be up in cells that are to have none.
    assert_code(&machine.command(&["shield", "-p", "1", "--backend", "affinity", "--yes"]).output().unwrap(), 0);
    let Reply::Failed { code: 2, message } = agent.prepare(None, &[]) else { panic!("another's shield") };
    assert!(message.contains("shield --reset"), "{message}");
    assert_code(&machine.command(&["shield", "--reset"]).output().unwrap(), 0);
    is_as(&before, PATIENCE).unwrap();
}

fn plan(grid: &str) -> String {
    format!(
        "name = \"t\"\nrepetitions = 1\nseed = 7\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = 0.2\nwarmup_ms = 5\nwarmup_count = 10\ncpu = \"1\"\n{grid}\n"
    )
}

#[test]
fn a_campaign_shields_some_cells_and_not_others() {
    let test = "a_campaign_shields_some_cells_and_not_others";
    if !can_make_namespaces(test) {
        return;
    }
    let Some(machine) = Machine::take(test) else { return };
    let before = state();
    let seen = machine.folder.0.join("seen");
    // The load says what it may do, and what the machine is like.
    let look = format!(
        "echo $(cat /proc/sys/kernel/sched_rt_runtime_us) $(grep Cpus_allowed_list /proc/self/status) >> {}; sleep 0.05",
        seen.display()
    );
    let grid = format!(
        "[loads.look]\nprofile = \"build\"\njobs = 1\ncommand = \"\"\"{look}\"\"\"\n\
         [[grid]]\nload = [\"look\"]\nshield = [\"off\", \"auto\"]\npolicy = [\"other\", \"fifo:1\"]\n"
    );
    let file = machine.folder.file("plan.toml", &plan(&grid));
    let output = machine.command(&["campaign", "run", &file, "--output", machine.folder.path()]).output().unwrap();
    is_as(&before, PATIENCE).unwrap();
    let run = run_directory(&machine.folder.0);
    let results = assert_run_measured(&output, &run);
    assert_eq!(results.len(), 4);
    for result in &results {
        let prepared = &result["prepared"];
        if result["factors"]["shield"] == "auto" {
            assert_eq!(prepared[0]["host"], "machine");
            assert_eq!(prepared[0]["shield"]["processes"], "1");
            assert_ne!(prepared[0]["shield"]["backend"], "auto");
        } else {
            assert!(prepared.is_null(), "{prepared}");
        }
        // Both ends ran where the plan has them, behind the shield too.
        assert_eq!(
            (&result["ends"]["initiator"]["usage"]["cpu"], &result["ends"]["reflector"]["usage"]["cpu"]),
            (&1.into(), &1.into())
        );
    }
    let online: CpuList = read("/sys/devices/system/cpu/online").parse().unwrap();
    let others: CpuList = online.iter().filter(|&cpu| cpu != 1).collect();
    let limit = &before["/proc/sys/kernel/sched_rt_runtime_us"];
    let expected: BTreeSet<String> =
        [format!("{limit} Cpus_allowed_list: {online}"), format!("-1 Cpus_allowed_list: {others}")]
            .into_iter()
            .collect();
    let lines: BTreeSet<String> = read(seen.to_str().unwrap()).lines().map(str::to_owned).collect();
    assert_eq!(lines, expected, "the load ran on all CPUs without the shield and beside it with");
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    assert_eq!(journal.matches("\"step\":\"prepared\"").count(), 1, "{journal}");
    assert_eq!(journal.matches("\"step\":\"restored\"").count(), 1, "{journal}");
    let table = stdout(&output);
    assert!(table.contains("Shield") && table.contains("auto ("), "{table}");
}

#[test]
fn a_shield_that_cannot_be_had_fails_its_cells_alone() {
    let test = "a_shield_that_cannot_be_had_fails_its_cells_alone";
    if !can_make_namespaces(test) {
        return;
    }
    if !read("/sys/devices/system/cpu/isolated").is_empty() {
        eprintln!("SKIPPED {test}: this machine was booted with isolated CPUs");
        return;
    }
    let Some(machine) = Machine::take(test) else { return };
    let before = state();
    let grid = "[[grid]]\nshield = [\"off\", \"isolcpus\"]\nsize = [32, 64, 128, 256]\n";
    let file = machine.folder.file("plan.toml", &plan(grid));
    let output = machine.command(&["campaign", "run", &file, "--output", machine.folder.path()]).output().unwrap();
    is_as(&before, PATIENCE).unwrap();
    assert_code(&output, 1);
    assert!(stderr(&output).contains("isolcpus"), "{}", stderr(&output));
    assert_eq!(cell_files(&run_directory(&machine.folder.0)).len(), 4);
}

#[test]
fn the_same_setting_of_two_hosts_of_one_machine_goes_and_comes_back() {
    let test = "the_same_setting_of_two_hosts_of_one_machine_goes_and_comes_back";
    if !can_make_namespaces(test) {
        return;
    }
    let Some(machine) = Machine::take(test) else { return };
    // Both devices of the lab have one name, each in its own namespace.
    let grid = "[[grid]]\nknob = [\"none\", \"nic.feature.gro=on\"]\n";
    let file = machine.folder.file("plan.toml", &plan(grid).replace("repetitions = 1", "repetitions = 3"));
    let output = machine.command(&["campaign", "run", &file, "--output", machine.folder.path()]).output().unwrap();
    let results = assert_run_measured(&output, &run_directory(&machine.folder.0));
    assert_eq!(results.len(), 6);
    for result in results.iter().filter(|result| result["factors"]["knob"] != "none") {
        let prepared = result["prepared"].as_array().unwrap();
        assert_eq!(prepared.len(), 2, "{prepared:?}");
        assert!(
            prepared.iter().all(|prepared| prepared["changed"].as_u64() > Some(0)),
            "put back before: {prepared:?}"
        );
    }
}

#[test]
fn a_shield_and_a_setting_of_each_host_go_together() {
    let test = "a_shield_and_a_setting_of_each_host_go_together";
    if !can_make_namespaces(test) {
        return;
    }
    let Some(machine) = Machine::take(test) else { return };
    let before = state();
    let grid =
        "[[grid]]\nshield = [\"auto\", \"off\"]\nknob = [\"nic.feature.gro=on\", \"net.ipv4.ip_default_ttl=77\"]\n";
    let file = machine.folder.file("plan.toml", &plan(grid));
    let output = machine.command(&["campaign", "run", &file, "--output", machine.folder.path()]).output().unwrap();
    is_as(&before, PATIENCE).unwrap();
    let results = assert_run_measured(&output, &run_directory(&machine.folder.0));
    assert_eq!(results.len(), 4, "{}", stderr(&output));
    for result in &results {
        let prepared = result["prepared"].as_array().unwrap();
        let of_machine = prepared.iter().filter(|prepared| !prepared["shield"].is_null()).count();
        assert_eq!(of_machine, usize::from(result["factors"]["shield"] == "auto"), "{prepared:?}");
        let changed = prepared.iter().filter(|prepared| prepared["host"] != "machine");
        assert!(changed.clone().count() == 2 && changed.clone().all(|host| host["changed"].as_u64() > Some(0)));
    }
    let state = machine.folder.0.join("state");
    let left: Vec<_> = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("netns-")), "{left:?}");
}

#[test]
fn a_campaign_that_ends_at_once_leaves_no_setting() {
    let test = "a_campaign_that_ends_at_once_leaves_no_setting";
    if !can_make_namespaces(test) {
        return;
    }
    let Some(machine) = Machine::take(test) else { return };
    let before = state();
    let grid = "[[grid]]\nknob = [\"vm.stat_interval=7\"]\n";
    let file = machine.folder.file("plan.toml", &plan(grid).replace("seconds = 0.2", "seconds = 60"));
    let mut arguments = vec!["campaign", "run", &file, "--output"];
    let output = machine.folder.path().to_owned();
    arguments.push(&output);
    let mut runner = machine.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let changed = || read("/proc/sys/vm/stat_interval") == "7";
    let begun = Instant::now();
    while !changed() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the setting was not made");
        std::thread::sleep(Duration::from_millis(20));
    }
    // With agents that stand still there is no orderly end: the first signal asks for one, the second ends it at once.
    let agents = StoppedAgents::of(runner.id());
    let pid = runner.id().to_string();
    let send = |signal: &str| {
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    send("-TERM");
    // No less than this, however busy the machine: signals this far apart are two requests.
    std::thread::sleep(Duration::from_nanos(task::SAME_REQUEST_NS) + Duration::from_millis(100));
    assert!(runner.try_wait().unwrap().is_none(), "an orderly end without its agents");
    assert!(changed(), "put back by whom?");
    send("-INT");
    let status = runner.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2), "{status:?}");
    drop(agents);
    is_as(&before, PATIENCE).unwrap();
}

/// The agents of a campaign, standing still until this is dropped.
struct StoppedAgents(Vec<i32>);

impl StoppedAgents {
    fn of(campaign: u32) -> Self {
        let all = host::tasks::list(&host::knob::Machine::running());
        let mut family = BTreeSet::from([i32::try_from(campaign).unwrap()]);
        while all.iter().any(|task| family.contains(&task.parent) && family.insert(task.process)) {}
        let is_agent = |pid: &i32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|&byte| byte == 0).nth(1) == Some(b"agent")
        };
        let agents = Self(family.into_iter().filter(is_agent).collect());
        assert!(!agents.0.is_empty(), "a campaign without agents");
        agents.signal("-STOP");
        let stopped = |pid: &i32| read(&format!("/proc/{pid}/stat")).rsplit_once(") ").unwrap().1.starts_with('T');
        while !agents.0.iter().all(stopped) {
            std::thread::sleep(Duration::from_millis(5));
        }
        agents
    }

    /// Those that are gone need none.
    fn signal(&self, name: &str) {
        for pid in &self.0 {
            let _ = std::process::Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for StoppedAgents {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}
