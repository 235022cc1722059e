//! `windhover plot`.

use super::report::loaded;
use crate::cli::plot::{Figure, Plot, PlotFormat};
use crate::output::{Failure, Output, table, width, write_file, write_into};
use anyhow::{Context as _, anyhow};
use report::ReportError;
use report::charts::{self, Drawing, Wanted};
use report::{Column, Grid};
use std::path::{Path, PathBuf};

pub(crate) fn run(arguments: &Plot, output: &Output) -> Result<u8, Failure> {
    if let (Some(from), Some(to)) = (arguments.from_us, arguments.to_us)
        && from >= to
    {
        refuse!("--from-us must lie below --to-us");
    }
    let runs = loaded(&arguments.runs, &arguments.mix, output)?;
    // Names are those of --list, of all figures.
    let is_named = arguments.figures.iter().any(|figure| figure.name.is_some());
    let wanted = Wanted {
        kinds: if is_named { Vec::new() } else { arguments.figures.iter().map(|figure| figure.kind).collect() },
        all: arguments.all || arguments.list || is_named,
        cell: arguments.cell.clone(),
        against: arguments.against.clone(),
        repetition: arguments.repetition,
        tag: Some(arguments.tag.clone()),
        columns: usize::try_from(arguments.columns).ok(),
        look: arguments.look(),
        title: arguments.title.clone(),
        font: arguments.font.as_deref().map(font).transpose()?,
    };
    let cells = charts::cells(&runs);
    let mut drawn = charts::draw(runs, &wanted).map_err(|error| match error {
        ReportError::NoCell { .. } | ReportError::SeveralCells { .. } | ReportError::NoFigure { .. } => {
            Failure::usage(error)
        }
        error => Failure::from(error),
    })?;
    only_asked(&arguments.figures, &mut drawn.drawings)?;
    for problem in &drawn.problems {
        output.warning(problem);
    }
    if arguments.list {
        output.result(&listed(cells, &drawn.drawings))?;
        return Ok(0);
    }
    if drawn.drawings.is_empty() {
        return Err(Failure::new(1, anyhow!("the runs have no figure to draw: none of their cells has results")));
    }
    let target = Target::new(arguments, &drawn.drawings)?;
    for drawing in &drawn.drawings {
        let bytes = match target.format {
            PlotFormat::Png => drawing.png(arguments.size),
            PlotFormat::Svg => drawing.svg(arguments.size).into_bytes(),
            PlotFormat::Pdf => drawing.pdf(arguments.size),
            PlotFormat::Csv => drawing.csv().into_bytes(),
        };
        let file = target.write(drawing, &bytes)?;
        output.note(format_args!("{}: {}", drawing.kind.word(), file.display()));
    }
    Ok(0)
}

/// Leaves the figures that were asked for by kind or by name.
fn only_asked(figures: &[Figure], drawings: &mut Vec<Drawing>) -> Result<(), Failure> {
    let is_meant = |figure: &Figure, drawing: &Drawing| {
        figure.kind == drawing.kind && figure.name.as_ref().is_none_or(|name| *name == drawing.name)
    };
    if let Some(unknown) = figures.iter().find(|figure| !drawings.iter().any(|drawing| is_meant(figure, drawing))) {
        let name = unknown.name.as_deref().unwrap_or(unknown.kind.word());
        let known: Vec<&str> = drawings.iter().map(|drawing| drawing.name.as_str()).collect();
        refuse!("there is no figure '{name}': there are {}", known.join(", "));
    }
    drawings.retain(|drawing| figures.is_empty() || figures.iter().any(|figure| is_meant(figure, drawing)));
    Ok(())
}

fn font(file: &Path) -> Result<charts::Font, Failure> {
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::usage(anyhow!("--font {}: cannot be read: {error}", file.display())))?;
    charts::Font::from_bytes(bytes).ok_or_else(|| {
        Failure::usage(anyhow!("--font {} is no TrueType or OpenType font: name a .ttf or .otf file", file.display()))
    })
}

/// The figures by name, then the cells by number and key.
fn listed(known: Vec<(usize, String)>, drawings: &[Drawing]) -> String {
    let figures = drawings.iter().map(|drawing| vec![drawing.name.clone(), drawing.heading.clone()]);
    let mut cells = Grid {
        columns: vec![Column { right: true, ..Column::words("--cell") }, Column::words("key")],
        ..Grid::default()
    };
    cells.rows.extend(known.into_iter().map(|(number, key)| vec![number.to_string(), key]));
    format!("{}\n{}", table(&["figure", "what"], figures.collect()), cells.text(width()))
}

const FORMATS: &str = ".png, .svg, .pdf and .csv";

/// Whether a path that does not exist is meant as a folder: it has no ending, or a slash behind it.
fn is_folder_name(path: &Path) -> bool {
    path.extension().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

struct Target {
    format: PlotFormat,
    place: Place,
}

enum Place {
    /// Whether it may be there already.
    File(PathBuf, bool),
    /// What a folder holds under these names was drawn from runs, and can be drawn again.
    Folder(store::Folder),
}

impl Target {
    fn new(arguments: &Plot, drawings: &[Drawing]) -> Result<Self, Failure> {
        let of_ending = |path: &Path| {
            let ending = path.extension()?;
            PlotFormat::ENDINGS.into_iter().find(|(known, _)| ending == *known).map(|(_, form)| form)
        };
        let named = arguments.output.clone().filter(|path| !path.is_dir());
        if let Some(path) = named.as_deref().filter(|path| !is_folder_name(path))
            && of_ending(path).is_none()
        {
            refuse!(
                "{}: plot writes {FORMATS}: choose one of these endings, or end a folder's name with '/'",
                path.display()
            );
        }
        let ending = named.as_deref().and_then(of_ending);
        let format = arguments.format.or(ending).unwrap_or(PlotFormat::Png);
        match (named, ending, &arguments.output) {
            (Some(path), Some(_), _) if drawings.len() > 1 => Err(Failure::usage(anyhow!(
                "{} figures do not fit into {}: name a folder, or choose one with --figure: {}",
                drawings.len(),
                path.display(),
                drawings.iter().map(|drawing| drawing.name.as_str()).collect::<Vec<_>>().join(", ")
            ))),
            (Some(path), Some(of_file), _) if of_file != format => Err(Failure::usage(anyhow!(
                "--format {} does not go with the ending of {}",
                format.ending(),
                path.display()
            ))),
            (Some(path), Some(_), _) => Ok(Self { format, place: Place::File(path, arguments.force) }),
            (_, _, Some(path)) => {
                std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
                Ok(Self { format, place: Place::Folder(store::Folder::open(path)?) })
            }
            (_, _, None) => {
                let run = arguments.runs.first().map_or(Path::new(""), PathBuf::as_path);
                Ok(Self { format, place: Place::Folder(store::Folder::open(run)?.within("plots")?) })
            }
        }
    }

    fn write(&self, drawing: &Drawing, bytes: &[u8]) -> Result<PathBuf, Failure> {
        match &self.place {
            Place::File(path, overwrites) => write_file("--output", path, bytes, *overwrites).map(|()| path.clone()),
            Place::Folder(folder) => {
                let name = format!("{}.{}", drawing.name, self.format.ending());
                write_into(folder, &name, bytes).map(|()| folder.path().join(name))
            }
        }
    }
}
