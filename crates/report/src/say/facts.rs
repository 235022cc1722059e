//! What sentences are made of: one list of facts for all rules.

use crate::compare::faster_under_load;
use crate::document::Document;
use digest::RunInput;
use digest::cells::Cell;
use digest::compare::{CellComparison, Comparison, Comparisons, Side};
use model::Substrate;

pub(crate) struct Facts<'a> {
    pub(crate) document: &'a Document,
    pub(crate) cells: &'a [Cell],
    /// All comparisons of the runs, the primary ones first.
    pub(crate) compared: &'a [Comparisons],
    pub(crate) runs: &'a [RunInput],
}

/// What some facts say; empty where that is nothing.
pub(crate) type Rule = fn(&Facts<'_>) -> Vec<String>;

impl<'a> Facts<'a> {
    /// In the place of effects and causes, where times mean nothing: emulated CPUs share those of the host.
    pub(crate) fn without_meaning(&self) -> Option<String> {
        self.document.cells.iter().any(|info| info.substrate == Substrate::Simulated).then(|| {
            "Times on simulated hardware mean nothing: no effect is concluded from them, and no cause is named."
                .to_owned()
        })
    }

    /// The comparisons that the plan asks for; none where times mean nothing.
    pub(crate) fn primary(&self) -> Option<&'a Comparisons> {
        self.compared.first().filter(|_| self.without_meaning().is_none())
    }

    pub(crate) fn primary_comparisons(&self) -> impl Iterator<Item = &'a Comparison> + use<'a> {
        self.primary().into_iter().flat_map(|all| &all.comparisons)
    }

    /// The cell of a side of a comparison, by its number.
    pub(crate) fn place_of(&self, pair: &CellComparison, side: &Side) -> Option<usize> {
        let is_same =
            |own: &str, wanted: &str| own == wanted || own.parse::<f64>().is_ok_and(|own| wanted.parse() == Ok(own));
        self.cells.iter().position(|cell| {
            let info = &cell.info;
            pair.factors.iter().chain(&side.factors).all(|(name, wanted)| match name.as_str() {
                "probe" => info.probe.word() == wanted,
                "protocol" => info.protocol == *wanted,
                "size" => info.size_bytes.to_string() == *wanted,
                _ => info.factors.get(name).is_none_or(|own| is_same(own, wanted)),
            }) && (side.runs.len() != 1 || side.runs.first() == Some(&info.run))
        })
    }

    pub(crate) fn cell_of(&self, pair: &CellComparison, side: &Side) -> Option<&'a Cell> {
        self.cells.get(self.place_of(pair, side)?)
    }

    /// Why a median falls under load, where one does.
    pub(crate) fn faster_under_load(&self) -> Option<String> {
        let run = self.runs.first()?;
        self.compared.iter().flat_map(|all| &all.comparisons).find_map(|one| faster_under_load(run, one))
    }
}
