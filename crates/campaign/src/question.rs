//! Whether a plan can answer what it asks: the p of 3 repetitions against 3 is 0.1 at least, before any correction for all
//! comparisons. What cannot become significant is not worth the time.

use model::plan::{Factors, Question};
use model::{Cell, Plan};
use std::fmt;

/// A question with the cells that it compares.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionCells {
    pub question: Question,
    /// The values of its axis, the first one compared with each other one.
    pub values: Vec<String>,
    /// Places of the cells that are compared.
    pub pairs: Vec<[usize; 2]>,
    /// The fewest and the most repetitions of these cells.
    pub repetitions: [u32; 2],
}

/// What a plan tests, asked or by default; `cells` are the plan's.
pub fn asked(plan: &Plan, cells: &[Cell]) -> Vec<QuestionCells> {
    let factors: Vec<&Factors> = cells.iter().map(|cell| &cell.factors).collect();
    let of = |question: Question| {
        let (values, pairs) = (question.compared(&factors), question.pairs(&factors));
        let all = || pairs.iter().flatten().filter_map(|&place| cells.get(place)).map(|cell| cell.repetitions);
        let repetitions = [all().min().unwrap_or_default(), all().max().unwrap_or_default()];
        QuestionCells { question, values, pairs, repetitions }
    };
    plan.questions(cells).into_iter().map(of).collect()
}

/// Comparisons that can never become significant.
#[derive(Debug, Clone, PartialEq)]
pub struct Unanswerable {
    /// The fewest samples of a cell: repetitions, or of kernels visits.
    pub samples: u32,
    unit: &'static str,
    /// Comparisons of the plan: its pairs of cells, the quantities of one tested together.
    pub tests: usize,
    /// The smallest p that they can reach, corrected for all comparisons.
    pub smallest_p: f64,
    /// The repetitions that suffice.
    pub repetitions: u32,
}

/// What a plan asks and its repetitions cannot answer; `None` where they can, and where nothing is asked.
pub fn unanswerable(plan: &Plan, cells: &[Cell]) -> Option<Unanswerable> {
    let asked = asked(plan, cells);
    let tests: usize = asked.iter().map(|one| one.pairs.len()).sum();
    let needed = u32::try_from(stats::samples_needed(tests, stats::LEVEL)).unwrap_or(u32::MAX);
    let of = |one: &QuestionCells| {
        // A boot is one observation of its kernel.
        let of_kernels = one.question.is_of_kernels();
        let per_sample = if of_kernels { plan.kernels().per_boot.max(1) } else { 1 };
        let samples = one.repetitions[0] / per_sample;
        let each = usize::try_from(samples).unwrap_or(usize::MAX);
        Unanswerable {
            samples,
            unit: if of_kernels { "visit" } else { "repetition" },
            tests,
            smallest_p: (stats::smallest_p(each, each) * tests as f64).min(1.0),
            repetitions: needed.saturating_mul(per_sample),
        }
    };
    let few = asked.iter().filter(|one| !one.pairs.is_empty()).map(of).filter(|one| one.smallest_p > stats::LEVEL);
    few.max_by(|a, b| a.smallest_p.total_cmp(&b.smallest_p).then(a.repetitions.cmp(&b.repetitions)))
}

/// A percentile that is asked for, and that the plan's count of messages does not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooShort {
    quantity: String,
    /// Messages of a repetition.
    count: u64,
    /// Messages that it takes.
    needed: u64,
}

/// What a plan asks and its `count` cannot give; `None` where it can, and where time is what ends a repetition.
pub fn too_short(plan: &Plan, cells: &[Cell]) -> Option<TooShort> {
    let of = |one: QuestionCells| {
        let places = one.pairs.iter().flatten().filter_map(|&place| cells.get(place));
        let count = places.map(|cell| cell.spec.stop.max_count).min()?;
        let needed = |id: &String| Some((stats::Histogram::needed(percent_of(id)? / 100.0), id.clone()));
        let (needed, quantity) = one.question.quantity.iter().filter_map(needed).max()?;
        (count < needed).then_some(TooShort { quantity, count, needed })
    };
    asked(plan, cells).into_iter().find_map(of)
}

/// The percentage of a percentile's id: 99.9 of `p99.9` and `intended.p99.9`.
fn percent_of(id: &str) -> Option<f64> {
    let (before, percent) = id.rsplit_once('p')?;
    percent.parse().ok().filter(|_| before.is_empty() || before.ends_with('.'))
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantity, count, needed } = self;
        write!(
            f,
            "{quantity} needs {needed} messages a repetition, and count = {count}: raise count, or ask a lower percentile"
        )
    }
}

