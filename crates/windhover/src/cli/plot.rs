//! Flags of `plot`.

use super::shared::{Choice, MixArgs, one_of};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};
use report::charts::ChartKind;
use report::heat::{Look, Mode, Palette, Saturation, Theme};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Write figures of runs as PNG, SVG, PDF or CSV: heat maps, differences of cells, charts
///
/// Heat maps are drawn of cells with interval logs (pace and the closed loops), all on one scale; charts are those of the
/// report. Without --figure the usual ones are written, with --all all that the runs have. docs/heat-maps.md says how to read them.
#[derive(Debug, Args)]
pub(crate) struct Plot {
    /// Run directories; heat maps of several have one scale
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// What to draw: all of a kind, or one by its name in --list; may be repeated [default: the charts of the report, and heat
    /// maps of cells with a rate]
    #[arg(long = "figure", value_parser = FigureParser, value_name = "FIGURE")]
    pub(crate) figures: Vec<Figure>,
    /// All figures that the runs have, not only the usual ones
    #[arg(long, conflicts_with = "figures")]
    pub(crate) all: bool,
    /// Print all figures that the runs have, and the cells with their numbers and keys, instead of writing
    #[arg(long)]
    pub(crate) list: bool,
    /// Only this cell: a number of --list, or a part of a key that no other has; of a difference the first
    #[arg(long, value_name = "CELL")]
    pub(crate) cell: Option<String>,
    /// The second cell of a difference [default: the next with the same probe, protocol, size and rate]
    #[arg(long, value_name = "CELL")]
    pub(crate) against: Option<String>,
    /// Which repetition of each cell [default: its first]
    #[arg(long, value_name = "N")]
    pub(crate) repetition: Option<u32>,
    /// What a heat map shows: rtt, rtt_intended, lateness, wake_up, or one reflector's, such as rtt@b
    #[arg(long, value_name = "TAG", default_value = "rtt")]
    pub(crate) tag: String,
    #[command(flatten)]
    pub(crate) mix: MixArgs,
    /// Form of the files [default: from the ending of --output, else png]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<PlotFormat>,
    /// File for a single figure, or folder [default: plots in the first run]
    #[arg(long, short, value_name = "FILE|DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite a file named with --output
    #[arg(long)]
    pub(crate) force: bool,
    /// How colours follow counts
    #[arg(long, value_parser = one_of(&SCALES), value_name = "SCALE", default_value = "log")]
    pub(crate) scale: Mode,
    /// Count from which on all cells look the same, or the share of cells below it, such as 99.5% [default: the largest]
    #[arg(long, value_name = "COUNT|SHARE%", value_parser = saturation)]
    pub(crate) saturate: Option<Saturation>,
    /// Rows of latency: 32 an octave, or 10 µs each
    #[arg(long, value_enum, value_name = "ROWS", default_value_t = Rows::Log)]
    pub(crate) rows: Rows,
    /// Lowest latency shown in µs; what lies below stands in one row [default: the smallest]
    #[arg(long, value_name = "US", value_parser = microseconds)]
    pub(crate) from_us: Option<u64>,
    /// Highest latency shown in µs; what lies above stands in one row [default: the largest]
    #[arg(long, value_name = "US", value_parser = microseconds)]
    pub(crate) to_us: Option<u64>,
    /// Most columns of a heat map; intervals are added up until they fit
    #[arg(long, value_name = "N", default_value_t = 1200, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) columns: u32,
    /// Title instead of the figures' own
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Size of the figures, such as 2 for twice as wide and high
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = size)]
    pub(crate) size: f64,
    /// Font file for PNG and PDF (.ttf or .otf); SVG names its family [default: Roboto]
    #[arg(long, value_name = "FILE")]
    pub(crate) font: Option<PathBuf>,
    /// Colours of counts
    #[arg(long, value_parser = one_of(&PALETTES), value_name = "PALETTE", default_value = "viridis")]
    pub(crate) palette: Palette,
    /// For a dark page
    #[arg(long)]
    pub(crate) dark: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figure {
    pub(crate) kind: ChartKind,
    /// The name of the only one that is meant.
    pub(crate) name: Option<String>,
}

/// Reads a kind, or a name, which begins with one.
#[derive(Debug, Clone, Copy)]
struct FigureParser;

