//! Results as CSV: one row a result, unit-named columns, RFC 4180.
//!
//! The first row holds the column names. Fields are separated by commas and rows end in CR LF; a field that holds a
//! comma, a quote, CR or LF stands in quotes, with quotes doubled (RFC 4180, section 2). A figure that is not known is
//! empty, never 0. Numbers use a point and no grouping; fractions are written in full.
//!
//! | column | unit | meaning |
//! |---|---|---|
//! | `run` | | name of the run directory; empty for a result of no run |
//! | `step` | | place in execution order, from 1; the file is `cells/NNNN.json` |
//! | `cell` | | the cell's key |
//! | `repetition` | | which repetition of the cell, from 1 |
//! | `substrate` | | what the hosts are: metal, vm, simulated, netns, loopback |
//! | `label_*` | | one column for each label of the runs |
//! | `probe`, `protocol`, `load`, `stack`, `receive`, `policy`, `cpu` | | the factors; two-ended ones as `initiator;reflector` |
//! | `size_bytes` | bytes | message size |
//! | `factor_*` | | one column for each further factor |
//! | `initiator_host`, `reflector_host` | | names of the hosts |
//! | `started_ns` | ns since 1970 | wall clock at the first timed message |
//! | `elapsed_ns` | ns | first timed message to the last |
//! | `latency_kind` | | what the latency columns are: `rtt_half` (RTT/2), `rtt`, `one_way` |
//! | `latency_count` | messages | messages that the latency columns are made of |
//! | `mean_ns`, `stdev_ns` | ns | exact mean; exact sample standard deviation (n-1), the papers' jitter |
//! | `min_ns`, `max_ns` | ns | smallest and largest |
//! | `p50_ns`, `p90_ns`, `p99_ns`, `p99_9_ns`, `p99_99_ns`, `p99_999_ns` | ns | percentiles of a histogram of 3 significant digits; empty with fewer than 10 samples beyond |
//! | `p50_ci95_low_ns`, `p50_ci95_high_ns` | ns | 95 % confidence interval of the median, from batches |
//! | `mean_ci95_low_ns`, `mean_ci95_high_ns` | ns | 95 % confidence interval of the mean, from batches |
//! | `intended_mean_ns`, `intended_p50_ns`, `intended_p99_ns`, `intended_p99_9_ns`, `intended_max_ns` | ns | latency from the intended send time; where there is a schedule |
//! | `lateness_mean_ns`, `lateness_p50_ns`, `lateness_p99_ns`, `lateness_p99_9_ns`, `lateness_max_ns` | ns | actual less intended send time |
//! | `asked_pps`, `achieved_pps` | messages/s | the rate asked for and reached; only `pace` |
//! | `behind`, `most_behind` | messages | sent more than an interval late; most that were due at once |
//! | `saturated` | | what could not keep up: `initiator`, `reflector` or `path` |
//! | `out_p50_ns`, `out_p99_ns`, `back_p50_ns`, `back_p99_ns`, `one_way_error_ns` | ns | one-way times, signed, and half the width of their error; where clocks allow |
//! | `pgm_missing`, `pgm_recovered`, `pgm_lost`, `pgm_naks` | packets | missed at all ends together, repaired, given up; NAKs sent; only over PGM |
//! | `pgm_parity`, `pgm_rebuilt` | packets | parity sent, asked for or not; of the repaired, those that were computed from it |
//! | `pgm_<fate>_messages`, `pgm_<fate>_p50_ns`, `pgm_<fate>_p99_ns`, `pgm_<fate>_max_ns` | messages, ns | RTT from the actual send of messages that were `repaired`, `held` behind a repair, or `untouched` by repairs |
//! | `<way>_bits_per_s`, `<way>_datagrams_per_s` | bit/s, 1/s | payload and datagrams delivered by a stream; `<way>` is `up` or `down`; only `stream` |
//! | `<way>_sent`, `<way>_lost`, `<way>_reordered`, `<way>_duplicated` | datagrams | of a stream; empty for TCP |
//! | `<way>_rfc3550_jitter_ns` | ns | interarrival jitter of RFC 3550, section 6.4.1 |
//! | `<way>_retransmits`, `<way>_tcp_rtt_mean_ns` | segments, ns | sent again, and RTT as TCP sees it; empty for UDP |
//! | `<end>_us_per_kib` | µs/KiB | machine-wide CPU a KiB of payload |
//! | `working_p50_ns`, `working_p99_ns`, `idle_p50_ns`, `idle_p99_ns` | ns | RTT of the ping-pong beside the stream, and before it |
//! | `mdev_ns` | ns | mean deviation as ping prints it, of RTT; only `ping` |
//! | `sent`, `received`, `lost`, `duplicated`, `reordered`, `late` | messages | see `model::Messages` |
//! | `transactions_per_s` | 1/s | transactions a second, mean of the passes; only `rr` |
//! | `transactions_ci95_percent` | % of the mean | half-width of its 95 % confidence interval |
//! | `passes` | | passes of `rr` |
//! | `request_bytes`, `response_bytes` | bytes | sizes of `rr` |
//! | `connect_each` | true, false | whether each transaction made its own connection |
//! | `<end>_machine_percent` | % of all CPUs | machine-wide CPU utilisation in netperf's definition; `<end>` is `initiator` or `reflector` |
//! | `<end>_service_demand_us` | µs | netperf's service demand: machine-wide CPU a received message or transaction |
//! | `<end>_process_us`, `<end>_softirq_us` | µs | CPU of the measuring process alone, and of softirqs, a received message or transaction |
//! | `<end>_involuntary_switches`, `<end>_migrations`, `<end>_faults` | count | of the measuring thread |
//! | `load_busy_percent` | % | busy share of the CPUs that the load may use, whoever used them, while it ran |
//! | `load_work_cv` | fraction of the mean | coefficient of variation of the load's work per 100 ms; of the CPU time that it got for `build` |
//! | `load_steady` | true, false | whether the load was steady when the measurement began |
//! | `trusted` | true, false | whether the figures can be trusted |
//! | `invalid`, `disturbed` | | what the verdict found, ids separated by spaces |

