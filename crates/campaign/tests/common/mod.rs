//! Hosts that measure nothing, for tests: they answer at once and do what a script tells them.

use model::plan::StackPlan;
use model::worker::{EndpointTask, Measured, ProbeTask};
use model::{
    HostFacts, KernelChoice, KernelImage, LiveInterval, LoadReport, LoadSpec, MachineFacts, Plan, Prepared,
    ShieldReport,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windhover_campaign::{Boot, Entered, HostError, Hosts, Options, Preparation, WorkerId};

/// What the next probe does instead of measuring.
pub(crate) type Script = Box<dyn FnMut(&ProbeTask, u32) -> Option<HostError>>;

pub(crate) struct Fake {
    /// Boot id and kernel of each host.
    pub(crate) hosts: BTreeMap<String, (String, String)>,
    pub(crate) script: Script,
    /// How long a probe takes.
    pub(crate) length: Duration,
    pub(crate) probes: u32,
    /// What was measured, and how long each might take.
    pub(crate) limits: Vec<(model::ProbeSpec, Option<Duration>)>,
    /// What runs now: `load@a`, `endpoint@b`.
    pub(crate) running: BTreeMap<u32, String>,
    /// All that was asked for, in order.
    pub(crate) log: Vec<String>,
    pub(crate) work_cv: f64,
    pub(crate) address: bool,
    /// The CPUs of each host's machine, where it tells.
    pub(crate) cpus: BTreeMap<String, String>,
    /// What an agent refuses to prepare, and what it cannot put back.
    pub(crate) refuses: Refuses,
    pub(crate) cannot_restore: Vec<String>,
    /// After which probe another has taken the shield down.
    pub(crate) shield_gone_after: Option<u32>,
    /// Whether one more agent speaks for the machine, as in the built-in lab.
    pub(crate) machine_agent: bool,
    /// Whether a probe tells each reflector by itself, as pace does.
    pub(crate) reflectors: bool,
    /// Hosts that cannot start an endpoint.
    pub(crate) no_endpoint: BTreeSet<String>,
    /// Hosts whose agents are gone by the end of a measurement.
    pub(crate) lost: BTreeSet<String>,
    /// What boots come to, how many there were, and the command line of the last.
    pub(crate) boots: Boots,
    pub(crate) boot: u32,
    command_line: String,
    /// Whether the runner is on the machine that boots.
    pub(crate) own_machine: bool,
    next: u32,
}

/// What an agent refuses, by host and what is asked of it.
type Refuses = Box<dyn FnMut(&str, &Preparation) -> Option<HostError>>;

impl Fake {
    /// Two hosts of one machine.
    pub(crate) fn new() -> Self {
        let host = |name: &str| (name.to_owned(), ("boot-1".to_owned(), "6.1".to_owned()));
        Self {
            hosts: [host("a"), host("b")].into_iter().collect(),
            script: Box::new(|_, _| None),
            length: Duration::ZERO,
            probes: 0,
            limits: Vec::new(),
            running: BTreeMap::new(),
            log: Vec::new(),
            work_cv: 0.01,
            address: true,
            refuses: Box::new(|_, _| None),
            cannot_restore: Vec::new(),
            shield_gone_after: None,
            machine_agent: true,
            cpus: BTreeMap::new(),
            reflectors: false,
            no_endpoint: BTreeSet::new(),
            lost: BTreeSet::new(),
            boots: Box::new(|kernel, _| {
                Ok(if kernel.what.is_empty() { "6.1".to_owned() } else { kernel.what.clone() })
            }),
            boot: 0,
            command_line: String::new(),
            own_machine: false,
            next: 0,
        }
    }

    fn start(&mut self, what: String) -> WorkerId {
        self.next += 1;
        self.log.push(format!("start {what}"));
        self.running.insert(self.next, what);
        WorkerId(self.next)
    }

    fn stop(&mut self, id: WorkerId) {
        let what = self.running.remove(&id.0).expect("only what runs is stopped");
        self.log.push(format!("stop {what}"));
    }
}

/// What a boot of a kernel comes to: the release that runs then.
pub(crate) type Boots = Box<dyn FnMut(&KernelChoice, u32) -> Result<String, HostError>>;

impl Boot for Fake {
    fn check_kernel(&mut self, host: &str, kernel: &KernelChoice) -> Result<KernelImage, HostError> {
        if kernel.what.ends_with("missing") {
            let why = format!("{} is not there: install it", kernel.what);
            return Err(HostError::Failed { host: host.to_owned(), why });
        }
        let release = kernel.boots().then(|| kernel.what.clone());
        Ok(KernelImage { release, words: kernel.words.clone(), ..KernelImage::default() })
    }

    fn enter(
        &mut self,
        hosts: &[String],
        kernel: &KernelChoice,
        _limit: Duration,
        _stop: &AtomicBool,
    ) -> Result<Entered, HostError> {
        assert!(self.running.is_empty(), "nothing is measured while hosts boot: {:?}", self.running);
        self.boot += 1;
        self.log.push(format!("enter {kernel} on {}", hosts.join(" ")));
        let release = (self.boots)(kernel, self.boot)?;
        for host in hosts {
            self.hosts.insert(host.clone(), (format!("boot-{}", self.boot + 1), release.clone()));
        }
        self.command_line = kernel.words.join(" ");
        Ok(if self.own_machine { Entered::GoingDown } else { Entered::Up })
    }
}

impl Hosts for Fake {
    fn facts(&mut self, host: &str) -> Result<(MachineFacts, HostFacts), HostError> {
        let (boot_id, kernel) = self.hosts[host].clone();
        let machine = MachineFacts {
            boot_id: boot_id.clone(),
            kernel_release: Some(kernel),
            command_line: Some(self.command_line.clone()),
            cpu_model: Some("Model 1".to_owned()),
            cpus_online: self.cpus.get(host).cloned(),
            ..MachineFacts::default()
        };
        Ok((machine, HostFacts { boot_id, hostname: Some("machine".to_owned()), ..HostFacts::default() }))
    }

    fn address(&self, host: &str) -> Option<IpAddr> {
        let last = host.bytes().next().unwrap_or(b'a') - b'a' + 1;
        self.address.then(|| IpAddr::from([198, 18, 0, last]))
    }

    fn device(&self, host: &str) -> Option<String> {
        (host == "a").then(|| "wh0".to_owned())
    }

    fn machine_agent(&mut self, host: &str) -> Result<String, HostError> {
        Ok(if self.machine_agent { "machine".to_owned() } else { host.to_owned() })
    }

    fn prepare(&mut self, agent: &str, wanted: &Preparation) -> Result<Prepared, HostError> {
        if *wanted == Preparation::default() {
            return Ok(Prepared::default());
        }
        let shield = wanted.shield.as_ref().map(|shield| format!("{} {}", shield.backend, shield.processes));
        let settings = wanted.settings.iter().map(ToString::to_string);
        let words: Vec<String> = shield.into_iter().chain(settings).collect();
        self.log.push(format!("prepare@{agent} {}", words.join(" ")));
        if let Some(error) = (self.refuses)(agent, wanted) {
            return Err(error);
        }
        let report = wanted.shield.as_ref().map(|shield| ShieldReport {
            backend: shield.backend,
            processes: shield.processes.to_string(),
            ..ShieldReport::default()
        });
        Ok(Prepared { shield: report, changed: 3, ..Prepared::default() })
    }

    fn still_prepared(&mut self, agent: &str, _: &Preparation) -> Result<(), HostError> {
        match self.shield_gone_after {
            Some(probe) if probe == self.probes => {
                Err(HostError::Failed { host: agent.to_owned(), why: "another has taken the shield down".to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn restore(&mut self, agent: &str) -> Result<Vec<String>, HostError> {
        self.log.push(format!("restore@{agent}"));
        Ok(std::mem::take(&mut self.cannot_restore))
    }

    fn start_loads(
        &mut self,
        on: &[(String, LoadSpec)],
        _limit: Duration,
        _stop: &AtomicBool,
        started: &mut Vec<(String, WorkerId)>,
    ) -> Result<(), HostError> {
        for (host, spec) in on {
            let on = spec.cpus.as_ref().map(|cpus| format!(" on {cpus}")).unwrap_or_default();
            let id = self.start(format!("{}@{host}{on}", spec.profile));
            started.push((host.clone(), id));
        }
        Ok(())
    }

    fn stop_load(&mut self, _host: &str, load: WorkerId) -> Result<LoadReport, HostError> {
        self.stop(load);
        let report = json!({ "spec": { "profile": "cpu" }, "work": 5, "busy_percent": 99.0, "work_cv": self.work_cv,
                             "steady_after_ns": 1, "steady": true, "elapsed_ns": 2 });
        Ok(serde_json::from_value(report).unwrap())
    }

    fn start_endpoint(
        &mut self,
        host: &str,
        task: &EndpointTask,
        _stack: &StackPlan,
    ) -> Result<(WorkerId, String), HostError> {
        if self.no_endpoint.contains(host) {
            return Err(HostError::Failed { host: host.to_owned(), why: "no endpoint here".to_owned() });
        }
        assert_eq!(task.key.as_ref().map(String::len), Some(64), "a fresh key of 32 bytes");
        Ok((self.start(format!("endpoint@{host}")), task.bind.replace(":0", ":4711")))
    }

    fn stop_endpoint(&mut self, host: &str, endpoint: WorkerId) -> Result<(), HostError> {
        self.stop(endpoint);
        if self.lost.contains(host) {
            return Err(HostError::Lost { host: host.to_owned(), why: "its pipe closed".to_owned() });
        }
        Ok(())
    }

    fn probe(
        &mut self,
        host: &str,
        task: &ProbeTask,
        _stack: &StackPlan,
        limit: Option<Duration>,
        stop: &AtomicBool,
        live: &mut dyn FnMut(LiveInterval),
    ) -> Result<Vec<Measured>, HostError> {
        let targets: Vec<&str> =
            std::iter::once(&task.target).chain(&task.others).map(|target| target.control.as_str()).collect();
        self.log.push(format!("probe@{host} against {}", targets.join(" and ")));
        self.probes += 1;
        self.limits.push((task.spec.clone(), limit));
        if let Some(error) = (self.script)(task, self.probes) {
            return Err(error);
        }
        if task.live {
            live(LiveInterval { interval_ns: 100, sent: u64::from(self.probes), ..LiveInterval::default() });
        }
        std::thread::sleep(self.length);
        if stop.load(Ordering::Relaxed) {
            return Err(HostError::Interrupted);
        }
        let size = task.spec.sizes.max();
        let result = json!({
            "format": 1, "probe": task.spec.probe(), "started_ns": 5, "elapsed_ns": 9,
            "factors": { "protocol": model::Protocol::word_of(task.spec.protocol()), "size": size },
            "ends": { "initiator": {}, "reflector": {} },
            "latency": null,
            "messages": { "sent": 10, "received": 10, "lost": 0, "duplicated": 0, "reordered": 0 },
            "verdict": { "trusted": true, "invalid": [], "disturbed": [] }
        });
        if self.reflectors {
            // A worker names its reflectors as it was told to.
            let all = std::iter::once(&task.target).chain(&task.others);
            let targets: Vec<&str> = all.map(|target| target.host.as_deref().unwrap()).collect();
            let each: Vec<_> = targets.iter().map(|at| json!({ "host": at, "messages": result["messages"] })).collect();
            let mut result = result;
            result["reflectors"] = json!(each);
            let line = |at: &&str| format!("Tag=rtt@{at},0.000,0.100,1.000,HISTFAAA\n");
            let hlog: String = targets.iter().map(line).collect();
            let outliers = json!([{ "seq": 1, "at_ns": 2, "rtt_ns": 3, "host": targets.last() }]);
            let measured = json!({ "result": result, "hlog": hlog, "outliers": outliers });
            return Ok(vec![serde_json::from_value(measured).unwrap()]);
        }
        let hlog = format!("Tag=rtt,0.000,1.000,{size}.000,HISTFAAA\n");
        Ok(vec![serde_json::from_value(json!({ "result": result, "hlog": hlog })).unwrap()])
    }
}

/// A plan of 12 steps: two loads, three sizes, two repetitions.
pub(crate) const PLAN: &str = "name = \"t\"\nrepetitions = 2\nseed = 3\n[lab]\nkind = \"netns\"\n[roles]\n\
    initiator = \"a\"\nreflectors = [\"b\"]\n[labels]\nnic = \"none\"\nos = \"test\"\n[measure]\nseconds = 0.01\n\
    [[grid]]\nload = [\"none\", \"cpu\"]\nsize = [1, 2, 3]\n";

pub(crate) fn plan(text: &str) -> Plan {
    Plan::parse("plan.toml", text).unwrap()
}

pub(crate) fn options(output: &Path, text: &str) -> Options {
    let mut options = Options::new(text, "windhover");
    options.output = output.to_owned();
    options
}
