//! `windhover bypass probe`: what each way past the kernel is worth on an interface.

use super::child::Worker;
use super::{identity, key, signals};
use crate::cli::bypass::Probe as Arguments;
use crate::output::{Failure, Output, json_in_order, paragraph, width};
use anyhow::anyhow;
use bypass::{Candidate, WayRounds, WaySettings, measure_ways, open_ways};
use lab::{Lab, LabSpec, Registry};
use model::worker::{EndpointTask, ProbeTask, Target};
use model::{Limits, ProbeSpec, ResultDocument, WorkerEvent, WorkerSpec};
use report::{Column, Grid};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A worker without an event for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

struct Ends {
    /// The network namespace of the initiator; absent: this one.
    here: Option<PathBuf>,
    target: Target,
    device: Option<String>,
    // Ended in this order: the endpoint, then the namespaces.
    _endpoint: Option<Worker>,
    _lab: Option<Lab>,
}

impl Ends {
    fn with_peer(arguments: &Arguments, peer: &str) -> Result<Self, Failure> {
        let control = net::resolve(peer, net::DEFAULT_PORT, None).map_err(|error| Failure::new(2, error))?.to_string();
        let target = Target { control, key: key::read(arguments.key_file.as_deref())?, host: None };
        let device = Some(arguments.interface.clone());
        Ok(Self { here: None, target, device, _endpoint: None, _lab: None })
    }

    /// Two new namespaces joined by a veth pair; removed with this value, and with this process.
    fn with_lab() -> Result<Self, Failure> {
        let spec =
            LabSpec { keeper: Some(identity::executable()?), ..LabSpec::new(&format!("probe-{}", std::process::id())) };
        let lab = Lab::up(&Registry::default(), &spec).map_err(|error| Failure::new(1, error))?;
        let [here, there] = lab.hosts() else { return Err(anyhow!("a lab of two hosts has others").into()) };
        let key = key::fresh()?.to_hex();
        let task = EndpointTask {
            bind: format!("{}:0", there.ipv4),
            key: Some(key.clone()),
            limits: Limits { max_rate_pps: u32::MAX, ..Limits::trusted() },
        };
        let namespace = there.netns_path();
        let mut endpoint =
            Worker::start(None, "endpoint", &WorkerSpec::Endpoint(task), |launch| inside(launch, namespace))?;
        let Some(WorkerEvent::Ready { address: Some(control) }) = endpoint.hear(PATIENCE)? else {
            return Err(anyhow!("the endpoint in the namespace does not say where it listens").into());
        };
        let target = Target { control, key: Some(key), host: None };
        Ok(Self { here: here.netns_path(), target, device: None, _endpoint: Some(endpoint), _lab: Some(lab) })
    }
}

