//! In which order the cells of a plan are measured.
//!
//! The rule: every repetition measures every cell once, and time of day must not look like an effect of an axis.
//! - Factors of the scope of a cell are interleaved: within each repetition all cells are shuffled.
//! - Cells that share the values of all costly factors ([`model::factor::Scope::is_costly`]) are a plot. Within each
//!   repetition plots are visited once, in shuffled order, and the cells of a plot are shuffled. A shield or a knob is thus
//!   changed once per plot and repetition, not for each cell.
//!
//! A plot is never visited twice in a row where there are others, so two visits are two changes of the setting.
//! The same plan and seed give the same order on every machine.

use model::run::RunStep;
use model::{Cell, ModelError, Plan, factor};
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
    let order = arrange(&cells, plan.repetitions, seed);
    let numbered = (1u32..).zip(order);
    Ok(numbered
        .map(|(index, (place, repetition))| PlannedCell { index, cell: cells[place].clone(), repetition })
        .collect())
}

/// The most steps of one run: what can be measured in eleven days at one second each.
const MAX_STEPS: u64 = 1_000_000;

/// Indices of `cells` with the repetition, in execution order.
fn arrange(cells: &[Cell], repetitions: u32, seed: u64) -> Vec<(usize, u32)> {
    let mut rng = SplitMix64::new(seed);
    let plots = plots(cells);
    let mut order = Vec::with_capacity(cells.len() * repetitions as usize);
    let mut last = None;
    for repetition in 1..=repetitions {
        for visited in visiting_order(&mut rng, plots.len(), last) {
            last = Some(visited);
            let mut plot = plots[visited].clone();
            rng.shuffle(&mut plot);
            order.extend(plot.into_iter().map(|cell| (cell, repetition)));
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

/// Cells grouped by their values of the costly factors.
fn plots(cells: &[Cell]) -> Vec<Vec<usize>> {
    let is_costly = |name: &str| factor::recorded(name).is_some_and(|factor| factor.scope.is_costly());
    let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        // A shield of the ends' own CPUs is another one on other CPUs.
        let moves = cell.shield.as_ref().is_some_and(|shield| shield.plan.cpus.is_none());
        let values = cell.factors.iter().filter(|(name, _)| is_costly(name) || (moves && *name == "cpu"));
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

    /// The order of a seed is part of what a run is: it stays what it was before factors were a table.
    #[test]
    fn the_order_of_a_seed_stays() {
        let plan = plan(2, &format!("{GRID}stack = [\"kernel\", \"fast\"]\nknob = [\"none\", \"memory.ksm=0\"]\n"));
        let cells = plan.cells().unwrap();
        let order: Vec<(usize, u32)> = arrange(&cells, 2, 2012);
        let digest = order.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, (cell, repetition)| {
            (sum ^ (*cell as u64 * 8 + u64::from(*repetition))).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!((order.len(), format!("{digest:016x}")), (128, "c0f75232357806d5".to_owned()));
    }
}
