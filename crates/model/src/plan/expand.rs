//! From a plan to its cells.

use super::{CellShield, Grid, Plan, Sizes, StackPlan, pace, stream};
use crate::{
    LoadProfile, LoadSpec, ModelError, Multicast, Policy, Probe, ProbeSpec, Protocol, Receive, Setting, SizeList,
};
use std::collections::{BTreeMap, BTreeSet};

/// One combination of factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its factors written in order: `load=build,protocol=udp,size=32`. Unique in a plan.
    pub key: String,
    /// Factors by axis name.
    pub factors: BTreeMap<String, serde_json::Value>,
    /// What is measured.
    pub spec: ProbeSpec,
    /// The load beside it.
    pub load: Option<LoadSpec>,
    /// How the initiator's worker is started.
    pub stack_initiator: StackPlan,
    /// How the reflector's worker is started.
    pub stack_reflector: StackPlan,
    /// The shield that is up meanwhile.
    pub shield: Option<CellShield>,
    /// The settings in force meanwhile.
    pub settings: Vec<Setting>,
    /// How many of the plan's reflectors take part, from the first on; absent: all.
    pub reflectors: Option<u32>,
}

impl Cell {
    /// Whether a second process has to reflect (everything but ICMP echo and protocols within one machine).
    #[must_use]
    pub fn needs_reflector(&self) -> bool {
        self.spec.probe != Probe::Ping && !self.spec.socket.protocol.is_local()
    }
}

/// Splits `initiator;reflector`; one value stands for both.
fn ends(text: &str) -> (&str, &str) {
    match text.split_once(';') {
        Some((initiator, reflector)) => (initiator.trim(), reflector.trim()),
        None => (text.trim(), text.trim()),
    }
}

fn cpu(text: &str) -> Result<Option<u32>, ModelError> {
    if text == "any" {
        return Ok(None);
    }
    text.parse::<u32>().ok().filter(|&cpu| cpu <= crate::cpus::MAX_CPU).map(Some).ok_or_else(|| ModelError::Grammar {
        what: "CPU",
        given: text.to_owned(),
        why: "use a number, 'any', or 'initiator;reflector' such as \"0;1\"".to_owned(),
    })
}

/// The values of an axis: those given, or the shared one, or the default.
fn axis(
    name: &str,
    given: Option<&Vec<String>>,
    shared: Option<&String>,
    default: &str,
) -> Result<Vec<String>, ModelError> {
    match (given, shared) {
        (Some(values), _) if values.is_empty() => Err(empty(name)),
        (Some(values), _) => Ok(values.clone()),
        (None, Some(value)) => Ok(vec![value.clone()]),
        (None, None) => Ok(vec![default.to_owned()]),
    }
}

pub(super) fn empty(name: &str) -> ModelError {
    ModelError::Conflict {
        what: format!("axis '{name}' has no value"),
        remedy: "give it at least one, or leave it out".to_owned(),
    }
}

impl Plan {
    /// All cells in the order that the plan names them.
    ///
    /// # Errors
    /// An axis without values, a value that cannot be read, a name without an entry, settings that contradict each
    /// other, or a cell that stands there twice.
    pub fn cells(&self) -> Result<Vec<Cell>, ModelError> {
        let mut cells = Vec::new();
        let mut seen = BTreeSet::new();
        for grid in &self.grid {
            self.expand(grid, &mut cells)?;
        }
        for cell in &cells {
            if !seen.insert(cell.key.as_str()) {
                return Err(ModelError::Conflict {
                    what: format!("cell '{}' stands in the plan twice", cell.key),
                    remedy: "remove one of them".to_owned(),
                });
            }
        }
        Ok(cells)
    }

