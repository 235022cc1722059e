//! Lists of CPUs as people write them: numbers and ranges, and words that mean CPUs of this machine.

use super::topology::Topology;
use host::knob::Machine;
use model::CpuList;

/// What is wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// It cannot be read.
    #[error("CPU list '{given}': {why}")]
    Grammar {
        /// As given.
        given: String,
        /// One line.
        why: String,
    },
    /// A word names something that this machine does not have.
    #[error("CPU list '{given}': {what} is not here: there is {known}")]
    Absent {
        /// As given.
        given: String,
        /// What it names.
        what: String,
        /// What there is.
        known: String,
    },
    /// No CPU is left.
    #[error("CPU list '{given}' names no CPU (online are {online})")]
    Empty {
        /// As given.
        given: String,
        /// The CPUs that are online.
        online: CpuList,
    },
}

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
/// Whether the numbers exist is for the caller to check; words give only CPUs that are online.
///
/// # Errors
/// [`CpuListError`]; a list that names nothing is one.
pub fn cpus(text: &str, machine: &Machine) -> Result<CpuList, CpuListError> {
    let topology = Topology::read(machine);
    let online = topology.online.clone();
    let trimmed = text.trim();
    let grammar = |why: &str| CpuListError::Grammar { given: text.to_owned(), why: why.to_owned() };
    let (negated, terms) = match trimmed.strip_prefix('~') {
        Some(rest) => (true, rest),
        None => (false, trimmed),
    };
    let mut named = CpuList::default();
    for term in terms.split(',').map(str::trim) {
        if term.is_empty() {
            return Err(grammar("a number or word is missing"));
        }
        match term.strip_prefix('~') {
            Some(_) if negated => {
                return Err(grammar("a list that begins with ~ is negated as a whole: leave the other ~ out"));
            }
            Some(rest) => named = named.without(&one(text, rest, machine, &topology)?),
            None => named = named.union(&one(text, term, machine, &topology)?),
        }
    }
    let cpus = if negated { online.without(&named) } else { named };
    if cpus.is_empty() { Err(CpuListError::Empty { given: text.to_owned(), online }) } else { Ok(cpus) }
}

fn one(given: &str, term: &str, machine: &Machine, topology: &Topology) -> Result<CpuList, CpuListError> {
    let absent = |what: String, known: String| CpuListError::Absent { given: given.to_owned(), what, known };
    let number = |digits: &str| {
        digits.trim().parse::<u32>().map_err(|_| CpuListError::Grammar {
            given: given.to_owned(),
            why: format!("'{term}' needs a number after the colon"),
        })
    };
    match term.split_once(':') {
        Some(("nic", device)) => near(machine, topology, device)
            .ok_or_else(|| absent(format!("network device '{device}'"), known_devices(machine))),
        Some(("node", digits)) => {
            let node = number(digits)?;
            let known = topology.nodes.keys().copied().collect::<CpuList>();
            let cpus = topology.nodes.get(&node).map(|cpus| cpus.common(&topology.online));
            cpus.ok_or_else(|| absent(format!("NUMA node {node}"), format!("node {known}")))
        }
        Some(("sibling", digits)) => {
            let cpu = number(digits)?;
            if !topology.online.contains(cpu) {
                return Err(absent(format!("CPU {cpu}"), format!("CPU {}", topology.online)));
            }
            Ok(topology.core_of(cpu))
        }
        Some((word, _)) if word.parse::<u32>().is_err() && !word.contains('-') => Err(CpuListError::Grammar {
            given: given.to_owned(),
            why: format!("'{word}:' is not known: use nic:IF, node:N or sibling:N"),
        }),
        _ => match term {
            "boot" => Ok([topology.boot].into_iter().collect()),
            "active" => Ok(topology.online.clone()),
            numbers => numbers.parse::<CpuList>().map_err(|_| CpuListError::Grammar {
                given: given.to_owned(),
                why: format!(
                    "'{numbers}' is no CPU: use numbers and ranges (0,2-5), boot, active, nic:IF, node:N, sibling:N, and ~ for all but these"
                ),
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

fn known_devices(machine: &Machine) -> String {
    match host::nic::devices(machine) {
        names if names.is_empty() => "none".to_owned(),
        names => names.join(", "),
    }
}
