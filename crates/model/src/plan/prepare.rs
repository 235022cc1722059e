//! How a plan has machines prepared: the shield and the knobs of its cells.

use super::{LabKind, Plan};
use crate::{CpuList, KernelChoice, ModelError, Pacer, ProbeSpec, Setting, ShieldBackend, ShieldSpec};
use std::collections::BTreeSet;

/// How the cells of a plan are shielded, beside the value of their axis `shield`.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShieldPlan {
    /// The CPUs to shield on each machine that has an end (default: those that its ends are pinned to).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Network devices whose interrupts and queues go onto the shielded CPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nic: Vec<String>,
    /// Whether the shield also takes the limit on real-time CPU time away (default: only in the built-in lab, where both
    /// ends keep one CPU busy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlimited_realtime: Option<bool>,
    /// Whether CPU 0 may be shielded.
    pub allow_boot_cpu: bool,
    /// Processes by id, name or unit that stay where they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
}

/// A named set of settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnobPlan {
    /// `KEY=VALUE` each, in the grammar of `windhover tune`.
    pub settings: Vec<String>,
}

/// The shield of a cell; which CPUs it covers on a machine depends on which ends are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellShield {
    /// What keeps others away.
    pub backend: ShieldBackend,
    /// The rest, as in the plan.
    pub plan: ShieldPlan,
    /// Whether the limit on real-time CPU time is taken away.
    pub unlimited_realtime: bool,
}

impl CellShield {
    /// The shield of a machine whose ends are pinned to these CPUs.
    pub fn spec(&self, ends: &CpuList) -> ShieldSpec {
        let cpus = self.plan.cpus.clone().unwrap_or_else(|| ends.clone());
        ShieldSpec {
            processes: cpus.clone(),
            interrupts: cpus,
            backend: self.backend,
            nics: self.plan.nic.clone(),
            allow_boot_cpu: self.plan.allow_boot_cpu,
            keep: self.plan.keep.clone(),
            unlimited_realtime: self.unlimited_realtime,
            ..ShieldSpec::default()
        }
    }
}

/// The two sysctls that make every socket of the machine busy-poll (Documentation/admin-guide/sysctl/net.rst).
const BUSY_POLLING: [&str; 2] = ["net.core.busy_poll", "net.core.busy_read"];

fn conflict<T>(what: impl Into<String>, remedy: &str) -> Result<T, ModelError> {
    Err(ModelError::conflict(what, remedy))
}

impl Plan {
    /// The shield of a value of the axis.
    pub(super) fn cell_shield(&self, word: &str) -> Result<Option<CellShield>, ModelError> {
        if word == "off" {
            return Ok(None);
        }
        let backend = word
            .parse::<ShieldBackend>()
            .map_err(|_| crate::words::unknown("shield", word, &["off", "affinity", "v1", "v2", "isolcpus", "auto"]))?;
        let plan = self.shield.clone().unwrap_or_default();
        let unlimited_realtime = plan.unlimited_realtime.unwrap_or(self.lab.is_some());
        Ok(Some(CellShield { backend, plan, unlimited_realtime }))
    }

    /// The settings of a value of the axis `knob`: a name from `[knobs]`, or `KEY=VALUE[;KEY=VALUE…]`.
    /// A kernel that is a setting comes first.
    pub(super) fn cell_settings(&self, word: &str, kernel: Option<&KernelChoice>) -> Result<Vec<Setting>, ModelError> {
        let own = kernel.and_then(KernelChoice::setting);
        if word == "none" {
            return Ok(own.into_iter().collect());
        }
        let read = |texts: &mut dyn Iterator<Item = &str>| texts.map(str::parse).collect::<Result<Vec<Setting>, _>>();
        let named = match self.knobs.get(word) {
            Some(knob) if knob.settings.is_empty() => {
                return conflict(format!("knob '{word}' has no setting"), "give it settings = [\"KEY=VALUE\"]");
            }
            Some(knob) => read(&mut knob.settings.iter().map(String::as_str))?,
            None if word.contains('=') => read(&mut word.split(';'))?,
            None => {
                return conflict(
                    format!("knob '{word}' is not known"),
                    &format!("add [knobs.{word}], or write KEY=VALUE, or use none"),
                );
            }
        };
        let settings: Vec<Setting> = own.into_iter().chain(named).collect();
        let mut keys = BTreeSet::new();
        if let Some(double) = settings.iter().find(|setting| !keys.insert(&setting.key)) {
            return conflict(format!("knob '{word}' sets {} twice", double.key), "keep one of them");
        }
        Ok(settings)
    }

