//! The agent's one loop: takes events, keeps workers, answers the runner.

use crate::events::Event;
use crate::preparation::{Preparation, PreparedState};
use crate::worker::{Phase, Role, Worker, WorkerNotice};
use crate::{AgentError, Context};
use model::{HostFacts, KernelChoice, MachineFacts, WorkerEvent, WorkerSpec};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use wire::agent::{PROTOCOL, forward};
use wire::{FrameError, LaunchSpec, Reply, Request};

/// How long an endpoint may take until it listens: a preloaded stack may have to set up hardware.
const READY: Duration = Duration::from_secs(20);
/// How long a worker may take to end when asked to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a load may take to end, which has files to remove.
const LOAD_PATIENCE: Duration = Duration::from_secs(15);
/// How long all workers together may take to end when the agent ends.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
/// Exit code of what was interrupted.
const INTERRUPTED: u8 = 130;
/// Exit code of what a machine refuses.
const REFUSED: u8 = 2;
/// What an answer gets to travel before the machine goes down: by ssh it passes another process.
const PARTING: Duration = Duration::from_millis(500);

pub(crate) struct Supervisor<'a, W> {
    context: &'a Context,
    output: W,
    sender: Sender<Event>,
    workers: BTreeMap<u32, Worker>,
    next: u32,
    facts: Option<(MachineFacts, HostFacts)>,
    preparation: Preparation,
}

impl<'a, W: Write> Supervisor<'a, W> {
    pub(crate) fn new(context: &'a Context, output: W, sender: Sender<Event>) -> Self {
        let preparation = Preparation::new(context.lines.clone());
        Self { context, output, sender, workers: BTreeMap::new(), next: 1, facts: None, preparation }
    }

    /// Runs until the runner is done with this host, in one way or another.
    pub(crate) fn run(mut self, events: &Receiver<Event>) -> Result<(), AgentError> {
        let has_said_bye = loop {
            let step = match self.wait(events) {
                Some(Event::Request(request)) if matches!(*request, Request::Bye) => break Ok(true),
                Some(Event::Request(request)) => self.request(*request),
                Some(Event::Worker(id, news)) => self.news(id, news),
                Some(Event::InputEnded(end)) => break end.map(|()| false).map_err(AgentError::Request),
                Some(Event::Terminated) => break Ok(false),
                None => self.lose_patience(),
            };
            if let Err(error) = step {
                break Err(error);
            }
        };
        self.stop_all(events);
        // What cannot be put back is reported on stderr: replies may no longer be read.
        for problem in self.preparation.restore() {
            (self.context.lines)(&problem);
        }
        if has_said_bye? { self.reply(&Reply::Bye) } else { Ok(()) }
    }

    /// The next event, or `None` when a worker's time is over.
    fn wait(&self, events: &Receiver<Event>) -> Option<Event> {
        match self.workers.values().filter_map(|worker| worker.deadline).min() {
            None => events.recv().ok(),
            Some(deadline) => events.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok(),
        }
    }

    fn reply(&mut self, reply: &Reply) -> Result<(), AgentError> {
        self.write(reply.to_frame())
    }

    fn write(&mut self, frame: Result<Vec<u8>, FrameError>) -> Result<(), AgentError> {
        let frame = match frame {
            Ok(frame) => frame,
            // Only raw samples and captures can be this long. The runner gets an error instead of a time-out.
            Err(error) => {
                let message = format!(
                    "a result cannot be sent ({error}): measure fewer messages, or without raw samples and captures"
                );
                Reply::Failed { code: 1, message }.to_frame()?
            }
        };
        self.output.write_all(&frame).and_then(|()| self.output.flush()).map_err(AgentError::Reply)
    }

    fn fail(&mut self, code: u8, message: impl Into<String>) -> Result<(), AgentError> {
        let message = message.into().replace(['\n', '\r'], " ");
        self.reply(&Reply::Failed { code, message })
    }

