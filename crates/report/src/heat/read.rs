//! From the interval logs of a run to maps. Lines are grouped by column, and columns are summed by several threads, each
//! with one tally that it reuses: an hour of 100 ms intervals has 36,000 histograms a tag.

use super::map::{Column, Grid, Heat, Map, Strip, Tagged};
use super::{Layout, Options, TOP_2011_NS};
use crate::RunInput;
use crate::units::{commas, plain};
use model::ResultDocument;
use model::result::{Messages, Outlier};
use model::run::{RunDocument, RunStep};
use stats::{Bucket, Decoder, HOUR_NS};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::hlog;

/// Lengths of columns that people read well, in ns.
const LADDER: [u64; 18] = {
    const S: u64 = 1_000_000_000;
    [
        S / 10,
        S / 5,
        S / 2,
        S,
        2 * S,
        5 * S,
        10 * S,
        20 * S,
        30 * S,
        60 * S,
        120 * S,
        300 * S,
        600 * S,
        1200 * S,
        1800 * S,
        3600 * S,
        7200 * S,
        14_400 * S,
    ]
};
/// Starts later than this are times since 1970, not since the log's base.
const ABSOLUTE_S: f64 = 1e8;
/// Columns that a thread takes at once.
const CHUNK: usize = 32;
/// Damaged lines that are named one by one.
const NAMED: usize = 3;
/// Columns of a detail at most.
const DETAIL_COLUMNS: usize = 4000;
/// Linear rows at most; what lies above is counted in the last.
const LINEAR_ROWS: usize = 1 << 16;

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
    let step = |index: &u32| run.document.order.iter().find(|step| step.index == *index);
    let steps = run.steps.iter().zip(&run.results).filter_map(|(index, result)| Some((step(index)?, result)));
    of(folder, &run.document, steps, options)
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
    let (path, text) = match hlog::text(folder, step.index) {
        Ok(Some(found)) => found,
        Ok(None) => return heat,
        Err(error) => {
            heat.problems.push(error.to_string());
            return heat;
        }
    };
    let log = Log::new(&path, &text);
    let mut damage = Damage { path: &path, lines: log.damaged.clone() };
    let outliers = store::outliers(folder, step.index).unwrap_or_else(|error| {
        heat.problems.push(error.to_string());
        Vec::new()
    });
    let mut events = store::events(folder, step.index).unwrap_or_else(|error| {
        heat.problems.push(error.to_string());
        Vec::new()
    });
    events.retain(|event| event.at_ns.is_some());
    let mut factors: BTreeMap<String, String> = BTreeMap::new();
    for name in step.factors.keys().chain(result.factors.keys()) {
        let of_step = || step.factors.get(name).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
        if let Some(value) = result.factor(name).or_else(of_step) {
            factors.insert(plain(name), plain(&value));
        }
    }
    let run = folder.file_name().map_or_else(|| document.name.clone(), |name| name.to_string_lossy().into_owned());
    for tag in &options.tags {
        let lines = log.of_tag(tag);
        if lines.is_empty() {
            continue;
        }
        let tagged = tagged(&outliers, tag);
        let messages = messages(result, tag);
        let plans = plan(&lines, &losses(result, tag), &tagged, options);
        let mut strips = sum(&plans, log.divisor, options, &mut damage);
        if strips.is_empty() {
            continue;
        }
        let whole = strips.remove(0);
        let map = Map {
            run: plain(&run),
            cell: plain(&step.cell),
            repetition: step.repetition,
            index: step.index,
            factors: factors.clone(),
            tag: plain(tag),
            whole,
            details: strips,
            outliers: tagged.into_iter().take(options.outliers).collect(),
            events: events.clone(),
            received: messages.received,
            lost: messages.lost,
            tool_version: plain(&document.tool_version),
        };
        if tag == "rtt" && map.total() != map.received {
            heat.problems.push(format!(
                "{}: holds {} of the {} messages that {:04}.json counts as received; the picture shows those",
                path.display(),
                commas(map.total()),
                commas(map.received),
                step.index
            ));
        }
        heat.maps.push(map);
    }
    heat.problems.append(&mut damage.words());
    heat
}

/// The lines of a log that can be read.
struct Log<'a> {
    lines: Vec<(u64, u64, hlog::Line<'a>)>,
    damaged: Vec<(usize, String)>,
    /// What the largest values are multiplied by to become ns.
    divisor: f64,
}

