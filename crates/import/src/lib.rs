//! Results of other tools, read from what they write.
//!
//! Floor 0: text in, results out. [`FORMATS`] is the table of tools. A figure that a file does not hold is absent from the
//! result, and the finding `imported` names what is not known and how coarse the rest is.

#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod bins;
mod cell;
mod cyclictest;
mod error;
mod latency;
mod latmus;
mod lines;
mod rtla;
mod sfnt;
mod sockperf;

pub use error::ImportError;

use lines::{Lines, Problem};
use model::worker::Measured;
use model::{MachineFacts, Protocol, ResultDocument};

/// What a person knows and the file does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// Times without a unit are in ns; otherwise they are in µs.
    pub nanoseconds: bool,
    pub size: Option<u32>,
    pub protocol: Option<Protocol>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// A result for each distribution of the file. Their factors tell them apart.
    pub results: Vec<Measured>,
    /// The machine's facts in the file, if it has some.
    pub machine: Option<MachineFacts>,
}

#[derive(Debug)]
pub struct Format {
    /// The tool's name, which is the word on the command line.
    pub word: &'static str,
    /// What of its output is read, and which flag makes it.
    pub about: &'static str,
    parse: fn(&Lines<'_>, &Hints) -> Result<Imported, Problem>,
}

pub static FORMATS: [Format; 6] = [
    Format { word: "latmus", about: "libevl's latmus (Xenomai 4): the file of -g FILE", parse: latmus::parse },
    Format { word: "latency", about: "Xenomai 3's latency: the file of -g FILE", parse: latency::parse },
    Format {
        word: "cyclictest",
        about: "rt-tests' cyclictest: -q -h 400 or --json (histograms), -v (each wake-up), else its last lines",
        parse: cyclictest::parse,
    },
    Format { word: "rtla", about: "the kernel's rtla: what rtla timerlat hist prints", parse: rtla::parse },
    Format {
        word: "sockperf",
        about: "sockperf's client: what it prints, or the file of --full-log (each message)",
        parse: sockperf::parse,
    },
    Format { word: "sfnt", about: "sfnt-pingpong: the table that it prints, a result a size", parse: sfnt::parse },
];

/// Reads what a tool wrote. `file` is its name, for errors and for the results. Errors: [`ImportError`], one line with the file and the
/// line.
pub fn read(format: &Format, file: &str, bytes: &[u8], hints: &Hints) -> Result<Imported, ImportError> {
    let named = |problem: Problem| ImportError::Line { file: file.to_owned(), line: problem.line, why: problem.why };
    let parsed = Lines::new(bytes).and_then(|lines| {
        let imported = (format.parse)(&lines, hints)?;
        let why = imported.results.iter().find_map(|measured| contradiction(&measured.result));
        why.map_or(Ok(imported), |why| Err(lines.lacks(why)))
    });
    let mut imported = parsed.map_err(named)?;
    for measured in &mut imported.results {
        cell::name_file(measured, file);
    }
    Ok(imported)
}

/// What of a result's figures cannot be together, in words.
fn contradiction(result: &ResultDocument) -> Option<String> {
    let grain_ns = result.source.as_ref().and_then(|source| source.bin_ns).unwrap_or(0);
    let threads = result.wake.iter().flat_map(|wake| &wake.threads).map(|thread| &thread.latency);
    result.latency.iter().chain(threads).find_map(|latency| bins::contradicts(latency, grain_ns))
}
