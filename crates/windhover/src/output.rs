//! All printing: results on standard output, everything else on standard error.
//!
//! Text passes [`model::text::visible`] here, whoever wrote it: what steers a terminal is shown and not done. Only our own colours,
//! messages printed as they came ([`Output::bytes`]) and what programs of the user write are left alone.

use crate::cli::usage::UsageError;
use crate::cli::{Cli, Colour};
use anstyle::{AnsiColor, Style};
use model::text::{visible, visible_line};
use report::{Column, Grid};
use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use store::Folder;

macro_rules! refuse {
    ($($said:tt)+) => {
        return Err($crate::output::Failure::usage(anyhow::anyhow!($($said)+)))
    };
}

/// A JSON object: fields of a value under their own names, then what has another name or form.
macro_rules! fields {
    ($value:expr; $($field:ident),+; $($rest:tt)*) => {
        serde_json::json!({ $((stringify!($field)): $value.$field,)+ $($rest)* })
    };
}

/// An error with the exit code it ends the program with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What went wrong; its whole chain is printed on one line.
    pub(crate) error: anyhow::Error,
}

impl Failure {
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 2, error: error.into() }
    }

    pub(crate) fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into() }
    }

    /// The whole chain on one line. A cause that the words before it end with is not repeated.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            if line.is_empty() {
                line = cause;
            } else if !line.ends_with(&cause) {
                line = format!("{line}: {cause}");
            }
        }
        line.replace('\n', " ")
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: 1, error: error.into() }
    }
}

/// Text width: `COLUMNS`, else the terminal's. Without a terminal lines keep their length, for programs and editors.
pub(crate) fn width() -> usize {
    const LEAST: usize = 40;
    const UNLIMITED: usize = 1 << 16;
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    told.or_else(terminal).filter(|columns| *columns > 0).unwrap_or(UNLIMITED).max(LEAST)
}

/// A table of words as wide as [`width`], one heading a column.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let columns = headings.iter().map(|heading| Column::words(heading)).collect();
    Grid { columns, rows, ..Grid::default() }.text(width())
}

/// A paragraph as wide as [`width`], its further lines below the end of `lead`.
pub(crate) fn paragraph(lead: &str, text: &str) -> String {
    report::paragraph(lead, text, width())
}

/// Text whose lines are as wide as [`width`] at most: what is longer goes on below, two columns further in.
pub(crate) fn wrapped(text: &str) -> String {
    const FURTHER: usize = 2;
    let width = width();
    let mut out = String::new();
    for line in text.lines() {
        let (lead, rest) = line.split_at(line.len() - line.trim_start().len());
        // As wide as the first line may be with its further indent, so that no later one is wider.
        let lines = report::paragraph(&format!("{lead}{}", " ".repeat(FURTHER)), rest, width);
        let fits = line.chars().count() <= width;
        out.push_str(if fits { line } else { lead });
        out.push_str(if fits { "\n" } else { lines.trim_start() });
    }
    out
}

/// Writes a file atomically; existing ones need `overwrites`. Devices, pipes and links stay. `flag` names the file.
pub(crate) fn write_file(flag: &str, file: &Path, bytes: &[u8], overwrites: bool) -> Result<(), Failure> {
    if !overwrites && file.exists() {
        return Err(Failure::usage(anyhow::anyhow!(
            "{} exists: name another file with {flag}, or give --force",
            file.display()
        )));
    }
    let is_special = std::fs::metadata(file).is_ok_and(|facts| !facts.is_file());
    let written = if is_special {
        std::fs::OpenOptions::new().write(true).open(file).and_then(|mut opened| opened.write_all(bytes))
    } else {
        replace(&std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()), bytes)
    };
    written.map_err(|error| {
        Failure::new(1, anyhow::anyhow!("cannot write {}: {error}: name another place with {flag}", file.display()))
    })
}

/// Writes a file into a folder whole or not at all; one of this name is replaced, and no link is followed.
pub(crate) fn write_into(folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error| Failure::new(1, anyhow::anyhow!("{error}: name another place with --output"));
    folder.write(name, bytes).map_err(failed)
}

fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let beside = std::path::PathBuf::from(beside);
    // What is there is of an attempt that was cut short, or a link that somebody put there: a new file follows none.
    let _ = std::fs::remove_file(&beside);
    let fresh = std::fs::OpenOptions::new().write(true).create_new(true).open(&beside);
    let written = fresh.and_then(|mut fresh| fresh.write_all(bytes)).and_then(|()| std::fs::rename(&beside, file));
    if written.is_err() {
        // Half a file is of no use; if it cannot be removed either, nothing changes.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// A value as a JSON document for people to read, its keys in alphabetical order.
pub(crate) fn json(value: impl serde::Serialize) -> Result<String, Failure> {
    Ok(format!("{:#}\n", serde_json::to_value(value)?))
}

/// A value as a JSON document for people to read, its fields in their order.
pub(crate) fn json_in_order(value: &impl serde::Serialize) -> Result<String, Failure> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes text to standard output; false when its reader went away.
pub(crate) fn written(text: &str) -> std::io::Result<bool> {
    written_bytes(visible(text).as_bytes())
}

/// Writes what is no text to standard output; false when its reader went away.
pub(crate) fn written_bytes(bytes: &[u8]) -> std::io::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// What could not be written to standard output, with a blank behind it, or nothing.
pub(crate) fn unwritten(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(1, anyhow::anyhow!("cannot write {what}to standard output: {error}"))
}

pub(crate) fn help(text: &clap::builder::StyledStr) {
    // An error of standard error has no other place to go to.
    let _ = write!(anstream::stdout().lock(), "{}", text.ansi());
}

pub(crate) fn usage(wrong: &UsageError) {
    let mut stderr = anstream::stderr().lock();
    let mut line = |colour: AnsiColor, head: &str, text: &str| {
        let style = colour.on_default().bold();
        // An error of standard error has no other place to go to.
        let _ = writeln!(stderr, "{style}{head}:{style:#} {}", visible(text));
    };
    line(AnsiColor::Red, "error", &wrong.error);
    if let Some(tip) = &wrong.tip {
        line(AnsiColor::Green, "tip", tip);
    }
}

#[derive(Debug)]
pub(crate) struct Output {
    quiet: bool,
    colour: anstream::ColorChoice,
    colour_of_results: anstream::ColorChoice,
}

impl Output {
    pub(crate) fn new(cli: &Cli) -> Self {
        let (colour, colour_of_results) = match cli.color {
            Colour::Auto => {
                (anstream::AutoStream::choice(&std::io::stderr()), anstream::AutoStream::choice(&std::io::stdout()))
            }
            Colour::Always => (anstream::ColorChoice::Always, anstream::ColorChoice::Always),
            Colour::Never => (anstream::ColorChoice::Never, anstream::ColorChoice::Never),
        };
        Self { quiet: cli.is_quiet(), colour, colour_of_results }
    }

    /// Writes a result. A reader that went away (a closed pipe) is no error.
    pub(crate) fn result(&self, text: &str) -> Result<(), Failure> {
        let text = if self.colours_results() { Cow::Owned(coloured(text)) } else { visible(text) };
        written_bytes(text.as_bytes()).map_err(|error| unwritten("the result ", &error)).map(drop)
    }

    /// Writes a part of a long result; false once its reader went away.
    pub(crate) fn part(&self, text: &str) -> Result<bool, Failure> {
        self.bytes(visible(text).as_bytes())
    }

    /// Writes a part of a result that is no text; false once its reader went away.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<bool, Failure> {
        written_bytes(bytes).map_err(|error| unwritten("", &error))
    }

    pub(crate) fn colours_results(&self) -> bool {
        self.colour_of_results != anstream::ColorChoice::Never
    }

    /// Writes one line for people, unless --quiet.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.quiet {
            self.line(Style::new(), "", &text.to_string());
        }
    }

    pub(crate) fn warning(&self, text: impl fmt::Display) {
        if !self.quiet {
            self.line(AnsiColor::Yellow.on_default().bold(), "warning: ", &visible_line(&text.to_string()));
        }
    }

    pub(crate) fn error(&self, failure: &Failure) {
        self.line(AnsiColor::Red.on_default().bold(), "windhover: ", &visible_line(&failure.line()));
    }

    /// Asks a person something and leaves the cursor behind it.
    pub(crate) fn ask(&self, question: &str) {
        let mut stderr = anstream::AutoStream::new(std::io::stderr().lock(), self.colour);
        // An error of standard error has no other place to go to.
        let _ = write!(stderr, "{}", visible(question)).and_then(|()| stderr.flush());
    }

    /// Whether to draw progress: a person watches and did not ask for silence.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    fn line(&self, style: Style, head: &str, text: &str) {
        let mut stderr = anstream::AutoStream::new(std::io::stderr().lock(), self.colour);
        // An error of standard error has no other place to go to.
        let _ = writeln!(stderr, "{style}{head}{style:#}{}", visible(text));
    }
}

/// Visible text that keeps our own colours, which change nothing but how letters look.
fn coloured(text: &str) -> String {
    const BEGIN: &str = "\x1b[";
    const OURS: [&str; 5] = ["0", "1", "1;31", "1;32", "1;33"];
    let mut pieces = text.split(BEGIN);
    let mut shown = visible(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        match piece.split_once('m').filter(|(colour, _)| OURS.contains(colour)) {
            Some((colour, rest)) => shown.push_str(&format!("{BEGIN}{colour}m{}", visible(rest))),
            None => shown.push_str(&visible(&format!("{BEGIN}{piece}"))),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    /// Catches: colours of ours that are lost, colours that let other sequences pass, JSON that is no longer the same.
    #[test]
    fn only_our_own_colours_reach_the_terminal() {
        let ours = "\x1b[1;31mBAD\x1b[0m fine";
        assert_eq!(coloured(ours), ours);
        assert_eq!(coloured("\x1b]0;m\x1b[2J\x1b[8mx"), "\\u001b]0;m\\u001b[2J\\u001b[8mx");
        let json = serde_json::json!("\x1b[0m\u{202e}").to_string();
        assert_eq!(serde_json::from_str::<String>(&coloured(&json)).unwrap(), "\x1b[0m\u{202e}");
    }

    #[test]
    fn a_cause_is_said_once() {
        let failure = |outer: &str| Failure::from(anyhow::anyhow!("no device 'eth9'").context(outer.to_owned()));
        assert_eq!(failure("the shield: no device 'eth9'").line(), "the shield: no device 'eth9'");
        assert_eq!(failure("the shield").line(), "the shield: no device 'eth9'");
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write_file("--output", &at("file"), b"1", false).unwrap();
        assert_eq!(write_file("--output", &at("file"), b"2", false).unwrap_err().code, 2);
        symlink(at("file"), at("link")).unwrap();
        write_file("--output", &at("link"), b"22", true).unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::read(at("file")).unwrap(), b"22");
        // In the place of /dev/null, which a test must not touch: a socket, which cannot be opened for writing.
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        write_file("--output", &at("socket"), b"3", true).unwrap_err();
        assert!(std::fs::metadata(at("socket")).unwrap().file_type().is_socket());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left beside them");
    }
}
