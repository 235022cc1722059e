//! Tables of single results: a row a distribution, or a row a result and a column a quantity. What there is to show, and what
//! it is called, comes from the catalogue.

use crate::cell_tables::{Room, text, unit};
use crate::layout::{Column, Grid};
use crate::units::{plain, us_or_dash};
use model::quantity::{self, DISTRIBUTIONS, Distribution, Group, Quantity, Times};
use model::{ResultDocument, Statistic};

/// What tells results apart: the columns, and the cells of a result.
pub(crate) type Keys = (fn() -> Vec<Column>, fn(&ResultDocument) -> Vec<String>);

/// The statistics that a terminal has room for.
pub(crate) const NARROW: [Statistic; 7] = [
    Statistic::Mean,
    Statistic::Stdev,
    Statistic::Min,
    Statistic::P50,
    Statistic::P99,
    Statistic::P99_9,
    Statistic::Max,
];

/// Each of several reflectors that a result has figures of by itself.
pub(crate) fn hosts(result: &ResultDocument) -> Vec<&str> {
    let fates = result.pgm.iter().flat_map(|pgm| &pgm.fates).filter_map(|fate| fate.host.as_deref());
    let mut hosts: Vec<&str> = Vec::new();
    for host in result.reflectors.iter().map(|one| one.host.as_str()).chain(fates) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

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

/// The count and some statistics of a distribution.
pub(crate) fn statistics(times: Times<'_>, shown: &[Statistic]) -> Vec<String> {
    let count = std::iter::once(times.count().to_string());
    count.chain(shown.iter().map(|statistic| us_or_dash(times.statistic(*statistic)))).collect()
}

/// The distributions of some groups, a row each.
pub(crate) fn times(results: &[ResultDocument], (keys, key): Keys, groups: &[Group]) -> Grid {
    let several = results.iter().any(|result| distributions(result, groups).any(|(host, ..)| host.is_some()));
    let mut grid = Grid { columns: keys(), ..Grid::default() };
    grid.merged = grid.columns.len() + usize::from(several);
    grid.columns.extend(several.then(|| Column::words("reflector")));
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

/// The quantities of some groups that any of some results has, with the figure of each. Without `zeros` those are left out
/// of which every figure is 0.
pub(crate) fn figures<'a>(
    results: &[(&'a ResultDocument, Option<&'a str>)],
    groups: &[Group],
    zeros: bool,
) -> Vec<(&'static Quantity, Vec<Option<f64>>)> {
    let of = |quantity: &Quantity, (result, host): (&ResultDocument, Option<&str>)| {
        quantity.parts(result, host).map(|[part, whole]| part / whole)
    };
    groups
        .iter()
        .flat_map(|group| quantity::of_group(*group))
        .filter(|quantity| quantity.statistic().is_none())
        .map(|quantity| (quantity, results.iter().map(|one| of(quantity, *one)).collect::<Vec<_>>()))
        .filter(|(_, values)| values.iter().any(|value| value.is_some_and(|value| zeros || value != 0.0)))
        .collect()
}

/// A row a result (and reflector), a column a quantity of some groups but for those that the keys tell already.
pub(crate) fn rows(results: &[ResultDocument], (keys, key): Keys, groups: &[Group], each: bool) -> Grid {
    const TOLD: [&str; 2] = ["asked", "intended"];
    let rows: Vec<(&ResultDocument, Option<&str>)> = results
        .iter()
        .flat_map(|result| match each {
            true => hosts(result).into_iter().map(|host| (result, Some(host))).collect(),
            false => vec![(result, None)],
        })
        .collect();
    let trusted = rows.iter().all(|(result, _)| result.verdict.trusted);
    let mut figures = figures(&rows, groups, true);
    figures.retain(|(quantity, _)| !TOLD.contains(&quantity.id.as_str()));
    let mut grid = Grid { columns: keys(), ..Grid::default() };
    grid.columns.extend(each.then(|| Column::words("reflector")));
    grid.keys = grid.columns.len();
    grid.columns.extend(figures.iter().map(|(quantity, _)| Column::figures(quantity.title, unit(quantity.unit))));
    grid.columns.extend((!trusted).then(|| Column::words("")));
    for (place, (result, host)) in rows.iter().enumerate() {
        let mut row = key(result);
        row.extend(host.map(plain));
        row.extend(
            figures
                .iter()
                .map(|(quantity, values)| text(quantity.unit, values.get(place).copied().flatten(), Room::Wide)),
        );
        row.extend((!trusted).then(|| if result.verdict.trusted { String::new() } else { "!".to_owned() }));
        grid.rows.push(row);
    }
    grid
}