impl<'a> Log<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut damaged = Vec::new();
        for line in hlog::lines(path, text) {
            match line {
                Ok(line) => lines.push(line),
                Err(store::StoreError::DamagedLine { line, why, .. }) => damaged.push((line, why)),
                Err(_) => {}
            }
        }
        let first = lines.iter().map(|line| line.start_s).reduce(f64::min).unwrap_or(0.0);
        let base = if first >= ABSOLUTE_S { first } else { 0.0 };
        let lines = lines
            .into_iter()
            .filter_map(|line| {
                let start = nanoseconds(line.start_s - base);
                if start.is_none() {
                    damaged.push((line.number, "the start is no time of a measurement".to_owned()));
                }
                Some((start?, nanoseconds(line.length_s).unwrap_or(0), line))
            })
            .collect();
        let header = text.lines().take_while(|line| line.starts_with('#'));
        let divisor = header
            .filter_map(|line| {
                line.strip_prefix("#[MaxValueDivisor:")?.trim_end().trim_end_matches(']').trim().parse().ok()
            })
            .next()
            .filter(|divisor: &f64| divisor.is_finite() && *divisor > 0.0)
            .unwrap_or(1e6);
        Self { lines, damaged, divisor }
    }

    /// The lines of a tag in the order of time; those of all reflectors where the log has no line of the tag itself.
    fn of_tag(&self, tag: &str) -> Vec<(u64, u64, hlog::Line<'a>)> {
        let own = |line: &hlog::Line<'_>| line.tag.unwrap_or("rtt") == tag;
        let of_any = |line: &hlog::Line<'_>| {
            line.tag.and_then(|of_line| of_line.split_once('@')).is_some_and(|(bare, _)| bare == tag)
        };
        let exact = self.lines.iter().any(|(_, _, line)| own(line));
        let mut lines: Vec<_> =
            self.lines.iter().filter(|(_, _, line)| if exact { own(line) } else { of_any(line) }).copied().collect();
        lines.sort_by_key(|(start, _, line)| (*start, line.number));
        lines
    }
}

/// Times of a measurement: up to ten years.
fn nanoseconds(seconds: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and ten years")]
    (0.0..3e8).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
}

/// Damaged lines, which are left out.
struct Damage<'a> {
    path: &'a Path,
    lines: Vec<(usize, String)>,
}

impl Damage<'_> {
    fn words(mut self) -> Vec<String> {
        self.lines.sort();
        self.lines.dedup();
        let rest = self.lines.len().saturating_sub(NAMED);
        let mut words: Vec<String> = self
            .lines
            .iter()
            .take(NAMED)
            .map(|(line, why)| {
                format!("{}: line {line} is damaged ({why}): it is left out of the picture", self.path.display())
            })
            .collect();
        if rest > 0 {
            words.push(format!("{}: {rest} more lines are damaged and left out", self.path.display()));
        }
        words
    }
}

/// The worst messages by a tag's time, the worst first.
fn tagged(outliers: &[Outlier], tag: &str) -> Vec<Tagged> {
    let (bare, host) = tag.split_once('@').map_or((tag, None), |(bare, host)| (bare, Some(host)));
    let mut tagged: Vec<Tagged> = outliers
        .iter()
        .filter(|outlier| host.is_none() || outlier.host.as_deref().map(in_tag).as_deref() == host)
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

/// One strip to be summed.
struct Plan<'a> {
    start_ns: u64,
    column_ns: u64,
    columns: usize,
    lines: &'a [(u64, u64, hlog::Line<'a>)],
    lost: Vec<u64>,
    /// Whether damaged lines of it are reported: not twice.
    reports: bool,
}

