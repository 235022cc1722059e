//! The files of one cell: `cells/NNNN.*`.

use crate::{Folder, StoreError, folder, rundir};
#[cfg(feature = "raw")]
use flate2::{Compression, write::GzEncoder};
use model::result::{Outlier, Series};
use model::worker::Measured;
use model::{Event, EventWindow, Finding, FindingId, ResultDocument};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes that raw samples leave free at least, above all for `run.json` once more at the end.
const RESERVE: u64 = 256 << 10;
/// What files take on a disk beside their bytes.
const BLOCKS: u64 = 4096;

/// Suffixes of raw samples and of a capture.
const RAW: &str = ".raw.gz";
const CAPTURE: &str = ".pcapng";

/// What one cell left behind, to be written.
#[derive(Debug, Clone, Copy)]
pub struct CellFiles<'a> {
    /// `NNNN.json`.
    pub result: &'a ResultDocument,
    /// `NNNN.hlog`: HdrHistogram interval log; no file when empty.
    pub hlog: &'a str,
    /// `NNNN.outliers.jsonl`; no file when empty.
    pub outliers: &'a [Outlier],
    /// `NNNN.windows.jsonl`; no file when empty.
    pub windows: &'a [EventWindow],
    /// `NNNN.events.jsonl`, beside one `loss` for each lost outlier; no file when there are none.
    pub events: &'a [Event],
    /// `NNNN.raw.gz`: base64 as a worker sends it; stored decoded and compressed.
    pub raw: Option<&'a str>,
    /// `NNNN.pcapng`: base64 as a worker sends it; stored decoded.
    pub capture: Option<&'a str>,
}

impl<'a> CellFiles<'a> {
    /// The files of what a worker measured, with the events that the campaign saw.
    pub fn of(measured: &'a Measured, events: &'a [Event]) -> Self {
        Self {
            result: &measured.result,
            hlog: &measured.hlog,
            outliers: &measured.outliers,
            windows: &measured.windows,
            events,
            raw: measured.raw.as_deref(),
            capture: measured.capture.as_deref(),
        }
    }

    /// Those that may take more room than the disk has: suffix, and base64.
    fn large(&self) -> [(&'static str, Option<&'a str>); 2] {
        [(RAW, self.raw), (CAPTURE, self.capture)]
    }
}

fn name(index: u32, suffix: &str) -> String {
    format!("{index:04}{suffix}")
}

/// `cells/NNNN<suffix>` of a run.
pub(crate) fn path(run: &Path, index: u32, suffix: &str) -> PathBuf {
    run.join(rundir::CELLS).join(name(index, suffix))
}

/// Writes all files of a cell, the result document last, and waits until they are on disk. Raw samples and captures are given
/// up where all do not fit, which the verdict says then: what it gives back. `done` is called last, and may fail, too.
pub(crate) fn write(
    cells: &Folder,
    index: u32,
    files: &CellFiles<'_>,
    to_come: u32,
    mut done: impl FnMut() -> Result<(), StoreError>,
) -> Result<Option<Finding>, StoreError> {
    let given_up: Vec<String> =
        files.large().iter().filter(|(_, text)| text.is_some()).map(|(suffix, _)| name(index, suffix)).collect();
    match write_all(cells, index, files, to_come).and_then(|()| done()) {
        Err(StoreError::DiskFull { .. }) if !given_up.is_empty() => {}
        written => return written.map(|()| None),
    }
    given_up.iter().try_for_each(|name| cells.remove(name))?;
    let (names, was) = (given_up.join(" and "), if given_up.len() > 1 { "were" } else { "was" });
    let mut result = files.result.clone();
    let detail = format!("{names} {was} not kept: the disk was full; the figures and the interval log are whole");
    let finding = Finding::new(FindingId::RawNotKept, detail);
    result.verdict.add(finding.clone());
    write_all(cells, index, &CellFiles { result: &result, raw: None, capture: None, ..*files }, 0)?;
    done()?;
    Ok(Some(finding))
}

