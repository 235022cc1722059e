//! The hosts of a plan: the built-in lab, or commands that open a pipe to an agent.

use crate::stopped::StopWatch;
use crate::{Boot, CampaignError, Entered, HostError, Hosts, Options, Preparation, WorkerId};
use lab::{AgentCommand, Client, GuestSpec, Lab, LabError, LabSpec, LaunchSpec, PipeError, Program, Registry};
use model::plan::{LabKind, LabPlan, StackPlan};
use model::worker::{EndpointTask, Measured, ProbeTask};
use model::{HostFacts, KernelChoice, KernelImage, LiveInterval, LoadReport, LoadSpec, MachineFacts, Plan, Prepared};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// One agent for each host. The lab stays up as long as this lives, and goes with it.
#[derive(Debug)]
pub(crate) struct LabHosts {
    clients: BTreeMap<String, Client>,
    commands: BTreeMap<String, AgentCommand>,
    addresses: BTreeMap<String, IpAddr>,
    /// The device of each host, where one is known.
    devices: BTreeMap<String, String>,
    notes: Receiver<String>,
    opener: Opener,
    stop_watch: StopWatch,
    lab: Option<Lab>,
    /// The guests of a plan that names kernels, each of which is booted when it is entered.
    guests: Option<LabPlan>,
}

/// The agent of the built-in lab's machine, in this process' namespaces. No host of a lab has so long a name.
const MACHINE: &str = "machine";

#[derive(Debug)]
struct Opener {
    program: PathBuf,
    build: String,
    notes: Sender<String>,
    /// Set when the run is asked to end: no agent is waited for any longer.
    stop: Arc<AtomicBool>,
}

impl Opener {
    fn open(&self, name: &str, command: &AgentCommand) -> Result<Client, PipeError> {
        Client::open(name, command, &self.build, &self.stop, self.listener(name))
    }

    /// Opens the agent of a host that may hang on its way up, before `until` and unless it is stopped.
    fn open_until(&self, name: &str, command: &AgentCommand, until: Instant) -> Result<Client, PipeError> {
        // One that hangs is tried anew: the machine may have gone down behind its link.
        let until = until.min(Instant::now() + ONE_TRY);
        let mut waits = || Instant::now() < until && !self.stop.load(Ordering::Relaxed);
        Client::open_while(name, command, &self.build, &mut waits, self.listener(name))
    }

    /// What an agent writes to stderr becomes notes.
    fn listener(&self, name: &str) -> impl FnMut(&str) + Send + 'static {
        let (sender, host) = (self.notes.clone(), name.to_owned());
        move |line: &str| {
            // Nobody listens any more once the run is over.
            let _ = sender.send(format!("host '{host}': {line}"));
        }
    }
}

