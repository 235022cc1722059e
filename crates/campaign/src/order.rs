//! In which order the cells of a plan are measured.
//!
//! The rule: a run is rounds, a round measures a cell once, and time of day must not look like an effect of an axis.
//! - There are as many rounds as the most repetitions of a cell. Cells of fewer repetitions are measured in rounds spread
//!   evenly over the run, the same ones for all cells of as many repetitions (2 of 7: the rounds 2 and 6).
//! - Factors of the scope of a cell are interleaved: within each round all cells are shuffled.
//! - Cells that share the values of all costly factors ([`model::factor::Scope::is_costly`]) are a plot. Each round visits
//!   plots once, in shuffled order, and shuffles their cells: a shield or a knob is changed once per plot and round.
//! - Plots of one kernel are visited together, and kernels in shuffled order like plots. Each visit of a kernel holds
//!   `kernels.per_boot` rounds.
//!
//! A plot is never visited twice in a row where there are others. The order of plots is drawn anew at each visit of a kernel,
//! or a difference between first and second of two plots would look like one between kernels. Plan and seed give the order.

use model::run::RunStep;
use model::{Cell, KernelChoice, ModelError, Plan, factor};
use stats::SplitMix64;
use std::collections::BTreeMap;

/// One repetition of one cell in execution order.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCell {
    /// Place in execution order, from 1.
    pub index: u32,
    pub cell: Cell,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// Which visit of its kernel it belongs to, from 1.
    pub visit: u32,
}

impl PlannedCell {
    /// The step as `run.json` has it.
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
    let steps: u64 = cells.iter().map(|cell| u64::from(cell.repetitions)).sum();
    if steps > MAX_STEPS {
        return Err(ModelError::range("number of cells times repetitions", steps, format!("at most {MAX_STEPS}")));
    }
    let order = arrange(&cells, plan.kernels().per_boot, seed);
    let numbered = (1u32..).zip(order);
    Ok(numbered
        .map(|(index, (place, repetition, visit))| PlannedCell { index, cell: cells[place].clone(), repetition, visit })
        .collect())
}

/// Which visit of its kernel each step of a run belongs to, by the step's index.
pub(crate) fn visits(order: &[RunStep], per_boot: u32) -> BTreeMap<u32, u32> {
    let mut repetitions: BTreeMap<&str, u32> = BTreeMap::new();
    order.iter().for_each(|step| *repetitions.entry(&step.cell).or_default() += 1);
    let all = repetitions.values().max().copied().unwrap_or_default().div_ceil(per_boot.max(1));
    let visit = |step: &RunStep| {
        let own = repetitions.get(step.cell.as_str()).copied().unwrap_or_default().div_ceil(per_boot.max(1));
        round_of(step.repetition.div_ceil(per_boot.max(1)), own, all)
    };
    order.iter().map(|step| (step.index, visit(step))).collect()
}

/// In which of `all` rounds a cell of `own` rounds has its `nth` one, all from 1: in the middle of its share of the run.
fn round_of(nth: u32, own: u32, all: u32) -> u32 {
    let place = (2 * u64::from(nth.max(1)) - 1) * u64::from(all) / (2 * u64::from(own.max(1)));
    u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1)
}

/// Which of its `own` rounds a cell has in a round of `all`, if any.
fn nth_in(round: u32, own: u32, all: u32) -> Option<u32> {
    // The largest number below own * round / all + 1/2 is the only one that can be.
    let all_twice = 2 * u64::from(all.max(1));
    let nth = (2 * u64::from(own) * u64::from(round) + u64::from(all)).div_ceil(all_twice).saturating_sub(1);
    u32::try_from(nth).ok().filter(|nth| (1..=own).contains(nth) && round_of(*nth, own, all) == round)
}

/// The most steps of one run: what can be measured in eleven days at one second each.
const MAX_STEPS: u64 = 1_000_000;