    fn request(&mut self, request: Request) -> Result<(), AgentError> {
        match request {
            Request::Hello { .. } => {
                let (machine, host) = self.facts();
                let (boot_id, hostname) = (machine.boot_id.clone(), host.hostname.clone().unwrap_or_default());
                let uid = host.uid;
                let build = self.context.build.clone();
                let pid = std::process::id();
                self.reply(&Reply::Hello { build, protocol: PROTOCOL, boot_id, hostname, uid, pid })
            }
            Request::Facts => {
                let (machine, host) = self.facts();
                let reply = Reply::Facts { machine: Box::new(machine.clone()), host: Box::new(host.clone()) };
                self.reply(&reply)
            }
            Request::StartEndpoint { task, launch } => self.start(&WorkerSpec::Endpoint(task), &launch, Some(READY)),
            Request::RunProbe { .. } if self.workers.values().any(|worker| worker.role == Role::Probe) => {
                self.fail(1, "a probe runs on this host already: one at a time")
            }
            Request::RunProbe { task, launch } => self.start(&WorkerSpec::Probe(task), &launch, None),
            Request::StartLoad { spec, timeout_ms } => {
                let limit = Duration::from_millis(u64::from(timeout_ms));
                self.start(&WorkerSpec::Load(spec), &LaunchSpec::default(), Some(limit))
            }
            Request::StopEndpoint { id } => self.stop(id, Role::Endpoint, PATIENCE),
            Request::StopLoad { id } => self.stop(id, Role::Load, LOAD_PATIENCE),
            Request::Cancel => {
                // One that ended while the word was on its way has been answered already.
                for worker in self.workers.values_mut() {
                    match (worker.role, worker.phase) {
                        (Role::Probe, Phase::Working) => worker.stop(PATIENCE),
                        (Role::Load, Phase::Starting) => {
                            worker.cancelled = true;
                            worker.stop(LOAD_PATIENCE);
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            Request::Prepare { shield, settings, device, shielded } => {
                match self.preparation.prepare(shield, settings, device, shielded) {
                    Ok(PreparedState { shield, changed, notes }) => {
                        self.reply(&Reply::Prepared { shield, changed, notes })
                    }
                    Err((code, message)) => self.fail(code, message),
                }
            }
            Request::Restore => {
                let problems = self.preparation.restore();
                self.reply(&Reply::Restored { problems })
            }
            Request::CheckKernel { kernel } => match prepare::boot::check(self.preparation.kernel(), &kernel) {
                Ok(image) => self.reply(&Reply::Kernel { image }),
                Err(error) => self.fail(REFUSED, error.to_string()),
            },
            Request::EnterKernel { kernel } => self.enter_kernel(&kernel),
            // It ended the loop.
            Request::Bye => Ok(()),
        }
    }

    /// Loads a kernel and goes down into it. The answer leaves before; a later failure shows on stderr only.
    fn enter_kernel(&mut self, kernel: &KernelChoice) -> Result<(), AgentError> {
        let problems = self.preparation.restore();
        problems.iter().for_each(|problem| (self.context.lines)(problem));
        let machine = self.preparation.kernel().clone();
        let down = match prepare::boot::load(&machine, kernel) {
            Ok(down) => down,
            Err(error) => return self.fail(REFUSED, error.to_string()),
        };
        self.reply(&Reply::GoingDown)?;
        std::thread::sleep(PARTING);
        if let Err(error) = prepare::boot::go_down(&machine, down) {
            (self.context.lines)(&error.to_string());
        }
        Ok(())
    }

    fn facts(&mut self) -> &(MachineFacts, HostFacts) {
        self.facts.get_or_insert_with(|| {
            let here = host::knob::Machine::running();
            let (mut machine, mut host) = (host::facts::machine(&here), host::facts::host(&here));
            machine.kernel_config = host::facts::kernel_config(&here);
            let examined = prepare::doctor::record(&here);
            host.environment = examined.ok().and_then(|examined| serde_json::to_value(examined).ok());
            (machine, host)
        })
    }

    fn start(&mut self, spec: &WorkerSpec, launch: &LaunchSpec, limit: Option<Duration>) -> Result<(), AgentError> {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        match Worker::start(id, spec, launch, self.context, &self.sender) {
            Ok(mut worker) => {
                worker.deadline = limit.map(|limit| worker.started + limit);
                self.workers.insert(id, worker);
                Ok(())
            }
            Err(message) => self.fail(2, message),
        }
    }

    fn stop(&mut self, id: u32, role: Role, patience: Duration) -> Result<(), AgentError> {
        match self.workers.get_mut(&id) {
            Some(worker) if worker.role == role && worker.phase == Phase::Ended => self.finish(id),
            Some(worker) if worker.role == role => {
                worker.stop(patience);
                Ok(())
            }
            _ => self.fail(1, format!("there is no {} {id} on this host", role.word())),
        }
    }

    fn news(&mut self, id: u32, news: WorkerNotice) -> Result<(), AgentError> {
        let Some(worker) = self.workers.get_mut(&id) else { return Ok(()) };
        match news {
            // Reported only when the task asks for them.
            WorkerNotice::Interval(line) => {
                if (worker.role, worker.phase) == (Role::Probe, Phase::Working) {
                    self.write(forward(&line))?;
                }
            }
            WorkerNotice::Measured(line) => worker.measured.push(line),
            WorkerNotice::Event(event) => match event {
                WorkerEvent::Ready { address } => return self.ready(id, address),
                WorkerEvent::Load(report) => worker.report = Some(report),
                WorkerEvent::Failed { code, message } => worker.failed = Some((code, message)),
                WorkerEvent::Done => worker.done = true,
                WorkerEvent::Interval(_) | WorkerEvent::Measured(_) => {}
            },
            WorkerNotice::Nonsense(why) => {
                worker.failed.get_or_insert((1, format!("what the {} says is no event: {why}", worker.role.word())));
            }
            WorkerNotice::Stopped => {
                // What it measured before has little value, and it would be waited for as long as it is stopped.
                let why = format!(
                    "the {} was stopped by a signal (SIGSTOP or the like), so it was ended",
                    worker.role.word()
                );
                worker.failed.get_or_insert((1, why));
                worker.kill();
            }
            WorkerNotice::Exited => worker.note_exit(),
            WorkerNotice::Closed => {
                worker.reap();
                return self.closed(id);
            }
        }
        Ok(())
    }

    fn ready(&mut self, id: u32, address: Option<String>) -> Result<(), AgentError> {
        let Some(worker) = self.workers.get_mut(&id) else { return Ok(()) };
        // A load that was given up, or a repeated event.
        if worker.phase != Phase::Starting {
            return Ok(());
        }
        worker.phase = Phase::Working;
        worker.deadline = None;
        let reply = match worker.role {
            Role::Endpoint => Reply::EndpointReady { id, address: address.unwrap_or_default() },
            Role::Load => Reply::LoadSteady { id, steady: true, steady_after_ns: nanoseconds(worker.started) },
            Role::Probe => return Ok(()),
        };
        self.reply(&reply)
    }

    /// A worker has ended: a request that waits for it is answered. None waits for a working one.
    fn closed(&mut self, id: u32) -> Result<(), AgentError> {
        let Some(worker) = self.workers.get_mut(&id) else { return Ok(()) };
        match (worker.role, worker.phase) {
            (Role::Endpoint | Role::Load, Phase::Working) => {
                worker.phase = Phase::Ended;
                let end = worker.end.clone().unwrap_or_default();
                (self.context.lines)(&format!("{end}, and nobody had asked it to"));
                Ok(())
            }
            _ => self.finish(id),
        }
    }

    /// Answers for a worker that has ended, and forgets it.
    fn finish(&mut self, id: u32) -> Result<(), AgentError> {
        let Some(mut worker) = self.workers.remove(&id) else { return Ok(()) };
        match (worker.role, worker.phase) {
            (Role::Endpoint, Phase::Stopping) => return self.reply(&Reply::EndpointStopped { id }),
            (Role::Load, _) if worker.cancelled => return self.fail(INTERRUPTED, "the load was cancelled"),
            (Role::Load, Phase::Stopping | Phase::Ended) => {
                if let Some(report) = worker.report.take() {
                    return self.reply(&Reply::LoadReport { id, report: Box::new(report) });
                }
            }
            (Role::Probe, phase) => {
                for measured in std::mem::take(&mut worker.measured) {
                    self.write(forward(&measured))?;
                }
                if phase == Phase::Stopping {
                    return self.fail(INTERRUPTED, "the probe was cancelled");
                }
                // A foreign program need not say that it is done, but it has to end well.
                if worker.failed.is_none() && (worker.done || worker.ended_well()) {
                    return self.reply(&Reply::Done);
                }
            }
            _ => {}
        }
        let (code, message) = worker.failure();
        self.fail(code, message)
    }

    fn lose_patience(&mut self) -> Result<(), AgentError> {
        let now = Instant::now();
        let late: Vec<u32> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.deadline.is_some_and(|at| at <= now))
            .map(|(&id, _)| id)
            .collect();
        for id in late {
            let Some(worker) = self.workers.get_mut(&id) else { continue };
            worker.deadline = None;
            if worker.exited {
                worker.reap();
                self.closed(id)?;
                continue;
            }
            match (worker.role, worker.phase) {
                // It goes on working and is reported as what it is.
                (Role::Load, Phase::Starting) => {
                    worker.phase = Phase::Working;
                    let steady_after_ns = nanoseconds(worker.started);
                    self.reply(&Reply::LoadSteady { id, steady: false, steady_after_ns })?;
                }
                (_, Phase::Starting) => {
                    let why = format!("the {} did not listen within {} s", worker.role.word(), READY.as_secs());
                    worker.failed.get_or_insert((1, why));
                    worker.kill();
                }
                // Its stdout closes, and the answer follows from that.
                _ => worker.kill(),
            }
        }
        Ok(())
    }

    /// Stops all workers and waits until they have ended; those that take too long are killed.
    fn stop_all(&mut self, events: &Receiver<Event>) {
        for worker in self.workers.values_mut() {
            worker.stop(LAST_PATIENCE);
        }
        let end = Instant::now() + LAST_PATIENCE;
        while self.workers.values().any(|worker| worker.end.is_none()) {
            match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Worker(id, WorkerNotice::Closed)) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.reap();
                    }
                }
                Ok(Event::Worker(id, WorkerNotice::Exited)) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.note_exit();
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        for worker in self.workers.values_mut().filter(|worker| worker.end.is_none()) {
            worker.kill();
        }
        self.workers.clear();
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
