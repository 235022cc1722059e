//! What the figures were measured on, in pairs of name and value: machines, hosts, NICs, loads, own cost, prepared settings.

use crate::units::{by_key, each_once, plain, span, utc};
use digest::RunInput;
use digest::combine::{middle, spread};
use digest::names::measured_on;
use model::factor::capitalised;
use model::result::EndReport;
use model::{MachineFacts, NicFacts, Prepared, ResultDocument, Role, Source};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One folded part: a heading and its pairs of name and value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Facts {
    heading: String,
    pairs: Vec<(String, String)>,
}

impl Facts {
    fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), pairs: Vec::new() }
    }

    /// Adds what is known and not empty.
    fn push(&mut self, name: &str, value: Option<impl ToString>) {
        let value = value.map(|value| plain(&value.to_string())).filter(|value| !value.is_empty());
        self.pairs.extend(value.map(|value| (plain(name), value)));
    }

    /// Adds a setting, also an empty one: that says more than its absence.
    fn push_any(&mut self, name: &str, value: &impl ToString) {
        self.pairs.push((plain(name), plain(&value.to_string())));
    }

    fn map(heading: String, map: &BTreeMap<String, impl ToString>) -> Self {
        let mut facts = Self::new(heading);
        map.iter().for_each(|(name, value)| facts.push_any(name, value));
        facts
    }
}

/// What was measured on, run by run: its name, and all that is known.
pub(crate) fn of(inputs: &[RunInput]) -> Vec<(String, Vec<Facts>)> {
    digest::cells::run_names(inputs).into_iter().zip(inputs.iter().map(parts)).collect()
}

fn parts(run: &RunInput) -> Vec<Facts> {
    let mut parts = vec![run_facts(run)];
    let booted = booted(run);
    for (boot_id, machine) in &run.document.machines {
        let hosts = run.document.hosts.iter().filter(|(_, host)| &host.facts.boot_id == boot_id);
        let hosts: Vec<&str> = hosts.map(|(name, _)| name.as_str()).collect();
        let heading = match booted.get(boot_id.as_str()) {
            Some(None) => continue,
            Some(Some(of)) => format!("Machine of {}", plain(of)),
            None if hosts.is_empty() => "Machine before a reboot".to_owned(),
            None => format!("Machine of {}", plain(&hosts.join(", "))),
        };
        parts.push(machine_facts(&heading, machine));
        parts.push(Facts::map(format!("{heading}: mitigations"), &machine.mitigations));
        parts.push(Facts::map(format!("{heading}: sysctls"), &machine.sysctls));
    }
    for (name, host) in &run.document.hosts {
        let heading = format!("Host {}", plain(name));
        let mut facts = Facts::new(&heading);
        facts.push("role", Some(&host.role));
        facts.push("data address", host.address.as_deref());
        facts.push("host name", host.facts.hostname.as_deref());
        facts.push("network namespace", host.facts.netns);
        facts.push("initial network namespace", host.facts.netns_initial.map(yes_no));
        parts.push(facts);
        let nics = host.facts.nics.iter().filter(|nic| nic.name != "lo");
        parts.extend(nics.map(|nic| nic_facts(format!("{heading}: NIC {}", plain(&nic.name)), nic)));
        parts.push(Facts::map(format!("{heading}: sysctls"), &host.facts.sysctls));
    }
    parts.extend(load_parts(run));
    parts.extend(prepared_parts(run));
    parts.push(own_cost(run));
    parts.retain(|part| !part.pairs.is_empty());
    parts
}