impl LabHosts {
    /// Makes the lab where the plan has one, and opens an agent on each host, tried until `patience` is over. The calling thread
    /// must live as long as the hosts: agents end with it. `note` gets what takes long. Guests of kernels are booted on entry.
    pub(crate) fn open(
        plan: &Plan,
        options: &Options,
        patience: Duration,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, CampaignError> {
        let (sender, notes) = mpsc::channel();
        let mut commands = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        let mut devices = BTreeMap::new();
        let guests = plan.lab.clone().filter(|lab| lab.kind == LabKind::Guest && plan.names("kernel"));
        let lab = match &plan.lab {
            Some(_) if guests.is_some() => None,
            Some(kind) => {
                let lab = make_lab(kind, options, note)?;
                for host in lab.hosts() {
                    commands.insert(host.name.clone(), lab.agent(&options.program, host));
                    addresses.insert(host.name.clone(), host.address());
                    devices.insert(host.name.clone(), host.device.clone());
                }
                Some(lab)
            }
            None => {
                for (name, host) in &plan.hosts {
                    commands.insert(name.clone(), AgentCommand::of(&host.agent_command));
                    addresses.extend(host.address.map(|address| (name.clone(), address)));
                    devices.extend(host.device.clone().map(|device| (name.clone(), device)));
                }
                None
            }
        };
        let build = options.build.clone().unwrap_or_default();
        let stop_watch = StopWatch::new(sender.clone());
        let opener = Opener { program: options.program.clone(), build, notes: sender, stop: Arc::clone(&options.stop) };
        let clients = BTreeMap::new();
        let mut hosts = Self { clients, commands, addresses, devices, notes, opener, stop_watch, lab, guests };
        let until = Instant::now() + patience;
        for (name, command) in &hosts.commands.clone() {
            let client = loop {
                let opened = match patience.is_zero() {
                    true => hosts.opener.open(name, command),
                    false => hosts.opener.open_until(name, command, until),
                };
                match opened {
                    Err(_) if options.stopped() => return Err(CampaignError::Host(HostError::Interrupted)),
                    Err(_) if Instant::now() < until => thread::sleep(BETWEEN_TRIES),
                    opened => break opened?,
                }
            };
            hosts.add(name, client);
        }
        Ok(hosts)
    }

    /// Says good-bye to all agents and takes the lab down. Gives back what went wrong, one line each.
    pub(crate) fn close(mut self) -> Vec<String> {
        let mut problems = self.notes();
        let clients = std::mem::take(&mut self.clients).into_values();
        problems.extend(clients.filter_map(|client| Some(client.bye().err()?.to_string())));
        problems.extend(self.lab.take().and_then(|lab| Some(lab.down().err()?.to_string())));
        problems
    }

    fn add(&mut self, host: &str, client: Client) {
        self.stop_watch.add(host, client.identity().pid);
        self.clients.insert(host.to_owned(), client);
    }

    fn client(&mut self, host: &str) -> Result<&mut Client, HostError> {
        self.clients.get_mut(host).ok_or_else(|| unknown(host))
    }
}

fn make_lab(plan: &LabPlan, options: &Options, note: &mut dyn FnMut(&str)) -> Result<Lab, CampaignError> {
    let name = format!("campaign-{}", std::process::id());
    if let Some(name) = &plan.name {
        return Ok(Lab::borrow(&Registry::default(), name)?);
    }
    if plan.kind == LabKind::Guest {
        let build = options.build.clone().unwrap_or_default();
        let program = Program { path: options.program.clone(), build };
        return Ok(Lab::boot(&name, &GuestSpec::from_plan(plan), &program, &options.stop, note)?);
    }
    let keeper = Some(options.program.clone());
    Ok(Lab::up(&Registry::default(), &LabSpec { keeper, ..LabSpec::from_plan(&name, plan) })?)
}

fn unknown(host: &str) -> HostError {
    HostError::Failed { host: host.to_owned(), why: "it is not part of the lab: name a host of the plan".to_owned() }
}

fn failed(error: PipeError) -> HostError {
    let (host, why) = match error {
        PipeError::Failed { host, message, .. } => return HostError::Failed { host, why: message },
        PipeError::Lost { host, why } => (host, why),
        PipeError::Silent { host, step, seconds } => {
            (host, format!("no answer within {seconds} s when asked to {step}"))
        }
        PipeError::OutOfTurn { host, step } => {
            (host, format!("an answer out of turn when asked to {step}: use the same windhover at both ends"))
        }
        PipeError::Start { host, why } => (host, why.to_string()),
        PipeError::Build(mismatch) => (mismatch.host.clone(), mismatch.to_string()),
    };
    HostError::Lost { host, why }
}

/// How a worker of a stack is started.
fn launch(stack: &StackPlan) -> LaunchSpec {
    LaunchSpec { prefix: stack.prefix.clone(), environment: stack.environment.clone(), ..LaunchSpec::default() }
}

/// How far apart a host that boots is tried.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);
/// How long a host that boots may take for one greeting.
const ONE_TRY: Duration = Duration::from_secs(60);

/// The link of the unit that resumes a run after each boot, once it is enabled.
const RESUME_UNIT: &str = "/etc/systemd/system/multi-user.target.wants/windhover-resume.service";

impl LabHosts {
    /// Opens the agent of a host whose machine boots, once its boot id is another one than `before`.
    fn reopen(&mut self, host: &str, before: &str, until: Instant, stop: &AtomicBool) -> Result<(), HostError> {
        let command = self.commands.get(host).ok_or_else(|| unknown(host))?;
        loop {
            let mut why = "it is still up".to_owned();
            match self.opener.open_until(host, command, until) {
                Ok(client) if client.identity().boot_id != before => {
                    self.add(host, client);
                    return Ok(());
                }
                Ok(client) => drop(client),
                Err(error @ PipeError::Build(_)) => return Err(failed(error)),
                Err(error) => why = error.to_string(),
            }
            if stop.load(Ordering::Relaxed) {
                return Err(HostError::Interrupted);
            }
            if Instant::now() >= until {
                let why = format!("it did not come up in time ({why}): see its console, or raise kernels.boot_seconds");
                return Err(HostError::Failed { host: host.to_owned(), why });
            }
            thread::sleep(BETWEEN_TRIES);
        }
    }
}

impl LabHosts {
    /// Switches the guest off that runs, and boots another one.
    fn boot_guest(
        &mut self,
        plan: &LabPlan,
        kernel: &KernelChoice,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(), HostError> {
        // They go with their guest, which need not answer any more.
        self.clients.clear();
        let told = |error: LabError| match error {
            LabError::Interrupted => HostError::Interrupted,
            error => HostError::Failed { host: MACHINE.to_owned(), why: error.to_string() },
        };
        self.lab.take().map_or(Ok(()), Lab::down).map_err(told)?;
        let name = format!("campaign-{}", std::process::id());
        let program = Program { path: self.opener.program.clone(), build: self.opener.build.clone() };
        let spec = GuestSpec { boot_limit: limit, ..guest_of(plan, kernel) };
        let notes = self.opener.notes.clone();
        let mut note = |text: &str| drop(notes.send(text.to_owned()));
        let lab = Lab::boot(&name, &spec, &program, stop, &mut note).map_err(told)?;
        for host in lab.hosts() {
            let given_up = |error| if stop.load(Ordering::Relaxed) { HostError::Interrupted } else { failed(error) };
            let client = self.opener.open(&host.name, &lab.agent(&self.opener.program, host)).map_err(given_up)?;
            self.add(&host.name, client);
            self.addresses.insert(host.name.clone(), host.address());
            self.devices.insert(host.name.clone(), host.device.clone());
        }
        self.lab = Some(lab);
        Ok(())
    }
}

fn guest_of(plan: &LabPlan, kernel: &KernelChoice) -> GuestSpec {
    let words = std::iter::once(kernel.what.as_str()).chain(kernel.words.iter().map(String::as_str));
    let kernel = Some(words.collect::<Vec<_>>().join(" "));
    GuestSpec::from_plan(&LabPlan { kernel, ..plan.clone() })
}

impl Boot for LabHosts {
    fn answers(&self) -> bool {
        self.guests.is_none() || self.lab.is_some()
    }