fn plan<'a>(
    lines: &'a [(u64, u64, hlog::Line<'a>)],
    lost: &[(u64, u64)],
    tagged: &[Tagged],
    options: &Options,
) -> Vec<Plan<'a>> {
    let interval = lines.iter().map(|(_, length, _)| *length).max().unwrap_or(0).max(1_000_000);
    let last = lines.last().map_or(0, |(start, _, _)| *start).max(lost.last().map_or(0, |(start, _)| *start));
    let column_ns = column_length(interval, last, options);
    let mut plans = vec![part(lines, lost, 0, column_ns, count(last, column_ns), true)];
    if column_ns > interval {
        let mut windows: Vec<(u64, u64)> = tagged
            .iter()
            .take(options.details)
            .map(|one| {
                let from = one.at_ns.saturating_sub(options.detail_ns) / interval;
                let to = one.at_ns.saturating_add(options.detail_ns).min(last) / interval;
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
        for (from, to) in joined {
            let columns = usize::try_from(to - from + 1).unwrap_or(usize::MAX).min(DETAIL_COLUMNS);
            plans.push(part(lines, lost, from * interval, interval, columns, false));
        }
    }
    plans
}

fn count(last_ns: u64, column_ns: u64) -> usize {
    usize::try_from(last_ns / column_ns + 1).unwrap_or(usize::MAX)
}

/// The length of the columns: a step of the ladder that whole intervals fill, or intervals doubled.
fn column_length(interval: u64, last: u64, options: &Options) -> u64 {
    let most = options.max_columns.max(1);
    let fits = |length: u64| length.is_multiple_of(interval) && count(last, length) <= most;
    let asked = options.column_ns.filter(|length| *length > 0 && fits(*length));
    let mut doubled = interval;
    while count(last, doubled) > most {
        doubled = doubled.saturating_mul(2);
    }
    let step = || LADDER.into_iter().find(|length| fits(*length)).filter(|length| *length <= doubled.saturating_mul(4));
    asked.or_else(step).unwrap_or(doubled)
}

fn part<'a>(
    lines: &'a [(u64, u64, hlog::Line<'a>)],
    lost: &[(u64, u64)],
    start_ns: u64,
    column_ns: u64,
    columns: usize,
    reports: bool,
) -> Plan<'a> {
    let mut by_column = vec![0; columns];
    for (at, count) in lost {
        let column = at.checked_sub(start_ns).and_then(|at| usize::try_from(at / column_ns).ok());
        if let Some(sum) = column.and_then(|column| by_column.get_mut(column)) {
            *sum += count;
        }
    }
    let end = start_ns.saturating_add(column_ns.saturating_mul(columns as u64));
    let from = lines.partition_point(|(start, _, _)| *start < start_ns);
    let to = lines.partition_point(|(start, _, _)| *start < end);
    Plan { start_ns, column_ns, columns, lines: lines.get(from..to).unwrap_or_default(), lost: by_column, reports }
}

/// The messages of a tag: of one reflector, where the tag names it.
fn messages<'a>(result: &'a ResultDocument, tag: &str) -> &'a Messages {
    let host = tag.split_once('@').map(|(_, host)| host);
    let of_host = |host: &str| result.reflectors.iter().find(|reflector| in_tag(&reflector.host) == host);
    host.and_then(of_host).map_or(&result.messages, |reflector| &reflector.messages)
}

