//! Kernels of a plan: which a cell is measured on, and how hosts come to them.

use super::{LabKind, Plan};
use crate::{Cell, KernelChoice, KernelDriver, ModelError, factor};
use std::collections::BTreeSet;

/// How hosts come to the kernels of the axis `kernel`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KernelsPlan {
    /// How long a boot may take, in seconds: until then a lost host counts as one that boots.
    pub boot_seconds: u32,
    /// How often a kernel is tried at each visit before its cells are marked "could not boot".
    pub attempts: u32,
    /// How often each cell is measured at each visit of its kernel; `repetitions` is a multiple of it. More than 1 shows
    /// the spread within a boot.
    pub per_boot: u32,
    /// The hosts whose machines change their kernel (default: all).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl Default for KernelsPlan {
    fn default() -> Self {
        Self { boot_seconds: 300, attempts: 3, per_boot: 1, hosts: Vec::new() }
    }
}

/// Fewer visits of each kernel say nothing of the spread between boots.
const FEWEST_VISITS: u32 = 3;

impl Plan {
    /// How hosts come to kernels.
    pub fn kernels(&self) -> KernelsPlan {
        self.kernels.clone().unwrap_or_default()
    }

    /// The kernel of a value of the axis; none of a plan that names none.
    pub(super) fn cell_kernel(&self, word: &str) -> Result<Option<KernelChoice>, ModelError> {
        self.names(factor::KERNEL).then(|| word.parse()).transpose()
    }

    /// How often each kernel is visited by these cells of it.
    pub fn kernel_visits(&self, cells: &[Cell]) -> u32 {
        let rounds = cells.iter().map(|cell| cell.repetitions).max().unwrap_or_default();
        rounds.div_ceil(self.kernels().per_boot.max(1))
    }

    /// What is wrong with the visits of a plan of several kernels, which may be measured all the same: one line.
    pub fn too_few_visits(&self, cells: &[Cell]) -> Option<String> {
        let kernels: BTreeSet<&KernelChoice> = cells.iter().filter_map(|cell| cell.kernel.as_ref()).collect();
        let (visits, per_boot) = (self.kernel_visits(cells), self.kernels().per_boot);
        (kernels.len() > 1 && visits < FEWEST_VISITS).then(|| {
            let least = FEWEST_VISITS.saturating_mul(per_boot);
            format!(
                "each kernel is visited {visits} times: a boot is one observation, and page placement changes from boot to boot; set \
                 repetitions to {least} or more"
            )
        })
    }

