//! Comparisons in words, tables and files. [`digest::compare`] says how surely things differ; no sentence claims more.

mod held;
mod idle;
mod two_settings;
mod words;
mod write;

pub use two_settings::TwoSettings;
pub use write::{ComparisonWriter, csv_columns};

pub(crate) use idle::faster_under_load;
pub(crate) use words::{FIGURES, bounds, extent, most, p_word, size, title};
pub(crate) use write::{causes, difference, grid};

use digest::RunInput;
use digest::compare::{CompareError, CompareOptions, Comparisons, Siblings};

/// Compares the runs of two sides or, without a second side, cells of one run, and judges the gates. Errors: [`CompareError`].
pub fn of(a: &[RunInput], b: &[RunInput], options: &CompareOptions) -> Result<Comparisons, CompareError> {
    let mut made = worded(Comparisons::judged(a, b, options)?, a, &options.siblings);
    made.gates = held::judge(&made, options)?;
    Ok(made)
}

/// What a report shows of its runs; see [`Comparisons::judged_for_report`].
pub fn for_report(runs: &[RunInput], rtt: bool) -> Vec<Comparisons> {
    let judged = Comparisons::judged_for_report(runs, rtt).into_iter();
    judged.map(|made| worded(made, runs, &Siblings::default())).collect()
}

/// The same with its sentences. `a`: the runs of the first side.
fn worded(mut made: Comparisons, a: &[RunInput], siblings: &Siblings) -> Comparisons {
    let (tests, sets, level, is_tested) = (made.tests, made.sets, made.level, made.is_tested);
    for one in &mut made.comparisons {
        let names = [one.a.name.clone(), one.b.name.clone()];
        let names = [names[0].as_str(), &names[1]];
        let context = words::Context { names, tests, sets, level, sample: one.sample, is_tested };
        let overall = one.overall.iter_mut().map(|all| (all.kind, &mut all.metrics));
        for (kind, metrics) in overall.chain(one.cells.iter_mut().map(|cell| (cell.kind, &mut cell.metrics))) {
            metrics.iter_mut().for_each(|figure| figure.sentence = words::sentence(figure, kind, context));
        }
        one.summary = words::summary(one, siblings, context);
        one.summary.extend(a.first().and_then(|run| faster_under_load(run, one)));
    }
    made
}
