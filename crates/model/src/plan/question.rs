//! What a plan asks: the comparisons that are tested. Everything else of a run is described.

use super::{Cell, Plan};
use crate::quantity::{self, Compared};
use crate::words::{instead, nearest};
use crate::{ModelError, Probe, factor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The factors of a cell by axis.
pub type Factors = BTreeMap<String, Value>;

/// One primary comparison: the values of an axis, each with the first of them, in the cells that `where` chooses.
///
/// ```toml
/// [[ask]]
/// axis = "load"
/// quantity = ["stdev", "p99.9"]
/// where = { protocol = "udp", policy = "other", shield = "off" }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The axis whose values are compared.
    pub axis: String,
    /// Only these values, each compared with the first (default: every value of the axis, with its baseline).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "texts")]
    #[schemars(with = "Vec<Word>")]
    pub values: Vec<String>,
    /// Ids of the quantities that are tested (docs/generated/quantities.md).
    #[serde(default = "jitter_and_tail")]
    pub quantity: Vec<String>,
    /// Values of other axes: only cells that have them take part.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "named_texts")]
    #[schemars(with = "BTreeMap<String, Word>")]
    pub filter: BTreeMap<String, String>,
}

fn jitter_and_tail() -> Vec<String> {
    ["stdev", "p99.9"].map(str::to_owned).to_vec()
}

/// A value of an axis as a plan writes it: sizes and rates are numbers.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum Word {
    Text(String),
    Whole(u64),
    Number(f64),
}

impl From<Word> for String {
    fn from(word: Word) -> Self {
        match word {
            Word::Text(text) => text,
            Word::Whole(number) => number.to_string(),
            Word::Number(number) => number.to_string(),
        }
    }
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let read = Vec::<Word>::deserialize(deserializer)?;
    Ok(read.into_iter().map(String::from).collect())
}

fn named_texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let read = BTreeMap::<String, Word>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|(name, word)| (name, word.into())).collect())
}

/// Axes of the message: cells that differ in one of them are compared only where a plan asks for it.
const OF_THE_MESSAGE: [&str; 4] = ["probe", "protocol", "size", "rate"];

/// The size that tables show, in bytes; where no cell has it, the next larger one.
const TABLE_SIZE: u64 = 32;

impl Question {
    /// The values of an axis in all cells, each with its baseline.
    pub fn of_axis(axis: &str) -> Self {
        Self { axis: axis.to_owned(), values: Vec::new(), quantity: jitter_and_tail(), filter: BTreeMap::new() }
    }

    /// The values that are compared, the first with each other one; `cells` are all of the run.
    pub fn compared(&self, cells: &[&Factors]) -> Vec<String> {
        if !self.values.is_empty() {
            return self.values.clone();
        }
        let chosen: Vec<&Factors> = cells.iter().copied().filter(|cell| self.chooses(cell)).collect();
        let mut values: Vec<String> = values(&chosen, &self.axis).into_iter().collect();
        let default = factor::recorded(&self.axis).and_then(|factor| factor.default);
        values.sort_by_cached_key(|value| (default != Some(value.as_str()), factor::rank(&self.axis, value)));
        values
    }

    /// Whether kernels are compared: a boot is one observation then, however many repetitions it has.
    pub fn is_of_kernels(&self) -> bool {
        self.axis == factor::KERNEL
    }

    /// Whether a cell has the values that `where` names.
    pub fn chooses(&self, cell: &Factors) -> bool {
        self.filter.iter().all(|(axis, wanted)| has(cell, axis, wanted))
    }