/// A host as it stands in a tag: what would part the fields of a log is replaced there.
fn in_tag(host: &str) -> String {
    host.chars().map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

/// Messages that never came back, by the start of the series' interval that they were sent in. A series says it for all
/// reflectors together: there are none for a tag that names one.
fn losses(result: &ResultDocument, tag: &str) -> Vec<(u64, u64)> {
    let host = tag.split_once('@').map(|(_, host)| host);
    let fits = |of: &str| host.is_none_or(|host| in_tag(of) == host);
    let mut all: Vec<_> =
        result.series.iter().filter(|series| series.quantity == "lost" && fits(&series.host)).collect();
    if all.iter().any(|series| series.host == "initiator") {
        all.retain(|series| series.host == "initiator");
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

/// What one thread sums one column in: 128 buckets an octave.
struct Fine {
    counts: Vec<u64>,
    low: usize,
    high: usize,
    linear: Vec<u64>,
    linear_high: usize,
    max_ns: u64,
    total: u64,
    above_2011: u64,
}

const FINE: u32 = 7;

fn fine_place(ns: u64) -> usize {
    if ns < 1 << FINE {
        return usize::try_from(ns).unwrap_or(0);
    }
    let shift = ns.ilog2() - FINE;
    ((shift as usize) << FINE) + usize::try_from(ns >> shift).unwrap_or(0)
}

fn fine_low(place: usize) -> u64 {
    let shift = (place >> FINE).saturating_sub(1);
    ((place - (shift << FINE)) as u64) << shift
}

/// How many messages of a bucket lie at a time or below it, were they spread evenly; whole messages.
fn up_to(bucket: &Bucket, ns: u64) -> u64 {
    let width = u128::from(bucket.high_ns - bucket.low_ns) + 1;
    let below = (u128::from(ns) + 1).saturating_sub(u128::from(bucket.low_ns)).min(width);
    u64::try_from((u128::from(bucket.count) * below + width / 2) / width).unwrap_or(bucket.count)
}

impl Fine {
    fn new() -> Self {
        Self {
            counts: vec![0; fine_place(HOUR_NS) + 1],
            low: usize::MAX,
            high: 0,
            linear: Vec::new(),
            linear_high: 0,
            max_ns: 0,
            total: 0,
            above_2011: 0,
        }
    }

    fn add(&mut self, bucket: Bucket, linear: Option<u64>) {
        let place = fine_place(bucket.low_ns);
        if let Some(count) = self.counts.get_mut(place) {
            *count += bucket.count;
        }
        self.low = self.low.min(place);
        self.high = self.high.max(place);
        self.total += bucket.count;
        if bucket.high_ns > TOP_2011_NS {
            self.above_2011 += bucket.count - up_to(&bucket, TOP_2011_NS);
        }
        if let Some(step_ns) = linear {
            self.add_linear(bucket, step_ns);
        }
    }

    /// A bucket that several rows share is spread over them evenly, to whole messages: else rows would differ by the
    /// number of buckets that end in them.
    fn add_linear(&mut self, bucket: Bucket, step_ns: u64) {
        let layout = Layout::Linear { step_ns };
        let place = |ns: u64| (layout.row(ns) as usize).min(LINEAR_ROWS - 1);
        let (first, last) = (place(bucket.low_ns), place(bucket.high_ns));
        if last >= self.linear.len() {
            self.linear.resize(last + 1, 0);
        }
        self.linear_high = self.linear_high.max(last);
        let mut given = 0;
        for row in first..=last {
            let end = (row as u64 + 1).saturating_mul(step_ns);
            let upto = if row == last { bucket.count } else { up_to(&bucket, end) };
            if let Some(count) = self.linear.get_mut(row) {
                *count += upto.saturating_sub(given);
            }
            given = given.max(upto);
        }
    }

    /// Rows and counts of the column, and the tally empty again.
    fn take(&mut self, linear: bool) -> Summed {
        let mut rows: Vec<(u32, u64)> = Vec::new();
        if self.low <= self.high {
            let counts = self.counts.get_mut(self.low..=self.high).unwrap_or_default();
            for (place, count) in (self.low..).zip(counts) {
                let count = std::mem::take(count);
                if count == 0 {
                    continue;
                }
                let row = Layout::Log.row(fine_low(place));
                match rows.last_mut() {
                    Some((last, sum)) if *last == row => *sum += count,
                    _ => rows.push((row, count)),
                }
            }
        }
        let linear = linear.then(|| {
            let counts = self.linear.get_mut(..=self.linear_high).unwrap_or_default();
            let cells = (0_u32..).zip(counts).map(|(row, count)| (row, std::mem::take(count)));
            cells.filter(|(_, count)| *count > 0).collect()
        });
        let column = Column {
            count: self.total,
            lost: 0,
            max_ns: (self.total > 0).then_some(self.max_ns),
            above_2011: self.above_2011,
        };
        (self.low, self.high, self.linear_high) = (usize::MAX, 0, 0);
        (self.max_ns, self.total, self.above_2011) = (0, 0, 0);
        Summed { column, rows, linear }
    }
}

struct Summed {
    column: Column,
    rows: Vec<(u32, u64)>,
    linear: Option<Vec<(u32, u64)>>,
}

/// One piece of work's results.
struct Done {
    plan: usize,
    first: usize,
    columns: Vec<Summed>,
    damaged: Vec<(usize, String)>,
}

/// Sums all plans, in several threads.
fn sum(plans: &[Plan<'_>], divisor: f64, options: &Options, damage: &mut Damage<'_>) -> Vec<Strip> {
    let jobs: Vec<(usize, Range<usize>)> = plans
        .iter()
        .enumerate()
        .flat_map(|(number, plan)| {
            (0..plan.columns).step_by(CHUNK).map(move |from| (number, from..(from + CHUNK).min(plan.columns)))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Done>> = Mutex::new(Vec::new());
    let work = || {
        let (mut decoder, mut fine) = (Decoder::new(), Fine::new());
        let mut mine = Vec::new();
        while let Some((number, columns)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(plan) = plans.get(*number) {
                mine.push(piece(*number, plan, columns.clone(), divisor, options, &mut decoder, &mut fine));
            }
        }
        if let Ok(mut all) = done.lock() {
            all.append(&mut mine);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.clamp(1, 16).min(jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|piece| (piece.plan, piece.first));
    let mut strips: Vec<Strip> = plans
        .iter()
        .map(|plan| Strip {
            start_ns: plan.start_ns,
            column_ns: plan.column_ns,
            columns: Vec::with_capacity(plan.columns),
            log: Grid { layout: Layout::Log, columns: Vec::with_capacity(plan.columns) },
            linear: options
                .linear_ns
                .map(|step_ns| Grid { layout: Layout::Linear { step_ns }, columns: Vec::with_capacity(plan.columns) }),
        })
        .collect();
    for piece in done {
        let (Some(strip), Some(plan)) = (strips.get_mut(piece.plan), plans.get(piece.plan)) else { continue };
        for mut summed in piece.columns {
            summed.column.lost = plan.lost.get(strip.columns.len()).copied().unwrap_or(0);
            strip.columns.push(summed.column);
            strip.log.columns.push(summed.rows);
            if let (Some(linear), Some(rows)) = (&mut strip.linear, summed.linear) {
                linear.columns.push(rows);
            }
        }
        if plan.reports {
            damage.lines.extend(piece.damaged);
        }
    }
    strips
}

fn piece(
    number: usize,
    plan: &Plan<'_>,
    columns: Range<usize>,
    divisor: f64,
    options: &Options,
    decoder: &mut Decoder,
    fine: &mut Fine,
) -> Done {
    let mut done = Done { plan: number, first: columns.start, columns: Vec::new(), damaged: Vec::new() };
    for column in columns {
        let from = plan.start_ns + plan.column_ns * column as u64;
        let to = from + plan.column_ns;
        let first = plan.lines.partition_point(|(start, _, _)| *start < from);
        for (_, _, line) in plan.lines.iter().skip(first).take_while(|(start, _, _)| *start < to) {
            let mut top = Bucket { low_ns: 0, high_ns: 0, count: 0 };
            let read = decoder.each(line.histogram, |bucket| {
                fine.add(bucket, options.linear_ns);
                top = bucket;
            });
            match read {
                Err(error) => done.damaged.push((line.number, error.to_string())),
                Ok(0) => {}
                Ok(_) => {
                    // The log names the largest value to the ns; a wrong one must not leave its bucket.
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
                    let exact = (line.max * divisor).round() as u64;
                    fine.max_ns = fine.max_ns.max(exact.clamp(top.low_ns, top.high_ns));
                }
            }
        }
        done.columns.push(fine.take(options.linear_ns.is_some()));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_buckets_lie_within_rows() {
        for place in 0..fine_place(HOUR_NS) {
            let (low, next) = (fine_low(place), fine_low(place + 1));
            assert_eq!(fine_place(low), place);
            assert_eq!(Layout::Log.row(low), Layout::Log.row(next - 1), "{low} to {next}");
        }
    }

    #[test]
    fn buckets_are_spread_over_linear_rows_to_the_last_message() {
        let mut fine = Fine::new();
        // 8 µs wide from 1,024 µs on: four of each five rows of 10 µs would hold one bucket, the fifth two of them.
        for number in 0..100_u64 {
            let low_ns = 1_024_000 + number * 8_000;
            fine.add(Bucket { low_ns, high_ns: low_ns + 7_999, count: 80 }, Some(10_000));
        }
        fine.add(Bucket { low_ns: 5_000, high_ns: 5_000, count: 1 }, Some(10_000));
        let rows = fine.take(true).linear.unwrap();
        assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 8_001);
        let inner: Vec<u64> =
            rows.iter().filter(|(row, _)| (110..180).contains(row)).map(|(_, count)| *count).collect();
        assert!(inner.len() == 70 && inner.iter().all(|count| count.abs_diff(100) <= 1), "{inner:?}");
        assert_eq!(rows[0], (0, 1));
        assert!(fine.take(true).linear.unwrap().is_empty());
    }

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

    #[test]
    fn times_of_no_measurement_are_refused() {
        assert_eq!(nanoseconds(0.3), Some(300_000_000));
        assert_eq!([-0.1, 1e300, f64::NAN].map(nanoseconds), [None; 3]);
    }
}
