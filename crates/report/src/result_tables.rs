//! Tables of single results: a row a distribution, or a row a result (or a part) and a column a quantity, from the catalogue.

use crate::columns::{Room, text, unit};
use crate::layout::{Column, Grid};
use crate::units::{plain, us_or_dash};
use digest::names::hosts;
use model::quantity::{self, DISTRIBUTIONS, Distribution, Group, Quantity, Times};
use model::{ResultDocument, Role, Statistic};
use std::borrow::Borrow;

/// What tells results apart: the columns, and the cells of a result.
pub(crate) type Keys = (fn() -> Vec<Column>, fn(&ResultDocument) -> Vec<String>);

pub(crate) const NARROW: [Statistic; 7] = [
    Statistic::Mean,
    Statistic::Stdev,
    Statistic::Min,
    Statistic::P50,
    Statistic::P99,
    Statistic::P99_9,
    Statistic::Max,
];

/// The distributions of some groups in a result: those of the whole first, then those of each of several reflectors.
pub(crate) fn distributions<'a>(
    result: &'a ResultDocument,
    groups: &'a [Group],
) -> impl Iterator<Item = (Option<&'a str>, &'static Distribution, Times<'a>)> {
    std::iter::once(None).chain(hosts(result).into_iter().map(Some)).flat_map(move |host| {
        let of_group = DISTRIBUTIONS.iter().filter(|one| groups.contains(&one.group()));
        of_group.filter_map(move |one| Some((host, one, one.times(result, host)?)))
    })
}

pub(crate) fn statistics(times: Times<'_>, shown: &[Statistic]) -> Vec<String> {
    let count = std::iter::once(times.count().to_string());
    count.chain(shown.iter().map(|statistic| us_or_dash(times.statistic(*statistic)))).collect()
}

/// The distributions of some groups, a row each.
pub(crate) fn times(results: &[ResultDocument], (keys, key): Keys, groups: &[Group]) -> Grid {
    let several = results.iter().any(|result| distributions(result, groups).any(|(host, ..)| host.is_some()));
    let mut grid = Grid { columns: keys(), ..Grid::default() };
    grid.merged = grid.columns.len() + usize::from(several);
    grid.columns.extend(several.then(|| Column::words(Role::Reflector.word())));
    grid.columns.push(Column::words("what"));
    grid.columns.push(Column::figures("count", ""));
    grid.columns.extend(NARROW.map(|statistic| Column::figures(statistic.word(), "µs")));
    for result in results {
        for (host, distribution, times) in distributions(result, groups) {
            let mut row = key(result);
            row.extend(several.then(|| host.map_or_else(|| "all".to_owned(), plain)));
            row.push(distribution.heading(times.kind()));
            row.extend(statistics(times, &NARROW));
            grid.rows.push(row);
        }
    }
    grid
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum About {
    Whole,
    Reflectors,
    WholeAndReflectors,
    PgmEnds,
    /// What stands before the point in the ids of quantities.
    Ends,
    /// The same of a stream's directions.
    Directions,
}

impl About {
    /// What stands before the point in ids.
    fn prefixes(self) -> [&'static str; 2] {
        if matches!(self, Self::Directions) { ["up", "down"] } else { Role::ALL.map(Role::word) }
    }

    /// What the rows of a result are called; nothing where they are about the whole.
    fn names(self, result: &ResultDocument) -> Vec<Option<&str>> {
        let hosts = || hosts(result).into_iter().map(Some);
        match self {
            Self::Whole => vec![None],
            Self::Reflectors => hosts().collect(),
            Self::WholeAndReflectors => std::iter::once(None).chain(hosts()).collect(),
            Self::PgmEnds => result.pgm.iter().flat_map(|pgm| &pgm.ends).map(|end| Some(end.host.as_str())).collect(),
            Self::Ends | Self::Directions => self.prefixes().map(Some).to_vec(),
        }
    }

    fn value(self, quantity: &Quantity, result: &ResultDocument, name: Option<&str>) -> Option<f64> {
        if !matches!(self, Self::Ends | Self::Directions) {
            return quantity.parts(result, name).map(|[part, whole]| part / whole);
        }
        let (_, word) = quantity.id.split_once('.')?;
        quantity::find(&format!("{}.{word}", name?))?.of(result)
    }

    /// The quantities of some groups that are single figures; those of ends and directions once.
    pub(crate) fn quantities(self, groups: &[Group]) -> Vec<&'static Quantity> {
        let all = groups.iter().flat_map(|group| quantity::of_group(*group));
        let mut all: Vec<&Quantity> = all.filter(|quantity| quantity.statistic().is_none()).collect();
        if matches!(self, Self::Ends | Self::Directions) {
            all.retain(|quantity| quantity.id.split_once('.').is_some_and(|(name, _)| name == self.prefixes()[0]));
        }
        all
    }
}