    /// The places of the cells that are compared: of each value with the first one, those that differ in nothing else.
    pub fn pairs(&self, cells: &[&Factors]) -> Vec<[usize; 2]> {
        let values = self.compared(cells);
        let Some((base, others)) = values.split_first() else { return Vec::new() };
        let of = |value: &String| {
            let all = cells.iter().enumerate().filter(|(_, cell)| self.chooses(cell) && has(cell, &self.axis, value));
            all.map(|(place, cell)| (place, *cell)).collect::<Vec<_>>()
        };
        let rest = |cell: &'_ Factors| -> BTreeMap<String, Value> {
            let mut rest = cell.clone();
            rest.remove(&self.axis);
            rest
        };
        let bases: Vec<(usize, Factors)> = of(base).into_iter().map(|(place, cell)| (place, rest(cell))).collect();
        let partner = |cell: &Factors| bases.iter().find(|(_, base)| *base == rest(cell)).map(|(place, _)| *place);
        let all = others.iter().flat_map(of).filter_map(|(place, cell)| Some([partner(cell)?, place]));
        all.collect()
    }
}

/// The values that cells have of an axis.
fn values(cells: &[&Factors], axis: &str) -> BTreeSet<String> {
    cells.iter().filter_map(|cell| cell.get(axis).map(factor::word)).collect()
}

/// Whether a cell has a value of an axis. Numbers are compared as such: `10000.0` is `10000`.
fn has(cell: &Factors, axis: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    cell.get(axis).map(factor::word).is_some_and(|own| {
        own == wanted || number(&own).zip(number(wanted)).is_some_and(|(own, wanted)| own.total_cmp(&wanted).is_eq())
    })
}

/// The question of a run that names none: the axis that a reader asks for first, its baseline with each other value, in the
/// cells of the first probe that have the size of the tables. None where the cells differ in nothing but the message.
pub fn default_question<'a>(cells: impl IntoIterator<Item = &'a Factors>) -> Vec<Question> {
    let mut cells: Vec<&Factors> = cells.into_iter().collect();
    let mut seen = BTreeSet::new();
    cells.retain(|cell| seen.insert(cell.iter().map(|(axis, value)| (axis, factor::word(value))).collect::<Vec<_>>()));
    let probes = values(&cells, "probe");
    let probe = Probe::ALL.into_iter().find(|probe| probes.contains(probe.word())).unwrap_or_default();
    let mut filter = BTreeMap::new();
    let mut choose = |axis: &str, wanted: String, cells: &mut Vec<&Factors>| {
        if values(cells, axis).len() > 1 {
            cells.retain(|cell| has(cell, axis, &wanted));
            filter.insert(axis.to_owned(), wanted);
        }
    };
    choose("probe", probe.word().to_owned(), &mut cells);
    let sizes: BTreeSet<u64> = values(&cells, "size").iter().filter_map(|size| size.parse().ok()).collect();
    if let Some(size) = sizes.range(TABLE_SIZE..).next().or(sizes.last()) {
        choose("size", size.to_string(), &mut cells);
    }
    let axes: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.keys()).collect();
    let mut axes: Vec<&String> = axes.into_iter().filter(|axis| !OF_THE_MESSAGE.contains(&axis.as_str())).collect();
    axes.sort_by_key(|axis| factor::asked_first(axis));
    let questions = axes.into_iter().map(|axis| Question {
        axis: axis.clone(),
        values: Vec::new(),
        quantity: probe.compared().iter().copied().map(str::to_owned).collect(),
        filter: filter.clone(),
    });
    questions.filter(|question| !question.pairs(&cells).is_empty()).take(1).collect()
}

impl Plan {
    /// What is tested: what the plan asks, or [`default_question`]; `cells` are the plan's.
    pub fn questions(&self, cells: &[Cell]) -> Vec<Question> {
        match self.ask.is_empty() {
            true => default_question(cells.iter().map(|cell| &cell.factors)),
            false => self.ask.clone(),
        }
    }

    /// Refuses a question that these cells cannot be asked: which one, and the key of it that is wrong.
    pub(super) fn check_questions(&self, cells: &[Cell]) -> Result<(), (usize, &'static str, ModelError)> {
        let cells: Vec<&Factors> = cells.iter().map(|cell| &cell.factors).collect();
        let mut asked = self.ask.iter().enumerate();
        asked.try_for_each(|(place, question)| question.check(&cells).map_err(|(key, error)| (place, key, error)))
    }
}