impl fmt::Display for Unanswerable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let samples = counted(usize::try_from(self.samples).unwrap_or(usize::MAX), self.unit);
        let tests = if self.tests == 1 { "one comparison".to_owned() } else { format!("{} comparisons", self.tests) };
        let Self { smallest_p, .. } = self;
        write!(
            f,
            "{samples} cannot answer the {tests} of this plan (smallest p {smallest_p:.2}, needed {})",
            stats::LEVEL
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(repetitions: u32, rest: &str) -> (Plan, Vec<Cell>) {
        let text = format!(
            "name = \"t\"\nrepetitions = {repetitions}\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\n\
             reflectors = [\"b\"]\n{rest}"
        );
        let plan = Plan::parse("t", &text).unwrap();
        let cells = plan.cells().unwrap();
        (plan, cells)
    }

    const GRID: &str = "[[grid]]\nload = [\"none\", \"cpu\"]\npolicy = [\"other\", \"fifo:1\"]\n";

    fn short(repetitions: u32, rest: &str) -> Option<Unanswerable> {
        let (plan, cells) = plan(repetitions, rest);
        unanswerable(&plan, &cells)
    }

    #[test]
    fn what_repetitions_cannot_answer_by_hand() {
        // 3 with 3: of 20 dealings 2 are the extreme ones. The quantities of a pair are tested together.
        let ask = "[[ask]]\naxis = \"load\"\nwhere = { policy = \"other\" }\n";
        let found = short(3, &format!("{ask}{GRID}")).unwrap();
        assert_eq!((found.samples, found.tests, found.repetitions), (3, 1, 4));
        assert!((found.smallest_p - 0.1).abs() < 1e-12);
        let words = "3 repetitions cannot answer the one comparison of this plan (smallest p 0.10, needed 0.05)";
        assert_eq!(found.to_string(), words);
        assert!(short(1, &format!("{ask}{GRID}")).unwrap().to_string().starts_with("1 repetition cannot answer"));
        // 2 of 70 is 0.029, of two pairs 0.057; 2 of 252 times 2 is 0.016.
        assert_eq!(short(4, &format!("{ask}{GRID}")), None);
        let both = format!("[[ask]]\naxis = \"load\"\n{GRID}");
        assert_eq!((short(4, &both).unwrap().repetitions, short(5, &both)), (5, None));
        // The corrections of two questions add up: 4 comparisons of 5 with 5 are 0.032, 8 would be 0.063.
        let twice = "[[ask]]\naxis = \"load\"\n[[ask]]\naxis = \"policy\"\n";
        assert_eq!(short(5, &format!("{twice}{GRID}")), None);
        let found = short(5, &format!("{twice}{twice}{GRID}")).unwrap();
        assert_eq!((found.tests, found.repetitions), (8, 6));
    }

    /// The plan of kernels asked for p99.9 of 1000 messages, which no repetition has, and nothing was tested.
    #[test]
    fn a_percentile_needs_its_messages() {
        let of = |count: u64, quantity: &str| {
            let measure = format!("[measure]\ncount = {count}\n");
            let ask = format!("[[ask]]\naxis = \"load\"\nquantity = [\"p50\", \"{quantity}\"]\n");
            let (plan, cells) = plan(7, &format!("{measure}{ask}{GRID}"));
            too_short(&plan, &cells).map(|found| (found.needed, found.to_string()))
        };
        let (needed, words) = of(1000, "p99.9").unwrap();
        assert!(needed == 10_000 && words.starts_with("p99.9 needs 10000 messages a repetition, and count = 1000"));
        assert_eq!((of(10_000, "p99.9"), of(1000, "p99"), of(20, "stdev")), (None, None, None));
        let (plan, cells) = plan(7, &format!("[[ask]]\naxis = \"load\"\nquantity = [\"p99.99\"]\n{GRID}"));
        assert_eq!(too_short(&plan, &cells), None, "time ends a repetition");
    }

    #[test]
    fn cells_of_few_repetitions_count_where_they_are_asked_about() {
        let sizes = "[[grid]]\nsize = [64]\nload = [\"none\", \"cpu\"]\nrepetitions = 2\n";
        let of = |filter: &str| short(7, &format!("[[ask]]\naxis = \"load\"\n{filter}\n{GRID}{sizes}"));
        assert_eq!(of("where = { size = 32 }"), None);
        let found = of("").unwrap();
        assert_eq!((found.samples, found.tests), (2, 3));
    }

    #[test]
    fn without_a_question_the_default_one_counts() {
        let found = short(3, GRID).unwrap();
        assert_eq!((found.tests, found.repetitions), (2, 5));
        assert_eq!(short(3, "[[grid]]\nprotocol = [\"udp\", \"tcp\"]\n"), None, "nothing is asked");
        let (plan, cells) = plan(5, GRID);
        let [asked] = &asked(&plan, &cells)[..] else { panic!() };
        assert_eq!((asked.question.axis.as_str(), asked.pairs.len(), asked.repetitions), ("load", 2, [5, 5]));
    }

    #[test]
    fn a_boot_is_one_sample_of_its_kernel() {
        let rest = "[kernels]\nper_boot = 3\n[[ask]]\naxis = \"kernel\"\nquantity = [\"p50\"]\n[[grid]]\n\
                    kernel = [\"kexec:/a\", \"kexec:/b\"]\n";
        let found = short(9, rest).unwrap();
        assert_eq!((found.samples, found.repetitions), (3, 12));
        assert!(found.to_string().starts_with("3 visits cannot"), "{found}");
        assert_eq!(short(12, rest), None);
    }
}
