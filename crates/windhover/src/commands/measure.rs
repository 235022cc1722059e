//! The measuring commands: a measurement typed by hand is the worker itself.

use super::child::Worker;
use super::launch::become_program;
use super::live::Live;
use super::measuring::Measuring;
use super::{capture, identity, key, signals};
use crate::cli::Format;
use crate::cli::dump::Pcap;
use crate::cli::measure::{Output as Wanted, Peer};
use crate::output::{Failure, Output};
use anyhow::anyhow;
use model::plan::BuiltInStack;
use model::worker::{EndpointTask, Measured, ProbeTask, Target};
use model::{Family, ResultDocument, WorkerEvent, WorkerSpec};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn of_command(command: &dyn Measuring, output: &Output, started: Instant) -> Result<u8, Failure> {
    let (mut task, _endpoint) = command.ready()?;
    let given = command.given();
    let live = Live::new(given.is_jsonl, output)?;
    task.live = live.sink().is_some();
    run(&task, &given.output, given.pcap, live, output, started)
}

pub(super) fn family(asked: crate::cli::shared::Family) -> Option<Family> {
    match (asked.ipv4, asked.ipv6) {
        (true, _) => Some(Family::Ipv4),
        (_, true) => Some(Family::Ipv6),
        _ => None,
    }
}

/// Names the stack that this process was started behind by [`go_behind`].
const BEHIND: &str = "WINDHOVER_BEHIND";

fn is_behind(stack: &str) -> bool {
    std::env::var(BEHIND).is_ok_and(|name| name == stack)
}

/// Starts this process anew behind a stack, where it is not behind it already.
pub(super) fn go_behind(stack: &BuiltInStack) -> Result<(), Failure> {
    if is_behind(stack.name) {
        return Ok(());
    }
    let program = identity::executable()?.into_os_string();
    let [_, rest @ ..] = stack.prefix;
    let mut words = vec![program.clone()];
    words.extend(rest.into_iter().map(OsString::from));
    words.push(program);
    words.extend(std::env::args_os().skip(1));
    Err(become_program(&words, &[(BEHIND.into(), stack.name.into())], false))
}

/// The endpoint's address (none within one machine), and the endpoint if it is a child. `port`: another tool's default.
pub(super) fn target(peer: &Peer, port: Option<u16>) -> Result<(Target, Option<Worker>), Failure> {
    let protocol = peer.protocol;
    let control = match (peer.endpoint(), protocol.is_local()) {
        (address, false) if peer.fork_both => {
            let (target, endpoint) = own_endpoint(address.map(String::as_str), peer)?;
            return Ok((target, Some(endpoint)));
        }
        (Some(address), false) => resolved_with(address, port.unwrap_or(net::DEFAULT_PORT), family(peer.family))?,
        (None, true) => String::new(),
        (Some(address), true) => {
            refuse!("{protocol} stays within this machine: leave out '{address}'");
        }
        (None, false) => {
            refuse!(
                "{protocol} needs the endpoint's address: start 'windhover serve' there and give ADDR[:PORT], or measure this host alone with --fork-both"
            );
        }
    };
    Ok((Target { control, key: key::read(peer.key_file.as_deref())?, host: None }, None))
}

/// Starts an endpoint as a child that lives as long as the measurement, with a key of its own.
pub(super) fn own_endpoint(address: Option<&str>, peer: &Peer) -> Result<(Target, Worker), Failure> {
    let family = family(peer.family);
    /// An endpoint that does not listen by then never will.
    const READY: Duration = Duration::from_secs(20);
    /// The measurement ends the endpoint; it need not end the measurement.
    const LONGEST_S: u32 = 30 * 86_400;
    let address = address.unwrap_or(if family == Some(Family::Ipv6) { "::1" } else { "127.0.0.1" });
    let bind = net::resolve(address, 0, family).map_err(|error| Failure::new(2, error))?;
    let key = key::fresh()?.to_hex();
    let limits = model::Limits { max_session_s: LONGEST_S, max_rate_pps: u32::MAX, ..model::Limits::trusted() };
    let task = EndpointTask { bind: bind.to_string(), key: Some(key.clone()), limits };
    // A process behind a stack passes it on to its children.
    let stack = peer.stack().map(|stack| stack.name).filter(|name| !is_behind(name));
    let mut endpoint = Worker::start(stack, "endpoint", &WorkerSpec::Endpoint(task), |launch| launch)?;
    match endpoint.hear(READY)? {
        Some(WorkerEvent::Ready { address: Some(control) }) => {
            Ok((Target { control, key: Some(key), host: None }, endpoint))
        }
        _ => Err(Failure::from(anyhow!("the endpoint of --fork-both does not say where it listens"))),
    }
}

