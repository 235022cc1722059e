//! In which order the cells of a plan are measured.
//!
//! The rule: every repetition measures every cell once, and time of day must not look like an effect of an axis.
//! - Factors of the scope of a cell are interleaved: within each repetition all cells are shuffled.
//! - Cells that share the values of all costly factors ([`model::factor::Scope::is_costly`]) are a plot. Within each
//!   repetition plots are visited once, in shuffled order, and the cells of a plot are shuffled. A shield or a knob is thus
//!   changed once per plot and repetition, not for each cell.
//! - Kernels are dearer still: plots of one kernel are visited together, and kernels in shuffled order like plots. Each visit of
//!   a kernel holds `kernels.per_boot` repetitions.
//!
//! A plot is never visited twice in a row where there are others, so two visits are two changes of the setting.
//! The same plan and seed give the same order on every machine.

use model::run::RunStep;
use model::{Cell, KernelChoice, ModelError, Plan, factor};
use stats::SplitMix64;
use std::collections::BTreeMap;

/// One repetition of one cell in execution order.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCell {
    /// Place in execution order, from 1.
    pub index: u32,
    /// The cell.
    pub cell: Cell,
    /// Which repetition, from 1.
    pub repetition: u32,
}

impl PlannedCell {
    /// Which visit of its kernel it belongs to, from 1.
    #[must_use]
    pub fn visit(&self, per_boot: u32) -> u32 {
        self.repetition.div_ceil(per_boot.max(1))
    }

    /// The step as `run.json` has it.
    #[must_use]
    pub fn record(&self) -> RunStep {
        RunStep {
            index: self.index,
            cell: self.cell.key.clone(),
            repetition: self.repetition,
            factors: self.cell.factors.clone(),
        }
    }
}

/// The steps of a plan in execution order; the module's text has the rule.
///
/// # Errors
/// As [`Plan::cells`]; [`ModelError::OutOfRange`] for more steps than a run can number.
pub fn plan_order(plan: &Plan, seed: u64) -> Result<Vec<PlannedCell>, ModelError> {
    let cells = plan.cells()?;
    let steps = (cells.len() as u64).saturating_mul(u64::from(plan.repetitions));
    if steps > MAX_STEPS {
        return Err(ModelError::range("number of cells times repetitions", steps, format!("at most {MAX_STEPS}")));
    }
    let order = arrange(&cells, plan.repetitions, plan.kernels().per_boot, seed);
    let numbered = (1u32..).zip(order);
    Ok(numbered
        .map(|(index, (place, repetition))| PlannedCell { index, cell: cells[place].clone(), repetition })
        .collect())
}

/// The most steps of one run: what can be measured in eleven days at one second each.
const MAX_STEPS: u64 = 1_000_000;

/// Indices of `cells` with the repetition, in execution order.
fn arrange(cells: &[Cell], repetitions: u32, per_boot: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut rng = SplitMix64::new(seed);
    let kernels: Vec<Vec<Vec<usize>>> = kernels(cells).iter().map(|own| plots(cells, own)).collect();
    let mut order = Vec::with_capacity(cells.len() * repetitions as usize);
    let mut last = None;
    let mut last_plots = vec![None; kernels.len()];
    for first in (1..=repetitions).step_by(per_boot.max(1) as usize) {
        for kernel in visiting_order(&mut rng, kernels.len(), last) {
            last = Some(kernel);
            let (plots, last) = (&kernels[kernel], &mut last_plots[kernel]);
            for repetition in (first..=repetitions).take(per_boot.max(1) as usize) {
                for visited in visiting_order(&mut rng, plots.len(), *last) {
                    *last = Some(visited);
                    let mut plot = plots[visited].clone();
                    rng.shuffle(&mut plot);
                    order.extend(plot.into_iter().map(|cell| (cell, repetition)));
                }
            }
        }
    }
    order
}

/// Shuffled places; the one visited last does not come first again.
fn visiting_order(rng: &mut SplitMix64, count: usize, last: Option<usize>) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut places);
    if count > 1 && places.first().copied() == last {
        places.swap(0, count - 1);
    }
    places
}

/// Cells grouped by their kernel.
fn kernels(cells: &[Cell]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Option<&KernelChoice>, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        groups.entry(cell.kernel.as_ref()).or_default().push(index);
    }
    groups.into_values().collect()
}

