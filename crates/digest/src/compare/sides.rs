//! Which cells are on the two sides, and which belong together: those that agree in every factor that both sides share. What
//! has one value on each side is compared. Probe, protocol, size and rate are mixed only where both sides name them.

use super::{CompareError, Sample};
use crate::cells::{self, Key};
use crate::names::{axis_title, label_word, rank, rate_word, varying};
use crate::text::{counted, list, plain, size};
use crate::{RunInput, boots};
use model::{CellBoot, Probe, ResultDocument, Substrate, source};
use std::collections::{BTreeMap, BTreeSet};

/// Factors that must agree, whatever the sides are: those of the message.
pub const KEPT: [&str; 4] = ["probe", "protocol", "size", "rate"];

/// The factor whose observations are boots.
const KERNEL: &str = "kernel";

/// What a filter says: a factor and the value that is wanted.
pub type Where = (String, String);

/// One cell of a side, its factors as words, those of the message among them.
#[derive(Debug, Clone)]
pub(super) struct SideCell<'a> {
    pub(super) factors: BTreeMap<String, String>,
    /// Its repetitions, an entry a run of the side; empty where a run lacks the cell.
    pub(super) runs: Vec<Vec<&'a ResultDocument>>,
}

impl<'a> SideCell<'a> {
    pub(super) fn results(&self) -> Vec<&'a ResultDocument> {
        self.runs.iter().flatten().copied().collect()
    }
}

/// One side: at least one run.
#[derive(Debug, Clone)]
pub(super) struct Cells<'a> {
    pub(super) runs: &'a [RunInput],
    /// The first of them, by which the side is named.
    pub(super) run: &'a RunInput,
    pub(super) substrate: Substrate,
    pub(super) cells: Vec<SideCell<'a>>,
}

impl Cells<'_> {
    /// The runs in words: all of two, of more the first and the last.
    pub(super) fn name(&self) -> String {
        match self.runs {
            [first, .., last] if self.runs.len() > 2 => {
                format!("{} runs ({} to {})", self.runs.len(), plain(&first.name), plain(&last.name))
            }
            runs => list(&runs.iter().map(|run| plain(&run.name)).collect::<Vec<_>>()),
        }
    }
}

/// All cells of some runs, those with the same factors together; `None` of no run.
pub(super) fn of_runs(runs: &[RunInput]) -> Option<Cells<'_>> {
    let first = runs.first()?;
    let mut found: Vec<SideCell<'_>> = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        for (key, members) in cells::group(run) {
            let factors = factors(key);
            let at = found.iter().position(|cell| cell.factors == factors).unwrap_or_else(|| {
                found.push(SideCell { factors, runs: vec![Vec::new(); runs.len()] });
                found.len() - 1
            });
            if let Some(own) = found.get_mut(at).and_then(|cell| cell.runs.get_mut(place)) {
                own.extend(members.into_iter().filter_map(|member| run.results.get(member)));
            }
        }
    }
    Some(Cells { runs, run: first, substrate: first.document.substrate, cells: found })
}

/// The factors of all cells, each with the words by which its values can be asked for.
pub fn known_factors(runs: &[RunInput]) -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (factor, value) in of_runs(runs).iter().flat_map(|cells| &cells.cells).flat_map(|cell| &cell.factors) {
        known.entry(factor.clone()).or_default().extend(cells::askable(value).map(str::to_owned));
    }
    known
}

fn factors(key: Key) -> BTreeMap<String, String> {
    let mut factors = key.factors;
    factors.insert("probe".to_owned(), key.probe.word().to_owned());
    factors.insert("protocol".to_owned(), key.protocol);
    factors.insert("size".to_owned(), key.size.to_string());
    if let Some(rate) = factors.get_mut("rate") {
        *rate = word(rate);
    }
    factors
}

/// The same number however it was written: `10000.0` and `1e4` are `10000`.
fn word(value: &str) -> String {
    value
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
        .map_or_else(|| value.to_owned(), |number| number.to_string())
}

impl<'a> Cells<'a> {
    pub(super) fn filtered(&self, wanted: &[Where]) -> Result<Self, CompareError> {
        let mut left = self.clone();
        for (factor, value) in wanted {
            let known = left.values(factor);
            left.cells.retain(|cell| cell.factors.get(factor).is_some_and(|own| cells::is_asked(own, value)));
            if left.cells.is_empty() {
                let known: BTreeSet<&str> = known.iter().flat_map(|own| cells::askable(own)).collect();
                return Err(match known.is_empty() {
                    true => self.unknown(factor),
                    false => CompareError::Value {
                        factor: factor.clone(),
                        value: value.clone(),
                        run: plain(&self.run.name),
                        known: known.into_iter().collect::<Vec<_>>().join(", "),
                    },
                });
            }
        }
        Ok(left)
    }