pub(super) fn resolved(address: &str, family: Option<Family>) -> Result<String, Failure> {
    resolved_with(address, net::DEFAULT_PORT, family)
}

/// `port`: where none was typed.
fn resolved_with(address: &str, port: u16, family: Option<Family>) -> Result<String, Failure> {
    let found = net::resolve(address, port, family).map_err(|error| Failure::new(2, error))?;
    Ok(found.to_string())
}

fn run(
    task: &ProbeTask,
    wanted: &Wanted,
    pcap: Option<&Pcap>,
    live: Live,
    output: &Output,
    started: Instant,
) -> Result<u8, Failure> {
    if let Some(percentile) = wanted.percentile.filter(|_| wanted.form.get() != Format::Sfnt) {
        refuse!(
            "--percentile {percentile} names a column of --format sfnt: add that; the other forms have their percentiles"
        );
    }
    if wanted.ladder && wanted.form.get() == Format::Sfnt {
        refuse!("the columns of --format sfnt have no room for --ladder: leave one of them out");
    }
    if let Some(prefix) = &wanted.raw {
        store::check_samples(prefix).map_err(|error| Failure::new(error.exit_code(), error))?;
    }
    let stop = signals::stop_flag()?;
    let mut context = identity::probe_context(&stop, started)?;
    context.live = live.sink();
    let recording = pcap.map_or(Ok(None), |pcap| capture::of_task(pcap, task))?.map(Arc::new);
    context.recording = recording.clone();
    let mut kept = Results::default();
    let rates = task.spec.pace().map_or(1, |pace| pace.rates_pps.len());
    let several = task.spec.sizes.len() * rates > 1;
    let outcome = probe::run(task, &context, &mut |mut measured| {
        if wanted.ladder {
            measured.result.ladder = report::ladder(&measured.result);
        }
        live.result(&measured.result);
        if several && wanted.form.get() != Format::Json && !live.tells_results() {
            progress(&measured.result, output);
        }
        kept.keep(measured, wanted, live.tells_results(), output);
    });
    drop((context, stop));
    if let (Some(recording), Some(pcap)) = (recording, pcap) {
        capture::finish(&recording, pcap, output);
    }
    let tells = live.tells_results();
    live.finish()?;
    // What was measured is printed also when the run failed after it, or a file could not be written.
    kept.printed?;
    if !tells {
        output.result(&text(&kept.documents, wanted)?)?;
        // The other forms hold the verdict; this one has the columns of a tool that gives none.
        if wanted.form.get() == Format::Sfnt {
            for finding in kept.documents.iter().flat_map(|document| &document.verdict.invalid) {
                output.warning(format_args!("invalid: {}: {}", finding.id.word(), finding.detail));
            }
            if let Some(percent) = wanted.percentile {
                few_samples(&kept.documents, percent, output);
            }
        }
    }
    if let Err(failure) = kept.raw {
        match outcome {
            Ok(_) => return Err(failure),
            Err(_) => output.warning(format_args!("{:#}", failure.error)),
        }
    }
    match outcome {
        Ok(outcome) => {
            if !outcome.interrupted {
                left_out(task, &kept.documents, output);
            }
            Ok(outcome.exit_code())
        }
        Err(error) => Err(Failure::new(error.exit_code(), error)),
    }
}

/// Names results with too few messages for the requested percentile, which are printed as sfnt-pingpong does.
fn few_samples(documents: &[ResultDocument], percent: f64, output: &Output) {
    let needed = stats::Histogram::needed(percent / 100.0);
    let counts = documents.iter().filter_map(|document| Some((document.size()?, document.latency.as_ref()?.count)));
    for (size, count) in counts.filter(|(_, count)| *count < needed) {
        output.warning(format_args!(
            "few-samples: p{percent} of {size} B is chance: it needs {needed} messages, and there were {count}; measure longer \
             (--seconds, --count)"
        ));
    }
}

