//! What stands behind a cell: its factors, what the ends were told and what they cost, what was changed, its files.

use crate::RunInput;
use crate::units::{commas, plain};
use model::result::EndReport;
use model::{Probe, ResultDocument};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Facts {
    heading: String,
    pairs: Vec<(String, String)>,
}

pub(super) fn facts(run: &RunInput, members: &[(usize, &ResultDocument)]) -> Vec<Facts> {
    let mut out = Vec::new();
    let Some((_, first)) = members.first() else { return out };
    out.push(Facts {
        heading: "Factors".to_owned(),
        pairs: first.factors.keys().filter_map(|name| Some((plain(name), plain(&first.factor(name)?)))).collect(),
    });
    out.push(Facts { heading: "Initiator".to_owned(), pairs: end(&first.ends.initiator, members, false) });
    if let Some(reflector) = &first.ends.reflector {
        out.push(Facts { heading: "Reflector".to_owned(), pairs: end(reflector, members, true) });
    }
    for prepared in &first.prepared {
        let mut pairs: Vec<(String, String)> = Vec::new();
        if let Some(shield) = &prepared.shield {
            pairs.push(("shield".to_owned(), plain(&shield.backend.to_string())));
            pairs.push(("CPUs without processes of others".to_owned(), plain(&shield.processes.to_string())));
            pairs.push(("CPUs without device interrupts".to_owned(), plain(&shield.interrupts.to_string())));
        }
        pairs.extend(prepared.settings.iter().map(|setting| (plain(&setting.key), plain(&setting.value))));
        pairs.push(("settings changed".to_owned(), prepared.changed.to_string()));
        let notes = prepared.shield.iter().flat_map(|shield| &shield.notes).chain(&prepared.notes);
        pairs.extend(notes.map(|note| ("note".to_owned(), plain(note))));
        out.push(Facts { heading: format!("Prepared on {}", plain(&prepared.host)), pairs });
    }
    if let Some(load) = &first.load {
        out.push(Facts {
            heading: "Load beside it".to_owned(),
            pairs: vec![
                ("profile".to_owned(), plain(&load.spec.profile.to_string())),
                ("busy share".to_owned(), format!("{:.0} %", load.busy_percent)),
                (
                    "evenness (coefficient of variation of its work)".to_owned(),
                    load.work_cv.map_or_else(|| "–".to_owned(), |cv| format!("{cv:.2}")),
                ),
                ("steady when measured".to_owned(), if load.steady { "yes" } else { "no" }.to_owned()),
            ],
        });
    }
    let files: Vec<String> =
        members.iter().filter_map(|(member, _)| Some(format!("cells/{:04}.*", run.steps.get(*member)?))).collect();
    if !files.is_empty() {
        out.push(Facts { heading: "Files".to_owned(), pairs: vec![(plain(&run.name), files.join(", "))] });
    }
    out.retain(|facts| !facts.pairs.is_empty());
    out
}

/// A counter of an end.
type Count = fn(&model::Counters) -> u64;

/// What an end was told, and what it cost in each repetition.
fn end(end: &EndReport, members: &[(usize, &ResultDocument)], reflector: bool) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut push = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            pairs.push((name.to_owned(), plain(&value)));
        }
    };
    push("host", end.host.clone());
    push("address", end.address.clone());
    push(
        "receive",
        (members.first().is_some_and(|(_, result)| result.probe != Probe::Ping)).then(|| end.spec.receive.to_string()),
    );
    push("policy", Some(end.spec.policy.to_string()));
    push("CPU", Some(end.spec.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())));
    push("busy poll", end.spec.busy_poll_us.map(|us| format!("{us} µs")));
    push("device", end.spec.device.clone());
    for (name, value) in &end.stack_environment {
        push(name, Some(value.clone()));
    }
    let each = |pick: &dyn Fn(&EndReport) -> Option<String>| -> Option<String> {
        let values: Vec<String> = members
            .iter()
            .filter_map(|(_, result)| {
                pick(if reflector { result.ends.reflector.as_ref()? } else { &result.ends.initiator })
            })
            .collect();
        (!values.is_empty()).then(|| values.join(" | "))
    };
    let percent = |part: u64, whole: u64| (whole > 0).then(|| format!("{:.1} %", 100.0 * part as f64 / whole as f64));
    push("machine busy", each(&|end| end.usage.machine_percent().map(|percent| format!("{percent:.0} %"))));
    push(
        "own CPU time",
        each(&|end| percent(end.usage.process_user_ns + end.usage.process_system_ns, end.usage.elapsed_ns)),
    );
    push("other tasks on its CPU", each(&|end| percent(end.usage.other_tasks_ns?, end.usage.elapsed_ns)));
    push("stolen by the hypervisor", each(&|end| percent(end.usage.cpu_steal_ns?, end.usage.elapsed_ns)));
    push("ready but not running", each(&|end| percent(end.usage.run_queue_wait_ns?, end.usage.elapsed_ns)));
    let some = |count: u64| (count > 0).then(|| commas(count));
    push("displaced", each(&|end| Some(commas(end.usage.involuntary_switches))));
    push("moved to another CPU", each(&|end| some(end.usage.migrations)));
    push("page faults", each(&|end| some(end.usage.minor_faults + end.usage.major_faults)));
    let drops: [(&str, Count); 9] = [
        ("dropped at the socket", |counters| counters.socket_overflow),
        ("dropped for want of receive buffer", |counters| counters.udp_receive_buffer_errors),
        ("other receive errors", |counters| counters.udp_receive_errors),
        ("send errors", |counters| counters.udp_send_buffer_errors),
        ("TCP segments sent again", |counters| counters.tcp_retransmits),
        ("dropped by devices on receiving", |counters| counters.nic_receive_drops),
        ("dropped by devices on sending", |counters| counters.nic_send_drops),
        ("dropped by queueing disciplines", |counters| counters.qdisc_drops),
        ("dropped by a full backlog", |counters| counters.backlog_drops),
    ];
    for (name, pick) in drops {
        push(name, each(&|end| some(pick(&end.counters))));
    }
    pairs
}
