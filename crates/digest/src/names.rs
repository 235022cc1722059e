//! What rows are called: NICs, operating systems and substrates, from labels or facts; order and short words of factors.

use crate::RunInput;
use crate::text::{commas, each_once, plain, whole};
use model::factor::{self, Factor};
pub use model::factor::{asked_first, rank};
use model::facts::is_preempt_rt;
use model::run::RunHost;
use model::{NicFacts, ResultDocument, Role, Substrate, source};
use std::collections::{BTreeMap, BTreeSet};

/// The axes that lead the papers' rows, in the order of the columns, and whether they are always shown.
pub const ROW_AXES: [(&str, bool); 5] =
    [("nic", true), ("stack", false), ("load", true), ("shield", true), ("os", true)];

/// Factors that are columns or series of their own and never part of a row.
pub const CELL_AXES: [&str; 3] = ["probe", "protocol", "size"];

/// Where figures come from, as the end of a sentence that begins "measured".
pub fn measured_on(substrate: Substrate) -> &'static str {
    match substrate {
        Substrate::Metal => "between separate computers",
        Substrate::Vm => "between virtual machines",
        Substrate::Simulated => "on simulated hardware",
        Substrate::SimulatedTime => "in simulated time, by counted instructions",
        Substrate::Netns => "between network namespaces of one machine",
        Substrate::Loopback => "on the loopback of one machine",
        Substrate::Wine => "by a Windows program under Wine, whose times say nothing of Windows",
        Substrate::Unknown => "on hosts of which nothing is known",
    }
}

pub fn axis_title(axis: &str) -> String {
    match axis {
        "nic" => "NIC".to_owned(),
        "os" => "OS".to_owned(),
        other => factor::recorded(other).map_or_else(|| factor::capitalised(other), Factor::title),
    }
}

/// One value of one axis as the papers' table shows it.
pub fn cell_word(axis: &str, value: &str) -> String {
    match (axis, value) {
        ("load", "none") | ("shield", "off") => "no".to_owned(),
        (source::FACTOR, _) => source::in_words(&plain(value)),
        _ => plain(value),
    }
}

/// One value of one axis as part of a short label.
pub fn label_word(axis: &str, value: &str) -> String {
    let value = plain(value);
    match (axis, factor::recorded(axis)) {
        ("rate", _) => rate_word(&value),
        ("nic" | "os" | "run", _) => value,
        (source::FACTOR, _) => source::in_words(&value),
        (_, Some(factor)) => factor.label(&value),
        _ => format!("{axis} {value}"),
    }
}

/// The same of any factor, those of the message among them.
pub fn value_word(axis: &str, value: &str) -> String {
    match axis {
        "probe" => value.to_owned(),
        "protocol" => value.to_uppercase(),
        "size" => format!("{value} B"),
        _ => label_word(axis, value),
    }
}

/// A rate in messages a second: `10,000/s`.
pub fn rate_word(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(rate) if rate.is_finite() && (1.0..=1e12).contains(&rate) && rate.fract() == 0.0 => {
            format!("{}/s", commas(whole(rate)))
        }
        _ => format!("{value}/s"),
    }
}

/// Whether a value is its axis' baseline, against which the others are compared.
pub fn is_baseline(axis: &str, value: &str) -> bool {
    factor::recorded(axis).is_some_and(|factor| factor.is_baseline(value))
}

/// The free labels of a run together with the names that facts give when no label does.
pub fn run_factors(run: &RunInput) -> BTreeMap<String, String> {
    let mut factors: BTreeMap<String, String> =
        run.document.labels.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    factors.entry("nic".to_owned()).or_insert_with(|| nic(run));
    factors.entry("os".to_owned()).or_insert_with(|| os(run));
    factors.entry("shield".to_owned()).or_insert_with(|| "N/A".to_owned());
    factors
}

fn ends(run: &RunInput) -> Vec<&RunHost> {
    let mut hosts: Vec<&RunHost> = run.document.hosts.values().collect();
    hosts.retain(|host| host.role.parse::<Role>().is_ok());
    hosts.sort_by_key(|host| host.role != Role::Initiator.word());
    hosts
}

/// Names that differ are joined, equal ones stand once.
fn joined(names: impl Iterator<Item = String>) -> String {
    let names = each_once(names);
    if names.is_empty() { "not known".to_owned() } else { names.join(" / ") }
}

