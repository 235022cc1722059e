//! What the figures were measured on, in pairs of name and value: machines, hosts, NICs, loads, own cost.

use crate::RunInput;
use crate::combine::middle;
use crate::names::measured_on;
use crate::units::{plain, span, utc};
use model::{MachineFacts, NicFacts};
use serde::Serialize;
use std::collections::BTreeMap;

/// One folded part: a heading and its pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Facts {
    pub(crate) heading: String,
    pub(crate) pairs: Vec<(String, String)>,
}

/// All of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Environment {
    pub(crate) name: String,
    pub(crate) parts: Vec<Facts>,
}

/// What was measured on, run by run.
pub(crate) fn of(inputs: &[RunInput]) -> Vec<Environment> {
    inputs
        .iter()
        .zip(crate::cells::run_names(inputs))
        .map(|(run, name)| Environment { name, parts: parts(run) })
        .collect()
}

fn parts(run: &RunInput) -> Vec<Facts> {
    let mut parts = vec![Facts { heading: "Run".to_owned(), pairs: run_pairs(run) }];
    for (boot_id, machine) in &run.document.machines {
        let hosts: Vec<&str> = run
            .document
            .hosts
            .iter()
            .filter(|(_, host)| &host.facts.boot_id == boot_id)
            .map(|(name, _)| name.as_str())
            .collect();
        let heading = format!("Machine of {}", plain(&hosts.join(", ")));
        parts.push(Facts { heading: heading.clone(), pairs: machine_pairs(machine) });
        push_map(&mut parts, format!("{heading}: mitigations"), &machine.mitigations);
        push_map(&mut parts, format!("{heading}: sysctls"), &machine.sysctls);
    }
    for (name, host) in &run.document.hosts {
        let mut pairs = Pairs::default();
        pairs.push("role", Some(&host.role));
        pairs.push("data address", host.address.as_deref());
        pairs.push("host name", host.facts.hostname.as_deref());
        pairs.push("network namespace", host.facts.netns);
        pairs.push("initial network namespace", host.facts.netns_initial.map(yes_no));
        let heading = format!("Host {}", plain(name));
        parts.push(Facts { heading: heading.clone(), pairs: pairs.0 });
        for nic in host.facts.nics.iter().filter(|nic| nic.name != "lo") {
            parts.push(Facts { heading: format!("{heading}: NIC {}", plain(&nic.name)), pairs: nic_pairs(nic) });
        }
        push_map(&mut parts, format!("{heading}: sysctls"), &host.facts.sysctls);
    }
    parts.extend(load_parts(run));
    parts.extend(prepared_parts(run));
    parts.push(Facts { heading: "The tool's own cost".to_owned(), pairs: cost_pairs(run) });
    parts.retain(|part| !part.pairs.is_empty());
    parts
}

#[derive(Default)]
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn push(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            let value = plain(&value.to_string());
            if !value.is_empty() {
                self.0.push((name.to_owned(), value));
            }
        }
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn push_map(parts: &mut Vec<Facts>, heading: String, map: &BTreeMap<String, String>) {
    let pairs = map.iter().map(|(name, value)| (plain(name), plain(value))).collect();
    parts.push(Facts { heading, pairs });
}

fn run_pairs(run: &RunInput) -> Vec<(String, String)> {
    let document = &run.document;
    let mut pairs = Pairs::default();
    pairs.push("plan", Some(&document.name));
    pairs.push("measured", Some(measured_on(document.substrate)));
    pairs.push("started", Some(utc(document.started_ns)));
    pairs.push("ended", document.ended_ns.map(utc));
    pairs.push("outcome", document.outcome.as_deref());
    pairs.push("results", Some(format!("{} of {} steps", run.results.len(), document.order.len())));
    pairs.push("seed of the order", Some(document.seed));
    pairs.push("windhover", Some(&document.tool_version));
    pairs.push("build", document.build.as_deref());
    for (name, value) in &document.labels {
        pairs.push(&format!("label {}", plain(name)), Some(value));
    }
    pairs.0
}

fn machine_pairs(machine: &MachineFacts) -> Vec<(String, String)> {
    let mut pairs = Pairs::default();
    pairs.push("operating system", machine.os.as_deref());
    pairs.push("kernel", machine.kernel_release.as_deref());
    pairs.push("kernel build", machine.kernel_version.as_deref());
    pairs.push("preemption", machine.preemption.as_deref());
    pairs.push("timer frequency", machine.hz.map(|hz| format!("{hz} Hz")));
    pairs.push("command line", machine.command_line.as_deref());
    pairs.push("architecture", machine.architecture.as_deref());
    pairs.push("CPU", machine.cpu_model.as_deref());
    pairs.push("CPUs online", machine.cpus_online.as_deref());
    pairs.push("CPUs isolated", machine.cpus_isolated.as_deref().map(or_none));
    pairs.push("CPUs without a tick", machine.cpus_nohz_full.as_deref().map(or_none));
    pairs.push("hardware threads in use", machine.smt_active.map(yes_no));
    pairs.push("NUMA nodes", machine.numa_nodes);
    pairs.push("memory", machine.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0)));
    pairs.push("clock source", machine.clocksource.as_deref());
    pairs.push("invariant TSC", machine.tsc_invariant.map(yes_no));
    pairs.push("frequency governor", machine.cpufreq_governor.as_deref());
    pairs.push("idle driver", machine.cpuidle_driver.as_deref());
    pairs.push("virtualisation", machine.virtualisation.as_deref());
    pairs.push("product", machine.product.as_deref());
    pairs.push("services running", (!machine.services.is_empty()).then(|| machine.services.join(", ")));
    pairs.push("boot id", Some(&machine.boot_id));
    pairs.0
}