    pub(super) fn check_kernels(&self, cells: &[Cell]) -> Result<(), ModelError> {
        let conflict = |what: String, remedy: String| Err(ModelError::conflict(what, remedy));
        let plan = self.kernels();
        if self.kernels.is_some() && !self.names(factor::KERNEL) {
            return conflict("[kernels] says how hosts come to kernels, and the plan names none".to_owned(), {
                "add kernel = [\"current\"] to [[grid]], or leave it out".to_owned()
            });
        }
        for (name, given) in
            [("boot_seconds", plan.boot_seconds), ("attempts", plan.attempts), ("per_boot", plan.per_boot)]
        {
            if given == 0 {
                return conflict(format!("kernels.{name} = 0"), "use 1 or more".to_owned());
            }
        }
        let uneven = |cell: &&Cell| !cell.repetitions.is_multiple_of(plan.per_boot);
        if let Some(repetitions) = cells.iter().find(uneven).map(|cell| cell.repetitions) {
            let what = format!("repetitions = {repetitions} is no multiple of kernels.per_boot = {}", plan.per_boot);
            let next = repetitions.div_ceil(plan.per_boot).saturating_mul(plan.per_boot);
            return conflict(what, format!("set repetitions to {next}"));
        }
        let known = self.host_names();
        if let Some(host) = plan.hosts.iter().find(|host| !known.contains(host)) {
            return conflict(
                format!("kernels.hosts: host '{host}' is not known"),
                format!("use one of: {}", known.join(", ")),
            );
        }
        let guests = self.lab.as_ref().is_some_and(|lab| lab.kind == LabKind::Guest);
        for kernel in cells.iter().filter_map(|cell| cell.kernel.as_ref()) {
            match (guests, kernel.driver == KernelDriver::Guest) {
                (false, true) => {
                    let remedy =
                        "set [lab] kind = \"guest\" (guests and other hosts are measured in plans of their own)";
                    return conflict(
                        format!("kernel '{kernel}' is a guest's, and the hosts are none"),
                        remedy.to_owned(),
                    );
                }
                (true, false) => {
                    let remedy = "use guest:NAME or guest:PATH, or another [lab]";
                    return conflict(format!("kernel '{kernel}' is none of a guest lab"), remedy.to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Plan;
    use crate::plan::tests::{assert_refused, cells, plan};

    #[test]
    fn a_plan_that_names_no_kernel_has_none() {
        let plain = cells("[[grid]]\n");
        assert!(plain[0].kernel.is_none() && !plain[0].key.contains("kernel="), "{}", plain[0].key);
        let axis = "[[grid]]\nkernel = [\"current\", \"kexec:/boot/vmlinuz-6.1 threadirqs\"]\n";
        let named = cells(axis);
        let kernels: Vec<String> = named.iter().map(|cell| cell.kernel.as_ref().unwrap().to_string()).collect();
        assert_eq!(kernels, ["current", "kexec:/boot/vmlinuz-6.1 threadirqs"]);
        assert_eq!(named[1].factors["kernel"], "kexec:/boot/vmlinuz-6.1 threadirqs");
        let shared = cells("[measure]\nkernel = \"current\"\n[[grid]]\n");
        assert_eq!(shared[0].factors["kernel"], "current");
    }

    #[test]
    fn a_preemption_model_is_a_setting() {
        let cells = cells("[[grid]]\nkernel = [\"preempt:full\", \"current\"]\nknob = [\"memory.ksm=0\"]\n");
        let settings: Vec<String> = cells
            .iter()
            .map(|cell| cell.settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(settings, ["sched.preempt=full memory.ksm=0", "memory.ksm=0"]);
        assert_refused([("[[grid]]\nkernel = [\"preempt:full\"]\nknob = [\"sched.preempt=none\"]\n", "twice")]);
    }

    #[test]
    fn what_kernels_need() {
        let grid = "[[grid]]\nkernel = [\"current\", \"preempt:full\"]\n";
        assert_refused([
            ("[kernels]\nattempts = 2\n[[grid]]\n".to_owned(), "names none"),
            (format!("[kernels]\nattempts = 0\n{grid}"), "use 1 or more"),
            (format!("[kernels]\nper_boot = 2\n{grid}"), "set repetitions to 4"),
            (format!("[kernels]\nhosts = [\"z\"]\n{grid}"), "'z' is not known"),
            (format!("[kernels]\nboots = 3\n{grid}"), "boots"),
            ("[[grid]]\nkernel = [\"guest:debian-6.1\"]\n".to_owned(), "[lab] kind = \"guest\""),
            ("[[grid]]\nkernel = [\"preempt:rt\"]\n".to_owned(), "preempt:none, voluntary, full or lazy"),
        ]);
        let of_guests = |kernels: &str| {
            let text = format!(
                "name = \"t\"\n[lab]\nkind = \"guest\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[[grid]]\nkernel = {kernels}\n"
            );
            Plan::parse("t", &text)
        };
        of_guests("[\"guest:debian-6.1\", \"guest:debian-6.1-rt threadirqs\"]").unwrap();
        let mixed = of_guests("[\"guest:debian-6.1\", \"current\"]").unwrap_err().to_string();
        assert!(mixed.contains("'current' is none of a guest lab"), "{mixed}");
        let many = plan(&format!("[kernels]\nper_boot = 3\n{grid}")).unwrap();
        let warning = many.too_few_visits(&many.cells().unwrap()).unwrap();
        assert!(warning.contains("1 times") && warning.contains("repetitions to 9"), "{warning}");
        let enough = plan(grid).unwrap();
        assert_eq!(enough.too_few_visits(&enough.cells().unwrap()), None);
    }
}
