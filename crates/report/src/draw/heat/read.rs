//! From the interval logs of a run to maps. A log is read twice, first for when its intervals are, then for its histograms: each
//! time in parts by several threads, and never as a whole, since an hour of 100 ms intervals has 36,000 histograms a tag.

use super::map::{Basis, Column, Grid, Heat, Map, Strip, Tagged};
use super::stalls::{stalls, worst};
use super::{Layout, Options, TOP_2011_NS};
use crate::units::{commas, plain};
use digest::RunInput;
use model::result::{Outlier, Series, SeriesQuantity};
use model::run::{RunDocument, RunStep};
use model::{ResultDocument, Role};
use stats::{ColumnCounts, RowTally};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use store::StoreError;
use store::hlog::{Log, Pieces};

/// Lengths of columns that people read well, in ms: 0.1 s to 30 s, 1 min to 30 min, 1 h to 4 h.
const LADDER_MS: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_200_000,
    1_800_000, 3_600_000, 7_200_000, 14_400_000,
];
/// How much time before and after one of the worst messages a detail shows.
const DETAIL_NS: u64 = 3_000_000_000;
const DETAIL_COLUMNS: usize = 4000;

const NAMED: usize = 3;

/// The tags that the interval logs of a run have, in the order of their names.
pub(crate) fn tags(run: &store::Run) -> BTreeSet<String> {
    let threads = Options::default().threads;
    let logs = run.results.iter().filter_map(|(step, _)| Log::open(&run.path, step.index, threads).ok().flatten());
    logs.flat_map(|log| log.tags().map(plain).collect::<Vec<_>>()).collect()
}

/// Damaged lines of a log, which are left out, in words.
fn damage(path: &Path, mut lines: Vec<(usize, String)>) -> Vec<String> {
    let path = path.display();
    lines.sort();
    lines.dedup();
    let named = lines.iter().take(NAMED);
    let mut words: Vec<String> = named
        .map(|(line, why)| format!("{path}: line {line} is damaged ({why}): it is left out of the picture"))
        .collect();
    if let Some(rest) = lines.len().checked_sub(NAMED).filter(|rest| *rest > 0) {
        words.push(format!("{path}: {rest} more lines are damaged and left out"));
    }
    words
}

/// The maps of a run's cells.
#[must_use]
pub fn of_run(run: &store::Run, options: &Options) -> Heat {
    let steps = run.results.iter().map(|(step, result)| (step, result));
    of(&run.path, &run.run, steps, options)
}

/// The maps of a report's run; none where its folder is not known.
#[must_use]
pub fn of_input(run: &RunInput, options: &Options) -> Heat {
    let Some(folder) = &run.folder else { return Heat::default() };
    of(folder, &run.document, run.steps.iter().zip(&run.results), options)
}

fn of<'a>(
    folder: &Path,
    document: &RunDocument,
    steps: impl Iterator<Item = (&'a RunStep, &'a ResultDocument)>,
    options: &Options,
) -> Heat {
    let mut heat = Heat::default();
    for (step, result) in steps {
        let other_cell = options.cell.as_ref().is_some_and(|cell| *cell != step.cell);
        if other_cell || options.repetition.is_some_and(|repetition| repetition != step.repetition) {
            continue;
        }
        let mut one = of_step(folder, document, step, result, options);
        heat.maps.append(&mut one.maps);
        heat.problems.append(&mut one.problems);
    }
    heat
}

fn or_problem<T: Default>(read: Result<T, StoreError>, problems: &mut Vec<String>) -> T {
    read.unwrap_or_else(|error| {
        problems.push(error.to_string());
        T::default()
    })
}

