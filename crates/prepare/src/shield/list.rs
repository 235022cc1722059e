//! Lists of CPUs as people write them: numbers and ranges, and words that mean CPUs of this machine.

use super::topology::Topology;
use host::knob::Machine;
use model::CpuList;

/// What is wrong with a list of CPUs: the list, and why it cannot be read, means nothing here, or names no CPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("CPU list '{0}'{1}")]
pub struct CpuListError(String, String);

/// Reads a list of CPUs:
///
/// | written | means |
/// |---|---|
/// | `0,2-5,8-14:2` | numbers, ranges, ranges with a step |
/// | `boot` | the CPU that the machine booted on |
/// | `active` | all that are online |
/// | `nic:eth0` | those near a network device |
/// | `node:1` | those of a NUMA node |
/// | `sibling:3` | all hyper-threads of the core of CPU 3, itself included |
/// | `~LIST` | all online but LIST (RedHawk's; the whole list) |
/// | `LIST,~X` | LIST without X |
///
/// Whether the numbers exist is for the caller to check; words give only CPUs that are online. Errors:
/// [`CpuListError`]; a list that names nothing is one.
pub fn cpus(text: &str, machine: &Machine) -> Result<CpuList, CpuListError> {
    let topology = Topology::read(machine);
    let online = topology.online.clone();
    let trimmed = text.trim();
    let wrong = |why: String| CpuListError(text.to_owned(), why);
    let (negated, terms) = match trimmed.strip_prefix('~') {
        Some(rest) => (true, rest),
        None => (false, trimmed),
    };
    let mut named = CpuList::default();
    for term in terms.split(',').map(str::trim) {
        if term.is_empty() {
            return Err(wrong(": a number or word is missing".to_owned()));
        }
        match term.strip_prefix('~') {
            Some(_) if negated => {
                let why = ": a list that begins with ~ is negated as a whole: leave the other ~ out";
                return Err(wrong(why.to_owned()));
            }
            Some(rest) => named = named.without(&one(text, rest, machine, &topology)?),
            None => named = named.union(&one(text, term, machine, &topology)?),
        }
    }
    let cpus = if negated { online.without(&named) } else { named };
    if cpus.is_empty() { Err(wrong(format!(" names no CPU (online are {online})"))) } else { Ok(cpus) }
}

fn one(given: &str, term: &str, machine: &Machine, topology: &Topology) -> Result<CpuList, CpuListError> {
    let wrong = |why: String| CpuListError(given.to_owned(), format!(": {why}"));
    let absent = |what: String, known: String| wrong(format!("{what} is not here: there is {known}"));
    let number = |digits: &str| {
        digits.trim().parse::<u32>().map_err(|_| wrong(format!("'{term}' needs a number after the colon")))
    };
    match term.split_once(':') {
        Some(("nic", device)) => near(machine, topology, device).ok_or_else(|| {
            absent(format!("network device '{device}'"), host::nic::known(machine))
        }),
        Some(("node", digits)) => {
            let node = number(digits)?;
            let known = topology.nodes.keys().copied().collect::<CpuList>();
            let cpus = topology.nodes.get(&node).map(|cpus| cpus.common(&topology.online));
            cpus.ok_or_else(|| absent(format!("NUMA node {node}"), format!("node {known}")))
        }
        Some(("sibling", digits)) => match number(digits)? {
            cpu if topology.online.contains(cpu) => Ok(topology.core_of(cpu)),
            cpu => Err(absent(format!("CPU {cpu}"), format!("CPU {}", topology.online))),
        },
        Some((word, _)) if word.parse::<u32>().is_err() && !word.contains('-') => {
            Err(wrong(format!("'{word}:' is not known: use nic:IF, node:N or sibling:N")))
        }
        _ => match term {
            // Linux numbers it so.
            "boot" => Ok([0].into_iter().collect()),
            "active" => Ok(topology.online.clone()),
            numbers => numbers.parse::<CpuList>().map_err(|_| {
                wrong(format!(
                    "'{numbers}' is no CPU: use numbers and ranges (0,2-5), boot, active, nic:IF, node:N, sibling:N, and ~ for all but these"
                ))
            }),
        },
    }
}

/// The CPUs near a device, or all that are online where the machine does not tell (a virtual device, one node).
fn near(machine: &Machine, topology: &Topology, device: &str) -> Option<CpuList> {
    if device.is_empty() || device.contains('/') || device.starts_with('.') {
        return None;
    }
    let class = format!("/sys/class/net/{device}");
    if !machine.is_directory(&class) {
        return None;
    }
    let usable = |cpus: CpuList| Some(cpus.common(&topology.online)).filter(|cpus| !cpus.is_empty());
    host::nic::local_cpus(machine, device)
        .and_then(usable)
        .or_else(|| {
            let node: u32 = machine.trimmed(format!("{class}/device/numa_node")).ok()?.parse().ok()?;
            usable(topology.nodes.get(&node)?.clone())
        })
        .or_else(|| Some(topology.online.clone()))
}