    fn is_here(&self, hosts: &[String]) -> bool {
        let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let is_here =
            |host: &String| self.clients.get(host).is_some_and(|client| client.identity().boot_id == here.trim());
        hosts.iter().any(is_here)
    }

    fn reconnect(&mut self, limit: Duration, stop: &AtomicBool) -> Result<(), HostError> {
        let until = Instant::now() + limit;
        let names: Vec<String> = self.commands.keys().cloned().collect();
        for name in names {
            if self.clients.get_mut(&name).is_none_or(|client| client.facts().is_err_and(|error| error.is_lost())) {
                self.clients.remove(&name);
                self.reopen(&name, "", until, stop)?;
            }
        }
        Ok(())
    }

    fn check_kernel(&mut self, host: &str, kernel: &KernelChoice) -> Result<KernelImage, HostError> {
        if let Some(plan) = &self.guests {
            let notes = self.opener.notes.clone();
            let mut note = |text: &str| drop(notes.send(text.to_owned()));
            let release = Lab::check_guest(&guest_of(plan, kernel), &mut note)
                .map_err(|error| HostError::Failed { host: host.to_owned(), why: error.to_string() })?;
            return Ok(KernelImage { release: Some(release), version: None, words: kernel.words.clone() });
        }
        let by_unit = || std::path::Path::new("/run/systemd/system").is_dir();
        if kernel.boots()
            && self.is_here(&[host.to_owned()])
            && by_unit()
            && std::fs::symlink_metadata(RESUME_UNIT).is_err()
        {
            let why = "this machine would not go on after its boot: systemctl enable windhover-resume".to_owned();
            return Err(HostError::Failed { host: host.to_owned(), why });
        }
        let agent = self.machine_agent(host)?;
        self.client(&agent)?.check_kernel(kernel).map_err(failed)
    }

