//! How long cells take: what their specs say, and what measuring them really cost so far.

use crate::{PlannedCell, prepare};
use model::{Cell, ModelError, Plan, Probe};

/// Start and end of the workers of a cell, in ns, until it has been measured.
const OVERHEAD_NS: u64 = 300_000_000;
/// The same with a load that has to become steady.
const LOADED_OVERHEAD_NS: u64 = 1_500_000_000;
/// Changing a shield or a knob, until that has been done.
const PREPARE_NS: u64 = 1_000_000_000;
/// What a cell that ends by count alone is taken for, in ns.
const COUNTED_NS: u64 = 1_000_000_000;

/// How long a cell takes at most by its spec: warm-up and measuring time of each of its passes, in ns.
pub fn cell_ns(cell: &Cell) -> u64 {
    let spec = &cell.spec;
    let rate = spec.pace().and_then(|pace| pace.rates_pps.first());
    let measuring = match rate {
        _ if spec.stop.max_ms != u32::MAX => u64::from(spec.stop.max_ms) * 1_000_000,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        Some(rate) => (spec.stop.max_count as f64 / rate * 1e9) as u64,
        None if matches!(spec.probe(), Probe::Wake | Probe::Cycle) => {
            spec.stop.max_count.saturating_mul(1000 * u64::from(spec.interval_us.unwrap_or(model::wake::INTERVAL_US)))
        }
        None => COUNTED_NS,
    };
    let passes = if spec.explain.is_some() { 2 } else { 1 };
    (measuring + u64::from(spec.warmup.time_ms) * 1_000_000).saturating_mul(passes)
}

/// What a whole plan takes, in ns, before anything was measured.
///
/// # Errors
/// As [`Plan::cells`].
pub fn plan_ns(plan: &Plan) -> Result<u64, ModelError> {
    let estimate = Estimate::default();
    let steps = crate::plan_order(plan, 0)?;
    Ok(estimate.steps(&steps))
}

/// Learns the overhead of cells with and without load.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    quiet: Overhead,
    loaded: Overhead,
    prepare: Overhead,
}

#[derive(Debug, Default)]
struct Overhead {
    sum_ns: u64,
    cells: u64,
}

impl Overhead {
    fn mean(&self, guess: u64) -> u64 {
        self.sum_ns.checked_div(self.cells).unwrap_or(guess)
    }
}

impl Estimate {
    /// A cell was measured and took so long in all.
    pub(crate) fn learn(&mut self, cell: &Cell, took_ns: u64) {
        let overhead = if cell.load.is_some() { &mut self.loaded } else { &mut self.quiet };
        overhead.sum_ns = overhead.sum_ns.saturating_add(took_ns.saturating_sub(cell_ns(cell)));
        overhead.cells += 1;
    }

    /// Settings were changed and it took so long.
    pub(crate) fn learn_prepare(&mut self, took_ns: u64) {
        self.prepare.sum_ns = self.prepare.sum_ns.saturating_add(took_ns);
        self.prepare.cells += 1;
    }

    fn cell(&self, cell: &Cell) -> u64 {
        let overhead =
            if cell.load.is_some() { self.loaded.mean(LOADED_OVERHEAD_NS) } else { self.quiet.mean(OVERHEAD_NS) };
        cell_ns(cell).saturating_add(overhead)
    }

    pub(crate) fn steps(&self, steps: &[PlannedCell]) -> u64 {
        let changes = steps.windows(2).filter(|pair| prepare::differs(&pair[0].cell, &pair[1].cell)).count();
        let changing = self.prepare.mean(PREPARE_NS).saturating_mul(changes as u64);
        steps.iter().map(|step| self.cell(&step.cell)).fold(changing, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name = \"t\"\nrepetitions = 2\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = \
                    [\"b\"]\n[measure]\nseconds = 2.0\nwarmup_ms = 500\n[[grid]]\nload = [\"none\", \"cpu\"]\n";

    #[test]
    fn lengths_add_up_and_overhead_is_learnt() {
        let plan = Plan::parse("t", PLAN).unwrap();
        assert_eq!(plan_ns(&plan).unwrap(), 2 * (2 * 2_500_000_000 + OVERHEAD_NS + LOADED_OVERHEAD_NS));
        let explained = PLAN.replace("warmup_ms", "explain = true\nwarmup_ms");
        let explained = Plan::parse("t", &explained).unwrap();
        assert_eq!(plan_ns(&explained).unwrap(), plan_ns(&plan).unwrap() + 4 * 2_500_000_000, "a second pass");
        let steps = crate::plan_order(&plan, 1).unwrap();
        let quiet = steps.iter().find(|step| step.cell.load.is_none()).unwrap().clone();
        let mut estimate = Estimate::default();
        estimate.learn(&quiet.cell, 2_600_000_000);
        estimate.learn(&quiet.cell, 2_800_000_000);
        assert_eq!(estimate.steps(std::slice::from_ref(&quiet)), 2_700_000_000);
        assert_eq!(estimate.steps(&steps), 2 * 2_700_000_000 + 2 * (2_500_000_000 + LOADED_OVERHEAD_NS));
    }
}