    pub(super) fn unknown(&self, factor: &str) -> CompareError {
        let known = self.factors().into_iter().collect::<Vec<_>>().join(", ");
        CompareError::Factor { factor: factor.to_owned(), run: plain(&self.run.name), known }
    }

    pub(super) fn values(&self, factor: &str) -> BTreeSet<String> {
        self.cells.iter().filter_map(|cell| cell.factors.get(factor).cloned()).collect()
    }

    /// The same, the baseline first.
    pub(super) fn ranked(&self, factor: &str) -> Vec<String> {
        let mut values: Vec<String> = self.values(factor).into_iter().collect();
        values.sort_by_cached_key(|value| rank(factor, value));
        values
    }

    pub(super) fn factors(&self) -> BTreeSet<String> {
        self.cells.iter().flat_map(|cell| cell.factors.keys().cloned()).collect()
    }
}

/// Two cells that belong together.
#[derive(Debug, Clone)]
pub(super) struct Pair<'a> {
    /// The factors that both share.
    pub(super) factors: BTreeMap<String, String>,
    /// What tells it from the other pairs, in short.
    pub(super) label: String,
    pub(super) a: SideCell<'a>,
    pub(super) b: SideCell<'a>,
}

#[derive(Debug, Clone)]
pub(super) struct Matched<'a> {
    pub(super) pairs: Vec<Pair<'a>>,
    /// Factors that differ, with both values; `None`: that side does not have it.
    pub(super) differing: BTreeMap<String, (Option<String>, Option<String>)>,
    /// Cells that only one side has, one line a side.
    pub(super) unmatched: Vec<String>,
}

/// Makes an entry of each boot, an observation of its kernel, where the sides are kernels; `None` where it made none.
pub(super) fn split_boots(matched: &mut Matched<'_>) -> Option<Sample> {
    let sides = || matched.pairs.iter().flat_map(|pair| [&pair.a, &pair.b]);
    let all = sides().all(|side| side.runs.iter().flatten().all(|result| result.boot.is_some()));
    if !matched.differing.contains_key(KERNEL) || !all {
        return None;
    }
    let results = sides().flat_map(SideCell::results);
    let unit = boots::unit(results.map(|result| (result.factor(KERNEL), result.boot.as_ref())));
    let boots =
        |side: &SideCell<'_>| side.results().into_iter().filter_map(|result| result.boot.clone()).collect::<Vec<_>>();
    // Places are the same in each cell, so that rounds over all cells are boots.
    let a: BTreeSet<CellBoot> = matched.pairs.iter().flat_map(|pair| boots(&pair.a)).collect();
    let b: BTreeSet<CellBoot> = matched.pairs.iter().flat_map(|pair| boots(&pair.b)).collect();
    for pair in &mut matched.pairs {
        for (side, known) in [(&mut pair.a, &a), (&mut pair.b, &b)] {
            let all = side.results();
            let of =
                |boot: &CellBoot| all.iter().copied().filter(|result| result.boot.as_ref() == Some(boot)).collect();
            side.runs = known.iter().map(of).collect();
        }
    }
    Some(if unit == boots::VISIT { Sample::Visit } else { Sample::Boot })
}

