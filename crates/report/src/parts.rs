//! What the tables of single results are made of.

use crate::layout::{Column, Grid};
use crate::result_tables::{About, Keys, Shape, named, rows};
use crate::units::plain;
use model::{ResultDocument, Role};

/// A table with the line above it, which may be empty, and what has to be said below it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) grid: Grid,
    pub(crate) words: Vec<String>,
}

impl Part {
    pub(crate) fn new(title: &str, grid: Grid) -> Self {
        Self { title: title.to_owned(), grid, words: Vec::new() }
    }

    pub(crate) fn with(self, words: Vec<String>) -> Self {
        Self { words, ..self }
    }
}

pub(crate) const KEYS: Keys = (
    || vec![Column::figures("size", "B")],
    |result| vec![result.size().map(|size| size.to_string()).unwrap_or_default()],
);

/// Whole figures, without what only messages have.
pub(crate) fn figures(results: &[ResultDocument], keys: Keys, ids: &[&str]) -> Part {
    Part::new("", rows(results, keys, Shape::WHOLE, &named(ids)))
}

/// What each end cost: a row an end, a column a quantity.
pub(crate) fn cpu(results: &[ResultDocument], words: [&str; 4]) -> Grid {
    let shape = Shape { about: About::Ends, heading: "end", zeros: true, marked: false };
    let ids = words.map(|word| format!("{}.{word}", Role::Initiator));
    rows(results, KEYS, shape, &named(&ids.each_ref().map(String::as_str)))
}

pub(crate) fn setting(result: &ResultDocument, name: &str) -> Option<String> {
    result.factor(name).map(|word| plain(&word))
}