fn or_none(text: &str) -> &str {
    if text.trim().is_empty() { "none" } else { text }
}

fn nic_pairs(nic: &NicFacts) -> Vec<(String, String)> {
    let mut pairs = Pairs::default();
    let joined = |map: &BTreeMap<String, u64>| {
        (!map.is_empty())
            .then(|| map.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", "))
    };
    pairs.push("model", nic.model.as_deref());
    pairs.push("driver", nic.driver.as_deref());
    pairs.push("driver version", nic.driver_version.as_deref());
    pairs.push("firmware", nic.firmware.as_deref());
    pairs.push("bus", nic.bus.as_deref());
    pairs.push("speed as reported", nic.speed_mbps.map(|speed| format!("{speed} Mbit/s")));
    pairs.push("link", nic.link.map(yes_no));
    pairs.push("MTU", nic.mtu.map(|mtu| format!("{mtu} bytes")));
    pairs.push("NUMA node", nic.numa_node);
    pairs.push("addresses", (!nic.addresses.is_empty()).then(|| nic.addresses.join(", ")));
    pairs.push("queueing", nic.qdisc.as_deref());
    pairs.push("coalescing", joined(&nic.coalesce));
    pairs.push("rings", joined(&nic.rings));
    pairs.push("channels", joined(&nic.channels));
    let offloads = |on: bool| {
        let names: Vec<&str> =
            nic.offloads.iter().filter(|(_, state)| **state == on).map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    pairs.push("offloads on", offloads(true));
    pairs.push("offloads off", offloads(false));
    pairs.0
}

/// How evenly each load ran, over all its repetitions.
fn load_parts(run: &RunInput) -> Vec<Facts> {
    let mut loads: BTreeMap<String, Vec<&model::LoadReport>> = BTreeMap::new();
    for result in &run.results {
        if let Some(load) = &result.load {
            let name = result.factor("load").unwrap_or_else(|| load.spec.profile.to_string());
            loads.entry(plain(&name)).or_default().push(load);
        }
    }
    loads
        .into_iter()
        .map(|(name, reports)| {
            let mut pairs = Pairs::default();
            let over = |values: Vec<f64>, unit: &str, digits: usize| {
                let (low, high) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
                let mid = middle(&values)?;
                Some(format!("{mid:.digits$}{unit} (from {low:.digits$} to {high:.digits$})"))
            };
            let first = reports.first();
            pairs.push("profile", first.map(|report| report.spec.profile));
            pairs.push("jobs", first.and_then(|report| report.spec.jobs));
            pairs.push("CPUs", first.and_then(|report| report.spec.cpus.as_ref().map(ToString::to_string)));
            pairs.push("command", first.and_then(|report| report.spec.command.as_deref()));
            pairs.push("cells", Some(reports.len()));
            pairs.push("steady when measured", Some(reports.iter().filter(|report| report.steady).count()));
            pairs.push("busy share", over(reports.iter().map(|report| report.busy_percent).collect(), " %", 0));
            pairs.push(
                "evenness: coefficient of variation of its work per 100 ms",
                over(reports.iter().filter_map(|report| report.work_cv).collect(), "", 2),
            );
            Facts { heading: format!("Load {name}"), pairs: pairs.0 }
        })
        .collect()
}

/// What was changed for cells, each kind of change once.
fn prepared_parts(run: &RunInput) -> Vec<Facts> {
    let mut kinds: Vec<(&model::Prepared, usize)> = Vec::new();
    for prepared in run.results.iter().flat_map(|result| &result.prepared) {
        let same = |known: &model::Prepared| {
            let backend = |prepared: &model::Prepared| {
                prepared.shield.as_ref().map(|shield| (shield.backend, shield.processes.clone()))
            };
            known.host == prepared.host && known.settings == prepared.settings && backend(known) == backend(prepared)
        };
        match kinds.iter_mut().find(|(known, _)| same(known)) {
            Some((_, cells)) => *cells += 1,
            None => kinds.push((prepared, 1)),
        }
    }
    kinds
        .into_iter()
        .map(|(prepared, cells)| {
            let mut pairs = Pairs::default();
            if let Some(shield) = &prepared.shield {
                pairs.push("kept off by", Some(shield.backend));
                pairs.push("CPUs without processes of others", Some(&shield.processes));
                pairs.push("CPUs without device interrupts", Some(&shield.interrupts));
            }
            for setting in &prepared.settings {
                pairs.push(&setting.key, Some(&setting.value));
            }
            pairs.push("settings changed", Some(prepared.changed));
            let notes = prepared.shield.iter().flat_map(|shield| &shield.notes).chain(&prepared.notes);
            for note in notes {
                pairs.push("note", Some(note));
            }
            pairs.push("results", Some(cells));
            let what = if prepared.shield.is_some() { "Shield" } else { "Settings" };
            Facts { heading: format!("{what} on {}", plain(&prepared.host)), pairs: pairs.0 }
        })
        .collect()
}

fn cost_pairs(run: &RunInput) -> Vec<(String, String)> {
    let of = |pick: fn(&model::result::SelfCost) -> f64| {
        let values: Vec<f64> = run.results.iter().map(|result| pick(&result.self_cost)).collect();
        middle(&values).map(|ns| format!("{} (median over all cells)", span(ns)))
    };
    let mut pairs = Pairs::default();
    pairs.push("one clock read", of(|cost| cost.clock_read_ns));
    pairs.push("the loop around an empty round, included in every figure", of(|cost| cost.loop_ns));
    pairs.push("recording one message, outside the timed part", of(|cost| cost.record_ns));
    pairs.0
}
