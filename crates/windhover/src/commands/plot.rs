//! `windhover plot`.

use crate::cli::plot::{Plot, PlotFormat};
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use report::ReportError;
use report::figures::{self, Drawing, Wanted};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Draws figures of runs and writes them.
pub(crate) fn run(arguments: &Plot, output: &Output) -> Result<u8, Failure> {
    if let (Some(from), Some(to)) = (arguments.from_us, arguments.to_us)
        && from >= to
    {
        return Err(Failure::usage(anyhow!("--from-us must lie below --to-us")));
    }
    let many = store::load_many(&arguments.runs).map_err(Failure::usage)?;
    for problem in many.runs.iter().flat_map(|run| &run.problems) {
        output.warning(problem);
    }
    let wanted = Wanted {
        kinds: arguments.figures.iter().map(|figure| figure.kind()).collect(),
        cell: arguments.cell.clone(),
        against: arguments.against.clone(),
        repetition: arguments.repetition,
        tag: Some(arguments.tag.clone()),
        columns: usize::try_from(arguments.columns).ok(),
        look: arguments.look(),
    };
    let drawn = figures::draw(&many.runs, &wanted).map_err(|error| match error {
        ReportError::NoCell { .. } | ReportError::NoFigure { .. } => Failure::usage(error),
        error => Failure::from(error),
    })?;
    for problem in &drawn.problems {
        output.warning(problem);
    }
    if arguments.list {
        let lines: Vec<String> = drawn
            .drawings
            .iter()
            .map(|drawing| format!("{:<28} {:<14} {}\n", drawing.name, drawing.kind.word(), drawing.heading))
            .collect();
        output.result(&lines.concat())?;
        return Ok(0);
    }
    if drawn.drawings.is_empty() {
        return Err(Failure::new(1, anyhow!("the runs have no figure to draw: none of their cells has results")));
    }
    let target = Target::new(arguments, &drawn.drawings)?;
    for drawing in &drawn.drawings {
        let bytes = match target.format {
            PlotFormat::Png => drawing.png(),
            PlotFormat::Svg => drawing.svg().into_bytes(),
            PlotFormat::Csv => drawing.csv().into_bytes(),
        };
        let file = target.file(drawing);
        write(&file, &bytes, target.overwrites)?;
        output.note(format_args!("{}: {}", drawing.kind.word(), file.display()));
    }
    Ok(0)
}

/// Where figures go and in which form.
struct Target {
    format: PlotFormat,
    /// A folder, or the one file.
    path: PathBuf,
    one: bool,
    overwrites: bool,
}

impl Target {
    fn new(arguments: &Plot, drawings: &[Drawing]) -> Result<Self, Failure> {
        let of_ending = |path: &Path| match path.extension().and_then(|ending| ending.to_str()) {
            Some("png") => Some(PlotFormat::Png),
            Some("svg") => Some(PlotFormat::Svg),
            Some("csv") => Some(PlotFormat::Csv),
            _ => None,
        };
        let named = arguments.output.clone().filter(|path| !path.is_dir());
        let ending = named.as_deref().and_then(of_ending);
        let format = arguments.format.or(ending).unwrap_or(PlotFormat::Png);
        match (named, ending, &arguments.output) {
            (Some(path), Some(_), _) if drawings.len() > 1 => Err(Failure::usage(anyhow!(
                "{} figures do not fit into {}: name a folder, or choose one with --figure and --cell",
                drawings.len(),
                path.display()
            ))),
            (Some(path), Some(of_file), _) if of_file != format => Err(Failure::usage(anyhow!(
                "--format {} does not go with the ending of {}",
                format.ending(),
                path.display()
            ))),
            (Some(path), Some(_), _) => Ok(Self { format, path, one: true, overwrites: arguments.force }),
            (_, _, given) => {
                let own = || arguments.runs.first().map(|run| run.join("plots")).unwrap_or_default();
                let path = given.clone().unwrap_or_else(own);
                std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
                // What a folder holds under these names was drawn from runs, and can be drawn again.
                Ok(Self { format, path, one: false, overwrites: true })
            }
        }
    }

    fn file(&self, drawing: &Drawing) -> PathBuf {
        if self.one {
            return self.path.clone();
        }
        self.path.join(format!("{}.{}", drawing.name, self.format.ending()))
    }
}

/// Writes a file whole or not at all.
fn write(file: &Path, bytes: &[u8], overwrites: bool) -> Result<(), Failure> {
    if overwrites {
        let mut beside = file.as_os_str().to_owned();
        beside.push(".part");
        let beside = PathBuf::from(beside);
        let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, file));
        if written.is_err() {
            // Half a file helps nobody; that it cannot be removed either changes nothing.
            let _ = std::fs::remove_file(&beside);
        }
        written.with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    let mut opened = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Failure::usage(anyhow!("{} exists: name another file, or give --force", file.display())));
        }
        opened => opened.with_context(|| format!("cannot write {}", file.display()))?,
    };
    opened.write_all(bytes).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}