    fn enter(
        &mut self,
        hosts: &[String],
        kernel: &KernelChoice,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Entered, HostError> {
        if let Some(plan) = self.guests.clone() {
            return self.boot_guest(&plan, kernel, limit, stop).map(|()| Entered::Up);
        }
        let until = Instant::now() + limit;
        let mut machines: BTreeMap<String, String> = BTreeMap::new();
        for host in hosts {
            let boot_id = self.client(host)?.identity().boot_id.clone();
            machines.entry(boot_id).or_insert_with(|| host.clone());
        }
        // This machine goes last: this process waits for the others.
        let (here, others): (Vec<_>, Vec<_>) =
            machines.into_iter().partition(|(_, host)| self.is_here(std::slice::from_ref(host)));
        let mut down = Vec::new();
        for (boot_id, host) in others {
            self.client(&host)?.enter_kernel(kernel).map_err(failed)?;
            let on_it = self.clients.iter().filter(|(_, client)| client.identity().boot_id == boot_id);
            let names: Vec<String> = on_it.map(|(name, _)| name.clone()).collect();
            for name in names {
                self.clients.remove(&name);
                down.push((name, boot_id.clone()));
            }
        }
        down.iter().try_for_each(|(name, boot_id)| self.reopen(name, boot_id, until, stop))?;
        let Some((_, host)) = here.into_iter().next() else { return Ok(Entered::Up) };
        let agent = self.machine_agent(&host)?;
        self.client(&agent)?.enter_kernel(kernel).map_err(failed)?;
        Ok(Entered::GoingDown)
    }
}

impl Hosts for LabHosts {
    fn facts(&mut self, host: &str) -> Result<(MachineFacts, HostFacts), HostError> {
        self.client(host)?.facts().map_err(failed)
    }

    fn address(&self, host: &str) -> Option<IpAddr> {
        self.addresses.get(host).copied()
    }

    fn device(&self, host: &str) -> Option<String> {
        self.devices.get(host).cloned()
    }

    fn machine_agent(&mut self, host: &str) -> Result<String, HostError> {
        let Some(lab) = &self.lab else { return Ok(host.to_owned()) };
        // Guests on a wire are machines of their own.
        let name = match lab.record().guests.len() {
            0 | 1 => MACHINE.to_owned(),
            _ => format!("{MACHINE}-{host}"),
        };
        if !self.clients.contains_key(&name) {
            let command = lab.machine_agent(&self.opener.program, host);
            let client = self.opener.open(&name, &command).map_err(failed)?;
            self.add(&name, client);
        }
        Ok(name)
    }

    fn prepare(&mut self, agent: &str, wanted: &Preparation) -> Result<Prepared, HostError> {
        let Preparation { shield, settings, device, shielded } = wanted;
        let client = self.client(agent)?;
        client.prepare(shield.as_ref(), settings, device.as_deref(), *shielded).map_err(failed)
    }

    fn restore(&mut self, agent: &str) -> Result<Vec<String>, HostError> {
        self.client(agent)?.restore().map_err(failed)
    }

    fn start_loads(
        &mut self,
        on: &[(String, LoadSpec)],
        limit: Duration,
        stop: &AtomicBool,
        started: &mut Vec<(String, WorkerId)>,
    ) -> Result<(), HostError> {
        let spec_of = |name: &String| on.iter().find(|(host, _)| host == name).map(|(_, spec)| spec);
        let clients = self.clients.iter_mut().filter_map(|(name, client)| Some((name, spec_of(name)?, client)));
        // Each agent answers once its load is steady; asked from one thread each, they become steady together.
        let mut answers: BTreeMap<&String, thread::Result<_>> = thread::scope(|scope| {
            let ask = |(name, spec, client)| {
                let client: &mut Client = client;
                (name, scope.spawn(move || client.start_load(spec, limit, stop).map(|load| load.id)))
            };
            let asked: Vec<_> = clients.map(ask).collect();
            asked.into_iter().map(|(name, asked)| (name, asked.join())).collect()
        });
        let mut failure = None;
        for (host, _) in on {
            let error = match answers.remove(host) {
                Some(Ok(Ok(id))) => {
                    started.push((host.clone(), WorkerId(id)));
                    continue;
                }
                Some(Ok(Err(PipeError::Failed { .. }))) if stop.load(Ordering::Relaxed) => HostError::Interrupted,
                Some(Ok(Err(error))) => failed(error),
                Some(Err(_)) => HostError::Failed { host: host.clone(), why: "its thread broke".to_owned() },
                None => unknown(host),
            };
            failure = failure.or(Some(error));
        }
        failure.map_or(Ok(()), Err)
    }

