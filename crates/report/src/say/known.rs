//! Changes of the kernel that are known to move latencies, quoted where the kernel's version and the symptom fit.

use crate::say::Facts;
use crate::units::{counted, each_once, percent, span};
use digest::cells::Cell;
use digest::{CellInfo, RunInput, is_trusted};
use model::factor::capitalised;
use model::known::{KnownChange, Symptom, fitting};
use model::{MachineFacts, Role};
use std::collections::BTreeMap;

/// What was seen of a symptom in a cell: how strongly, and as words.
type Observation = (f64, String);

/// Whether a cell shows a symptom at one end; `None`: it does not, or that was not counted.
fn seen(cell: &Cell, symptom: Symptom, end: Role, machine: &MachineFacts) -> Option<Observation> {
    let info = &cell.info;
    match symptom {
        Symptom::KsoftirqdTail => {
            /// 1 ms in each second: without backlog these threads sleep.
            const LEAST_SHARE: f64 = 0.001;
            /// So much that most messages pass through them: p50 moves, and no tail shows it.
            const MOST_MESSAGES: f64 = 0.15;
            let share = info.value(&format!("{end}.ksoftirqd")).filter(|share| *share >= LEAST_SHARE)?;
            let tail = match long_tail(info) {
                Some((id, tail)) => format!("{id} {} with ", span(tail)),
                None if share >= MOST_MESSAGES => String::new(),
                None => return None,
            };
            let (ran, p50) = (percent(share, 1.0), info.value("p50")?);
            Some((share, format!("ksoftirqd ran {ran} of the time at the {end}, {tail}p50 {}", span(p50))))
        }
        Symptom::UnlimitedStall => {
            let unlimited = machine.sysctls.get("kernel.sched_rt_runtime_us").is_some_and(|us| us == "-1");
            (unlimited && cell.stalls > 0).then(|| {
                let stalls = counted(cell.stalls, "message");
                (cell.stalls as f64, format!("{stalls} took about 50 ms there and back"))
            })
        }
    }
}

/// The quantile that shows a long tail, with its value.
fn long_tail(info: &CellInfo) -> Option<(&'static str, f64)> {
    let p50 = info.value("p50")?;
    [("p99", 3.0), ("p99.9", 5.0)].into_iter().find_map(|(id, times)| {
        let value = info.value(id)?;
        (value >= times * p50).then_some((id, value))
    })
}

/// A change that a cell shows.
struct Occurrence<'a> {
    cell: &'a Cell,
    seen: Observation,
    release: &'a str,
    change: &'static KnownChange,
}

/// One sentence a change, about the cell that shows it most: short, and with the remedy and what the change is known from.
pub(crate) fn sentences(facts: &Facts<'_>) -> Vec<[String; 2]> {
    let mut found: BTreeMap<&str, Vec<Occurrence<'_>>> = BTreeMap::new();
    for cell in facts.cells.iter().filter(|cell| is_trusted(&&cell.info)) {
        let Some(run) = facts.runs.get(cell.run) else { continue };
        for (end, machine) in machines(run, cell) {
            let release = machine.kernel_release.as_deref().unwrap_or_default();
            for symptom in Symptom::ALL {
                let Some(seen) = seen(cell, symptom, end, machine) else { continue };
                for change in fitting(release, machine.preemption.as_deref(), symptom) {
                    let one = Occurrence { cell, seen: seen.clone(), release, change };
                    found.entry(&change.id).or_default().push(one);
                }
            }
        }
    }
    found.into_values().filter_map(|all| sentence(&all)).collect()
}

fn sentence(all: &[Occurrence<'_>]) -> Option<[String; 2]> {
    let Occurrence { cell, seen: (_, what), release, change } =
        all.iter().reduce(|worst, one| if one.seen.0 > worst.seen.0 { one } else { worst })?;
    let info = &cell.info;
    let cells = each_once(all.iter().map(|one| std::ptr::from_ref(one.cell))).len();
    let cells = if cells > 1 { format!(" ({} in all)", counted(cells, "cell")) } else { String::new() };
    let place = format!("{} {}, {}", info.protocol.to_uppercase(), info.probe, info.label);
    let seen = format!("in {place}{cells} {what}, on Linux {release}");
    Some([
        format!("{}: {}.", capitalised(&seen), change.what),
        format!("A known change of the kernel fits: {seen}: {}", change.sentence()),
    ])
}

/// The ends of a cell with their machines, in its first boot where these were booted for it.
fn machines<'r>(run: &'r RunInput, cell: &Cell) -> impl Iterator<Item = (Role, &'r MachineFacts)> {
    let boot = cell.members.iter().find_map(|member| run.results.get(*member)?.boot.as_ref());
    Role::ALL.into_iter().filter_map(move |end| {
        let (name, host) = run.document.hosts.iter().find(|(_, host)| host.role == end.word())?;
        let id = boot.and_then(|boot| boot.ids.get(name)).unwrap_or(&host.facts.boot_id);
        Some((end, run.document.machines.get(id)?))
    })
}