fn left_out(task: &ProbeTask, documents: &[ResultDocument], output: &Output) {
    let Some(pace) = task.spec.pace() else { return };
    let measured = documents.len();
    let asked = task.spec.sizes.len() * pace.rates_pps.len();
    let Some(last) = documents.last().and_then(|last| last.rate.as_ref()).filter(|_| measured < asked) else { return };
    let rates: Vec<String> = pace
        .rates_pps
        .iter()
        .filter(|rate| {
            let is = |document: &&ResultDocument| document.rate.as_ref().is_some_and(|it| it.asked_pps == **rate);
            documents.iter().filter(is).count() < task.spec.sizes.len()
        })
        .map(|rate| format!("{}/s", model::schedule::rate_word(*rate)))
        .collect();
    output.note(format_args!(
        "{} was not measured, because {}/s was not reached; --beyond-saturation goes on",
        rates.join(", "),
        model::schedule::rate_word(last.asked_pps)
    ));
}

fn progress(result: &ResultDocument, output: &Output) {
    let median = result.latency.as_ref().and_then(|latency| latency.p50_ns.map(|ns| (latency.kind.title(), ns)));
    let rate = result.rate.as_ref().map(|rate| format!(", {:.0}/s of {:.0}/s", rate.achieved_pps, rate.asked_pps));
    if let (Some(size), Some((title, ns))) = (result.size(), median) {
        let rate = rate.unwrap_or_default();
        output.note(format_args!("{size} bytes{rate}: {title} median {:.3} µs", ns as f64 / 1e3));
    }
}

struct Results {
    documents: Vec<ResultDocument>,
    /// Whether standard output takes them.
    printed: Result<(), Failure>,
    /// The first raw samples that could not be written.
    raw: Result<(), Failure>,
}

impl Default for Results {
    fn default() -> Self {
        Self { documents: Vec::new(), printed: Ok(()), raw: Ok(()) }
    }
}

impl Results {
    fn keep(&mut self, measured: Measured, wanted: &Wanted, told: bool, output: &Output) {
        // The first failure is reported; a disk that is full now is full for the next size too.
        if let (Some(prefix), Some(raw), true) = (&wanted.raw, &measured.raw, self.raw.is_ok()) {
            self.raw = store::write_samples(prefix, &measured.result, raw).map_err(Failure::from);
        }
        if self.printed.is_ok() && wanted.form.get() == Format::Json && !told {
            let line = serde_json::to_string(&measured.result).map_err(Failure::from);
            self.printed = line.and_then(|line| output.result(&format!("{line}\n")));
        }
        self.documents.push(measured.result);
    }
}

/// The results in one of the forms for people or spreadsheets; JSON was written as it came.
fn text(documents: &[ResultDocument], wanted: &Wanted) -> Result<String, Failure> {
    if documents.is_empty() {
        return Ok(String::new());
    }
    Ok(match wanted.form.get() {
        Format::Table => {
            let histogram = wanted.histogram_us.map_or(Ok(String::new()), |last_us| {
                documents.iter().map(|document| report::wake_histogram(document, last_us)).collect()
            });
            report::single_text(documents, crate::output::width()) + &histogram?
        }
        Format::Markdown => report::single_markdown(documents),
        Format::Csv => report::single_csv(documents)?,
        Format::Sfnt => report::sfnt_text(documents, &sfnt_facts(wanted.percentile.unwrap_or(99.0))),
        Format::Json => String::new(),
    })
}

/// What sfnt-pingpong prints of its machine above its columns.
fn sfnt_facts(percentile: f64) -> report::SfntFacts {
    report::SfntFacts {
        command_line: Some(std::env::args().collect::<Vec<_>>().join(" ")),
        version: Some(format!("windhover {}", identity::VERSION)),
        machine: Some(host::facts::machine(&host::knob::Machine::running())),
        percentile: Some(percentile),
    }
}
