//! `windhover report` and `windhover show`.

use crate::cli::campaign::{ReportCommand, ReportFormat, Show};
use crate::output::{Failure, Output, width};
use anyhow::{Context as _, anyhow};
use std::io::Write as _;
use std::path::Path;

/// Reports runs in one of several forms.
pub(crate) fn report(arguments: &ReportCommand, output: &Output) -> Result<u8, Failure> {
    if arguments.reference && matches!(arguments.format, ReportFormat::Csv | ReportFormat::Json) {
        return Err(Failure::usage(anyhow!(
            "--reference adds published rows, which are no results: use it with table, markdown, csv-cells or html"
        )));
    }
    let many = store::load_many(&arguments.runs).map_err(Failure::usage)?;
    for problem in many.runs.iter().flat_map(|run| &run.problems) {
        output.warning(problem);
    }
    if let Some(mixed) = many.mixed() {
        output.warning(mixed);
    }
    let options = report::Options { reference: arguments.reference, size: arguments.size, ..Default::default() };
    let made = report::Report::from_runs(&many.runs, &options);
    let text = match arguments.format {
        ReportFormat::Table => made.table_text(width()),
        ReportFormat::Markdown => made.markdown(),
        ReportFormat::Csv => {
            let rows = many.runs.iter().flat_map(|run| run.rows());
            store::csv(rows).map_err(|error| Failure::new(error.exit_code(), error))?
        }
        ReportFormat::CsvCells => made.csv(),
        ReportFormat::Json => {
            let results = many.runs.iter().flat_map(|run| run.results.iter().map(|(_, result)| result));
            store::json(results).map_err(|error| Failure::new(error.exit_code(), error))?
        }
        ReportFormat::Html => made.html()?,
    };
    let default = (arguments.format == ReportFormat::Html).then(|| arguments.runs.first()).flatten();
    match (&arguments.output, default) {
        (Some(file), _) => write(file, &text, arguments.force)?,
        (None, Some(run)) => {
            let file = run.join("report.html");
            replace(&file, &text)?;
            output.note(format_args!("report: {}", file.display()));
        }
        (None, None) => output.result(&text)?,
    }
    Ok(0)
}

/// Writes a file whole or not at all, whatever was there before.
pub(crate) fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    let beside = file.with_extension("html.part");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file));
    if written.is_err() {
        // Half a file helps nobody; that it cannot be removed either changes nothing.
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

fn write(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).truncate(true).create(true);
    if !force {
        options.create_new(true);
    }
    let mut opened = match options.open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Failure::usage(anyhow!("{} exists: name another file, or give --force", file.display())));
        }
        opened => opened.with_context(|| format!("cannot write {}", file.display()))?,
    };
    opened.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

/// Shows one run in the terminal.
pub(crate) fn show(arguments: &Show, output: &Output) -> Result<u8, Failure> {
    let run = store::Run::load(&arguments.run).map_err(Failure::usage)?;
    for problem in &run.problems {
        output.warning(problem);
    }
    let options = report::Options { reference: arguments.reference, ..Default::default() };
    let made = report::Report::from_runs(std::slice::from_ref(&run), &options);
    output.result(&made.table_text(width()))?;
    if arguments.cells {
        let results: Vec<_> = run.results.iter().map(|(_, result)| result.clone()).collect();
        output.result(&format!("\n{}", report::single_text(&results, width())))?;
    }
    Ok(0)
}