    /// In a lab of namespaces both ends are one machine, so an end that spins or busy-polls starves the other on the same
    /// CPU. A plan that measures just that sets `allow_starving`.
    pub(super) fn check_placement(&self, spec: &ProbeSpec, settings: &[Setting]) -> Result<(), ModelError> {
        let one_machine = self.lab.as_ref().is_some_and(|lab| matches!(lab.kind, LabKind::Netns | LabKind::Loopback));
        let paced = spec.pace().is_some_and(|pace| pace.pacer == Pacer::Spin);
        let spins = paced || spec.spins();
        let busy = spec.initiator.busy_poll_us.is_some_and(|us| us > 0);
        let knob = settings.iter().find(|setting| {
            let name = setting.key.strip_prefix("sysctl.").unwrap_or(&setting.key);
            BUSY_POLLING.contains(&name) && setting.value.trim().parse::<u64>().is_ok_and(|us| us > 0)
        });
        let Some(cpu) = spec.shared_cpu().filter(|_| one_machine) else { return Ok(()) };
        let other = "give the ends different CPUs (cpu = \"0;1\"), or";
        if spins || busy {
            let mode = if paced { "pacer = \"sleep\"" } else { "receive = \"block\"" };
            let what = format!("both ends of the lab are on CPU {cpu} and one of them spins or busy-polls");
            return conflict(what, &format!("{other} {mode}"));
        }
        match knob.filter(|_| !self.measure.allow_starving) {
            Some(knob) => conflict(
                format!("both ends of the lab are on CPU {cpu} and {knob} makes them busy-poll"),
                &format!("{other} set measure.allow_starving = true to measure what it costs"),
            ),
            None => Ok(()),
        }
    }

