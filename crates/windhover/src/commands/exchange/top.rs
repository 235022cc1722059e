//! `windhover exchange top`: the images of this host, live.

use super::tables::count_or_dash;
use crate::cli::exchange::Top;
use crate::commands::signals;
use crate::output::{Failure, Output, width};
use exchange::judge;
use exchange_io::{ImageError, ImageReader};
use report::{Column, Grid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(20);
/// Clears a terminal and begins at its top.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// An image as it is now.
#[derive(Debug, Serialize)]
struct Row {
    node: String,
    topic: String,
    pid: u64,
    is_writer_alive: bool,
    /// As a reader gets it; absent where the sample stayed locked.
    quality: Option<exchange::Quality>,
    rate_hz: f64,
    age_ns: Option<u64>,
    /// Absent where frames carry no sequence numbers, as `missing`.
    sequence: Option<u64>,
    missing: Option<u64>,
    misses: u64,
    longest_run: u64,
}

pub(super) fn run(arguments: &Top, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let interval = Duration::from_secs_f64(arguments.interval);
    let is_live = io::stdout().is_terminal() && !arguments.form.is_json() && !arguments.once;
    let mut reported = BTreeSet::new();
    let mut written = counts(&mut reported, output)?;
    loop {
        let begun = Instant::now();
        while begun.elapsed() < interval && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(interval));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let now = counts(&mut reported, output)?;
        let seconds = begun.elapsed().as_secs_f64();
        let rows: Vec<Row> = now
            .iter()
            .map(|(path, (reader, count))| {
                let since = written.get(path).map_or(*count, |(_, before)| *before);
                row(path, reader, count.saturating_sub(since) as f64 / seconds)
            })
            .collect();
        let text = if arguments.form.is_json() { format!("{}\n", serde_json::to_string(&rows)?) } else { table(&rows) };
        if is_live {
            output.bytes(CLEAR)?;
        }
        if !output.part(&text)? || arguments.once {
            return Ok(0);
        }
        written = now;
    }
}

type Images = BTreeMap<PathBuf, (ImageReader, u64)>;

/// The images that can be read, with their numbers of samples. A fault of another is reported once.
fn counts(reported: &mut BTreeSet<PathBuf>, output: &Output) -> Result<Images, Failure> {
    let mut found = BTreeMap::new();
    for path in exchange_io::images()? {
        match ImageReader::open(&path, None) {
            Ok(reader) => {
                let count = reader.written();
                found.insert(path, (reader, count));
            }
            // Its node ended meanwhile.
            Err(ImageError::Open { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if reported.insert(path) {
                    output.warning(error);
                }
            }
        }
    }
    Ok(found)
}

fn row(path: &Path, reader: &ImageReader, rate_hz: f64) -> Row {
    let spec = reader.spec();
    let now_ns = clock::monotonic_ns();
    let latest = reader.latest(&mut []);
    let sample = latest.ok().flatten();
    let age_ns = sample.map(|sample| now_ns.saturating_sub(sample.stored_ns));
    let published = sample.map(|sample| sample.quality).zip(age_ns);
    let counters = reader.counts();
    // `windhover.NODE.TOPIC`
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = name.splitn(3, '.').skip(1).map(str::to_owned);
    Row {
        node: parts.next().unwrap_or_default(),
        topic: parts.next().unwrap_or_default(),
        pid: reader.pid(),
        is_writer_alive: reader.is_writer_alive(now_ns),
        quality: latest.is_ok().then(|| judge(published, spec.stale_ns, spec.on_stale).0),
        rate_hz,
        age_ns,
        sequence: sample.map(|sample| sample.sequence).filter(|_| reader.is_numbered()),
        missing: reader.is_numbered().then_some(counters.missing),
        misses: counters.misses,
        longest_run: counters.longest_run,
    }
}

fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no image of a topic: start a node with windhover exchange run\n".to_owned();
    }
    let text = |row: &Row| {
        let writer = if row.is_writer_alive { row.pid.to_string() } else { format!("{} dead", row.pid) };
        let quality = row.quality.map_or_else(|| "LOCKED".to_owned(), |quality| quality.to_string());
        let age = row.age_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns as f64 / 1e6));
        let counts = [row.sequence, row.missing, Some(row.misses), Some(row.longest_run)].map(count_or_dash);
        let words = [row.node.clone(), row.topic.clone(), writer, quality];
        words.into_iter().chain([format!("{:.0}", row.rate_hz), age]).chain(counts).collect()
    };
    let words = ["node", "topic", "writer", "quality"].map(Column::words);
    let figures =
        [("rate", "Hz"), ("age", "ms"), ("sequence", ""), ("missing", ""), ("misses", ""), ("longest", "run")];
    let columns = words.into_iter().chain(figures.map(|(title, unit)| Column::figures(title, unit))).collect();
    Grid { columns, rows: rows.iter().map(text).collect(), ..Grid::default() }.text(width())
}