fn write_all(cells: &Folder, index: u32, files: &CellFiles<'_>, to_come: u32) -> Result<(), StoreError> {
    let document = document(cells, index, files.result)?;
    let taken = std::cell::Cell::new(document.len() as u64 + BLOCKS);
    let put = |suffix: &str, bytes: &[u8]| {
        taken.set(taken.get() + bytes.len() as u64 + BLOCKS);
        let name = name(index, suffix);
        // A cell measured again must not keep a file of the attempt that was cut short.
        if bytes.is_empty() { cells.remove(&name) } else { cells.write(&name, bytes) }
    };
    put(".hlog", files.hlog.as_bytes())?;
    put(".outliers.jsonl", &lines("outlier", files.outliers)?)?;
    put(".windows.jsonl", &lines("window", files.windows)?)?;
    put(".series.jsonl", &lines("series", &intervals(&files.result.series))?)?;
    let losses = files.outliers.iter().filter(|outlier| outlier.lost).map(loss);
    let events: Vec<Event> = files.events.iter().cloned().chain(losses).collect();
    put(".events.jsonl", &lines("event", &events)?)?;
    // The figures of this cell and of those to come have to fit beside raw samples and captures.
    let others = RESERVE.saturating_add(taken.get().saturating_mul(u64::from(to_come) + 1));
    files.large().into_iter().try_for_each(|file| put_large(cells, index, file, others, put))?;
    put(".json", &document)?;
    cells.sync()
}

/// The document as one line, read back first: JSON cannot write NaN, and a cell that cannot be read must not count as done.
fn document(cells: &Folder, index: u32, result: &ResultDocument) -> Result<Vec<u8>, StoreError> {
    let what = cells.path().join(name(index, ".json")).display().to_string();
    let mut text = serde_json::to_string(result).map_err(|error| StoreError::encoding(&what, &error))?;
    ResultDocument::read(&what, &text)
        .map_err(|error| StoreError::encoding(what, &format!("it does not read back: {error}")))?;
    text.push('\n');
    Ok(text.into_bytes())
}