    fn expand(&self, grid: &Grid, cells: &mut Vec<Cell>) -> Result<(), ModelError> {
        let shared = &self.measure;
        let probes = axis("probe", grid.probe.as_ref(), None, "pingpong")?;
        let loads = axis("load", grid.load.as_ref(), None, "none")?;
        let protocols = axis("protocol", grid.protocol.as_ref(), None, "udp")?;
        let receives = axis("receive", grid.receive.as_ref(), shared.receive.as_ref(), "block")?;
        let policies = axis("policy", grid.policy.as_ref(), shared.policy.as_ref(), "other")?;
        let cpus = axis("cpu", grid.cpu.as_ref(), shared.cpu.as_ref(), "any")?;
        let stacks = axis("stack", grid.stack.as_ref(), None, "kernel")?;
        let shields = axis("shield", grid.shield.as_ref(), shared.shield.as_ref(), "off")?;
        let knobs = axis("knob", grid.knob.as_ref(), shared.knob.as_ref(), "none")?;
        // The last axis varies fastest.
        let mut all: Vec<Axes> =
            self.reflector_counts(grid)?.into_iter().map(|reflectors| Axes { reflectors, ..Axes::default() }).collect();
        let vary = |all: &mut Vec<Axes>, values: &[String], set: fn(&mut Axes, &str)| {
            let varied = all.iter().flat_map(|axes| {
                values.iter().map(move |value| {
                    let mut axes = axes.clone();
                    set(&mut axes, value);
                    axes
                })
            });
            *all = varied.collect();
        };
        vary(&mut all, &loads, |axes, value| value.clone_into(&mut axes.load));
        vary(&mut all, &shields, |axes, value| value.clone_into(&mut axes.shield));
        vary(&mut all, &knobs, |axes, value| value.clone_into(&mut axes.knob));
        vary(&mut all, &stacks, |axes, value| value.clone_into(&mut axes.stack));
        vary(&mut all, &receives, |axes, value| value.clone_into(&mut axes.receive));
        vary(&mut all, &policies, |axes, value| value.clone_into(&mut axes.policy));
        vary(&mut all, &cpus, |axes, value| value.clone_into(&mut axes.cpu));
        for probe in &probes {
            let probe: Probe = probe.parse()?;
            for protocol in &protocols {
                let protocol = if probe == Probe::Ping { Protocol::Icmp } else { protocol.parse()? };
                let sizes = match &grid.size {
                    None if probe == Probe::Stream => SizeList::one(crate::stream::default_size(protocol)),
                    given => sizes(given.as_ref(), protocol)?,
                };
                let rates = match probe {
                    Probe::Pace => pace::rates(grid.rate.as_ref())?.into_iter().map(Some).collect(),
                    _ => vec![None],
                };
                if rates.is_empty() {
                    return Err(empty("rate"));
                }
                for axes in &all {
                    for size in sizes.iter() {
                        for rate in &rates {
                            cells.push(self.cell(probe, protocol, size, *rate, axes)?);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn cell(
        &self,
        probe: Probe,
        protocol: Protocol,
        size: u32,
        rate_pps: Option<f64>,
        axes: &Axes,
    ) -> Result<Cell, ModelError> {
        let shared = &self.measure;
        let mut spec = ProbeSpec::new(probe, protocol);
        spec.sizes = SizeList::one(size);
        let (initiator, reflector) = ends(&axes.receive);
        spec.initiator.receive = initiator.parse::<Receive>()?;
        spec.reflector.receive = reflector.parse::<Receive>()?;
        let (initiator, reflector) = ends(&axes.policy);
        spec.initiator.policy = initiator.parse::<Policy>()?;
        spec.reflector.policy = reflector.parse::<Policy>()?;
        let (initiator, reflector) = ends(&axes.cpu);
        spec.initiator.cpu = cpu(initiator)?;
        spec.reflector.cpu = cpu(reflector)?;
        spec.initiator.busy_poll_us = shared.busy_poll_us;
        spec.reflector.busy_poll_us = shared.busy_poll_us;
        for end in [&mut spec.initiator, &mut spec.reflector] {
            end.send_buffer_bytes = shared.send_buffer;
            end.receive_buffer_bytes = shared.receive_buffer;
        }
        if let Some(seconds) = shared.seconds {
            spec.stop.max_ms = milliseconds("seconds", seconds)?;
        }
        if let Some(count) = shared.count {
            spec.stop.max_count = count;
            if shared.seconds.is_none() {
                spec.stop.max_ms = u32::MAX;
            }
        }
        spec.stop.interval_percent = shared.interval_percent;
        spec.warmup.time_ms = shared.warmup_ms.unwrap_or(spec.warmup.time_ms);
        spec.warmup.count = shared.warmup_count.unwrap_or(spec.warmup.count);
        spec.timeout_ms = shared.timeout_ms.unwrap_or(spec.timeout_ms);
        spec.socket.nodelay = shared.nodelay.unwrap_or(probe != Probe::Stream);
        spec.raw = shared.raw.unwrap_or(false);
        if protocol == Protocol::Udp {
            spec.socket.multicast = shared.mcast.map(|group| Multicast { group, interface: None, loopback: false });
        }
        if protocol == Protocol::Pgm {
            spec.socket.pgm.clone_from(&shared.pgm);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; µs to ns")]
        let over_ns = shared.over_us.map(|us| (us * 1000.0) as u64);
        spec.outliers.over_ns = over_ns;
        if let Some(rate) = rate_pps {
            spec.pace = Some(self.pace(rate)?);
        }
        if probe == Probe::Stream {
            spec.stream = Some(self.stream(protocol)?);
        }
        if probe == Probe::Rr {
            spec.response_size = shared.response_size;
            spec.connect_each = shared.connect_each.unwrap_or(false) && protocol == Protocol::Tcp;
        }
        spec.check()?;
        let settings = self.cell_settings(&axes.knob)?;
        self.check_placement(&spec, &settings)?;
        let load = self.load(&axes.load)?;
        let shield = self.cell_shield(&axes.shield)?;
        if let Some(shield) = &shield {
            self.check_shield(&spec, shield, load.as_ref().and_then(|load| load.cpus.as_ref()))?;
        }
        let (stack_initiator, stack_reflector) = self.stack(&axes.stack)?;
        spec.initiator.preload = stack_initiator.environment.get("LD_PRELOAD").cloned();
        spec.reflector.preload = stack_reflector.environment.get("LD_PRELOAD").cloned();
        let mut factors = BTreeMap::new();
        let words = [
            ("probe", Some(probe.word())),
            ("protocol", Some(protocol.word())),
            ("load", Some(axes.load.as_str())),
            ("shield", self.has_shield_axis().then_some(axes.shield.as_str())),
            ("knob", self.has_knob_axis().then_some(axes.knob.as_str())),
            ("stack", Some(axes.stack.as_str())),
            ("receive", Some(axes.receive.as_str())),
            ("policy", Some(axes.policy.as_str())),
            ("cpu", Some(axes.cpu.as_str())),
        ];
        for (name, value) in words {
            if let Some(value) = value {
                factors.insert(name.to_owned(), serde_json::Value::from(value));
            }
        }
        factors.insert("size".to_owned(), serde_json::Value::from(size));
        if let Some(count) = axes.reflectors {
            factors.insert("reflectors".to_owned(), serde_json::Value::from(count));
        }
        factors.extend(pace::cell_factors(&spec));
        factors.extend(stream::stream_factors(&spec));
        let key = factors
            .iter()
            .map(|(name, value)| format!("{name}={}", pace::key_word(value)))
            .collect::<Vec<_>>()
            .join(",");
        let reflectors = axes.reflectors;
        Ok(Cell { key, factors, spec, load, stack_initiator, stack_reflector, shield, settings, reflectors })
    }

    fn load(&self, name: &str) -> Result<Option<LoadSpec>, ModelError> {
        if name == "none" {
            return Ok(None);
        }
        if let Some(plan) = self.loads.get(name) {
            return Ok(Some(LoadSpec {
                profile: plan.profile,
                jobs: plan.jobs,
                cpus: plan.cpus.clone(),
                command: plan.command.clone(),
                directory: plan.directory.clone(),
            }));
        }
        name.parse::<LoadProfile>().map(|profile| Some(LoadSpec::new(profile))).map_err(|_| ModelError::Conflict {
            what: format!("load '{name}' is not known"),
            remedy: format!("add [loads.{name}], or use none, build, cpu, memory, disk, net or context"),
        })
    }

    fn stack(&self, name: &str) -> Result<(StackPlan, StackPlan), ModelError> {
        match self.stacks.get(name) {
            Some(stack) => {
                let reflector = stack.reflector.as_deref().unwrap_or(stack).clone();
                Ok((stack.clone(), reflector))
            }
            None if name == "kernel" => Ok((StackPlan::default(), StackPlan::default())),
            None => Err(ModelError::Conflict {
                what: format!("stack '{name}' is not known"),
                remedy: format!("add [stacks.{name}], or use kernel"),
            }),
        }
    }
}

/// The values of all axes but probe, protocol and size.
#[derive(Debug, Clone, Default)]
struct Axes {
    load: String,
    shield: String,
    knob: String,
    stack: String,
    receive: String,
    policy: String,
    cpu: String,
    reflectors: Option<u32>,
}

fn sizes(given: Option<&Sizes>, protocol: Protocol) -> Result<SizeList, ModelError> {
    match given {
        None => Ok(SizeList::one(32)),
        Some(Sizes::List(list)) if list.is_empty() => Err(empty("size")),
        Some(Sizes::List(list)) => Ok(list.iter().copied().collect()),
        Some(Sizes::Text(text)) if text == "default" => Ok(SizeList::default_for(protocol)),
        Some(Sizes::Text(text)) => text.parse(),
    }
}

/// Seconds as a person writes them to whole milliseconds.
fn milliseconds(what: &'static str, seconds: f64) -> Result<u32, ModelError> {
    let ms = seconds * 1000.0;
    if !(1.0..=86_400_000.0).contains(&ms) {
        return Err(ModelError::OutOfRange { what, given: seconds.to_string(), accepted: "0.001 to 86400".to_owned() });
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(ms.round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n";

    fn plan(rest: &str) -> Result<Plan, ModelError> {
        Plan::parse("t.toml", &format!("{HEAD}{rest}"))
    }

    fn refused(rest: &str) -> String {
        let text = plan(rest).unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    }

    #[test]
    fn grids_add_up() {
        let plan = plan(
            "[[grid]]\nprotocol = [\"tcp\", \"udp\"]\nload = [\"none\", \"build\"]\nsize = [32, 64]\n\
             [[grid]]\nprobe = [\"rr\"]\nprotocol = [\"tcp\"]\n",
        )
        .unwrap();
        let cells = plan.cells().unwrap();
        assert_eq!(cells.len(), 9);
        assert_eq!(
            cells[0].key,
            "cpu=any,load=none,policy=other,probe=pingpong,protocol=tcp,receive=block,size=32,stack=kernel"
        );
        assert!(cells[2].load.is_some());
    }

    #[test]
    fn what_is_refused_and_how() {
        for (rest, word) in [
            ("[[grid]]\ncolour = [\"red\"]\n", "colour"),
            ("[[grid]]\nsize = []\n", "'size' has no value"),
            ("[[grid]]\nsize = [32]\n[[grid]]\nsize = [32]\n", "twice"),
            ("[[grid]]\nprotocol = [\"tcp\"]\nsize = [0]\n", "size 0"),
            ("[[grid]]\nprotocol = [\"udp\"]\nsize = [70000]\n", "70000"),
            ("[[grid]]\nload = [\"heavy\"]\n", "heavy"),
            ("[[grid]]\nstack = [\"onload\"]\n", "onload"),
            ("[[grid]]\ncpu = [\"1\"]\nreceive = [\"spin\"]\n", "CPU 1"),
            ("[[grid]]\npolicy = [\"fifo:100\"]\n", "100"),
        ] {
            let text = refused(rest);
            assert!(text.contains(word), "{rest}: {text}");
        }
        let text = Plan::parse("t", &HEAD.replace("[\"b\"]", "[\"z\"]")).unwrap_err().to_string();
        assert!(text.contains("grid"), "{text}");
        let text =
            Plan::parse("t", &format!("{}[[grid]]\n", HEAD.replace("[\"b\"]", "[\"z\"]"))).unwrap_err().to_string();
        assert!(text.contains("'z'"), "{text}");
        let text = Plan::parse("t", &format!("{}[[grid]]\n", HEAD.replace("[\"b\"]", "[]"))).unwrap_err().to_string();
        assert!(text.contains("no reflector"), "{text}");
    }

    #[test]
    fn each_end_is_claimed_to_run_with_its_stack() {
        let stacks = "[[grid]]\nstack = [\"kernel\", \"shim\"]\n[stacks.shim.environment]\nLD_PRELOAD = \"a.so\"\n";
        let both = plan(stacks).unwrap().cells().unwrap();
        assert_eq!((&both[0].spec.initiator.preload, &both[0].spec.reflector.preload), (&None, &None));
        assert_eq!(both[1].spec.initiator.preload.as_deref(), Some("a.so"));
        assert_eq!(both[1].spec.reflector.preload.as_deref(), Some("a.so"));
        let other = plan(&format!("{stacks}[stacks.shim.reflector.environment]\nEF_POLL_USEC = \"1\"\n")).unwrap();
        assert_eq!(other.cells().unwrap()[1].spec.reflector.preload, None);
    }

    #[test]
    fn two_ended_values() {
        let plan =
            plan("[[grid]]\ncpu = [\"0;1\"]\npolicy = [\"fifo:1;other\"]\nreceive = [\"spin;block\"]\n").unwrap();
        let spec = plan.cells().unwrap().remove(0).spec;
        assert_eq!((spec.initiator.cpu, spec.reflector.cpu), (Some(0), Some(1)));
        assert_eq!((spec.initiator.policy, spec.reflector.policy), (Policy::Fifo(1), Policy::Other));
        assert_eq!((spec.initiator.receive, spec.reflector.receive), (Receive::Spin, Receive::Block));
    }
}