use crate::{Run, StoreError};
use model::result::EndReport;
use model::run::RunStep;
use model::{Finding, Latency, LatencyKind, ResultDocument};
use std::collections::BTreeSet;

/// One row: a result, with its run where it is of one.
#[derive(Debug, Clone, Copy)]
pub struct CsvRow<'a> {
    /// The run and the step of it.
    pub run: Option<(&'a Run, &'a RunStep)>,
    /// The result.
    pub result: &'a ResultDocument,
}

impl<'a> CsvRow<'a> {
    /// A result that is of no run.
    #[must_use]
    pub fn of(result: &'a ResultDocument) -> Self {
        Self { run: None, result }
    }
}

/// Factors that have a column of their own, in the order of their columns.
const FACTORS: [&str; 7] = ["probe", "protocol", "load", "stack", "receive", "policy", "cpu"];

/// The CSV text of results; the module's text has the columns. Labels and further factors of any row make a column for
/// all. Without rows it is the column names alone.
///
/// # Errors
/// [`StoreError::Encode`] for a figure that is no number (NaN, infinity), with its column.
pub fn csv<'a>(rows: impl IntoIterator<Item = CsvRow<'a>>) -> Result<String, StoreError> {
    let rows: Vec<CsvRow<'a>> = rows.into_iter().collect();
    let labels: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.run).flat_map(|(run, _)| run.run.labels.keys().map(String::as_str)).collect();
    let known = |name: &&str| *name != "size" && !FACTORS.contains(name);
    let factors: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.result.factors.keys().map(String::as_str)).filter(known).collect();
    let mut text = String::new();
    line(&mut text, &Fields::of(None, &labels, &factors).names);
    for row in &rows {
        let fields = Fields::of(Some(row), &labels, &factors);
        if let Some(column) = fields.no_number {
            let why = "it is no number, which a result must not hold".to_owned();
            return Err(StoreError::Encode { what: format!("CSV column {column}"), why });
        }
        line(&mut text, &fields.values);
    }
    Ok(text)
}

/// A factor as the cell has it, or as the initiator was told where nothing varied it.
fn known(result: &ResultDocument, factor: &str) -> Option<String> {
    let end = &result.ends.initiator;
    result.factor(factor).or_else(|| match factor {
        "probe" => Some(result.probe.to_string()),
        "receive" => Some(end.spec.receive.to_string()),
        "policy" => Some(end.spec.policy.to_string()),
        "cpu" => end.spec.cpu.map(|cpu| cpu.to_string()),
        // A plan's name for the stack of the kernel.
        "stack" if end.preloads.is_empty() => Some("kernel".to_owned()),
        "stack" => Some(end.preloads.iter().map(|preload| preload.library.as_str()).collect::<Vec<_>>().join(":")),
        _ => None,
    })
}