/// The maps of one repetition of a cell: one a tag that its log has.
#[must_use]
pub fn of_step(
    folder: &Path,
    document: &RunDocument,
    step: &RunStep,
    result: &ResultDocument,
    options: &Options,
) -> Heat {
    let mut heat = Heat::default();
    let opened = Log::open(folder, step.index, options.threads);
    let Some(log) = or_problem(opened, &mut heat.problems) else { return heat };
    let outliers = or_problem(store::outliers(folder, step.index), &mut heat.problems);
    let mut events = or_problem(store::events(folder, step.index), &mut heat.problems);
    events.retain(|event| event.at_ns.is_some());
    let mut factors: BTreeMap<String, String> = BTreeMap::new();
    for name in step.factors.keys().chain(result.factors.keys()) {
        let of_step = || step.factors.get(name).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
        if let Some(value) = result.factor(name).or_else(of_step) {
            factors.insert(plain(name), plain(&value));
        }
    }
    let run = folder.file_name().map_or_else(|| document.name.clone(), |name| name.to_string_lossy().into_owned());
    let plans: Vec<Plan<'_>> =
        options.tags.iter().filter_map(|tag| Plan::of(&log, tag, result, &outliers, options)).collect();
    let (sums, damaged) = or_problem(sums(&log, &plans, options), &mut heat.problems);
    for (plan, sums) in plans.into_iter().zip(sums) {
        let (whole, details) = plan.strips(sums, options);
        let Plan { tag, basis, .. } = plan;
        let (received, lost) = messages(result, tag);
        let map = Map {
            run: plain(&run),
            cell: plain(&step.cell),
            repetition: step.repetition,
            index: step.index,
            factors: factors.clone(),
            tag: plain(tag),
            stalls: stalls(&basis.tagged, &whole, options.stalls),
            whole,
            details,
            events: events.clone(),
            received,
            lost,
            tool_version: plain(&document.tool_version),
            substrate: document.substrate,
            basis,
        };
        if tag == "rtt" && map.total() != map.received {
            heat.problems.push(format!(
                "{}: holds {} of the {} messages that {:04}.json counts as received; the picture shows those",
                log.path().display(),
                commas(map.total()),
                commas(map.received),
                step.index
            ));
        }
        heat.maps.push(map);
    }
    heat.problems.extend(damage(log.path(), [log.damaged(), &damaged].concat()));
    heat
}

/// The worst messages by a tag's time, the worst first.
fn tagged(outliers: &[Outlier], tag: &str) -> Vec<Tagged> {
    let (bare, host) = tag.split_once('@').map_or((tag, None), |(bare, host)| (bare, Some(host)));
    let mut tagged: Vec<Tagged> = outliers
        .iter()
        .filter(|outlier| host.is_none() || outlier.host.as_deref().map(model::text::tag).as_deref() == host)
        .filter(|outlier| !outlier.lost || bare == "lateness")
        .map(|outlier| Tagged {
            at_ns: outlier.at_ns.saturating_sub(outlier.lateness_ns),
            value_ns: match bare {
                "lateness" => outlier.lateness_ns,
                "rtt_intended" => outlier.rtt_ns.saturating_add(outlier.lateness_ns),
                _ => outlier.rtt_ns,
            },
            outlier: outlier.clone(),
        })
        .collect();
    tagged.sort_by_key(|one| (std::cmp::Reverse(one.value_ns), one.at_ns, one.outlier.seq));
    tagged
}

/// A map with longer columns from the same counts, without reading the log again; `None` where whole columns of the map do not
/// fill those, or where they are intervals of the log, around which the other would keep details.
pub(crate) fn joined(map: &Map, options: &Options) -> Option<Map> {
    let Basis { interval_ns, last_ns, tagged } = &map.basis;
    let column_ns = column_length(*interval_ns, *last_ns, options);
    let is_same = column_ns == map.whole.column_ns;
    let fits = column_ns.is_multiple_of(map.whole.column_ns) && map.whole.column_ns > *interval_ns;
    (is_same || fits).then(|| {
        let whole = map.whole.joined(column_ns, 1);
        Map { stalls: stalls(tagged, &whole, options.stalls), whole, ..map.clone() }
    })
}

/// Columns of one length, without what they hold.
struct Window {
    start_ns: u64,
    column_ns: u64,
    columns: usize,
}

impl Window {
    /// The column that holds a time.
    fn column(&self, at_ns: u64) -> Option<usize> {
        let column = usize::try_from(at_ns.checked_sub(self.start_ns)? / self.column_ns).ok()?;
        (column < self.columns).then_some(column)
    }

    /// Messages lost in each column.
    fn lost(&self, losses: &[(u64, u64)]) -> Vec<u64> {
        let mut by_column = vec![0; self.columns];
        for (at_ns, count) in losses {
            if let Some(sum) = self.column(*at_ns).and_then(|column| by_column.get_mut(column)) {
                *sum += count;
            }
        }
        by_column
    }
}