/// What was booted for cells, by boot id: the first boot of each kernel in words, the others, which are alike, `None`.
fn booted(run: &RunInput) -> BTreeMap<&str, Option<String>> {
    let mut boots: BTreeMap<&str, (String, u32, BTreeSet<&str>)> = BTreeMap::new();
    for result in &run.results {
        let (Some(boot), Some(kernel)) = (&result.boot, result.factor("kernel")) else { continue };
        for (host, id) in &boot.ids {
            let (.., hosts) = boots.entry(id).or_insert_with(|| (kernel.clone(), boot.visit, BTreeSet::new()));
            hosts.insert(host);
        }
    }
    let first = |kernel: &str| boots.values().filter(|(own, ..)| own == kernel).map(|(_, visit, _)| *visit).min();
    let words = |(kernel, visit, hosts): &(String, u32, BTreeSet<&str>)| {
        let hosts = hosts.iter().copied().collect::<Vec<_>>().join(", ");
        (Some(*visit) == first(kernel)).then(|| format!("{hosts} with kernel {kernel}"))
    };
    boots.iter().map(|(id, boot)| (*id, words(boot))).collect()
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn run_facts(run: &RunInput) -> Facts {
    let document = &run.document;
    let mut pairs = Facts::new("Run");
    pairs.push("plan", Some(&document.name));
    pairs.push("measured", Some(measured_on(document.substrate)));
    pairs.push("started", Some(utc(document.started_ns)));
    pairs.push("ended", document.ended_ns.map(utc));
    pairs.push("outcome", document.outcome.as_deref());
    pairs.push("results", Some(format!("{} of {} steps", run.results.len(), document.order.len())));
    pairs.push("seed of the order", Some(document.seed));
    pairs.push("windhover", Some(&document.tool_version));
    pairs.push("build", document.build.as_deref());
    document.labels.iter().for_each(|(name, value)| pairs.push(&format!("label {name}"), Some(value)));
    pairs
}

fn machine_facts(heading: &str, machine: &MachineFacts) -> Facts {
    let mut pairs = Facts::new(heading);
    pairs.push("operating system", machine.os.as_deref());
    pairs.push("kernel", machine.kernel_release.as_deref());
    pairs.push("kernel build", machine.kernel_version.as_deref());
    pairs.push("preemption", machine.preemption.as_deref());
    pairs.push("real-time variants", machine.realtime_variant.as_deref());
    pairs.push("timer frequency", machine.hz.map(|hz| format!("{hz} Hz")));
    pairs.push("configuration", machine.kernel_config_id.as_deref());
    pairs.push("interrupts in threads", machine.threadirqs.map(yes_no));
    let threads = machine.interrupt_threads.iter().map(|(name, policy)| format!("{name} {policy}"));
    pairs.push("policies of interrupt and NAPI threads", Some(threads.collect::<Vec<_>>().join(", ")));
    pairs.push("fair server, ns of each second", machine.fair_server_runtime_ns.as_deref());
    pairs.push("tracers", machine.tracers.as_deref());
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
    pairs.push("simulated time", machine.simulated_time.map(yes_no));
    pairs.push("invariant TSC", machine.tsc_invariant.map(yes_no));
    pairs.push("frequency governor", machine.cpufreq_governor.as_deref());
    pairs.push("idle driver", machine.cpuidle_driver.as_deref());
    pairs.push("idle states", Some(machine.cpuidle_states.join(", ")));
    pairs.push("virtualisation", machine.virtualisation.as_deref());
    pairs.push("product", machine.product.as_deref());
    pairs.push("services running", Some(machine.services.join(", ")));
    pairs.push("boot id", Some(&machine.boot_id));
    pairs
}

fn or_none(text: &str) -> &str {
    if text.trim().is_empty() { "none" } else { text }
}

fn nic_facts(heading: String, nic: &NicFacts) -> Facts {
    let mut pairs = Facts::new(heading);
    let joined = |map: &BTreeMap<String, u64>| {
        Some(map.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", "))
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
    pairs.push("addresses", Some(nic.addresses.join(", ")));
    pairs.push("queueing", nic.qdisc.as_deref());
    pairs.push("coalescing", joined(&nic.coalesce));
    pairs.push("rings", joined(&nic.rings));
    pairs.push("channels", joined(&nic.channels));
    for (name, on) in [("offloads on", true), ("offloads off", false)] {
        let names = nic.offloads.iter().filter(|(_, state)| **state == on).map(|(name, _)| name.as_str());
        pairs.push(name, Some(names.collect::<Vec<_>>().join(", ")));
    }
    pairs
}

fn load_parts(run: &RunInput) -> Vec<Facts> {
    let loads = by_key(run.results.iter().filter_map(|result| {
        let load = result.load.as_ref()?;
        Some((plain(&result.factor("load").unwrap_or_else(|| load.spec.profile.to_string())), load))
    }));
    let facts = |(name, reports): (String, Vec<&model::LoadReport>)| {
        let mut pairs = Facts::new(format!("Load {name}"));
        let over = |values: Vec<f64>, unit: &str, digits: usize| {
            let mid = middle(&values)?;
            let [low, high] = spread(&values).unwrap_or([mid, mid]);
            Some(format!("{mid:.digits$}{unit} (from {low:.digits$} to {high:.digits$})"))
        };
        let first = reports.first();
        pairs.push("profile", first.map(|report| report.spec.profile));
        pairs.push("jobs", first.and_then(|report| report.spec.jobs));
        pairs.push("CPUs", first.and_then(|report| report.spec.cpus.as_ref()));
        pairs.push("command", first.and_then(|report| report.spec.command.as_deref()));
        pairs.push("cells", Some(reports.len()));
        pairs.push("steady when measured", Some(reports.iter().filter(|report| report.steady).count()));
        pairs.push("busy share", over(reports.iter().map(|report| report.busy_percent).collect(), " %", 0));
        let work_cv = reports.iter().filter_map(|report| report.work_cv).collect();
        pairs.push("evenness: coefficient of variation of its work per 100 ms", over(work_cv, "", 2));
        pairs
    };
    loads.into_iter().map(facts).collect()
}

/// What was changed for cells, each kind of change once.
fn prepared_parts(run: &RunInput) -> Vec<Facts> {
    let same = |a: &Prepared, b: &Prepared| {
        let backend =
            |prepared: &Prepared| prepared.shield.as_ref().map(|shield| (shield.backend, shield.processes.clone()));
        a.host == b.host && a.settings == b.settings && backend(a) == backend(b)
    };
    let mut kinds: Vec<(&Prepared, usize)> = Vec::new();
    for prepared in run.results.iter().flat_map(|result| &result.prepared) {
        match kinds.iter_mut().find(|(known, _)| same(known, prepared)) {
            Some((_, cells)) => *cells += 1,
            None => kinds.push((prepared, 1)),
        }
    }
    let facts = |(prepared, cells): (&Prepared, usize)| {
        let what = if prepared.shield.is_some() { "Shield" } else { "Settings" };
        let mut facts = prepared_facts(&format!("{what} on"), prepared);
        facts.push("results", Some(cells));
        facts
    };
    kinds.into_iter().map(facts).collect()
}

fn prepared_facts(what: &str, prepared: &Prepared) -> Facts {
    let mut pairs = Facts::new(format!("{what} {}", plain(&prepared.host)));
    if let Some(shield) = &prepared.shield {
        pairs.push("kept off by", Some(shield.backend));
        pairs.push("CPUs without processes of others", Some(&shield.processes));
        pairs.push("CPUs without device interrupts", Some(&shield.interrupts));
    }
    prepared.settings.iter().for_each(|setting| pairs.push(&setting.key, Some(&setting.value)));
    pairs.push("settings changed", Some(prepared.changed));
    let notes = prepared.shield.iter().flat_map(|shield| &shield.notes).chain(&prepared.notes);
    notes.for_each(|note| pairs.push("note", Some(note)));
    pairs
}

fn own_cost(run: &RunInput) -> Facts {
    let of = |pick: fn(&model::result::SelfCost) -> f64| {
        let own = run.results.iter().filter(|result| result.source.is_none());
        let values: Vec<f64> = own.map(|result| pick(&result.self_cost)).collect();
        middle(&values).map(|ns| format!("{} (median over all cells)", span(ns)))
    };
    let mut pairs = Facts::new("The tool's own cost");
    pairs.push("one clock read", of(|cost| cost.clock_read_ns));
    pairs.push("the loop around an empty round, included in every figure", of(|cost| cost.loop_ns));
    pairs.push("recording one message, outside the timed part", of(|cost| cost.record_ns));
    pairs
}

/// What stands behind a cell: its factors, the settings of its ends, what was changed for it, its files.
pub(crate) fn of_cell(run: &RunInput, members: &[(usize, &ResultDocument)]) -> Vec<Facts> {
    let Some((_, first)) = members.first() else { return Vec::new() };
    let mut factors = Facts::new("Factors");
    first.factors.keys().for_each(|name| factors.push(name, first.factor(name)));
    let mut out = vec![factors];
    if first.is_imported() {
        out.extend(first.source.as_ref().map(source_facts));
    } else {
        out.extend(first.ends.iter().map(|(role, end)| end_facts(role, end, first)));
        out.extend(first.source.as_ref().map(source_facts));
    }
    out.extend(first.prepared.iter().map(|prepared| prepared_facts("Prepared on", prepared)));
    if let Some(load) = &first.load {
        let mut pairs = Facts::new("Load beside it");
        pairs.push("profile", Some(load.spec.profile));
        pairs.push("busy share", Some(format!("{:.0} %", load.busy_percent)));
        let evenness = load.work_cv.map_or_else(|| "–".to_owned(), |cv| format!("{cv:.2}"));
        pairs.push("evenness (coefficient of variation of its work)", Some(evenness));
        pairs.push("steady when measured", Some(yes_no(load.steady)));
        out.push(pairs);
    }
    let files = members.iter().filter_map(|(member, _)| Some(format!("cells/{:04}.*", run.steps.get(*member)?.index)));
    let mut pairs = Facts::new("Files");
    pairs.push(&run.name, Some(each_once(files).join(", ")));
    out.push(pairs);
    out.retain(|facts| !facts.pairs.is_empty());
    out
}

fn source_facts(source: &Source) -> Facts {
    let mut pairs = Facts::new("Source");
    pairs.push("how", Some(source.kind));
    pairs.push("tool", Some(&source.tool));
    pairs.push("version", source.version.as_deref());
    pairs.push("file", source.file.as_deref());
    pairs.push("bin width", source.bin_ns.map(|ns| span(ns as f64)));
    pairs.push("values beyond the last bin", source.overflowed);
    pairs
}

fn end_facts(role: Role, end: &EndReport, result: &ResultDocument) -> Facts {
    let mut pairs = Facts::new(capitalised(role.word()));
    pairs.push("host", end.host.as_deref());
    pairs.push("address", end.address.as_deref());
    if !result.is_told(role) {
        return pairs;
    }
    pairs.push("receive", result.probe.has_reflector().then_some(end.spec.receive));
    pairs.push("policy", Some(end.spec.policy));
    pairs.push("CPU", Some(end.spec.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())));
    pairs.push("busy poll", end.spec.busy_poll_us.map(|us| format!("{us} µs")));
    pairs.push("device", end.spec.device.as_deref());
    pairs.push("frames", end.frame_backend);
    end.stack_environment.iter().for_each(|(name, value)| pairs.push_any(name, value));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a fact of a machine that is recorded and that no report shows.
    #[test]
    fn each_fact_of_a_machine_is_shown() {
        let facts = MachineFacts {
            kernel_config: None,
            simulated_time: Some(true),
            threadirqs: Some(true),
            smt_active: Some(false),
            tsc_invariant: Some(true),
            hz: Some(977),
            numa_nodes: Some(7),
            memory_bytes: Some(3 << 30),
            ..marked()
        };
        let shown = machine_facts("m", &facts);
        let known = serde_json::to_value(&facts).unwrap();
        // Those in maps of their own.
        let elsewhere = ["mitigations", "sysctls"];
        let missing: Vec<&String> = known
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| !elsewhere.contains(&name.as_str()))
            .filter(|(name, value)| {
                value.is_string() && !shown.pairs.iter().any(|(_, shown)| shown.contains(name.as_str()))
            })
            .map(|(name, _)| name)
            .collect();
        assert!(missing.is_empty(), "not shown: {missing:?}");
        let others = ["977 Hz", "3.0 GiB", "7", "irq-thread fifo:50", "C1 2 µs", "a-service"];
        for value in others {
            assert!(shown.pairs.iter().any(|(_, shown)| shown == value), "{value}: {:?}", shown.pairs);
        }
        assert_eq!(shown.pairs.iter().filter(|(_, shown)| shown == "yes").count(), 3, "{:?}", shown.pairs);
    }

    /// Each text is its own name.
    fn marked() -> MachineFacts {
        let schema = serde_json::to_value(schemars::schema_for!(MachineFacts)).unwrap();
        let mut marked = serde_json::Map::new();
        for (name, of) in schema["properties"].as_object().unwrap() {
            let kind = &of["type"];
            if kind == "string" || kind.as_array().is_some_and(|kinds| kinds.contains(&"string".into())) {
                marked.insert(name.clone(), name.as_str().into());
            }
        }
        marked.insert("interrupt_threads".to_owned(), serde_json::json!({ "irq-thread": "fifo:50" }));
        marked.insert("cpuidle_states".to_owned(), serde_json::json!(["C1 2 µs"]));
        marked.insert("services".to_owned(), serde_json::json!(["a-service"]));
        serde_json::from_value(marked.into()).unwrap()
    }
}