/// Finds the cells that belong together. `named`: factors that were given a value on both sides.
pub(super) fn matched<'a>(
    a: &Cells<'a>,
    b: &Cells<'a>,
    names: [&str; 2],
    named: &BTreeSet<String>,
) -> Result<Matched<'a>, CompareError> {
    let mut differing = BTreeMap::new();
    let mut keyed: Vec<String> = Vec::new();
    for factor in a.factors().union(&b.factors()) {
        let (left, right) = (all_values(a, factor), all_values(b, factor));
        if left == right || (left.intersection(&right).next().is_some() && !named.contains(factor)) {
            keyed.push(factor.clone());
            continue;
        }
        let alone = |values: &BTreeSet<Option<String>>| (values.len() == 1).then(|| values.first().cloned().flatten());
        let free = named.contains(factor) || !KEPT.contains(&factor.as_str());
        match (alone(&left), alone(&right)) {
            (Some(first), Some(second)) if free => {
                differing.insert(factor.clone(), (first, second));
            }
            _ => {
                let word = |values: &BTreeSet<Option<String>>| {
                    let words: Vec<String> =
                        values.iter().map(|value| value.clone().unwrap_or_else(|| "none".to_owned())).collect();
                    words.join(", ")
                };
                return Err(CompareError::Apart {
                    factor: factor.clone(),
                    a: format!("{}: {}", names[0], word(&left)),
                    b: format!("{}: {}", names[1], word(&right)),
                });
            }
        }
    }
    let key = |cell: &SideCell<'a>| -> Vec<Option<String>> {
        keyed.iter().map(|factor| cell.factors.get(factor).cloned()).collect()
    };
    let mut others: BTreeMap<Vec<Option<String>>, &SideCell<'a>> =
        b.cells.iter().map(|cell| (key(cell), cell)).collect();
    let mut pairs = Vec::new();
    let mut only_a = Vec::new();
    for cell in &a.cells {
        match others.remove(&key(cell)) {
            Some(other) => {
                let factors = keyed.iter().filter_map(|f| Some((f.clone(), cell.factors.get(f)?.clone()))).collect();
                pairs.push(Pair { factors, label: String::new(), a: cell.clone(), b: other.clone() });
            }
            None => only_a.push(cell),
        }
    }
    let mut unmatched = Vec::new();
    let vary = varying(a.cells.iter().chain(&b.cells).map(|cell| &cell.factors));
    for (name, cells) in [(names[0], only_a), (names[1], others.into_values().collect())] {
        if !cells.is_empty() {
            let labels: Vec<String> = cells.iter().take(4).map(|cell| label(&cell.factors, &vary)).collect();
            let rest = cells.len() - labels.len();
            let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
            unmatched.push(format!(
                "{} of {name} {} none to be compared with: {}{rest}.",
                counted(cells.len(), "cell"),
                if cells.len() == 1 { "has" } else { "have" },
                labels.join("; ")
            ));
        }
    }
    if pairs.is_empty() {
        return Err(CompareError::Nothing { a: names[0].to_owned(), b: names[1].to_owned() });
    }
    let shared: BTreeSet<String> = varying(pairs.iter().map(|pair| &pair.factors));
    let simulated = simulated([a.substrate, b.substrate]);
    for pair in &mut pairs {
        pair.label = label(&pair.factors, &shared) + &simulated;
    }
    pairs.sort_by_cached_key(|pair| order(&pair.factors));
    Ok(Matched { pairs, differing, unmatched })
}

fn all_values(side: &Cells<'_>, factor: &str) -> BTreeSet<Option<String>> {
    side.cells.iter().map(|cell| cell.factors.get(factor).cloned()).collect()
}

/// `pingpong udp 32 B · load build`: the message always, other factors where they vary.
fn label(factors: &BTreeMap<String, String>, varying: &BTreeSet<String>) -> String {
    let get = |name: &str| factors.get(name).map(String::as_str);
    let has_message = get("probe").and_then(|word| word.parse().ok()).is_none_or(Probe::has_peer);
    let kept = if has_message { &KEPT[..] } else { &KEPT[..1] };
    let get_kept = |name: &str| get(name).filter(|_| kept.contains(&name));
    let mut message: Vec<String> = ["probe", "protocol"].into_iter().filter_map(get_kept).map(str::to_owned).collect();
    message.extend(get_kept("size").map(|bytes| {
        let word = bytes.parse::<u64>().map_or_else(|_| bytes.to_owned(), size);
        match word.strip_suffix(['k', 'M']) {
            Some(number) => format!("{number} {}iB", if word.ends_with('k') { 'K' } else { 'M' }),
            None => format!("{word} B"),
        }
    }));
    message.extend(get("rate").map(rate_word));
    let mut words = vec![message.join(" ")];
    words.extend(
        factors
            .iter()
            .filter(|(name, _)| varying.contains(*name) || *name == source::FACTOR)
            .filter(|(name, _)| !KEPT.contains(&name.as_str()))
            .map(|(name, value)| label_word(name, value)),
    );
    words.retain(|word| !word.is_empty());
    words.join(" · ")
}

/// What labels say of figures in simulated time, as their end.
pub(super) fn simulated([a, b]: [Substrate; 2]) -> String {
    match (a == Substrate::SimulatedTime || b == Substrate::SimulatedTime, a == b) {
        (false, _) => String::new(),
        (true, true) => format!(" · {a}"),
        (true, false) => format!(" · {a} against {b}"),
    }
}

/// Probe and protocol first, then the other factors, then size and rate by number.
fn order(factors: &BTreeMap<String, String>) -> Vec<(usize, String)> {
    let others = factors.keys().map(String::as_str).filter(|name| !KEPT.contains(name));
    let names = ["probe", "protocol"].into_iter().chain(others).chain(["size", "rate"]);
    names.map(|name| rank(name, factors.get(name).map_or("", String::as_str))).collect()
}

/// What one side is called where the sides differ in one factor or more: `policy other`.
pub(super) fn side_name(values: &[(&String, Option<&String>)]) -> String {
    let words: Vec<String> = values
        .iter()
        .map(|(factor, value)| match value {
            Some(value) if KEPT.contains(&factor.as_str()) => format!("{factor} {value}"),
            Some(value) => label_word(factor, value),
            None => format!("without {}", axis_title(factor).to_lowercase()),
        })
        .collect();
    list(&words)
}
