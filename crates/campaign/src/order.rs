//! In which order the cells of a plan are measured.
//!
//! The rule: every repetition measures every cell once, and time of day must not look like an effect of an axis.
//! - Cheap axes are interleaved: within each repetition all cells are shuffled.
//! - Cells that share the values of all slow axes are a plot. Within each repetition plots are visited once, in shuffled
//!   order, and the cells of a plot are shuffled.
//!   A shield or a knob is thus changed once a plot and repetition, not for each cell.
//! - Axes that need a boot or a person's hands make big plots. The repetitions are dealt to two visits (one when there
//!   is one repetition); each visit goes through all big plots in shuffled order and measures its share of repetitions
//!   there, by the rules above.
//!
//! A plot is never visited twice on end where there are others, so two visits are two changes of the setting.
//! The same plan and seed give the same order on every machine.

use crate::axes::{Cost, cost};
use model::run::RunStep;
use model::{Cell, ModelError, Plan};
use stats::SplitMix64;
use std::collections::BTreeMap;

/// One repetition of one cell in execution order.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Place in execution order, from 1.
    pub index: u32,
    /// The cell.
    pub cell: Cell,
    /// Which repetition, from 1.
    pub repetition: u32,
}

impl Step {
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
pub fn plan_order(plan: &Plan, seed: u64) -> Result<Vec<Step>, ModelError> {
    let cells = plan.cells()?;
    let steps = (cells.len() as u64).saturating_mul(u64::from(plan.repetitions));
    if steps > MAX_STEPS {
        return Err(ModelError::OutOfRange {
            what: "number of cells times repetitions",
            given: steps.to_string(),
            accepted: format!("at most {MAX_STEPS}"),
        });
    }
    let order = arrange(&cells, plan.repetitions, seed, cost);
    let numbered = (1u32..).zip(order);
    Ok(numbered.map(|(index, (place, repetition))| Step { index, cell: cells[place].clone(), repetition }).collect())
}

/// The most steps of one run: what can be measured in eleven days at one second each.
const MAX_STEPS: u64 = 1_000_000;

/// Places in `cells` with the repetition, in execution order.
fn arrange(cells: &[Cell], repetitions: u32, seed: u64, cost: impl Fn(&str) -> Cost) -> Vec<(usize, u32)> {
    let mut rng = SplitMix64::new(seed);
    let all: Vec<usize> = (0..cells.len()).collect();
    let big = plots(cells, &all, |axis| cost(axis) >= Cost::Reboot);
    let visits = if big.len() > 1 { repetitions.min(2) } else { 1 };
    let mut order = Vec::with_capacity(cells.len() * repetitions as usize);
    let (mut last_big, mut last_plot) = (None, None);
    for visit in 0..visits {
        // The first visits take one more where the repetitions do not divide.
        let from = share(repetitions, visits, visit) + 1;
        let to = share(repetitions, visits, visit + 1);
        for big_place in visiting_order(&mut rng, big.len(), last_big) {
            last_big = Some(big_place);
            let small = plots(cells, &big[big_place], |axis| cost(axis) == Cost::Slow);
            for repetition in from..=to {
                for place in visiting_order(&mut rng, small.len(), last_plot) {
                    last_plot = Some(place);
                    let mut plot = small[place].clone();
                    rng.shuffle(&mut plot);
                    order.extend(plot.into_iter().map(|cell| (cell, repetition)));
                }
            }
        }
    }
    order
}

/// How many of `total` are dealt to the first `so_far` of `parts`.
fn share(total: u32, parts: u32, so_far: u32) -> u32 {
    let dealt = (u64::from(total) * u64::from(so_far)).div_ceil(u64::from(parts.max(1)));
    u32::try_from(dealt).unwrap_or(total)
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

/// Cells grouped by their values of the axes that `dear` names.
fn plots(cells: &[Cell], places: &[usize], dear: impl Fn(&str) -> bool) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for &place in places {
        let cell = &cells[place];
        // A shield of the ends' own CPUs is another one on other CPUs.
        let moves = dear("shield") && cell.shield.as_ref().is_some_and(|shield| shield.plan.cpus.is_none());
        let values = cell.factors.iter().filter(|(name, _)| dear(name) || (moves && *name == "cpu"));
        groups.entry(values.map(|(_, value)| value.to_string()).collect()).or_default().push(place);
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

    /// The values of an axis in visiting order, equal neighbours drawn together.
    fn visits(cells: &[Cell], order: &[(usize, u32)], axis: &str) -> Vec<String> {
        let mut values: Vec<String> = order.iter().map(|&(place, _)| cells[place].factors[axis].to_string()).collect();
        values.dedup();
        values
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
    fn by_hand_axes_are_visited_twice() {
        for (repetitions, expected) in [(1, 2), (2, 4), (5, 4)] {
            let plan = plan(repetitions, GRID);
            let cells = plan.cells().unwrap();
            for seed in 0..50 {
                let dear = |axis: &str| if axis == "load" { Cost::ByHand } else { Cost::Cheap };
                let order = arrange(&cells, repetitions, seed, dear);
                assert_eq!(order.len(), 16 * repetitions as usize);
                let each: BTreeSet<&(usize, u32)> = order.iter().collect();
                assert_eq!(each.len(), order.len(), "every cell once a repetition");
                assert_eq!(visits(&cells, &order, "load").len(), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn slow_plots_lie_within_big_ones() {
        let plan = plan(2, GRID);
        let cells = plan.cells().unwrap();
        let dear = |axis: &str| match axis {
            "load" => Cost::Reboot,
            "protocol" => Cost::Slow,
            _ => Cost::Cheap,
        };
        let order = arrange(&cells, 2, 3, dear);
        assert_eq!(visits(&cells, &order, "load").len(), 4);
        assert_eq!(visits(&cells, &order, "protocol").len(), 8);
    }
}