/// One row of fields as RFC 4180 writes it.
fn line(text: &mut String, fields: &[String]) {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(field);
        }
    }
    text.push_str("\r\n");
}

/// The columns of one row. Names and values are pushed together, so that they cannot come apart.
#[derive(Debug, Default)]
struct Fields {
    names: Vec<String>,
    values: Vec<String>,
    /// The first column whose figure is NaN or infinite.
    no_number: Option<String>,
}

impl Fields {
    fn figure(&mut self, name: impl Into<String>, value: Option<f64>) {
        let name = name.into();
        if value.is_some_and(|value| !value.is_finite()) && self.no_number.is_none() {
            self.no_number = Some(name.clone());
        }
        self.push(name, value);
    }

    fn push(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        self.names.push(name.into());
        self.values.push(value.map_or_else(String::new, |value| value.to_string()));
    }

    /// The columns of a row; of none, for their names.
    fn of(row: Option<&CsvRow<'_>>, labels: &BTreeSet<&str>, factors: &BTreeSet<&str>) -> Self {
        let mut fields = Self::default();
        let result = row.map(|row| row.result);
        let of_run = row.and_then(|row| row.run);
        let run = of_run.map(|(run, _)| run);
        let name = run.and_then(|run| run.path.file_name()).map(|name| name.to_string_lossy().into_owned());
        fields.push("run", name);
        fields.push("step", of_run.map(|(_, step)| step.index));
        fields.push("cell", result.and_then(|result| result.cell.as_ref()));
        fields.push("repetition", result.and_then(|result| result.repetition));
        fields.push("substrate", run.map(|run| run.run.substrate));
        for label in labels {
            fields.push(format!("label_{label}"), run.and_then(|run| run.run.labels.get(*label)));
        }
        for factor in FACTORS {
            fields.push(factor, result.and_then(|result| known(result, factor)));
        }
        fields.push("size_bytes", result.and_then(ResultDocument::size));
        for factor in factors {
            fields.push(format!("factor_{factor}"), result.and_then(|result| result.factor(factor)));
        }
        let ends = result.map(|result| (&result.ends.initiator, result.ends.reflector.as_ref()));
        fields.push("initiator_host", ends.and_then(|(end, _)| end.host.as_ref()));
        fields.push("reflector_host", ends.and_then(|(_, end)| end?.host.as_ref()));
        fields.push("started_ns", result.map(|result| result.started_ns));
        fields.push("elapsed_ns", result.map(|result| result.elapsed_ns));
        fields.latency(result.and_then(|result| result.latency.as_ref()));
        fields.paced(result);
        fields.streamed(result);
        fields.figure("mdev_ns", result.and_then(|result| result.mdev_ns));
        fields.counts(result);
        let received = result.map_or(0, |result| result.messages.received);
        fields.end("initiator", ends.map(|(end, _)| end), received);
        fields.end("reflector", ends.and_then(|(_, end)| end), received);
        fields.verdict(result);
        fields
    }

    fn latency(&mut self, latency: Option<&Latency>) {
        let kind = latency.map(|latency| match latency.kind {
            LatencyKind::RttHalf => "rtt_half",
            LatencyKind::Rtt => "rtt",
            LatencyKind::OneWay => "one_way",
        });
        self.push("latency_kind", kind);
        self.push("latency_count", latency.map(|latency| latency.count));
        self.figure("mean_ns", latency.and_then(|latency| latency.mean_ns));
        self.figure("stdev_ns", latency.and_then(|latency| latency.stdev_ns));
        self.push("min_ns", latency.and_then(|latency| latency.min_ns));
        self.push("p50_ns", latency.and_then(|latency| latency.p50_ns));
        self.push("p90_ns", latency.and_then(|latency| latency.p90_ns));
        self.push("p99_ns", latency.and_then(|latency| latency.p99_ns));
        self.push("p99_9_ns", latency.and_then(|latency| latency.p99_9_ns));
        self.push("p99_99_ns", latency.and_then(|latency| latency.p99_99_ns));
        self.push("p99_999_ns", latency.and_then(|latency| latency.p99_999_ns));
        self.push("max_ns", latency.and_then(|latency| latency.max_ns));
        let median = latency.and_then(|latency| latency.p50_ci95_ns);
        self.push("p50_ci95_low_ns", median.map(|[low, _]| low));
        self.push("p50_ci95_high_ns", median.map(|[_, high]| high));
        let mean = latency.and_then(|latency| latency.mean_ci95_ns);
        self.figure("mean_ci95_low_ns", mean.map(|[low, _]| low));
        self.figure("mean_ci95_high_ns", mean.map(|[_, high]| high));
    }