impl TypedValueParser for FigureParser {
    type Value = Figure;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Figure, clap::Error> {
        let text = value.to_string_lossy();
        let begins = |word: &str| text.strip_prefix(word).is_some_and(|rest| rest.starts_with('-') && rest.len() > 1);
        let known = FIGURES.iter().filter(|(_, word, _)| begins(word)).max_by_key(|(_, word, _)| word.len());
        match known {
            Some((kind, ..)) if !FIGURES.iter().any(|(_, word, _)| *word == text) => {
                Ok(Figure { kind: *kind, name: Some(text.into_owned()) })
            }
            _ => Ok(Figure { kind: one_of(&FIGURES).parse_ref(command, arg, value)?, name: None }),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FIGURES.iter().map(|(_, word, help)| PossibleValue::new(*word).help(*help))))
    }
}

const FIGURES: [Choice<ChartKind>; 11] = [
    (ChartKind::Heat, "heat", "Heat map of each cell: latency by time"),
    (ChartKind::Heat2011, "heat-2011", "The same data in the style of 2011"),
    (ChartKind::Lateness, "lateness", "Heat map of how late messages were sent"),
    (ChartKind::Cells, "cells", "Heat maps of all cells on one scale in one picture"),
    (ChartKind::Difference, "difference", "Heat map of the difference of two cells"),
    (ChartKind::Distributions, "distributions", "Distributions of all cells side by side"),
    (ChartKind::Percentiles, "percentiles", "Share of messages that took longer"),
    (ChartKind::Ecdf, "ecdf", "Share of messages that took at most as long"),
    (ChartKind::Rate, "rate", "Latency, lateness and loss against rate"),
    (ChartKind::Size, "size", "Mean time against message size"),
    (ChartKind::Jitter, "jitter", "Jitter against message size"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlotFormat {
    /// Pixels; a cell of a heat map is a whole number of them
    Png,
    /// Vectors, cells as one image; the same bytes for the same run
    Svg,
    /// A page of the figure's size: vectors, searchable text, cells as one image
    Pdf,
    /// The figures behind the picture, times in ns
    Csv,
}

impl PlotFormat {
    pub(crate) const ENDINGS: [(&str, Self); 4] =
        [("png", Self::Png), ("svg", Self::Svg), ("pdf", Self::Pdf), ("csv", Self::Csv)];

    pub(crate) fn ending(self) -> &'static str {
        Self::ENDINGS.into_iter().find(|(_, form)| *form == self).map_or("", |(ending, _)| ending)
    }
}

const SCALES: [Choice<Mode>; 3] = [
    (Mode::Log, "log", "By the logarithm of the count"),
    (Mode::Linear, "linear", "Evenly"),
    (Mode::Rank, "rank", "By rank: each colour equally often"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// 32 an octave
    Log,
    /// 10 µs each
    Linear,
}

const PALETTES: [Choice<Palette>; 3] = [
    (Palette::Viridis, "viridis", "Violet, blue, green, yellow"),
    (Palette::Magma, "magma", "Black, violet, red, cream"),
    (Palette::Cividis, "cividis", "Blue, grey, yellow"),
];

fn saturation(text: &str) -> Result<Saturation, String> {
    const USE: &str = "use a count of messages, such as 500, or a share of the cells, such as 99.5%";
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().map_err(|_| USE.to_owned())?;
        return if percent > 0.0 && percent <= 100.0 {
            Ok(Saturation::Share(percent / 100.0))
        } else {
            Err(USE.to_owned())
        };
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(USE.to_owned()),
        Ok(count) => Ok(Saturation::Count(count)),
    }
}

fn size(text: &str) -> Result<f64, String> {
    let size = text.parse().ok().filter(|size| (0.25..=8.0).contains(size));
    size.ok_or_else(|| "use a factor between 0.25 and 8".to_owned())
}

/// Microseconds, with fractions, as ns.
fn microseconds(text: &str) -> Result<u64, String> {
    let us: f64 = text.parse().map_err(|_| "use microseconds, such as 250".to_owned())?;
    if !(0.0..=3.6e9).contains(&us) {
        return Err("use microseconds between 0 and an hour".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and an hour")]
    let ns = (us * 1000.0).round() as u64;
    Ok(ns)
}

impl Plot {
    pub(crate) fn look(&self) -> Look {
        Look {
            theme: if self.dark { Theme::Dark } else { Theme::Light },
            palette: self.palette,
            mode: self.scale,
            saturation: self.saturate.unwrap_or_default(),
            linear: self.rows == Rows::Linear,
            low_ns: self.from_us,
            high_ns: self.to_us,
        }
    }
}
