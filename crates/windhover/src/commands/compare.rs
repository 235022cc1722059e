//! `windhover compare`.

use crate::cli::compare::{Compare, CompareFormat};
use crate::output::{Failure, Output, width};
use report::RunInput;
use report::compare::{CompareError, CompareOptions, Comparisons};

/// Exit code when a gate is broken.
const GATE_BROKEN: u8 = 3;

/// Compares two runs, or cells of one.
pub(crate) fn run(arguments: &Compare, output: &Output) -> Result<u8, Failure> {
    let options = options(arguments).map_err(failure)?;
    let a = load(&arguments.a, output)?;
    let b = arguments.b.as_ref().map(|path| load(path, output)).transpose()?;
    let made = Comparisons::new(&a, b.as_ref(), &options).map_err(failure)?;
    let text = match arguments.format {
        CompareFormat::Text => made.text(width(), arguments.all),
        CompareFormat::Markdown => made.markdown(),
        CompareFormat::Csv => made.csv(),
        CompareFormat::Json => made.json()?,
    };
    output.result(&text)?;
    let in_text = matches!(arguments.format, CompareFormat::Text | CompareFormat::Markdown);
    for gate in made.gates.iter().filter(|gate| gate.broken && !in_text) {
        output.warning(format_args!("gate '{}' is broken", gate.gate));
    }
    Ok(if made.broken() { GATE_BROKEN } else { 0 })
}

fn load(path: &std::path::Path, output: &Output) -> Result<RunInput, Failure> {
    let run = store::Run::load(path).map_err(Failure::usage)?;
    for problem in &run.problems {
        output.warning(problem);
    }
    Ok(RunInput::from(&run))
}

fn options(arguments: &Compare) -> Result<CompareOptions, CompareError> {
    Ok(CompareOptions {
        axis: arguments.axis.clone(),
        wheres: arguments.wheres.clone(),
        wheres_b: arguments.wheres_b.clone(),
        metrics: arguments.metrics.iter().map(|word| word.trim().parse()).collect::<Result<_, _>>()?,
        rtt: arguments.rtt,
        batches: arguments.batches,
        gates: arguments.gates.iter().map(|gate| gate.parse()).collect::<Result<_, _>>()?,
        significant: arguments.significant,
        seed: arguments.seed,
        ..CompareOptions::default()
    })
}

fn failure(error: CompareError) -> Failure {
    Failure::new(error.exit_code(), error)
}