/// The key that is wrong, and why.
type Refusal = Result<(), (&'static str, ModelError)>;

fn refuse(key: &'static str, what: String, remedy: impl Into<String>) -> Refusal {
    Err((key, ModelError::conflict(what, remedy)))
}

impl Question {
    fn check(&self, cells: &[&Factors]) -> Refusal {
        self.check_quantities()?;
        let axes: BTreeSet<&str> = cells.iter().flat_map(|cell| cell.keys().map(String::as_str)).collect();
        let mut named = std::iter::once(("axis", &self.axis)).chain(self.filter.keys().map(|axis| ("where", axis)));
        if let Some((key, axis)) = named.find(|(_, axis)| !axes.contains(axis.as_str())) {
            return refuse(key, format!("no cell has the axis '{axis}'"), instead(axis, axes));
        }
        self.check_filter(cells)?;
        self.check_values(cells)?;
        self.check_pairs(cells)
    }

    fn check_quantities(&self) -> Refusal {
        let known = quantity::all().iter().filter(|one| one.compared > Compared::Never).map(|one| one.id.as_str());
        let known: BTreeSet<&str> = known.collect();
        if self.quantity.is_empty() {
            return refuse(
                "quantity",
                "a question without a quantity".to_owned(),
                "name one, such as quantity = [\"stdev\"]",
            );
        }
        let wrong = self.quantity.iter().find(|id| !known.contains(id.as_str()));
        wrong.map_or(Ok(()), |id| {
            let remedy = match nearest(id, known) {
                Some(near) => format!("did you mean {near}?"),
                None => "use an id such as p50, stdev, p99.9, loss (docs/generated/quantities.md)".to_owned(),
            };
            refuse("quantity", format!("no quantity that can be compared is called '{id}'"), remedy)
        })
    }

    fn check_filter(&self, cells: &[&Factors]) -> Refusal {
        let is_had = |axis: &str, value: &str| cells.iter().any(|cell| has(cell, axis, value));
        if let Some((axis, value)) = self.filter.iter().find(|(axis, value)| !is_had(axis, value)) {
            return refuse(
                "where",
                format!("no cell has {axis} '{value}'"),
                instead(value, words(&values(cells, axis))),
            );
        }
        if let Some(value) = self.filter.get(&self.axis) {
            let what = format!("where leaves the one value '{value}' of the axis that is compared");
            return refuse("where", what, "name the values to compare in values");
        }
        if !cells.iter().any(|cell| self.chooses(cell)) {
            return refuse(
                "where",
                format!("no cell has all that where names ({})", self.filter_words()),
                "leave one out",
            );
        }
        Ok(())
    }

    fn check_values(&self, cells: &[&Factors]) -> Refusal {
        let chosen: Vec<&Factors> = cells.iter().copied().filter(|cell| self.chooses(cell)).collect();
        let (axis, had) = (&self.axis, values(&chosen, &self.axis));
        let these = if self.filter.is_empty() { String::new() } else { format!(" with {}", self.filter_words()) };
        let is_had = |value: &&String| chosen.iter().any(|cell| has(cell, axis, value));
        if let Some(value) = self.values.iter().find(|value| !is_had(value)) {
            return refuse("values", format!("no cell{these} has {axis} '{value}'"), instead(value, words(&had)));
        }
        let mut seen = BTreeSet::new();
        if let Some(value) = self.values.iter().find(|value| !seen.insert(*value)) {
            return refuse("values", format!("values has '{value}' twice"), "name each value once");
        }
        match self.compared(cells).as_slice() {
            [] => refuse("where", format!("no cell{these} has the axis '{axis}'"), "choose other cells in where"),
            [one] => {
                let remedy = "name two in values, choose other cells in where, or compare another axis";
                let key = if self.values.is_empty() { "where" } else { "values" };
                refuse(key, format!("{axis} '{one}' is the only value to compare{}", in_cells(&these)), remedy)
            }
            _ => Ok(()),
        }
    }

    fn check_pairs(&self, cells: &[&Factors]) -> Refusal {
        let (axis, compared, pairs) = (&self.axis, self.compared(cells), self.pairs(cells));
        let is_paired = |value: &String| pairs.iter().any(|[_, other]| has(cells[*other], axis, value));
        match compared.split_first().and_then(|(base, others)| Some((base, others.iter().find(|one| !is_paired(one))?)))
        {
            Some((base, value)) => refuse(
                "values",
                format!("no two cells differ only in that one has {axis} {base} and the other {axis} '{value}'"),
                "add the missing cell, name other values, or choose other cells in where",
            ),
            None => Ok(()),
        }
    }

    /// `policy other, shield off`
    fn filter_words(&self) -> String {
        self.filter.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
    }
}

fn in_cells(these: &str) -> String {
    if these.is_empty() { String::new() } else { format!(" in cells{these}") }
}

fn words(values: &BTreeSet<String>) -> impl Iterator<Item = &str> + Clone {
    values.iter().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::{cells, plan};
    use crate::plan::{Factors, Question, default_question};
    use crate::{ModelError, Plan};

    fn chosen(rest: &str) -> Vec<(String, Vec<String>, String)> {
        let cells = cells(rest);
        let factors: Vec<&Factors> = cells.iter().map(|cell| &cell.factors).collect();
        let questions = default_question(factors.iter().copied());
        let filter = |question: &Question| format!("{:?}", question.filter);
        questions.iter().map(|one| (one.axis.clone(), one.quantity.clone(), filter(one))).collect()
    }

    #[test]
    fn the_default_question_is_what_a_reader_asks_first() {
        let grid = "[[grid]]\nprobe = [\"rr\", \"pingpong\"]\nprotocol = [\"udp\", \"tcp\"]\nsize = [1, 64, 32, 1024]\n\
                    policy = [\"other\", \"fifo:1\"]\n";
        let found = chosen(&format!("{grid}load = [\"build\", \"none\"]\n"));
        let quantities = ["stdev", "p99.9"].map(str::to_owned).to_vec();
        let filter = r#"{"probe": "pingpong", "size": "32"}"#.to_owned();
        assert_eq!(found, [("load".to_owned(), quantities.clone(), filter.clone())]);
        assert_eq!(chosen(grid), [("policy".to_owned(), quantities, filter)], "a message is no question");
        assert_eq!(chosen("[[grid]]\nsize = [1, 2]\nprotocol = [\"udp\", \"tcp\"]\n"), []);
        let pace = chosen("[[grid]]\nprobe = [\"pace\"]\nrate = [1000, 2000]\npolicy = [\"other\", \"fifo:1\"]\n");
        let quantities = ["p99.9", "intended.p99.9"].map(str::to_owned).to_vec();
        assert_eq!(pace, [("policy".to_owned(), quantities, "{}".to_owned())]);
    }

    /// The axis that comes first has no two cells that differ in it alone.
    #[test]
    fn an_axis_without_a_pair_is_no_question() {
        let found = chosen(
            "[[grid]]\nload = [\"none\"]\npolicy = [\"fifo:1\"]\n\
             [[grid]]\nload = [\"build\"]\npolicy = [\"other\", \"fifo:2\"]\n",
        );
        assert_eq!(found.iter().map(|(axis, ..)| axis.as_str()).collect::<Vec<_>>(), ["policy"]);
    }

    #[test]
    fn each_value_is_paired_with_the_baseline_in_cells_alike() {
        let plan = plan(
            "[[ask]]\naxis = \"load\"\nwhere = { size = \"32\" }\n\
             [[grid]]\nsize = [32, 64]\nload = [\"cpu\", \"none\", \"build\"]\npolicy = [\"other\", \"fifo:1\"]\n",
        )
        .unwrap();
        let cells = plan.cells().unwrap();
        let factors: Vec<&Factors> = cells.iter().map(|cell| &cell.factors).collect();
        let questions = plan.questions(&cells);
        let [question] = questions.as_slice() else { panic!("{questions:?}") };
        assert_eq!(question.compared(&factors)[0], "none");
        let pairs = question.pairs(&factors);
        assert_eq!(pairs.len(), 4, "two loads, two policies: {pairs:?}");
        for [base, other] in pairs {
            let (base, other) = (factors[base], factors[other]);
            assert!(base["load"] == "none" && other["load"] != "none" && base["size"] == 32);
            assert_eq!((&base["policy"], &base["size"]), (&other["policy"], &other["size"]));
        }
    }

    const GRIDS: &str = "[[grid]]\nload = [\"none\", \"build\"]\npolicy = [\"other\", \"fifo:1\"]\nsize = [32, 64]\n\
                         [[grid]]\nload = [\"cpu\"]\npolicy = [\"fifo:2\"]\n";

    fn asked(ask: &str) -> Result<Plan, ModelError> {
        plan(&format!("[[ask]]\n{ask}\n{GRIDS}"))
    }

    /// Each is refused at its line, by one line that says what to write instead.
    #[test]
    fn a_question_that_cannot_be_asked() {
        for (ask, place, words) in [
            ("axis = \"lod\"", "ask.axis = \"lod\"", "no cell has the axis 'lod': did you mean load?"),
            ("axis = \"colour\"", "ask.axis", "use cpu, load, policy, "),
            (
                "axis = \"load\"\nwhere = { polcy = \"other\" }",
                "ask",
                "no cell has the axis 'polcy': did you mean policy?",
            ),
            ("axis = \"load\"\nvalues = [\"none\", \"buld\"]", "\"buld\"", "has load 'buld': did you mean build?"),
            ("axis = \"load\"\nvalues = [\"none\", \"none\"]", "ask.values", "values has 'none' twice"),
            (
                "axis = \"load\"\nvalues = [\"build\"]",
                "ask.values",
                "load 'build' is the only value to compare: name two",
            ),
            (
                "axis = \"load\"\nwhere = { policy = \"fifo:2\" }",
                "ask.where",
                "load 'cpu' is the only value to compare in cells with policy fifo:2: name two",
            ),
            (
                "axis = \"load\"\nwhere = { policy = \"fifo:3\" }",
                "ask.where.policy = \"fifo:3\"",
                "no cell has policy 'fifo:3': did you mean fifo:1?",
            ),
            ("axis = \"load\"\nwhere = { size = 99 }", "ask.where.size = 99", "no cell has size '99': use 32 or 64"),
            (
                "axis = \"load\"\nwhere = { size = 64, policy = \"fifo:2\" }",
                "ask.where",
                "no cell has all that where names (policy fifo:2, size 64): leave one out",
            ),
            ("axis = \"load\"\nwhere = { load = \"none\" }", "ask.where.load", "where leaves the one value 'none'"),
            ("axis = \"load\"", "ask", "no two cells differ only in that one has load none and the other load 'cpu'"),
            ("axis = \"load\"\nquantity = []", "ask.quantity", "without a quantity"),
            ("axis = \"load\"\nquantity = [\"p99.8\"]", "p99.8", "'p99.8': did you mean p99.9?"),
            (
                "axis = \"load\"\nquantity = [\"passes\"]",
                "passes",
                "no quantity that can be compared is called 'passes'",
            ),
            ("where = { size = 32 }", "ask", "the key axis is missing: write axis = "),
            ("axis = \"load\"\ncolour = 1", "ask.colour", "unknown key: use axis, quantity, values, where"),
        ] {
            let error = asked(ask).unwrap_err().to_string();
            let at = |text: &str| error.find(text).unwrap_or_else(|| panic!("{ask}: {text} is missing: {error}"));
            assert!(at("line ") < at(place) && at(words) > 0 && !error.contains('\n'), "{ask}: {error}");
        }
        for ask in [
            "axis = \"load\"\nvalues = [\"none\", \"build\"]",
            "axis = \"policy\"\nvalues = [\"fifo:1\", \"other\"]\nquantity = [\"p50\", \"loss\"]\nwhere = { size = 64, load = \"none\" }",
            "axis = \"size\"\nvalues = [32, 64]\nwhere = { load = \"none\" }",
        ] {
            let plan = asked(ask).unwrap();
            assert_eq!(Plan::parse("t", &plan.to_text().unwrap()).unwrap(), plan, "a plan is written as it was read");
        }
    }
}