    /// What a shielded cell needs: pinned ends, of which one at least is behind the shield, and a CPU for everything else.
    pub(super) fn check_shield(
        &self,
        spec: &ProbeSpec,
        shield: &CellShield,
        load: Option<&CpuList>,
    ) -> Result<(), ModelError> {
        // A kernel answers an ICMP echo wherever the request arrives, and another tool's server runs where it was started.
        let reflector = spec.has_session().then_some(spec.reflector.cpu);
        let Some(pinned) = spec.initiator_cpus().chain(reflector).collect::<Option<CpuList>>() else {
            return conflict(
                format!("a cell with shield {} does not pin both ends", shield.backend),
                "set cpu = \"1\" (both ends on CPU 1) or \"1;2\"",
            );
        };
        let cpus = shield.plan.cpus.as_ref().unwrap_or(&pinned);
        if cpus.is_empty() {
            return conflict("shield.cpus names no CPU", "name those to shield, or leave it out");
        }
        if !pinned.iter().any(|cpu| cpus.contains(cpu)) {
            return conflict(
                format!("shield.cpus = {cpus} has no end behind it (the ends are on {pinned})"),
                "pin an end to a shielded CPU, or leave shield.cpus out",
            );
        }
        if cpus.contains(0) && !shield.plan.allow_boot_cpu {
            return conflict(
                "the shield would cover CPU 0, which the kernel boots on and leans on",
                "pin the ends to other CPUs (cpu = \"1\"), name shield.cpus, or set shield.allow_boot_cpu = true",
            );
        }
        if let Some(load) = load
            && load.iter().all(|cpu| cpus.contains(cpu))
        {
            return conflict(
                format!("the load may only use CPUs {load}, all of them behind the shield of {cpus}"),
                "give the load other CPUs too, or leave its cpus out",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{assert_refused, cells, plan};

    #[test]
    fn a_plan_without_the_axes_has_its_old_keys() {
        let plain = cells("[[grid]]\n");
        assert_eq!(
            plain[0].key,
            "cpu=any,load=none,policy=other,probe=pingpong,protocol=udp,receive=block,size=32,stack=kernel"
        );
        assert!(plain[0].shield.is_none() && plain[0].settings.is_empty());
        let varied = cells("[[grid]]\ncpu = [\"1\"]\nshield = [\"off\", \"v1\"]\n");
        let shields: Vec<&str> = varied.iter().map(|cell| cell.factors["shield"].as_str().unwrap()).collect();
        assert_eq!(shields, ["off", "v1"]);
        assert!(!varied[0].factors.contains_key("knob"));
        assert!(varied[1].key.contains("shield=v1"), "{}", varied[1].key);
    }

    #[test]
    fn a_shield_covers_the_cpus_of_the_ends_unless_told_otherwise() {
        let spec_of = |rest| cells(rest)[0].shield.as_ref().unwrap().spec(&"1-2".parse().unwrap());
        let spec = spec_of("[[grid]]\ncpu = [\"1;2\"]\nshield = [\"affinity\"]\n");
        assert_eq!((spec.processes.to_string(), spec.interrupts.to_string()), ("1-2".to_owned(), "1-2".to_owned()));
        assert_eq!(spec.backend, ShieldBackend::Affinity);
        assert!(spec.unlimited_realtime, "in the built-in lab");
        let rest = "[shield]\ncpus = \"2-3\"\nnic = [\"eth1\"]\nunlimited_realtime = false\n\
                    [[grid]]\ncpu = [\"1;2\"]\nshield = [\"auto\"]\n";
        let spec = spec_of(rest);
        assert_eq!((spec.processes.to_string(), spec.nics), ("2-3".to_owned(), vec!["eth1".to_owned()]));
        assert!(!spec.unlimited_realtime);
    }

    #[test]
    fn what_a_shield_needs() {
        assert_refused([
            ("[[grid]]\nshield = [\"v1\"]\n", "does not pin both ends"),
            ("[[grid]]\ncpu = [\"1;any\"]\nshield = [\"v1\"]\n", "does not pin both ends"),
            ("[[grid]]\ncpu = [\"0;1\"]\nshield = [\"v1\"]\n", "CPU 0"),
            ("[shield]\ncpus = \"3\"\n[[grid]]\ncpu = [\"1\"]\nshield = [\"v1\"]\n", "no end behind it"),
            ("[shield]\ncpus = \"\"\n[[grid]]\ncpu = [\"1\"]\nshield = [\"v1\"]\n", "names no CPU"),
            ("[[grid]]\ncpu = [\"1\"]\nshield = [\"v3\"]\n", "v3"),
            ("[[grid]]\ncpu = [\"1\"]\nshield = []\n", "'shield' has no value"),
            ("[shield]\ncolour = 1\n[[grid]]\n", "colour"),
            (
                "[loads.l]\nprofile = \"cpu\"\ncpus = \"1\"\n[[grid]]\ncpu = [\"1\"]\nload = [\"l\"]\nshield = [\"v1\"]\n",
                "behind the shield",
            ),
        ]);
        // The kernel answers an echo; the boot CPU may be shielded by who says so.
        plan("[[grid]]\nprobe = [\"ping\"]\ncpu = [\"1;any\"]\nshield = [\"v1\"]\n").unwrap();
        plan("[shield]\nallow_boot_cpu = true\n[[grid]]\ncpu = [\"0;1\"]\nshield = [\"v1\"]\n").unwrap();
    }

    #[test]
    fn knobs_by_name_and_by_text() {
        let rest = "[knobs.busy]\nsettings = [\"sysctl.net.core.busy_poll=50\", \"sysctl.net.core.busy_read=50\"]\n\
                    [[grid]]\ncpu = [\"0;1\"]\nknob = [\"none\", \"busy\", \"memory.ksm=0;memory.thp=never\"]\n";
        let cells = cells(rest);
        assert_eq!(cells.iter().map(|cell| cell.settings.len()).collect::<Vec<_>>(), [0, 2, 2]);
        assert_eq!(cells[2].settings[1].to_string(), "memory.thp=never");
        assert_eq!(cells[1].factors["knob"], "busy");
        assert_refused([
            ("[[grid]]\nknob = [\"busy\"]\n", "[knobs.busy]"),
            ("[[grid]]\nknob = [\"a=1;b\"]\n", "KEY=VALUE"),
            ("[[grid]]\nknob = [\"a=1;a=2\"]\n", "twice"),
            ("[knobs.x]\nsettings = []\n[[grid]]\nknob = [\"x\"]\n", "no setting"),
        ]);
    }

    #[test]
    fn a_plan_is_written_as_it_is_read() {
        let rest = "[shield]\ncpus = \"1\"\nnic = [\"eth1\"]\n[labels]\nos = \"x\"\n[measure]\nseconds = 0.5\ncpu = \"1\"\n\
                    allow_starving = true\n[knobs.k]\nsettings = [\"memory.ksm=0\"]\n[loads.l]\nprofile = \"cpu\"\ncpus = \"0\"\n\
                    [stacks.s.environment]\nA = \"b\"\n[[grid]]\nshield = [\"off\", \"v1\"]\nsize = [32, 64]\n\
                    [[grid]]\nprobe = [\"rr\"]\nsize = \"1-64x2\"\nknob = [\"none\", \"k\"]\n";
        let plan = plan(rest).unwrap();
        let text = plan.to_text().unwrap();
        assert_eq!(Plan::parse("again", &text).unwrap(), plan, "{text}");
    }

    #[test]
    fn busy_polling_on_a_shared_cpu_is_refused_unless_that_is_what_is_measured() {
        let rest = "cpu = [\"1\"]\nknob = [\"sysctl.net.core.busy_read=50\"]\n";
        let busy = "on CPU 1 and sysctl.net.core.busy_read=50";
        let without = rest.replace("sysctl.", "");
        assert_refused([
            (format!("[[grid]]\n{rest}"), busy),
            (format!("[[grid]]\n{without}"), "busy_read=50"),
            // A spinning end starves the other for good, so that stays refused.
            ("[measure]\nallow_starving = true\n[[grid]]\ncpu = [\"1\"]\nreceive = [\"spin\"]\n".to_owned(), "CPU 1"),
        ]);
        plan(&format!("[[grid]]\n{}", rest.replace("=50", "=0"))).unwrap();
        plan(&format!("[[grid]]\n{}", rest.replace("\"1\"", "\"0;1\""))).unwrap();
        plan(&format!("[measure]\nallow_starving = true\n[[grid]]\n{rest}")).unwrap();
    }
}