    fn paced(&mut self, result: Option<&ResultDocument>) {
        let intended = result.and_then(|result| result.latency_intended.as_ref());
        let lateness = result.and_then(|result| result.lateness.as_ref());
        for (what, latency) in [("intended", intended), ("lateness", lateness)] {
            self.figure(format!("{what}_mean_ns"), latency.and_then(|latency| latency.mean_ns));
            self.push(format!("{what}_p50_ns"), latency.and_then(|latency| latency.p50_ns));
            self.push(format!("{what}_p99_ns"), latency.and_then(|latency| latency.p99_ns));
            self.push(format!("{what}_p99_9_ns"), latency.and_then(|latency| latency.p99_9_ns));
            self.push(format!("{what}_max_ns"), latency.and_then(|latency| latency.max_ns));
        }
        let rate = result.and_then(|result| result.rate.as_ref());
        self.figure("asked_pps", rate.map(|rate| rate.asked_pps));
        self.figure("achieved_pps", rate.map(|rate| rate.achieved_pps));
        self.push("behind", rate.map(|rate| rate.behind));
        self.push("most_behind", rate.map(|rate| rate.most_behind));
        self.push("saturated", rate.and_then(|rate| rate.saturated.as_ref()).map(|saturated| &saturated.who));
        let way = result.and_then(|result| result.one_way.as_ref());
        for (name, signed) in [("out", way.map(|way| &way.out)), ("back", way.map(|way| &way.back))] {
            self.push(format!("{name}_p50_ns"), signed.and_then(|signed| signed.p50_ns));
            self.push(format!("{name}_p99_ns"), signed.and_then(|signed| signed.p99_ns));
        }
        self.push("one_way_error_ns", way.map(|way| way.error_ns));
        let pgm = result.and_then(|result| result.pgm.as_ref());
        self.push("pgm_missing", pgm.map(|pgm| pgm.sum(|counts| counts.missing)));
        self.push("pgm_recovered", pgm.map(|pgm| pgm.sum(|counts| counts.recovered)));
        self.push("pgm_lost", pgm.map(|pgm| pgm.sum(|counts| counts.lost)));
        self.push("pgm_naks", pgm.map(|pgm| pgm.sum(|counts| counts.naks_sent)));
        let parity = |counts: &model::PgmCounts| counts.parity_unasked_sent + counts.parity_asked_sent;
        self.push("pgm_parity", pgm.map(|pgm| pgm.sum(parity)));
        self.push("pgm_rebuilt", pgm.map(|pgm| pgm.sum(|counts| counts.rebuilt)));
        for name in ["repaired", "held", "untouched"] {
            let fate = pgm.and_then(|pgm| pgm.fate(name));
            let latency = fate.and_then(|fate| fate.latency.as_ref());
            self.push(format!("pgm_{name}_messages"), fate.map(|fate| fate.messages));
            self.push(format!("pgm_{name}_p50_ns"), latency.and_then(|latency| latency.p50_ns));
            self.push(format!("pgm_{name}_p99_ns"), latency.and_then(|latency| latency.p99_ns));
            self.push(format!("pgm_{name}_max_ns"), latency.and_then(|latency| latency.max_ns));
        }
    }

