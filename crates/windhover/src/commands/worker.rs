//! The worker contract: a spec as one line of JSON on stdin, events as marked lines on stdout.

use super::{identity, signals};
use crate::output::Failure;
use anyhow::{Context as _, anyhow};
use model::worker::{EndpointTask, INHERITED_VARIABLE, Inherited, ProbeTask};
use model::{LoadSpec, WorkerEvent, WorkerSpec};
use std::fs::File;
use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const STEADY_LIMIT: Duration = Duration::from_secs(3);

/// Runs a spec. A failure is an event on stdout, and the exit code has its code.
pub(crate) fn run(started: Instant) -> Result<u8, Failure> {
    if let Ok(inherited) = std::env::var(INHERITED_VARIABLE) {
        return reflect(&inherited);
    }
    // What preloaded libraries print from here on goes to stderr, not between the events.
    let events = Events(Arc::new(Mutex::new(task::keep_stdout().context("cannot keep standard output")?)));
    let code = match spec().and_then(|spec| work(spec, &events, started)) {
        Ok(code) => code,
        Err(failure) => {
            let message = format!("{:#}", failure.error).replace('\n', " ");
            events.send(&WorkerEvent::Failed { code: failure.code, message })?;
            failure.code
        }
    };
    events.send(&WorkerEvent::Done)?;
    Ok(code)
}

/// The reflector of a protocol within one machine, on descriptors that the initiator made.
fn reflect(inherited: &str) -> Result<u8, Failure> {
    let inherited: Inherited = inherited.parse().map_err(Failure::usage)?;
    let take = |number: i32| task::take_inherited(number).with_context(|| format!("descriptor {number}"));
    let control = take(inherited.control)?.into();
    let read = take(inherited.read)?;
    let data = match inherited.write {
        Some(write) => endpoint::InheritedData::Pair { read, write: take(write)? },
        None => endpoint::InheritedData::Socket(read),
    };
    endpoint::serve_inherited(control, data)?;
    Ok(0)
}

/// Where events go. Those of a running measurement come from another thread than its result.
#[derive(Clone)]
struct Events(Arc<Mutex<File>>);

impl Events {
    fn send(&self, event: &WorkerEvent) -> Result<(), Failure> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(event.line().as_bytes()).and_then(|()| file.flush()).context("the agent does not listen")?;
        Ok(())
    }
}

fn spec() -> Result<WorkerSpec, Failure> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("cannot read the spec from standard input")?;
    serde_json::from_str(&line).context("the spec on standard input is none").map_err(Failure::usage)
}

fn work(spec: WorkerSpec, events: &Events, started: Instant) -> Result<u8, Failure> {
    match spec {
        WorkerSpec::Probe(task) => measure(&task, events, started),
        WorkerSpec::Endpoint(task) => serve(&task, events),
        WorkerSpec::Load(spec) => load(&spec, events),
    }
}

fn measure(task: &ProbeTask, events: &Events, started: Instant) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut context = identity::probe_context(&stop, started)?;
    if task.live {
        let events = events.clone();
        context.live = Some(probe::LiveSink::new(move |interval| {
            // When the agent has ended, sending the result fails.
            let _ = events.send(&WorkerEvent::Interval(Box::new(interval)));
        }));
    }
    let mut sent = Ok(());
    let outcome = probe::run(task, &context, &mut |measured| {
        if sent.is_ok() {
            sent = events.send(&WorkerEvent::Measured(Box::new(measured)));
        }
    });
    sent?;
    let outcome = outcome.map_err(|error| Failure::new(error.exit_code(), error))?;
    Ok(outcome.exit_code())
}

/// Calls `ask` when standard input ends (the supervisor is done, or has ended) or a signal asks to end.
fn when_input_ends(ask: impl Fn() + Clone + Send + 'static) -> Result<signals::StopFlag, Failure> {
    let stop = signals::on_stop(ask.clone())?;
    std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut rest = [0; 256];
            while std::io::stdin().lock().read(&mut rest).is_ok_and(|count| count > 0) {}
            ask();
        })
        .context("cannot start a thread")?;
    Ok(stop)
}

fn serve(task: &EndpointTask, events: &Events) -> Result<u8, Failure> {
    let endpoint = endpoint::Endpoint::bind(task).map_err(super::serve::failed)?;
    let stop = endpoint::Stop::new().map_err(|error| Failure::new(1, error))?;
    let asked = stop.clone();
    let _stop = when_input_ends(move || asked.stop())?;
    events.send(&WorkerEvent::Ready { address: Some(endpoint.local_address().to_string()) })?;
    endpoint.serve(&stop).map_err(super::serve::failed)?;
    Ok(0)
}

fn load(spec: &LoadSpec, events: &Events) -> Result<u8, Failure> {
    let mut load = load::Load::start(spec).map_err(|error| Failure::new(error.exit_code(), error))?;
    let (asked, wait) = std::sync::mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&over);
    let _stop = when_input_ends(move || {
        end.store(true, Ordering::Relaxed);
        // The receiver is closed after the first.
        let _ = asked.send(());
    })?;
    load.wait_steady(&over, STEADY_LIMIT).map_err(|error| Failure::new(1, error))?;
    events.send(&WorkerEvent::Ready { address: None })?;
    let _ = wait.recv();
    let report = load.stop().map_err(|error| Failure::new(1, anyhow!(error)))?;
    events.send(&WorkerEvent::Load(report))?;
    Ok(0)
}
