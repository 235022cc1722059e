//! The small multiples: which maps stand in which row and column, and what tells them from each other.

use super::CellMaps;
use crate::units::each_once;
use digest::cells::Cell;
use digest::names::rate_word;
use minijinja::{Value, context};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Panels {
    /// Heads of the columns; empty where the panels are no table.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<PanelRow>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PanelRow {
    pub(super) head: String,
    pub(super) panels: Vec<Option<Value>>,
}

pub(super) struct Words {
    protocols: bool,
    sizes: bool,
    rates: bool,
}

impl Words {
    pub(super) fn of(cells: &[Cell], by_result: &BTreeMap<(usize, usize), CellMaps>) -> Self {
        let with: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.members.iter().any(|member| by_result.contains_key(&(cell.run, *member))))
            .collect();
        let several =
            |pick: &dyn Fn(&Cell) -> String| with.iter().map(|cell| pick(cell)).collect::<BTreeSet<_>>().len() > 1;
        Self {
            protocols: several(&|cell| format!("{} {}", cell.info.probe, cell.info.protocol)),
            sizes: several(&|cell| cell.info.size_bytes.to_string()),
            rates: several(&|cell| cell.info.factors.get("rate").cloned().unwrap_or_default()),
        }
    }

    /// The words of a cell without its rate, and its rate.
    pub(super) fn split(&self, cell: &Cell) -> (String, String) {
        let info = &cell.info;
        let rate = info.factors.get("rate").map(|rate| rate_word(rate)).unwrap_or_default();
        let mut words: Vec<String> = Vec::new();
        if self.protocols {
            words.push(format!("{} {}", info.probe, info.protocol.to_uppercase()));
        }
        if self.sizes {
            words.push(format!("{} B", info.size_bytes));
        }
        words.extend(info.label.split(" · ").filter(|word| *word != rate && *word != "all cells").map(str::to_owned));
        (words.join(" · "), if self.rates { rate } else { String::new() })
    }

    pub(super) fn title(&self, cell: &Cell, repetitions: usize, repetition: Option<u32>) -> String {
        let (words, _) = self.split(cell);
        let rate = cell.info.factors.get("rate").map(|rate| rate_word(rate)).unwrap_or_default();
        let again = match repetition {
            Some(repetition) if repetitions > 1 => format!("repetition {repetition}"),
            _ => String::new(),
        };
        let title = [words, rate, again].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" · ");
        if title.is_empty() { format!("{} {}", cell.info.probe, cell.info.protocol.to_uppercase()) } else { title }
    }
}

pub(super) fn panel(number: usize, cell: &Cell, of_result: &CellMaps, title: &str) -> Value {
    let info = &cell.info;
    let lost = Some(info.count("lost")).filter(|lost| *lost > 0);
    let lost = lost.map(|lost| format!("{} lost", crate::units::commas(lost)));
    let words =
        [Some(crate::draw::plots::in_words(info, &["p50", "p99.9", "max"])).filter(|words| !words.is_empty()), lost];
    context! {
        id => &of_result.id,
        // Where the cell's own section is.
        cell => format!("cell-{number}"),
        title,
        caption => words.into_iter().flatten().collect::<Vec<_>>().join(", "),
        sign => info.mark.sign(),
    }
}

pub(super) fn panels(found: Vec<((String, String), Value)>) -> Panels {
    let rates: BTreeSet<&String> = found.iter().map(|((_, rate), _)| rate).collect();
    if rates.len() < 2 {
        // Not a table: as many beside each other as the page is wide.
        let row =
            |((_, _), panel): ((String, String), Value)| PanelRow { head: String::new(), panels: vec![Some(panel)] };
        return Panels { columns: Vec::new(), rows: found.into_iter().map(row).collect() };
    }
    let mut columns = each_once(found.iter().map(|((_, rate), _)| rate.clone()));
    let mut rows: Vec<PanelRow> = Vec::new();
    let number =
        |rate: &String| rate.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap_or(0);
    columns.sort_by_key(number);
    for ((head, rate), panel) in found {
        let place = columns.iter().position(|column| *column == rate).unwrap_or(0);
        // The same words twice are two rows: nothing is hidden behind another.
        let free = |row: &PanelRow| row.head == head && row.panels.get(place).is_some_and(Option::is_none);
        let at = rows.iter().position(free).unwrap_or_else(|| {
            rows.push(PanelRow { head: head.clone(), panels: vec![None; columns.len()] });
            rows.len() - 1
        });
        if let Some(slot) = rows.get_mut(at).and_then(|row| row.panels.get_mut(place)) {
            *slot = Some(panel);
        }
    }
    Panels { columns, rows }
}