/// Indices of `cells` with the repetition and the visit of the kernel, in execution order.
fn arrange(cells: &[Cell], per_boot: u32, seed: u64) -> Vec<(usize, u32, u32)> {
    let per_boot = per_boot.max(1);
    let mut rng = SplitMix64::new(seed);
    let kernels: Vec<Vec<Vec<usize>>> = kernels(cells).iter().map(|own| plots(cells, own)).collect();
    let rounds = cells.iter().map(|cell| cell.repetitions).max().unwrap_or_default();
    let visits = rounds.div_ceil(per_boot);
    // The repetition that a cell has in a round of a visit.
    let repetition = |cell: usize, visit: u32, round: u32| {
        let own = cells[cell].repetitions;
        let nth = nth_in(visit, own.div_ceil(per_boot), visits)?;
        Some((nth - 1) * per_boot + round).filter(|repetition| *repetition <= own)
    };
    let mut order = Vec::new();
    let mut last = None;
    let mut last_plot = None;
    for visit in 1..=visits {
        let own = |plot: &[usize], round| {
            let cells = plot.iter().filter_map(|&cell| Some((cell, repetition(cell, visit, round)?, visit)));
            cells.collect::<Vec<_>>()
        };
        let visited = |kernel: usize| kernels[kernel].iter().any(|plot| !own(plot, 1).is_empty());
        for kernel in visiting_order(&mut rng, (0..kernels.len()).filter(|&kernel| visited(kernel)), last) {
            last = Some(kernel);
            if kernels.len() > 1 {
                last_plot = None;
            }
            for round in 1..=per_boot {
                let mut plots: Vec<_> = kernels[kernel].iter().map(|plot| own(plot, round)).collect();
                let measured = (0..plots.len()).filter(|&plot| !plots[plot].is_empty());
                for plot in visiting_order(&mut rng, measured, last_plot) {
                    last_plot = Some(plot);
                    rng.shuffle(&mut plots[plot]);
                    order.append(&mut plots[plot]);
                }
            }
        }
    }
    order
}

