//! An endpoint in this process, and tasks against it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests, of which each test binary uses a part"
)]

use model::worker::{EndpointTask, Measured, ProbeTask, Target};
use model::{FindingId, Limits, Probe, ProbeSpec, Protocol, Receive, Role};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use windhover_probe as probe;
use windhover_probe::{Context, LiveSink, Outcome, ProbeError};

/// An endpoint that serves until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: endpoint::Stop,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::with(Limits::default(), None)
    }

    pub(crate) fn with(limits: Limits, key: Option<&str>) -> Self {
        Self::at("127.0.0.1:0", limits, key)
    }

    pub(crate) fn at(bind: &str, limits: Limits, key: Option<&str>) -> Self {
        let task = EndpointTask { bind: bind.to_owned(), key: key.map(str::to_owned), limits };
        let endpoint = endpoint::Endpoint::bind(&task).unwrap();
        let address = endpoint.local_address();
        let stop = endpoint::Stop::new().unwrap();
        let told = stop.clone();
        let thread = std::thread::spawn(move || endpoint.serve(&told).unwrap());
        Self { address, stop, thread: Some(thread) }
    }

    /// Ends it now.
    pub(crate) fn stop(&self) {
        self.stop.stop();
    }

    /// Ends it when asked to.
    pub(crate) fn stopper(&self) -> endpoint::Stop {
        self.stop.clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A short measurement: 50 ms of 32 bytes after a short warm-up.
pub(crate) fn spec(probe: Probe, protocol: Protocol) -> ProbeSpec {
    let mut spec = ProbeSpec::new(probe, protocol);
    spec.warmup.time_ms = 5;
    spec.warmup.count = 20;
    spec.stop.max_ms = 50;
    spec
}

pub(crate) fn context() -> Context {
    Context::new(PathBuf::from("/proc/self/exe"), "test")
}

/// One that does this at the first interval of a task that is `live`: messages have come back by then, however long a busy
/// machine takes for them. The flag asks the run to end.
pub(crate) fn at_first_interval(act: impl FnOnce(&AtomicBool) + Send + 'static) -> Context {
    let mut context = context();
    let (stop, act) = (Arc::clone(&context.stop), Mutex::new(Some(act)));
    context.live = Some(LiveSink::new(move |_| {
        if let Some(act) = act.lock().unwrap().take() {
            act(&stop);
        }
    }));
    context
}

pub(crate) fn task(spec: ProbeSpec, address: impl std::fmt::Display) -> ProbeTask {
    let target = Target { control: address.to_string(), key: None, host: None };
    ProbeTask { factors: BTreeMap::from([("load".to_owned(), "none".into())]), ..ProbeTask::new(spec, target) }
}

/// Runs a task and keeps what it gave.
pub(crate) fn run(task: &ProbeTask) -> (Vec<Measured>, Result<Outcome, ProbeError>) {
    run_with(task, &context())
}

pub(crate) fn run_with(task: &ProbeTask, context: &Context) -> (Vec<Measured>, Result<Outcome, ProbeError>) {
    let _alone = alone();
    run_at_once(task, context)
}

/// One measurement at a time: ends that spin would starve each other on a small machine.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a task without waiting for others: the test has to be [`alone`].
pub(crate) fn run_at_once(task: &ProbeTask, context: &Context) -> (Vec<Measured>, Result<Outcome, ProbeError>) {
    let mut all = Vec::new();
    let outcome = probe::run(task, context, &mut |measured| all.push(measured));
    (all, outcome)
}

/// Runs a task that must work and has one size.
pub(crate) fn one(task: &ProbeTask) -> Measured {
    let (mut all, outcome) = run(task);
    outcome.unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

pub(crate) fn has(measured: &Measured, id: FindingId) -> bool {
    measured.result.verdict.iter().any(|finding| finding.id == id)
}

/// What every sound document has, whatever was measured.
pub(crate) fn check_sane(measured: &Measured) {
    let result = &measured.result;
    let latency = result.latency.as_ref().unwrap();
    let messages = &result.messages;
    assert!(latency.count > 0 && latency.count == messages.received, "{latency:?} {messages:?}");
    assert_eq!(messages.sent, messages.received + messages.lost);
    let (min, max) = (latency.min_ns.unwrap(), latency.max_ns.unwrap());
    assert!(0 < min && min <= max, "{latency:?}");
    // A quantile with too few messages beyond it is absent.
    assert!(latency.p50_ns.map_or(latency.count < 20, |p50| (min..=max).contains(&p50)), "{latency:?}");
    let mean = latency.mean_ns.unwrap();
    // Halves of odd times are rounded up, the mean is not: of a single message it may be half a ns below both.
    assert!(min as f64 - 0.5 <= mean && mean <= max as f64, "{latency:?}");
    assert!(result.elapsed_ns > 0 && result.started_ns > 1_600_000_000_000_000_000);
    assert!(result.histogram.as_deref().is_some_and(|text| !text.is_empty()));
    assert!(measured.hlog.contains("Tag=rtt"), "{}", measured.hlog);
    assert!(!result.series.is_empty());
    let map = result.clock.as_ref().unwrap();
    assert!(map.points.len() >= 2);
    let cost = &result.self_cost;
    assert!(cost.clock_read_ns > 0.0 && cost.loop_ns > 0.0 && cost.record_ns > 0.0, "{cost:?}");
    let usage = &result.ends.first(Role::Initiator).unwrap().usage;
    assert!(usage.elapsed_ns >= result.elapsed_ns / 2 && usage.cpus > 0, "{usage:?}");
    assert!(result.ends.first(Role::Initiator).unwrap().host.is_some());
}

/// Which receive modes take part in the tests over a network.
pub(crate) const MODES: [Receive; 7] = Receive::LINUX;