    fn streamed(&mut self, result: Option<&ResultDocument>) {
        let stream = result.and_then(|result| result.stream.as_ref());
        for way in ["up", "down"] {
            let flow = stream.and_then(|stream| stream.flows.iter().find(|flow| flow.direction == way));
            self.figure(format!("{way}_bits_per_s"), flow.map(|flow| flow.bits_per_second));
            self.figure(format!("{way}_datagrams_per_s"), flow.and_then(|flow| flow.datagrams_per_second));
            self.push(format!("{way}_sent"), flow.and_then(|flow| flow.sent));
            self.push(format!("{way}_lost"), flow.and_then(|flow| flow.lost));
            self.push(format!("{way}_reordered"), flow.and_then(|flow| flow.reordered));
            self.push(format!("{way}_duplicated"), flow.and_then(|flow| flow.duplicated));
            self.figure(format!("{way}_rfc3550_jitter_ns"), flow.and_then(|flow| flow.rfc3550_jitter_ns));
            self.push(format!("{way}_retransmits"), flow.and_then(|flow| flow.retransmits));
            self.push(format!("{way}_tcp_rtt_mean_ns"), flow.and_then(|flow| flow.tcp_rtt_mean_ns));
        }
        self.figure("initiator_us_per_kib", stream.and_then(|stream| stream.initiator_us_per_kib));
        self.figure("reflector_us_per_kib", stream.and_then(|stream| stream.reflector_us_per_kib));
        for (what, latency) in [
            ("working", stream.and_then(|stream| stream.working_latency.as_ref())),
            ("idle", stream.and_then(|stream| stream.idle_latency.as_ref())),
        ] {
            self.push(format!("{what}_p50_ns"), latency.and_then(|latency| latency.p50_ns));
            self.push(format!("{what}_p99_ns"), latency.and_then(|latency| latency.p99_ns));
        }
    }

    fn counts(&mut self, result: Option<&ResultDocument>) {
        let messages = result.map(|result| &result.messages);
        self.push("sent", messages.map(|messages| messages.sent));
        self.push("received", messages.map(|messages| messages.received));
        self.push("lost", messages.map(|messages| messages.lost));
        self.push("duplicated", messages.and_then(|messages| messages.duplicated));
        self.push("reordered", messages.and_then(|messages| messages.reordered));
        self.push("late", messages.and_then(|messages| messages.late));
        let rr = result.and_then(|result| result.transactions.as_ref());
        self.figure("transactions_per_s", rr.map(|rr| rr.per_second));
        self.figure("transactions_ci95_percent", rr.and_then(|rr| rr.ci95_percent));
        self.push("passes", rr.map(|rr| rr.passes));
        self.push("request_bytes", rr.map(|rr| rr.request_bytes));
        self.push("response_bytes", rr.map(|rr| rr.response_bytes));
        self.push("connect_each", rr.map(|rr| rr.connect_each));
    }

    fn end(&mut self, which: &str, end: Option<&EndReport>, received: u64) {
        // An end that took no time has told nothing: a kernel that answered echoes, or a peer that vanished.
        let usage = end.map(|end| &end.usage).filter(|usage| usage.elapsed_ns > 0);
        self.figure(format!("{which}_machine_percent"), usage.and_then(|usage| usage.machine_percent()));
        self.figure(format!("{which}_service_demand_us"), usage.and_then(|usage| usage.service_demand_us(received)));
        self.figure(format!("{which}_process_us"), usage.and_then(|usage| usage.process_us(received)));
        self.figure(format!("{which}_softirq_us"), usage.and_then(|usage| usage.softirq_us(received)));
        self.push(format!("{which}_involuntary_switches"), usage.map(|usage| usage.involuntary_switches));
        self.push(format!("{which}_migrations"), usage.map(|usage| usage.migrations));
        let faults = usage.map(|usage| usage.minor_faults.saturating_add(usage.major_faults));
        self.push(format!("{which}_faults"), faults);
    }

    fn verdict(&mut self, result: Option<&ResultDocument>) {
        let load = result.and_then(|result| result.load.as_ref());
        self.figure("load_busy_percent", load.map(|load| load.busy_percent));
        self.figure("load_work_cv", load.and_then(|load| load.work_cv));
        self.push("load_steady", load.map(|load| load.steady));
        let verdict = result.map(|result| &result.verdict);
        self.push("trusted", verdict.map(|verdict| verdict.trusted));
        self.push("invalid", verdict.map(|verdict| ids(&verdict.invalid)));
        self.push("disturbed", verdict.map(|verdict| ids(&verdict.disturbed)));
    }
}

/// The ids of findings, each once, in the order found.
fn ids(findings: &[Finding]) -> String {
    let mut words: Vec<String> = Vec::new();
    for finding in findings {
        let word = finding.id.word();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}