    fn stop_load(&mut self, host: &str, load: WorkerId) -> Result<LoadReport, HostError> {
        self.client(host)?.stop_load(load.0).map_err(failed)
    }

    fn start_endpoint(
        &mut self,
        host: &str,
        task: &EndpointTask,
        stack: &StackPlan,
    ) -> Result<(WorkerId, String), HostError> {
        let endpoint = self.client(host)?.start_endpoint(task, &launch(stack)).map_err(failed)?;
        Ok((WorkerId(endpoint.id), endpoint.address))
    }

    fn stop_endpoint(&mut self, host: &str, endpoint: WorkerId) -> Result<(), HostError> {
        self.client(host)?.stop_endpoint(endpoint.0).map_err(failed)
    }

    fn probe(
        &mut self,
        host: &str,
        task: &ProbeTask,
        stack: &StackPlan,
        limit: Option<Duration>,
        stop: &AtomicBool,
        live: &mut dyn FnMut(LiveInterval),
    ) -> Result<Vec<Measured>, HostError> {
        let launch = launch(stack);
        let client = self.client(host)?;
        // What is measured in a guest takes the guest's time.
        let limit = limit.map(|limit| limit * client.patience());
        let mut results = Vec::new();
        let cancel = AtomicBool::new(false);
        let too_long = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let (finished, over) = mpsc::channel();
            let (cancel, too_long) = (&cancel, &too_long);
            scope.spawn(move || watch(over, limit, stop, cancel, too_long));
            let ended = client.run_probe(task, &launch, cancel, live, &mut |measured| results.push(measured));
            drop(finished);
            ended
        });
        match ended {
            Ok(()) => Ok(results),
            Err(PipeError::Failed { .. }) if too_long.load(Ordering::Relaxed) => Err(HostError::TimedOut {
                host: host.to_owned(),
                what: "the measurement",
                limit: limit.unwrap_or_default(),
            }),
            Err(PipeError::Failed { .. }) if cancel.load(Ordering::Relaxed) => Err(HostError::Interrupted),
            Err(error) => Err(failed(error)),
        }
    }

    fn notes(&mut self) -> Vec<String> {
        let guest = self.lab.as_mut().and_then(Lab::guest).map(|guest| guest.notes());
        guest.into_iter().flatten().chain(self.notes.try_iter()).collect()
    }
}

/// How often the stop flag is looked at while a cell is measured; a look costs the machine a few µs.
const LOOK: Duration = Duration::from_millis(100);

/// Raises `cancel` when `stop` is raised or `limit` has passed. Ends when the other end of `over` is dropped.
#[expect(clippy::needless_pass_by_value, reason = "a receiver cannot be shared, so the watching thread owns it")]
fn watch(over: Receiver<()>, limit: Option<Duration>, stop: &AtomicBool, cancel: &AtomicBool, too_long: &AtomicBool) {
    let began = Instant::now();
    while matches!(over.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
        if stop.load(Ordering::Relaxed) {
            cancel.store(true, Ordering::Relaxed);
        } else if limit.is_some_and(|limit| began.elapsed() > limit) {
            too_long.store(true, Ordering::Relaxed);
            cancel.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watcher_cancels_and_ends() {
        for (stopped, limit, hung) in [(true, None, false), (false, Some(Duration::ZERO), true)] {
            let (finished, over) = mpsc::channel();
            let (stop, cancel, too_long) = (AtomicBool::new(stopped), AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|scope| {
                let (stop, cancel, too_long) = (&stop, &cancel, &too_long);
                let watcher = scope.spawn(move || watch(over, limit, stop, cancel, too_long));
                while !cancel.load(Ordering::Relaxed) {
                    assert!(!watcher.is_finished());
                    thread::yield_now();
                }
                drop(finished);
            });
            assert_eq!(too_long.load(Ordering::Relaxed), hung);
        }
    }
}