fn nic(run: &RunInput) -> String {
    if run.document.substrate == Substrate::Loopback {
        return "loopback (virtual)".to_owned();
    }
    joined(ends(run).into_iter().filter_map(|host| data_nic(host).map(nic_name)))
}

/// The device that carries the host's data address, else the first one that is no loopback.
pub fn data_nic(host: &RunHost) -> Option<&NicFacts> {
    let carries = |nic: &&NicFacts| {
        host.address
            .as_deref()
            .is_some_and(|wanted| nic.addresses.iter().any(|address| address.split('/').next() == Some(wanted)))
    };
    let nics = &host.facts.nics;
    nics.iter().find(carries).or_else(|| nics.iter().find(|nic| nic.name != "lo"))
}

fn nic_name(nic: &NicFacts) -> String {
    let driver = plain(nic.driver.as_deref().unwrap_or(&nic.name));
    if matches!(driver.as_str(), "veth" | "bridge" | "dummy" | "tun" | "macvlan" | "ipvlan" | "lo") {
        return format!("{driver} (virtual)");
    }
    let name = nic.model.as_deref().map_or_else(|| driver.clone(), |model| format!("{} ({driver})", plain(model)));
    match nic.speed_mbps {
        Some(speed) if speed >= 1000 && speed % 1000 == 0 => format!("{name}, {} Gbit/s", speed / 1000),
        Some(speed) => format!("{name}, {speed} Mbit/s"),
        None => name,
    }
}

/// Of a run that boots kernels only the distribution: which kernel it is says the factor `kernel`.
fn os(run: &RunInput) -> String {
    let boots = run.results.iter().any(|result| result.boot.is_some());
    let names =
        ends(run).into_iter().filter_map(|host| run.document.machines.get(&host.facts.boot_id)).map(|machine| {
            let os = plain(machine.os.as_deref().unwrap_or("Linux"));
            if boots {
                return os;
            }
            let kernel = machine.kernel_release.as_deref().map(plain).unwrap_or_default();
            let real_time = is_preempt_rt(machine.preemption.as_deref());
            let suffix = if real_time && !kernel.contains("rt") { " PREEMPT_RT" } else { "" };
            format!("{os} {kernel}{suffix}").trim().to_owned()
        });
    joined(names)
}

/// Names of the factors in which some differ.
pub fn varying<'f>(all: impl Iterator<Item = &'f BTreeMap<String, String>>) -> BTreeSet<String> {
    let all: Vec<_> = all.collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|factors| factors.keys()).collect();
    let differs = |name: &&&String| all.iter().map(|factors| factors.get(**name)).collect::<BTreeSet<_>>().len() > 1;
    names.iter().filter(differs).map(|name| (*name).clone()).collect()
}

/// Each of several reflectors, or of several threads of `wake`, that a result has figures of by itself.
pub fn hosts(result: &ResultDocument) -> Vec<&str> {
    let fates = result.pgm.iter().flat_map(|pgm| &pgm.fates).filter_map(|fate| fate.host.as_deref());
    let threads = result.wake.iter().flat_map(|wake| &wake.threads).map(|thread| thread.name.as_str());
    each_once(result.reflectors.iter().map(|one| one.host.as_str()).chain(fates).chain(threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_come_first() {
        let mut loads = vec!["memory", "none", "build"];
        loads.sort_by_key(|value| rank("load", value));
        assert_eq!(loads, ["none", "build", "memory"]);
        let mut modes = vec!["spin", "epoll", "block"];
        modes.sort_by_key(|value| rank("receive", value));
        assert_eq!(modes, ["block", "spin", "epoll"]);
    }

    #[test]
    fn nics_say_what_they_are() {
        let mut nic = NicFacts {
            name: "va".into(),
            driver: Some("veth".into()),
            speed_mbps: Some(10_000),
            ..NicFacts::default()
        };
        assert_eq!(nic_name(&nic), "veth (virtual)", "a veth pair has no speed, whatever it reports");
        nic.driver = Some("ixgbe".into());
        assert_eq!(nic_name(&nic), "ixgbe, 10 Gbit/s");
        nic.model = Some("Intel X520-T2".into());
        assert_eq!(nic_name(&nic), "Intel X520-T2 (ixgbe), 10 Gbit/s");
    }
}