fn lines<T: serde::Serialize>(what: &str, items: &[T]) -> Result<Vec<u8>, StoreError> {
    let mut text = Vec::new();
    for item in items {
        serde_json::to_writer(&mut text, item).map_err(|error| StoreError::encoding(what, &error))?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Series by quantity turned into one object an interval of each end; the crate's text has the form.
fn intervals(series: &[Series]) -> Vec<Map<String, Value>> {
    let mut groups: BTreeMap<(&str, u64), Vec<&Series>> = BTreeMap::new();
    for one in series {
        groups.entry((one.host.as_str(), one.interval_ns)).or_default().push(one);
    }
    let mut rows = Vec::new();
    for ((host, interval_ns), group) in groups {
        let length = group.iter().map(|one| one.values.len()).max().unwrap_or(0);
        for place in 0..length {
            let mut row = Map::new();
            row.insert("host".to_owned(), host.into());
            row.insert("at_ns".to_owned(), (place as u64).saturating_mul(interval_ns).into());
            row.insert("interval_ns".to_owned(), interval_ns.into());
            let values =
                group.iter().filter_map(|one| Some((one.quantity.to_string(), (*one.values.get(place)?).into())));
            row.extend(values);
            rows.push(row);
        }
    }
    rows
}

fn loss(outlier: &Outlier) -> Event {
    Event {
        kind: "loss".to_owned(),
        realtime_ns: outlier.realtime_ns,
        at_ns: Some(outlier.at_ns),
        host: None,
        seq: Some(outlier.seq),
        detail: String::new(),
    }
}

/// Writes raw samples or a capture, where this build knows them, with so many bytes left free while they are written.
#[cfg(feature = "raw")]
fn put_large(
    cells: &Folder,
    index: u32,
    (suffix, text): (&str, Option<&str>),
    free: u64,
    put: impl Fn(&str, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let bytes = text.map_or(Ok(Vec::new()), |text| decoded(&name(index, suffix), suffix, text))?;
    let reserve = name(index, ".reserve.tmp");
    if !bytes.is_empty() {
        cells.reserve(&reserve, free)?;
    }
    let kept = put(suffix, &bytes);
    let released = cells.remove(&reserve);
    kept.and(released)
}

#[cfg(not(feature = "raw"))]
fn put_large(
    _: &Folder,
    index: u32,
    (suffix, text): (&str, Option<&str>),
    _: u64,
    _: impl Fn(&str, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let needed = "raw samples and captures need the feature raw";
    text.map_or(Ok(()), |_| Err(StoreError::encoding(name(index, suffix), &needed)))
}

/// The bytes of a file that a worker sent as text, packed where its suffix says so.
#[cfg(feature = "raw")]
fn decoded(name: &str, suffix: &str, text: &str) -> Result<Vec<u8>, StoreError> {
    use base64::Engine as _;
    use std::io::Write as _;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|error| StoreError::encoding(name, &format!("it is not base64: {error}")))?;
    if suffix != RAW {
        return Ok(bytes);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&bytes).and_then(|()| packed.finish()).map_err(|error| StoreError::encoding(name, &error))
}

/// The worst messages of a cell of a run directory; none where the cell has no such file. Errors: [`StoreError::DamagedLine`],
/// [`StoreError::Read`].
pub fn outliers(run: &Path, index: u32) -> Result<Vec<Outlier>, StoreError> {
    let all: Vec<Outlier> = read_lines(&path(run, index, ".outliers.jsonl"))?;
    Ok(all.into_iter().filter(|message| message.segments.is_empty()).collect())
}

/// The late messages of a cell that were explained. They are of a pass of their own, so they have no place in the figures of the cell.
/// Errors: [`StoreError::DamagedLine`], [`StoreError::Read`].
pub fn explained(run: &Path, index: u32) -> Result<Vec<Outlier>, StoreError> {
    let all: Vec<Outlier> = read_lines(&path(run, index, ".outliers.jsonl"))?;
    Ok(all.into_iter().filter(|message| !message.segments.is_empty()).collect())
}

/// The kernel's events around the worst explained messages of a cell; none where the cell has no such file. Errors:
/// [`StoreError::DamagedLine`], [`StoreError::Read`].
pub fn windows(run: &Path, index: u32) -> Result<Vec<EventWindow>, StoreError> {
    read_lines(&path(run, index, ".windows.jsonl"))
}

/// What happened while a cell of a run directory was measured; none where the cell has no such file. Errors:
/// [`StoreError::DamagedLine`], [`StoreError::Read`].
pub fn events(run: &Path, index: u32) -> Result<Vec<Event>, StoreError> {
    read_lines(&path(run, index, ".events.jsonl"))
}

/// Reads a file of JSON lines; a file that is not there has none, and empty lines are passed over.
fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, StoreError> {
    parse_lines(path, &folder::read(path)?.unwrap_or_default(), true)
}

/// JSON lines; empty ones are damaged where they are not passed over.
pub(crate) fn parse_lines<T: serde::de::DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    pass_empty: bool,
) -> Result<Vec<T>, StoreError> {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line));
    let parse = |(line, text): (usize, &[u8])| {
        let damaged = |error: serde_json::Error| StoreError::DamagedLine {
            path: path.to_owned(),
            line,
            why: error.to_string().replace('\n', " "),
        };
        serde_json::from_slice(text).map_err(damaged)
    };
    (1..).zip(lines).filter(|(_, text)| !pass_empty || !text.is_empty()).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "raw")]
    use base64::Engine as _;
    use model::result::SeriesQuantity;
    #[cfg(feature = "raw")]
    use std::io::Read as _;

    #[test]
    fn series_turn_into_intervals() {
        let one = |quantity, host: &str, values: &[Option<f64>]| Series {
            quantity,
            host: host.to_owned(),
            interval_ns: 100,
            values: values.to_vec(),
        };
        let rows = intervals(&[
            one(SeriesQuantity::Received, "initiator", &[Some(3.0), None]),
            one(SeriesQuantity::Lost, "initiator", &[Some(0.0)]),
            one(SeriesQuantity::Received, "reflector", &[Some(3.0)]),
        ]);
        let text: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        let value = |row: usize, key: &str| rows[row].get(key).cloned();
        assert_eq!(rows.len(), 3, "{text:?}");
        assert_eq!(value(0, "received"), Some(3.0.into()));
        assert_eq!(value(1, "at_ns"), Some(100.into()));
        assert_eq!(value(1, "received"), Some(Value::Null));
        assert_eq!(value(1, "lost"), None);
        assert_eq!(value(2, "host"), Some("reflector".into()));
    }

    #[cfg(feature = "raw")]
    #[test]
    fn raw_samples_are_stored_decoded() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let text = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let packed = decoded("0001.raw.gz", RAW, &text).unwrap();
        assert_eq!(decoded("0001.pcapng", CAPTURE, &text).unwrap(), bytes);
        assert!(packed.len() < bytes.len() / 2);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, bytes);
        let error = decoded("0001.raw.gz", RAW, "!").unwrap_err().to_string();
        assert!(error.contains("0001.raw.gz"), "{error}");
    }
}
