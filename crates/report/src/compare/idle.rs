//! Why a path can be faster under load than without: idle CPUs wake up late. Said only where the run's facts allow it.

use crate::units::{each_once, list, plain};
use digest::RunInput;
use digest::compare::{CellComparison, Comparison, Outcome};
use digest::names::is_baseline;
use model::run::RunHost;
use serde_json::Value;

/// A median that falls so much under load, with an interval that excludes none, is explained also where it is not tested.
const FASTER: f64 = 0.9;

/// Cause and remedy where a median falls under load, from the facts of the run of the cells without load. `None` where none
/// falls, ends spin or CPUs stay awake.
pub(crate) fn faster_under_load(run: &RunInput, comparison: &Comparison) -> Option<String> {
    let (before, after) = (comparison.a.factors.get("load")?, comparison.b.factors.get("load")?);
    let is_faster = |cell: &&CellComparison| {
        let median = cell.metrics.iter().find(|figure| figure.metric == "p50");
        median.is_some_and(|median| match median.outcome {
            Outcome::Lower => true,
            Outcome::Higher | Outcome::NoDifference | Outcome::Same | Outcome::Untrusted => false,
            Outcome::Unclear | Outcome::TooFew | Outcome::NotTested => {
                median.ratio.is_some_and(|ratio| ratio < FASTER)
                    && median.ratio_ci95.is_some_and(|[_, high]| high < 1.0)
            }
        })
    };
    let is_load = is_baseline("load", before) && !is_baseline("load", after);
    comparison.cells.iter().filter(|_| is_load).filter(is_faster).find_map(|cell| sleeping_cpus(run, cell))
}

/// Why a cell is slower without load: both ends block in their receive calls, and a machine puts idle CPUs to sleep.
fn sleeping_cpus(run: &RunInput, cell: &CellComparison) -> Option<String> {
    let blocks = cell.factors.get("receive").is_some_and(|receive| receive == "block");
    let mut causes: Vec<String> = Vec::new();
    let mut has_driver = false;
    for host in run.document.hosts.values().filter(|_| blocks) {
        let Some(machine) = run.document.machines.get(&host.facts.boot_id) else { continue };
        if machine.command_line.as_deref().is_some_and(|line| line.split_whitespace().any(|word| word == "idle=poll")) {
            continue;
        }
        let guest = machine.virtualisation.as_deref().filter(|name| *name != "none");
        let driver = machine.cpuidle_driver.as_deref().filter(|name| !["", "none"].contains(name));
        has_driver |= driver.is_some();
        let cause = match (guest, driver) {
            (Some(guest), _) => format!(
                "the machine of the {} is a virtual one ({}), whose idle CPU halts and waits for its host to run it again",
                plain(&host.role),
                plain(guest)
            ),
            (None, Some(driver)) => format!(
                "the idle CPUs of the {} enter deep idle states (cpuidle driver {}{})",
                plain(&host.role),
                plain(driver),
                found(host).map(|text| format!("; doctor: {}", plain(&text))).unwrap_or_default()
            ),
            (None, None) => continue,
        };
        causes.push(cause);
    }
    if causes.is_empty() {
        return None;
    }
    let qos = if has_driver { "a PM QoS limit (knob cpuidle.latency-us=0), " } else { "" };
    Some(format!(
        "Faster under load than without is a known artefact of sleeping CPUs, not a gain: both ends block, so without load their \
         CPUs are idle between messages, and {}; the load keeps them awake. To measure the path itself keep them awake in both \
         cells: {qos}idle=poll on the kernel's command line, spinning (receive = \"spin\"), or a load that keeps the CPU awake.",
        list(&each_once(causes))
    ))
}

/// What the doctor recorded about idle states.
fn found(host: &RunHost) -> Option<String> {
    let findings = host.facts.environment.as_ref()?.get("findings")?.as_array()?;
    let own = findings.iter().find(|finding| finding.get("id").and_then(Value::as_str) == Some("cpu.cstate"))?;
    let text = own.get("text").and_then(Value::as_str)?;
    (own.get("severity").and_then(Value::as_str) != Some("ok")).then(|| text.to_owned())
}
