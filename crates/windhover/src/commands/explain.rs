//! `windhover explain`.

use super::report::unread;
use crate::cli::explain::Explain;
use crate::output::{Failure, Output, width, write_file};
use anyhow::anyhow;
use model::result::Outlier;
use model::run::RunStep;
use model::text::visible;
use model::{Explanation, ResultDocument};
use report::ReportError;
use report::charts;
use std::collections::BTreeSet;
use std::path::Path;
use store::TracedMessage;

/// Writes the events around some messages in another tool's form.
type Form = fn(&[TracedMessage<'_>]) -> String;

const FORMS: [(&str, Form); 2] = [("json", store::chrome_trace), ("txt", store::trace_text)];

#[derive(serde::Serialize)]
struct Cell<'a> {
    #[serde(skip)]
    index: u32,
    cell: &'a str,
    repetition: u32,
    explanation: &'a Explanation,
    messages: Vec<Outlier>,
}

pub(crate) fn run(arguments: &Explain, output: &Output) -> Result<u8, Failure> {
    if let Some(process) = &arguments.live {
        return super::explain_live::run(process, arguments, output);
    }
    let Some(folder) = &arguments.run else { return super::self_test::run(arguments, output) };
    let run = store::Run::load(folder).map_err(unread)?;
    for problem in &run.problems {
        output.warning(problem);
    }
    let wanted = arguments.cell.as_deref().map(|asked| charts::cell_key(std::slice::from_ref(&run), asked)).transpose();
    let wanted = wanted.map_err(|error: ReportError| Failure::usage(error))?;
    let of_it = |(step, _): &&(RunStep, ResultDocument)| wanted.as_ref().is_none_or(|key| *key == step.cell);
    let mut cells = Vec::new();
    for (step, result) in run.results.iter().filter(of_it) {
        let Some(explanation) = &result.explanation else { continue };
        let messages = store::explained(&run.path, step.index)?;
        cells.push((
            result,
            Cell { index: step.index, cell: &step.cell, repetition: step.repetition, explanation, messages },
        ));
    }
    if cells.is_empty() {
        let which =
            wanted.map_or_else(|| "no cell of this run".to_owned(), |key| format!("the cell {key} of this run"));
        let verb = if which.starts_with("no") { "is" } else { "is not" };
        return Err(Failure::usage(anyhow!(
            "{which} {verb} explained: measure it with --explain, or with explain = true in its plan"
        )));
    }
    if let Some(file) = &arguments.export {
        return export(&run, &cells, file, arguments, output);
    }
    if let Some(seq) = arguments.message {
        return message(&mut cells, seq, arguments.json, output);
    }
    if arguments.json {
        let cells: Vec<&Cell<'_>> = cells.iter().map(|(_, cell)| cell).collect();
        output.result(&format!("{}\n", serde_json::to_string_pretty(&cells)?))?;
        return Ok(0);
    }
    for (at, (result, cell)) in cells.iter().enumerate() {
        let lead = if at > 0 { "\n" } else { "" };
        output.result(&format!("{lead}{}, repetition {}\n", cell.cell, cell.repetition))?;
        output.result(&report::explained_text(result, width()).unwrap_or_default())?;
        if !cell.messages.is_empty() {
            output.result(&format!("\n{}", report::messages_text(&cell.messages, width())))?;
        }
    }
    Ok(0)
}

fn message(cells: &mut [(&ResultDocument, Cell<'_>)], seq: u64, json: bool, output: &Output) -> Result<u8, Failure> {
    cells.iter_mut().for_each(|(_, cell)| cell.messages.retain(|message| message.seq == seq));
    let found: Vec<&Cell<'_>> = cells.iter().map(|(_, cell)| cell).filter(|cell| !cell.messages.is_empty()).collect();
    if found.is_empty() {
        refuse!("message {seq} is not among the worst messages that were explained: windhover explain RUN lists them");
    }
    if json {
        output.result(&format!("{}\n", serde_json::to_string_pretty(&found)?))?;
        return Ok(0);
    }
    for (at, cell) in found.iter().enumerate() {
        let lead = if at > 0 { "\n" } else { "" };
        output.result(&format!("{lead}{}, repetition {}\n", cell.cell, cell.repetition))?;
        for message in &cell.messages {
            output.result(&report::message_text(message, width()))?;
        }
    }
    Ok(0)
}

/// Writes the windows of the one message, or all of them, to a file whose ending says in which form.
fn export(
    run: &store::Run,
    cells: &[(&ResultDocument, Cell<'_>)],
    file: &Path,
    arguments: &Explain,
    output: &Output,
) -> Result<u8, Failure> {
    let Some((_, form)) = FORMS.iter().find(|(ending, _)| file.extension().is_some_and(|known| known == *ending))
    else {
        refuse!(
            "{}: --export writes .json (Perfetto) and .txt (as trace-cmd): choose one of these endings",
            file.display()
        );
    };
    let windows = |(_, cell): &(&ResultDocument, Cell<'_>)| store::windows(&run.path, cell.index);
    let windows: Vec<_> =
        cells.iter().map(windows).collect::<Result<_, _>>().map_err(|error| Failure::new(error.exit_code(), error))?;
    let mut messages = Vec::new();
    for ((_, cell), window) in
        cells.iter().zip(&windows).flat_map(|(cell, windows)| windows.iter().map(move |window| (cell, window)))
    {
        if arguments.message.is_none_or(|seq| seq == window.seq) {
            let title = format!("{}, repetition {}", cell.cell, cell.repetition);
            let message = cell.messages.iter().find(|message| message.seq == window.seq);
            messages.push(TracedMessage { title, window, message });
        }
    }
    if messages.is_empty() {
        let what = arguments.message.map_or_else(|| "these cells".to_owned(), |seq| format!("message {seq}"));
        refuse!(
            "no events of {what} were kept: a repetition keeps those of its 20 slowest messages, which windhover explain RUN lists \
             first; runs of earlier versions have none"
        );
    }
    write_file("--export", file, visible(&form(&messages)).as_bytes(), arguments.force)?;
    let several: BTreeSet<(&str, u64)> = messages.iter().map(|one| (one.title.as_str(), one.window.seq)).collect();
    output.note(format_args!("export: {}, {}", file.display(), model::text::counted(several.len() as u64, "message")));
    Ok(0)
}