fn inside(launch: task::Launch, namespace: Option<PathBuf>) -> task::Launch {
    match namespace {
        Some(path) => launch.netns(path),
        None => launch,
    }
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<u8, Failure> {
    let index = net::interface::index_of(&arguments.interface).map_err(Failure::usage)?;
    let kind = netlink::Socket::route().and_then(|socket| socket.link(index)).map_err(|cause| anyhow!(cause))?.kind;
    let is_ours = arguments.interface == "lo" || kind.as_deref() == Some("veth");
    let stop = signals::stop_flag()?;
    let ends = match &arguments.to {
        Some(peer) => Some(Ends::with_peer(arguments, peer)?),
        None if is_ours => Some(Ends::with_lab()?),
        None => None,
    };
    let place = match (&arguments.to, is_ours) {
        (Some(peer), _) => format!("{} to {peer}", arguments.interface),
        (None, true) => "a veth pair between two namespaces of this machine".to_owned(),
        (None, false) => arguments.interface.clone(),
    };
    let rows = match &ends {
        Some(ends) => {
            let settings = WaySettings {
                size: arguments.size,
                policy: arguments.policy,
                cpus: [arguments.cpu, arguments.remote_cpu],
                one_machine: arguments.to.is_none(),
                device: ends.device.clone(),
                duration: Duration::from_secs_f64(arguments.seconds),
            };
            measure_ways(&settings, &stop, |spec| once(ends, spec), |failure| format!("{:#}", failure.error))?
        }
        None => open_ways(&arguments.interface).map_err(Failure::usage)?,
    };
    drop(ends);
    let stopped = stop.load(Ordering::Relaxed);
    drop(stop);
    let (choice, sentence) = match (&arguments.to, is_ours) {
        (None, false) => (None, no_peer(&arguments.interface)),
        _ if stopped && rows[0].p50_us().is_none() => (None, "Interrupted: no recommendation.".to_owned()),
        _ => bypass::recommend_way(&rows),
    };
    if arguments.form.is_json() {
        output.result(&json_in_order(&document(arguments, &place, &rows, choice, &sentence))?)?;
    } else {
        output.result(&text(arguments, &place, &rows, &sentence))?;
    }
    let is_measured = arguments.to.is_none() && !is_ours || rows[0].p50_us().is_some();
    Ok(match (stopped, is_measured) {
        (true, _) => 130,
        (false, true) => 0,
        (false, false) => 4,
    })
}

fn once(ends: &Ends, spec: ProbeSpec) -> Result<ResultDocument, Failure> {
    spec.check().map_err(Failure::usage)?;
    let task = ProbeTask::new(spec, ends.target.clone());
    let namespace = ends.here.clone();
    let mut worker =
        Worker::start(None, "measurement", &WorkerSpec::Probe(Box::new(task)), |launch| inside(launch, namespace))?;
    match worker.hear(PATIENCE)? {
        Some(WorkerEvent::Measured(measured)) => Ok(measured.result),
        Some(_) => Err(anyhow!("the measurement ended without a result").into()),
        None => Err(anyhow!("the measurement did not end within {} s", PATIENCE.as_secs()).into()),
    }
}

fn no_peer(interface: &str) -> String {
    format!(
        "Latencies need a peer: start 'windhover serve' on a host behind {interface}, and give its address with --to."
    )
}

fn text(arguments: &Arguments, place: &str, rows: &[WayRounds], sentence: &str) -> String {
    let mut text = String::new();
    let block = rows.iter().find(|row| row.way == Candidate::Block);
    let cell = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"));
    if let Some(block) = block {
        let rounds = block.rounds.len();
        text.push_str(&paragraph(
            "",
            &format!(
                "{place}: {} bytes, policy {}, {rounds} rounds; medians over the rounds, RTT/2 in µs; ratios to \
                 UDP sockets that block.",
                arguments.size, arguments.policy
            ),
        ));
        let figures = [
            ("p50", "µs"),
            ("p99", "µs"),
            ("p99.9", "µs"),
            ("p50 / blocking", "(95 %)"),
            ("here", "CPU %"),
            ("there", "CPU %"),
        ];
        let columns =
            std::iter::once(Column::words("way")).chain(figures.map(|(name, unit)| Column::figures(name, unit)));
        let row = |row: &WayRounds| {
            vec![
                row.way.name(),
                cell(row.p50_us(), 3),
                cell(row.median(|figures| figures.p99_us), 3),
                cell(row.median(|figures| figures.p99_9_us), 3),
                row.over(block).map_or_else(|| "-".to_owned(), |ratio| ratio.to_string()),
                cell(row.median(|figures| Some(figures.cpu_percent[0])), 0),
                cell(row.median(|figures| Some(figures.cpu_percent[1])), 0),
            ]
        };
        let rows = rows.iter().filter(|row| row.why_not.is_none()).map(row).collect();
        text.push_str(&Grid { columns: columns.collect(), rows, ..Grid::default() }.text(width()));
        text.push('\n');
    }
    for row in rows {
        let missing = row.rounds.iter().filter(|round| round.is_none()).count();
        let spoilt = || {
            let mut words = row.untrusted.clone();
            words.sort_unstable();
            words.dedup();
            let why = if words.is_empty() { "no figures".to_owned() } else { words.join(", ") };
            let rounds = if missing == 1 { "1 round is".to_owned() } else { format!("{missing} rounds are") };
            format!("{rounds} left out as not to be trusted ({why})")
        };
        let said = match &row.why_not {
            Some(why) => Some(match row.failed_in {
                Some(round) => format!("failed in round {round}: {why}"),
                None => format!("does not open: {why}"),
            }),
            None if block.is_none() => Some("opens".to_owned()),
            None => (missing > 0).then(spoilt),
        };
        if let Some(said) = said {
            text.push_str(&paragraph("", &format!("{}: {said}.", row.way.name())));
        }
    }
    for sentence in [bypass::floors(rows).as_str(), sentence] {
        if !sentence.is_empty() {
            text.push_str(&paragraph("", sentence));
        }
    }
    text
}

fn document(
    arguments: &Arguments,
    place: &str,
    rows: &[WayRounds],
    choice: Option<Candidate>,
    sentence: &str,
) -> Value {
    let block = rows.iter().find(|row| row.way == Candidate::Block);
    let ns = |us: Option<f64>| us.map(|us| (us * 1e3).round());
    let row = |row: &WayRounds| {
        let ratio = block.and_then(|block| row.over(block));
        fields!(row; why_not, untrusted;
            "way": row.way.word(),
            "opens": row.opens(),
            "failed_in_round": row.failed_in,
            "rounds": row.rounds.iter().flatten().count(),
            "p50_ns": ns(row.p50_us()),
            "p99_ns": ns(row.median(|figures| figures.p99_us)),
            "p99_9_ns": ns(row.median(|figures| figures.p99_9_us)),
            "ratio_to_blocking": ratio.map(|ratio| ratio.typical),
            "ratio_ci95": ratio.map(|ratio| [ratio.low, ratio.high]),
            "cpu_percent": row.median(|figures| Some(figures.cpu_percent[0])),
            "far_cpu_percent": row.median(|figures| Some(figures.cpu_percent[1])),
        )
    };
    json!({
        "interface": arguments.interface,
        "measured_on": place,
        "size": arguments.size,
        "policy": arguments.policy.to_string(),
        "ways": rows.iter().map(row).collect::<Vec<_>>(),
        "recommended": choice.map(Candidate::word),
        "recommendation": sentence,
    })
}