/// Where the intervals around the worst messages are kept as they were logged, for columns that are longer.
fn details(basis: &Basis, column_ns: u64, options: &Options) -> Vec<Window> {
    let (interval, last) = (basis.interval_ns, basis.last_ns);
    if column_ns <= interval {
        return Vec::new();
    }
    let mut windows: Vec<(u64, u64)> = worst(&basis.tagged, options.details)
        .iter()
        .map(|one| {
            let from = one.at_ns.saturating_sub(DETAIL_NS) / interval;
            let to = one.at_ns.saturating_add(DETAIL_NS).min(last) / interval;
            (from, to)
        })
        .filter(|(from, to)| from <= to)
        .collect();
    windows.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in windows {
        match joined.last_mut() {
            Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    let window = |(from, to)| {
        let columns = usize::try_from(to - from + 1).unwrap_or(usize::MAX).min(DETAIL_COLUMNS);
        Window { start_ns: from * interval, column_ns: interval, columns }
    };
    joined.into_iter().map(window).collect()
}

fn count(last_ns: u64, column_ns: u64) -> usize {
    usize::try_from(last_ns / column_ns + 1).unwrap_or(usize::MAX)
}

/// The length of the columns: a step of the ladder that whole intervals fill, or intervals doubled.
fn column_length(interval: u64, last: u64, options: &Options) -> u64 {
    let most = options.max_columns.max(1);
    let fits = |length: u64| length.is_multiple_of(interval) && count(last, length) <= most;
    let mut doubled = interval;
    while count(last, doubled) > most {
        doubled = doubled.saturating_mul(2);
    }
    let mut steps = LADDER_MS.into_iter().map(|ms| ms * 1_000_000);
    let step = steps.find(|length| fits(*length)).filter(|length| *length <= doubled.saturating_mul(4));
    step.unwrap_or(doubled)
}

/// The messages of a tag: of one reflector, where the tag names it.
fn messages(result: &ResultDocument, tag: &str) -> (u64, u64) {
    if let Some(stream) = &result.stream {
        // The map is that of the ping-pong beside it, whose losses are not counted; its own messages are those of the flows.
        return (stream.working_latency.as_ref().map_or(0, |working| working.count), 0);
    }
    let host = tag.split_once('@').map(|(_, host)| host);
    let of_host = |host: &str| result.reflectors.iter().find(|reflector| model::text::tag(&reflector.host) == host);
    let messages = host.and_then(of_host).map_or(&result.messages, |reflector| &reflector.messages);
    (messages.received, messages.lost)
}

/// Messages that never came back, by the start of the series' interval that they were sent in; for a tag that names one
/// of several reflectors those that it did not answer, which runs of older versions do not tell.
fn losses(result: &ResultDocument, tag: &str) -> Vec<(u64, u64)> {
    if result.stream.is_some() {
        return Vec::new();
    }
    let host = tag.split_once('@').map(|(_, host)| host);
    let fits = |of: &str| host.is_none_or(|host| model::text::tag(of) == host);
    let mut all: Vec<_> =
        result.series.iter().filter(|series| series.quantity == SeriesQuantity::Lost && fits(&series.host)).collect();
    let is_of_all = |series: &Series| series.host == Role::Initiator.word();
    if all.iter().any(|series| is_of_all(series)) {
        all.retain(|series| is_of_all(series));
    }
    let mut losses: Vec<(u64, u64)> = all
        .into_iter()
        .flat_map(|series| {
            series.values.iter().zip(0_u64..).filter_map(|(value, place)| {
                let count = value.filter(|value| *value >= 1.0 && *value < 1e18)?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of messages")]
                Some((place.saturating_mul(series.interval_ns), count.round() as u64))
            })
        })
        .collect();
    losses.sort_unstable();
    losses
}

/// The map of a tag before its log is read.
struct Plan<'a> {
    tag: &'a str,
    /// The tags of its lines, ascending.
    of_lines: Vec<&'a str>,
    losses: Vec<(u64, u64)>,
    basis: Basis,
    whole: Window,
    details: Vec<Window>,
}

/// The columns that hold messages: those of the whole, and those of the details one after the other.
type Sums = [BTreeMap<usize, ColumnCounts>; 2];

impl<'a> Plan<'a> {
    /// `None` where the log has no lines of the tag.
    fn of(
        log: &'a Log,
        tag: &'a str,
        result: &ResultDocument,
        outliers: &[Outlier],
        options: &Options,
    ) -> Option<Self> {
        let extent = log.extent(tag)?;
        let losses = losses(result, tag);
        let basis = Basis {
            interval_ns: extent.interval_ns.max(1_000_000),
            last_ns: extent.last_ns.max(losses.last().map_or(0, |(start, _)| *start)),
            tagged: tagged(outliers, tag),
        };
        let column_ns = column_length(basis.interval_ns, basis.last_ns, options);
        let whole = Window { start_ns: 0, column_ns, columns: count(basis.last_ns, column_ns) };
        let details = details(&basis, column_ns, options);
        Some(Self { tag, of_lines: log.of_tag(tag), losses, basis, whole, details })
    }

    fn detail_column(&self, at_ns: u64) -> Option<usize> {
        let mut before = 0;
        for window in &self.details {
            if let Some(column) = window.column(at_ns) {
                return Some(before + column);
            }
            before += window.columns;
        }
        None
    }

    /// The columns with what they hold.
    fn strips(&self, [whole, details]: Sums, options: &Options) -> (Strip, Vec<Strip>) {
        let mut before = 0;
        let mut rest = details;
        let details = self.details.iter().map(|window| {
            before += window.columns;
            let later = rest.split_off(&before);
            let own = std::mem::replace(&mut rest, later);
            let first = before - window.columns;
            self.strip(window, own.into_iter().map(|(column, counts)| (column - first, counts)).collect(), options)
        });
        let details = details.collect();
        (self.strip(&self.whole, whole, options), details)
    }

    fn strip(&self, window: &Window, mut sums: BTreeMap<usize, ColumnCounts>, options: &Options) -> Strip {
        let grid = |layout| Grid { layout, columns: Vec::with_capacity(window.columns) };
        let mut strip = Strip {
            start_ns: window.start_ns,
            column_ns: window.column_ns,
            columns: Vec::with_capacity(window.columns),
            log: grid(Layout::Log),
            linear: options.linear_ns.map(|step_ns| grid(Layout::Linear { step_ns })),
        };
        for (column, lost) in window.lost(&self.losses).into_iter().enumerate() {
            let ColumnCounts { count, max_ns, above, log, mut linear } = sums.remove(&column).unwrap_or_default();
            strip.columns.push(Column { count, lost, max_ns, above_2011: above });
            strip.log.columns.push(log);
            strip.linear.iter_mut().for_each(|grid| grid.columns.push(std::mem::take(&mut linear)));
        }
        strip
    }
}

/// Lines by number, and what is damaged.
type Damaged = Vec<(usize, String)>;

/// The sums of each plan from one reading of the log, and the lines whose histograms are damaged.
fn sums(log: &Log, plans: &[Plan<'_>], options: &Options) -> Result<(Vec<Sums>, Damaged), StoreError> {
    let (mut all, mut all_damaged) = (Vec::new(), Vec::new());
    all.resize_with(plans.len(), Sums::default);
    for (sums, damaged) in log.each_part(|pieces| part(pieces, plans, options))? {
        all_damaged.extend(damaged);
        for (all, columns) in all.iter_mut().flatten().zip(sums.into_iter().flatten()) {
            columns.into_iter().for_each(|(column, counts)| all.entry(column).or_default().merge(counts));
        }
    }
    Ok((all, all_damaged))
}

fn part(pieces: &mut Pieces, plans: &[Plan<'_>], options: &Options) -> Result<(Vec<Sums>, Damaged), StoreError> {
    let tally = || RowTally::new(options.linear_ns, TOP_2011_NS);
    let mut tallies: Vec<[RowTally; 2]> = plans.iter().map(|_| [tally(), tally()]).collect();
    let mut damaged = Vec::new();
    pieces.intervals(|line| {
        for (plan, [whole, details]) in plans.iter().zip(&mut tallies) {
            if plan.of_lines.binary_search(&line.tag).is_err() {
                continue;
            }
            let add = |tally: &mut RowTally, column| tally.add(column, line.histogram, line.max_ns);
            if let Some(Err(error)) = plan.whole.column(line.start_ns).map(|column| add(whole, column)) {
                damaged.push((line.number, error.to_string()));
            } else if let Some(column) = plan.detail_column(line.start_ns) {
                // What is damaged is not read a second time.
                let _ = add(details, column);
            }
        }
    })?;
    Ok((tallies.into_iter().map(|both| both.map(RowTally::columns)).collect(), damaged))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_long_as_they_must_be() {
        let of =
            |interval, last, max_columns| column_length(interval, last, &Options { max_columns, ..Options::default() });
        const S: u64 = 1_000_000_000;
        assert_eq!(of(S / 10, 10 * S, 4000), S / 10);
        assert_eq!(of(S / 10, 3600 * S, 4000), S);
        assert_eq!(of(S / 10, 3600 * S, 1200), 5 * S);
        assert_eq!(of(2 * S, 60 * S, 1200), 2 * S);
        assert_eq!(of(32 * S, 60 * S, 1200), 32 * S, "no step of the ladder is whole intervals");
        assert_eq!(of(S / 10, u64::MAX / 2, 10) % (S / 10), 0);
    }
}