/// Shuffled places; the one visited last does not come first again.
fn visiting_order(rng: &mut SplitMix64, places: impl Iterator<Item = usize>, last: Option<usize>) -> Vec<usize> {
    let mut places: Vec<usize> = places.collect();
    rng.shuffle(&mut places);
    if places.len() > 1 && places.first().copied() == last {
        let end = places.len() - 1;
        places.swap(0, end);
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
    fn rounds_of_fewer_repetitions_are_spread_evenly() {
        assert_eq!((1..=2).map(|nth| round_of(nth, 2, 7)).collect::<Vec<_>>(), [2, 6]);
        assert_eq!(round_of(1, 1, 7), 4);
        for all in 1..=24 {
            for own in 1..=all {
                let rounds: Vec<u32> = (1..=own).map(|nth| round_of(nth, own, all)).collect();
                assert!(rounds.windows(2).all(|pair| pair[0] < pair[1]) && rounds.iter().all(|round| *round <= all));
                let found: Vec<u32> = (1..=all).filter(|round| nth_in(*round, own, all).is_some()).collect();
                assert_eq!(found, rounds, "{own} of {all}");
            }
        }
    }

    /// Catches: the few measured first, last or anywhere; cells that are compared in different rounds; more changes of a shield
    /// or a stack because of them.
    #[test]
    fn cells_of_two_repetitions_among_cells_of_seven() {
        let few =
            "[[grid]]\nrepetitions = 2\nload = [\"none\", \"cpu\"]\nsize = [8, 9]\nstack = [\"kernel\", \"fast\"]\n";
        let plan = plan(7, &format!("load = [\"none\", \"cpu\"]\nsize = [1]\nstack = [\"kernel\", \"fast\"]\n{few}"));
        for seed in 0..50 {
            let steps = plan_order(&plan, seed).unwrap();
            let mut places = steps.iter();
            for (round, count) in (1_u32..).zip([4, 12, 4, 4, 4, 12, 4]) {
                let measured: Vec<&PlannedCell> = places.by_ref().take(count).collect();
                let keys: BTreeSet<&str> = measured.iter().map(|step| step.cell.key.as_str()).collect();
                assert_eq!(keys.len(), count, "round {round} has each of its cells once (seed {seed})");
                let expected = |step: &&PlannedCell| if step.cell.repetitions == 7 { round } else { round.div_ceil(4) };
                assert!(measured.iter().all(|step| step.repetition == expected(step)), "round {round} (seed {seed})");
            }
            assert_eq!((places.next(), steps.len()), (None, 4 * 7 + 8 * 2));
            let mut stacks: Vec<String> = steps.iter().map(|step| step.cell.factors["stack"].to_string()).collect();
            stacks.dedup();
            assert_eq!(stacks.len(), 2 * 7, "no further change (seed {seed})");
        }
    }

    /// A kernel is booted where a cell of it is measured, and a resumed run knows which boot that was.
    #[test]
    fn a_step_says_its_visit_and_a_stored_run_the_same() {
        let kernels = "kernel = [\"kexec:/a\", \"kexec:/b\"]\nsize = [1, 2]\n[[grid]]\nrepetitions = 4\n\
                       kernel = [\"kexec:/b\", \"kexec:/c\"]\nsize = [3]\n";
        let mut plan = plan(12, kernels);
        plan.kernels = Some(model::plan::KernelsPlan { per_boot: 2, ..Default::default() });
        plan.check().unwrap();
        for seed in 0..20 {
            let steps = plan_order(&plan, seed).unwrap();
            let record: Vec<RunStep> = steps.iter().map(PlannedCell::record).collect();
            let stored = visits(&record, 2);
            assert!(steps.iter().all(|step| stored[&step.index] == step.visit), "seed {seed}");
            let mut visited: Vec<(String, u32)> =
                steps.iter().map(|step| (step.cell.factors["kernel"].to_string(), step.visit)).collect();
            visited.dedup();
            assert_eq!(visited.len(), 6 + 6 + 2, "each kernel is entered once a visit (seed {seed})");
            let of = |kernel: &str| {
                let own = visited.iter().filter(|(own, _)| own.contains(kernel));
                own.map(|(_, visit)| *visit).collect::<Vec<_>>()
            };
            assert_eq!((of("/b"), of("/c")), ((1..=6).collect(), vec![2, 5]), "seed {seed}");
        }
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
            assert_eq!(plan.kernel_visits(&plan.cells().unwrap()), visits);
            for seed in 0..50 {
                let steps = plan_order(&plan, seed).unwrap();
                assert_eq!(steps.len(), 3 * 2 * 16 * 6);
                let mut visited: Vec<(String, u32)> =
                    steps.iter().map(|step| (step.cell.factors["kernel"].to_string(), step.visit)).collect();
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

    /// Catches: a kernel in whose boots one of two plots is always the first.
    #[test]
    fn each_boot_draws_the_order_of_its_plots() {
        let plan = plan(20, "kernel = [\"kexec:/a\", \"kexec:/b\"]\nstack = [\"kernel\", \"fast\"]\n");
        let order = plan_order(&plan, 7).unwrap();
        let mut first: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for boot in order.chunks(2) {
            let value = |name: &str| factor::word(&boot[0].cell.factors[name]);
            assert_eq!(boot[0].cell.kernel, boot[1].cell.kernel);
            first.entry(value("kernel")).or_default().insert(value("stack"));
        }
        assert!(first.len() == 2 && first.values().all(|stacks| stacks.len() == 2), "{first:?}");
    }

    /// The order of a seed is part of what a run is: it stays what it was before factors were a table.
    #[test]
    fn the_order_of_a_seed_stays() {
        let plan = plan(2, &format!("{GRID}stack = [\"kernel\", \"fast\"]\nknob = [\"none\", \"memory.ksm=0\"]\n"));
        let cells = plan.cells().unwrap();
        let order = arrange(&cells, 1, 2012);
        let digest = order.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, (cell, repetition, _)| {
            (sum ^ (*cell as u64 * 8 + u64::from(*repetition))).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!((order.len(), format!("{digest:016x}")), (128, "c0f75232357806d5".to_owned()));
    }
}
