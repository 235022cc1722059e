//! Asking an agent: one request at a time, each with its answer and a limit on the wait.

use super::transport::Transport;
use super::{AgentCommand, Identity, PipeError, StartedEndpoint, StartedLoad};
use crate::LabError;
use model::worker::{EndpointTask, Measured, ProbeTask};
use model::{
    HostFacts, KernelChoice, KernelImage, LiveInterval, LoadReport, LoadSpec, MachineFacts, Prepared, Setting,
    ShieldSpec,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::agent::{PROTOCOL, check_build};
use wire::{LaunchSpec, Reply, Request};

/// For a greeting: ssh may have to resolve, connect and ask a person.
const GREETING: Duration = Duration::from_secs(60);
/// For what needs no more than a process start.
const PROMPT: Duration = Duration::from_secs(30);
/// For changing settings: control groups are emptied of tasks that may fork meanwhile, and services stop in their time.
const SETTINGS: Duration = Duration::from_secs(120);
/// How often the cancel flag is looked at: no person notices a tenth of a second, no measurement ten wake-ups a second.
const LOOK: Duration = Duration::from_millis(100);
/// How many looks a cancelled probe gets to hand over what it measured.
const CANCELLED_LOOKS: u32 = 200;

/// This end of a pipe to one host's agent.
///
/// The agent ends with the thread that opened the pipe (prctl(2), PR_SET_PDEATHSIG): open it on one that stays. When
/// this value is dropped the pipe closes, and the agent gets ten seconds to undo what it did.
#[derive(Debug)]
pub struct Client {
    host: String,
    identity: Identity,
    transport: Transport,
    /// As [`AgentCommand::patience`]; also for what the agent does in its own time.
    patience: u32,
}

impl Client {
    /// Starts an agent of the same `build` (hash) and greets it, until `stop`. Its stderr goes to `on_stderr`.
    pub fn open(
        host: &str,
        command: &AgentCommand,
        build: &str,
        stop: &AtomicBool,
        on_stderr: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, PipeError> {
        let (began, limit) = (Instant::now(), GREETING * command.patience.max(1));
        let mut waits = || began.elapsed() < limit && !stop.load(Ordering::Relaxed);
        Self::open_while(host, command, build, &mut waits, on_stderr)
    }

    /// As [`Self::open`], for hosts that boot: the greeting is waited for while `waits` allows it, asked ten times a second.
    pub fn open_while(
        host: &str,
        command: &AgentCommand,
        build: &str,
        waits: &mut dyn FnMut() -> bool,
        on_stderr: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, PipeError> {
        let began = Instant::now();
        let transport = Transport::start(host, command, on_stderr)?;
        let (host_name, patience) = (host.to_owned(), command.patience.max(1));
        let mut client = Self { host: host_name, identity: Identity::default(), transport, patience };
        let greeting = Request::Hello { build: build.to_owned(), protocol: PROTOCOL };
        let step = "say who it is";
        let not_started = |error: PipeError| match error {
            PipeError::Lost { host, why } => {
                PipeError::Start { host, why: LabError::not_started(&command.argv.join(" "), why) }
            }
            other => other,
        };
        client.transport.send(&greeting).map_err(not_started)?;
        let reply = loop {
            match client.transport.receive(LOOK).map_err(not_started)? {
                Some(reply) => break reply,
                None if waits() => {}
                None => {
                    client.transport.abandon();
                    return Err(client.silent(step, began.elapsed()));
                }
            }
        };
        let (identity, protocol) = match reply {
            Reply::Hello { build, protocol, boot_id, hostname, uid, pid } => {
                (Identity { build, boot_id, hostname, uid, pid }, protocol)
            }
            Reply::Failed { code, message } => return Err(client.failed(code, message)),
            _ => return Err(client.out_of_turn(step)),
        };
        check_build(host, build, &identity.build, protocol)?;
        client.identity = identity;
        Ok(client)
    }

    /// How many times longer than usual what it does may take, in this machine's time.
    pub fn patience(&self) -> u32 {
        self.patience
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn facts(&mut self) -> Result<(MachineFacts, HostFacts), PipeError> {
        self.ask("tell its facts", &Request::Facts, PROMPT, |reply| match reply {
            Reply::Facts { machine, host } => Some((*machine, *host)),
            _ => None,
        })
    }

    /// Applies settings to its machine and host; undoes those of an earlier call that this one does not ask for, and
    /// all after a failure. `device`: for `nic.` settings. `shielded`: another agent of this run keeps a shield up
    /// there.
    pub fn prepare(
        &mut self,
        shield: Option<&ShieldSpec>,
        settings: &[Setting],
        device: Option<&str>,
        shielded: bool,
    ) -> Result<Prepared, PipeError> {
        let request = Request::Prepare {
            shield: shield.cloned(),
            settings: settings.to_vec(),
            device: device.map(str::to_owned),
            shielded,
        };
        let host = self.host.clone();
        self.ask("change settings", &request, SETTINGS, |reply| match reply {
            Reply::Prepared { shield, changed, notes } => {
                Some(Prepared { host, shield, settings: settings.to_vec(), changed, notes })
            }
            _ => None,
        })
    }

    /// Puts back what [`Self::prepare`] changed; gives back what could not be, one line each.
    pub fn restore(&mut self) -> Result<Vec<String>, PipeError> {
        self.ask("put settings back", &Request::Restore, SETTINGS, |reply| match reply {
            Reply::Restored { problems } => Some(problems),
            _ => None,
        })
    }

    /// Whether its machine can come to a kernel, and what that will say that it is.
    pub fn check_kernel(&mut self, kernel: &KernelChoice) -> Result<KernelImage, PipeError> {
        self.ask("check a kernel", &Request::CheckKernel { kernel: kernel.clone() }, SETTINGS, |reply| match reply {
            Reply::Kernel { image } => Some(image),
            _ => None,
        })
    }

    /// Sends its machine into a kernel. It goes down once this returns, and the pipe with it.
    pub fn enter_kernel(&mut self, kernel: &KernelChoice) -> Result<(), PipeError> {
        self.ask("boot a kernel", &Request::EnterKernel { kernel: kernel.clone() }, SETTINGS, |reply| {
            matches!(reply, Reply::GoingDown).then_some(())
        })
    }

    /// Starts an endpoint and waits until it listens.
    pub fn start_endpoint(&mut self, task: &EndpointTask, launch: &LaunchSpec) -> Result<StartedEndpoint, PipeError> {
        let request = Request::StartEndpoint { task: task.clone(), launch: launch.clone() };
        self.ask("start an endpoint", &request, PROMPT, |reply| match reply {
            Reply::EndpointReady { id, address } => Some(StartedEndpoint { id, address }),
            _ => None,
        })
    }

    /// Stops an endpoint and waits until it has ended; [`PipeError::Failed`] also when it had ended by itself.
    pub fn stop_endpoint(&mut self, id: u32) -> Result<(), PipeError> {
        self.ask("stop an endpoint", &Request::StopEndpoint { id }, PROMPT, |reply| match reply {
            Reply::EndpointStopped { id: stopped } if stopped == id => Some(()),
            _ => None,
        })
    }

    /// Runs a probe to its end; measurements go to `sink` afterwards, intervals to `live` meanwhile. `cancel`, read ten
    /// times a second, stops it: `sink` gets what was measured, the answer is [`PipeError::Failed`] with code 130.
    pub fn run_probe(
        &mut self,
        task: &ProbeTask,
        launch: &LaunchSpec,
        cancel: &AtomicBool,
        live: &mut dyn FnMut(LiveInterval),
        sink: &mut dyn FnMut(Measured),
    ) -> Result<(), PipeError> {
        let step = "run a probe";
        self.transport.send(&Request::RunProbe { task: Box::new(task.clone()), launch: launch.clone() })?;
        let mut looks_left = None;
        let mut unreadable = None;
        loop {
            match self.transport.receive(LOOK)? {
                Some(Reply::Interval(interval)) => live(*interval),
                Some(Reply::Measured(measured)) => sink(*measured),
                // The agent goes on to the end of the probe.
                Some(Reply::Unreadable(why)) => drop(unreadable.get_or_insert(why)),
                Some(Reply::Done) => {
                    return unreadable
                        .map_or(Ok(()), |why| Err(self.failed(1, format!("what the probe says is no event: {why}"))));
                }
                Some(Reply::Failed { code, message }) => return Err(self.failed(code, message)),
                Some(_) => return Err(self.out_of_turn(step)),
                None => {}
            }
            match &mut looks_left {
                None if cancel.load(Ordering::Relaxed) => {
                    self.transport.send(&Request::Cancel)?;
                    looks_left = Some(CANCELLED_LOOKS * self.patience);
                }
                None => {}
                Some(0) => return Err(self.silent("stop a probe", LOOK * CANCELLED_LOOKS * self.patience)),
                Some(left) => *left -= 1,
            }
        }
    }

    /// Starts a load and waits until it is steady, `timeout` at most; the answer has whether it is. `cancel`, read ten
    /// times a second, ends it, with [`PipeError::Failed`] and code 130 unless it is steady.
    pub fn start_load(
        &mut self,
        spec: &LoadSpec,
        timeout: Duration,
        cancel: &AtomicBool,
    ) -> Result<StartedLoad, PipeError> {
        let step = "start a load";
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.transport.send(&Request::StartLoad { spec: spec.clone(), timeout_ms })?;
        let limit = timeout.saturating_add(PROMPT) * self.patience;
        let asked = Instant::now();
        let mut cancelled = false;
        loop {
            match self.transport.receive(LOOK)? {
                Some(Reply::LoadSteady { id, steady, steady_after_ns }) => {
                    return Ok(StartedLoad { id, steady, steady_after_ns });
                }
                Some(Reply::Failed { code, message }) => return Err(self.failed(code, message)),
                Some(_) => return Err(self.out_of_turn(step)),
                None if asked.elapsed() >= limit => return Err(self.silent(step, limit)),
                None if !cancelled && cancel.load(Ordering::Relaxed) => {
                    self.transport.send(&Request::Cancel)?;
                    cancelled = true;
                }
                None => {}
            }
        }
    }

    pub fn stop_load(&mut self, id: u32) -> Result<LoadReport, PipeError> {
        self.ask("stop a load", &Request::StopLoad { id }, PROMPT, |reply| match reply {
            Reply::LoadReport { id: stopped, report } if stopped == id => Some(*report),
            _ => None,
        })
    }

    /// Says good-bye and waits until the agent has stopped its workers and ended.
    pub fn bye(mut self) -> Result<(), PipeError> {
        self.ask("end", &Request::Bye, PROMPT, |reply| matches!(reply, Reply::Bye).then_some(()))?;
        self.transport.close()
    }

    /// Asks for something; `answer` takes it from the reply, and gives nothing for another one.
    fn ask<T>(
        &mut self,
        step: &'static str,
        request: &Request,
        limit: Duration,
        answer: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<T, PipeError> {
        let limit = limit * self.patience;
        self.transport.send(request)?;
        match self.transport.receive(limit)? {
            Some(Reply::Failed { code, message }) => Err(self.failed(code, message)),
            Some(reply) => answer(reply).ok_or_else(|| self.out_of_turn(step)),
            None => Err(self.silent(step, limit)),
        }
    }

    fn failed(&self, code: u8, message: String) -> PipeError {
        PipeError::Failed { host: self.host.clone(), code, message }
    }

    fn silent(&self, step: &'static str, limit: Duration) -> PipeError {
        PipeError::Silent { host: self.host.clone(), step, seconds: limit.as_secs() }
    }

    fn out_of_turn(&self, step: &'static str) -> PipeError {
        PipeError::OutOfTurn { host: self.host.clone(), step }
    }
}
