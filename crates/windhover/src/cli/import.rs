//! Flags of `import`.

use super::shared::pair;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use import::{FORMATS, Format};
use model::{Protocol, Substrate};
use std::path::PathBuf;

/// Turn results of other tools into a run for report, compare and plot
///
/// Each distribution of a file is a cell; several files are repetitions of the same cells. The figures are marked as imported wherever
/// they are shown. What a file does not tell (the order of samples, a deviation below the width of its bins, what disturbed the hosts) is
/// left out, and a finding says so. docs/import.md has what is read of each tool.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The tool that wrote the files
    #[arg(value_name = "TOOL", value_parser = tool())]
    pub(crate) tool: &'static Format,
    /// What it wrote
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Folder that the run directory is made in
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Name of the run [default: the tool's]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Set a label, such as os=EVL or load=build; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,
    /// What the hosts were
    #[arg(long, value_name = "SUBSTRATE", default_value = "unknown", value_parser = super::shared::substrate())]
    pub(crate) substrate: Substrate,
    /// Message size in bytes, where the file does not tell it
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<u32>,
    /// What carried the messages, where the file does not tell it
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<Protocol>,
    /// Times without a unit are in ns, not in µs (cyclictest -N)
    #[arg(long)]
    pub(crate) nanoseconds: bool,
}

fn tool() -> impl TypedValueParser<Value = &'static Format> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.word).help(format.about));
    PossibleValuesParser::new(values).try_map(|word| {
        let found = FORMATS.iter().find(|format| format.word == word);
        found.ok_or("it is none of the possible values")
    })
}