/// Some of the cells grouped by their values of the costly factors.
fn plots(cells: &[Cell], some: &[usize]) -> Vec<Vec<usize>> {
    let is_costly = |name: &str| factor::recorded(name).is_some_and(|factor| factor.scope.is_costly());
    let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (index, cell) in some.iter().map(|&index| (index, &cells[index])) {
        // A shield of the ends' own CPUs is another one on other CPUs.
        let moves = cell.shield.as_ref().is_some_and(|shield| shield.plan.cpus.is_none());
        let values = cell
            .factors
            .iter()
            .filter(|(name, _)| is_costly(name) || (moves && ["cpu", "cpus"].contains(&name.as_str())));
        groups.entry(values.map(|(_, value)| value.to_string()).collect()).or_default().push(index);
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plan(repetitions: u32, grid: &str) -> Plan {
        let text = format!(
            "name = \"t\"\nrepetitions = {repetitions}\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\n\
             reflectors = [\"b\"]\n[stacks.fast]\nprefix = [\"env\"]\n[[grid]]\n{grid}"
        );
        Plan::parse("t", &text).unwrap()
    }

    const GRID: &str = "protocol = [\"tcp\", \"udp\"]\nload = [\"none\", \"cpu\"]\nsize = [1, 2, 3, 4]\n";

    #[test]
    fn every_repetition_has_every_cell_once() {
        let plan = plan(3, GRID);
        let steps = plan_order(&plan, 7).unwrap();
        assert_eq!(steps.len(), 48);
        assert!(steps.iter().zip(1..).all(|(step, index)| step.index == index));
        for (repetition, part) in (1..).zip(steps.chunks(16)) {
            let keys: BTreeSet<&str> = part.iter().map(|step| step.cell.key.as_str()).collect();
            assert_eq!(keys.len(), 16);
            assert!(part.iter().all(|step| step.repetition == repetition));
        }
        let in_order: Vec<String> = plan.cells().unwrap().into_iter().map(|cell| cell.key).collect();
        let first: Vec<String> = steps[..16].iter().map(|step| step.cell.key.clone()).collect();
        let second: Vec<String> = steps[16..32].iter().map(|step| step.cell.key.clone()).collect();
        assert!(first != in_order && second != first, "each repetition has its own order");
    }

    #[test]
    fn the_seed_decides() {
        let plan = plan(2, GRID);
        assert_eq!(plan_order(&plan, 1).unwrap(), plan_order(&plan, 1).unwrap());
        assert_ne!(plan_order(&plan, 1).unwrap(), plan_order(&plan, 2).unwrap());
    }

    #[test]
    fn slow_axes_are_whole_plots_in_each_repetition() {
        let plan = plan(3, &format!("{GRID}stack = [\"kernel\", \"fast\"]\n"));
        for seed in 0..50 {
            let steps = plan_order(&plan, seed).unwrap();
            let mut stacks: Vec<String> = steps.iter().map(|step| step.cell.factors["stack"].to_string()).collect();
            stacks.dedup();
            assert_eq!(stacks.len(), 6, "two plots, three visits each, never twice on end (seed {seed})");
        }
    }

    #[test]
    fn kernels_are_whole_plots_of_several_visits() {
        let kernels = "kernel = [\"kexec:/a\", \"kexec:/b\", \"kexec:/c quiet\"]\nstack = [\"kernel\", \"fast\"]\n";
        let mut plan = plan(6, &format!("{GRID}{kernels}"));
        for (per_boot, visits) in [(1, 6), (2, 3)] {
            plan.kernels = Some(model::plan::KernelsPlan { per_boot, ..Default::default() });
            assert_eq!(plan.kernel_visits(), visits);
            for seed in 0..50 {
                let steps = plan_order(&plan, seed).unwrap();
                assert_eq!(steps.len(), 3 * 2 * 16 * 6);
                let mut visited: Vec<(String, u32)> =
                    steps.iter().map(|step| (step.cell.factors["kernel"].to_string(), step.visit(per_boot))).collect();
                visited.dedup();
                assert_eq!(visited.len(), 3 * visits as usize, "each kernel is entered once a visit (seed {seed})");
                for round in visited.chunks(3) {
                    assert_eq!(round.iter().map(|(kernel, _)| kernel).collect::<BTreeSet<_>>().len(), 3, "interleaved");
                }
                assert!(visited.windows(2).all(|pair| pair[0].0 != pair[1].0), "never twice on end (seed {seed})");
                let mut stacks: Vec<(u32, String)> =
                    steps.iter().map(|step| (step.repetition, step.cell.factors["stack"].to_string())).collect();
                stacks.dedup();
                assert!(stacks.len() <= 3 * 6 * 2, "the other costly factors stay plots within a kernel");
            }
        }
        let orders: BTreeSet<String> = (0..50)
            .map(|seed| {
                plan_order(&plan, seed)
                    .unwrap()
                    .iter()
                    .step_by(64)
                    .map(|step| step.cell.factors["kernel"].to_string())
                    .collect()
            })
            .collect();
        assert!(orders.len() > 5, "{orders:?}");
    }

    /// The order of a seed is part of what a run is: it stays what it was before factors were a table.
    #[test]
    fn the_order_of_a_seed_stays() {
        let plan = plan(2, &format!("{GRID}stack = [\"kernel\", \"fast\"]\nknob = [\"none\", \"memory.ksm=0\"]\n"));
        let cells = plan.cells().unwrap();
        let order: Vec<(usize, u32)> = arrange(&cells, 2, 1, 2012);
        let digest = order.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, (cell, repetition)| {
            (sum ^ (*cell as u64 * 8 + u64::from(*repetition))).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!((order.len(), format!("{digest:016x}")), (128, "c0f75232357806d5".to_owned()));
    }
}
