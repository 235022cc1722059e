//! `windhover report` and `windhover show`.

use crate::cli::campaign::{ReportCommand, ReportFormat, Show};
use crate::cli::shared::MixArgs;
use crate::output::{Failure, Output, width, write_file, write_into};
use anyhow::anyhow;
use model::Substrate;
use model::text::visible;
use std::path::{Path, PathBuf};
use store::StoreError;

pub(crate) const REPORT: &str = "report.html";

pub(crate) fn report(arguments: &ReportCommand, output: &Output) -> Result<u8, Failure> {
    let form = form(arguments)?;
    if arguments.reference && matches!(form, ReportFormat::Csv | ReportFormat::Json) {
        refuse!(
            "--reference adds published rows, which are no results: use it with table, markdown, csv-cells or html"
        );
    }
    let runs = loaded(&arguments.runs, &arguments.mix, output)?;
    let default = report::Options::default();
    let size = arguments.size.unwrap_or(default.size);
    let options = report::Options { reference: arguments.reference, size, ..default };
    let failed = |error: store::StoreError| Failure::new(error.exit_code(), error);
    let stored = match form {
        ReportFormat::Csv => Some(store::csv(runs.iter().flat_map(|run| run.rows())).map_err(failed)?),
        ReportFormat::Json => Some(store::json(runs.iter().flat_map(|run| run.rows())).map_err(failed)?),
        _ => None,
    };
    let made = report::Report::from_runs(runs, &options);
    let sizes = made.table_sizes();
    if arguments.size.is_some_and(|size| !sizes.contains(&size)) {
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        refuse!("--size {size}: the table has no cell of this size: name one of {}", sizes.join(", "));
    }
    let text = match form {
        ReportFormat::Table => made.table_text(width()),
        ReportFormat::Markdown => made.markdown(),
        ReportFormat::Csv | ReportFormat::Json => stored.unwrap_or_default(),
        ReportFormat::CsvCells => made.csv(),
        ReportFormat::Html => {
            let page = made.page()?;
            page.problems.iter().for_each(|problem| output.warning(problem));
            page.html
        }
    };
    let default = (form == ReportFormat::Html).then(|| arguments.runs.first()).flatten();
    match (&arguments.output, default) {
        (Some(file), _) => write_file("--output", file, visible(&text).as_bytes(), arguments.force)?,
        (None, Some(run)) => {
            let file = run.join(REPORT);
            // A run's own report can be made again at any time; that of several runs is not it.
            if arguments.runs.len() > 1 && !arguments.force && file.exists() {
                refuse!("{} exists: name another file with --output, or give --force", file.display());
            }
            write_into(&store::Folder::open(run)?, REPORT, text.as_bytes())?;
            output.note(format_args!("report: {}", file.display()));
        }
        (None, None) => output.result(&text)?,
    }
    Ok(0)
}

/// Reads runs, warns of what is wrong in them, and refuses those of different substrates.
pub(super) fn loaded(folders: &[PathBuf], mix: &MixArgs, output: &Output) -> Result<Vec<store::Run>, Failure> {
    let runs = store::load_many(folders).map_err(unread)?;
    runs.iter().flat_map(|run| &run.problems).for_each(|problem| output.warning(problem));
    same_substrate(runs.iter().map(|run| (run.name(), run.run.substrate)), mix, output)?;
    Ok(runs)
}

/// Why runs cannot be read: a usage error. Of what is no run, the folder beside or in it that holds runs is named.
pub(super) fn unread(error: StoreError) -> Failure {
    let StoreError::NotARun(path) = &error else { return Failure::usage(error) };
    let holds_runs = |folder: &&Path| store::list(folder).is_ok_and(|runs| !runs.is_empty());
    let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = [Some(path.as_path()), beside].into_iter().flatten().find(holds_runs);
    match found {
        Some(folder) => Failure::usage(anyhow!(
            "{} is no run directory (it has no run.json): name one that 'windhover campaign list {}' shows",
            path.display(),
            folder.display()
        )),
        None => Failure::usage(error),
    }
}

/// Refuses runs of different substrates unless all of these were named; then a warning names the substrate of each.
pub(crate) fn same_substrate(
    runs: impl Iterator<Item = (String, Substrate)>,
    allowed: &MixArgs,
    output: &Output,
) -> Result<(), Failure> {
    let runs: Vec<_> = runs.collect();
    if let Some(mixed) = store::one_substrate(&runs, &allowed.substrates).map_err(Failure::usage)? {
        output.warning(mixed);
    }
    Ok(())
}

/// The form that is named, else that of the file's ending.
fn form(arguments: &ReportCommand) -> Result<ReportFormat, Failure> {
    let named = if arguments.json { Some(ReportFormat::Json) } else { arguments.format };
    let ending = arguments.output.as_deref().and_then(|file| file.extension()).map(|ending| ending.to_string_lossy());
    let (None, Some(ending)) = (named, ending) else { return Ok(named.unwrap_or(ReportFormat::Html)) };
    let found = ReportFormat::ENDINGS.into_iter().find(|(known, _)| *known == ending);
    found.map(|(_, form)| form).ok_or_else(|| {
        let known = ReportFormat::ENDINGS.map(|(ending, _)| format!(".{ending}")).join(", ");
        let file = arguments.output.clone().unwrap_or_default();
        Failure::usage(anyhow!(
            "{}: report knows the endings {known}: choose one of them, or name the form with --format",
            file.display()
        ))
    })
}

pub(crate) fn show(arguments: &Show, output: &Output) -> Result<u8, Failure> {
    let run = store::Run::load(&arguments.run).map_err(unread)?;
    for problem in &run.problems {
        output.warning(problem);
    }
    let options = report::Options { reference: arguments.reference, ..Default::default() };
    let made = report::Report::from_runs([run], &options);
    output.result(&made.table_text(width()))?;
    if arguments.cells {
        output.result(&format!("\n{}", made.cells_text(width())))?;
    }
    Ok(0)
}