/// The quantities with these ids, as far as there are such.
pub(crate) fn named(ids: &[&str]) -> Vec<&'static Quantity> {
    ids.iter().filter_map(|id| quantity::find(id)).collect()
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) about: About,
    /// What heads the column that names it; where all rows are about the whole there is none.
    pub(crate) heading: &'static str,
    /// Whether columns stay in which every figure is 0.
    pub(crate) zeros: bool,
    /// Whether a column marks what cannot be trusted.
    pub(crate) marked: bool,
}

impl Shape {
    pub(crate) const WHOLE: Self = Self { about: About::Whole, heading: "", zeros: true, marked: true };
}

/// A row a result (or a part of it), a column a quantity; quantities that no row has are left out, and rows without any.
pub(crate) fn rows<R: Borrow<ResultDocument>>(
    results: &[R],
    (keys, key): Keys,
    shape: Shape,
    quantities: &[&'static Quantity],
) -> Grid {
    let Shape { about, heading, zeros, marked } = shape;
    let figures = |result, name| quantities.iter().map(|one| about.value(one, result, name)).collect::<Vec<_>>();
    let mut rows: Vec<_> = results
        .iter()
        .map(Borrow::borrow)
        .flat_map(|result| about.names(result).into_iter().map(move |name| (result, name)))
        .map(|(result, name)| (result, name, figures(result, name)))
        .collect();
    rows.retain(|(.., figures)| figures.iter().any(Option::is_some));
    let filled = |place: &usize| {
        let mut column = rows.iter().filter_map(|(.., figures)| figures.get(*place).copied().flatten());
        column.any(|value| zeros || value != 0.0)
    };
    let shown: Vec<usize> = (0..quantities.len()).filter(filled).collect();
    if shown.is_empty() {
        return Grid::default();
    }
    let marked = marked && rows.iter().any(|(result, ..)| !result.verdict.trusted);
    let is_named = !matches!(about, About::Whole);
    let mut grid = Grid { columns: keys(), ..Grid::default() };
    grid.columns.extend(is_named.then(|| Column::words(heading)));
    grid.keys = grid.columns.len();
    grid.columns.extend(shown.iter().map(|at| Column::figures(quantities[*at].title, unit(quantities[*at].unit))));
    grid.columns.extend(marked.then(|| Column::words("")));
    for (result, name, figures) in &rows {
        let mut row = key(result);
        row.extend(is_named.then(|| name.map(plain).unwrap_or_default()));
        row.extend(shown.iter().map(|at| text(quantities[*at].unit, figures[*at], Room::Wide)));
        row.extend(marked.then(|| if result.verdict.trusted { String::new() } else { "!".to_owned() }));
        grid.rows.push(row);
    }
    grid
}

/// A table with its rows as columns: for few rows of many figures.
pub(crate) fn turned(grid: &Grid, keys: usize, heading: &str) -> Grid {
    let Some(first) = grid.rows.first() else { return Grid::default() };
    let names = grid.rows.iter().map(|row| Column::figures(row.get(keys).map_or("", String::as_str), ""));
    let mut turned = Grid { columns: grid.columns[..keys].to_vec(), merged: keys, ..Grid::default() };
    turned.columns.push(Column::words(heading));
    turned.columns.extend(names);
    turned.rows = (keys + 1..grid.columns.len())
        .map(|at| {
            let name = grid.columns[at].heading.first().cloned().unwrap_or_default();
            let figures = grid.rows.iter().map(|row| row[at].clone());
            first[..keys].iter().cloned().chain([name]).chain(figures).collect()
        })
        .collect();
    turned
}
