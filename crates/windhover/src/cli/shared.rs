//! Flags that several commands share: each has one definition.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use host::knob::Machine;
use host::undo::StateDir;
use model::Substrate;
use prepare::Kernel;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) trait Form: ValueEnum + Copy + PartialEq + Send + Sync + 'static {
    /// The word of the form without `--format`. (Not a value: clap keeps one value for all types.)
    const DEFAULT: &str;
    const JSON: Self;
}

/// How a result is written.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct FormArgs<F: Form> {
    /// Form of the result on standard output
    #[arg(long, value_enum, default_value = F::DEFAULT, value_name = "FORM")]
    format: F,
    /// As --format json, in the word of iperf3 and others
    #[arg(long, short = 'J', hide = true, conflicts_with = "format")]
    json: bool,
}

impl<F: Form> FormArgs<F> {
    pub(crate) fn get(&self) -> F {
        if self.json { F::JSON } else { self.format }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.get() == F::JSON
    }
}

/// Text for people, or one JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// For people
    #[value(alias = "table")]
    Text,
    /// One JSON document
    Json,
}

impl Form for TextOrJson {
    const DEFAULT: &str = "text";
    const JSON: Self = Self::Json;
}

/// `--format text|json`.
pub(crate) type PlainForm = FormArgs<TextOrJson>;

/// A value that is one of several, each with its word and its help.
pub(crate) type Choice<T> = (T, &'static str, &'static str);

/// Reads such a value. The types are those of libraries, which know nothing of flags.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(all: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|(_, word, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(move |text| {
        let found = all.iter().find(|(_, word, _)| *word == text).map(|(value, ..)| value.clone());
        found.ok_or("it is none of the possible values")
    })
}

pub(crate) fn substrate() -> impl TypedValueParser<Value = Substrate> {
    PossibleValuesParser::new(Substrate::ALL.map(Substrate::word)).try_map(|text| text.parse::<Substrate>())
}

/// Runs of different substrates.
#[derive(Debug, Clone, Args)]
pub(crate) struct MixArgs {
    /// Put runs of different substrates side by side: name all of them, separated by commas
    #[arg(hide_short_help = true, long = "mix-substrates", value_name = "LIST", value_delimiter = ',', value_parser = substrate())]
    pub(crate) substrates: Vec<Substrate>,
}

/// The system whose settings are meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct Root {
    /// A tree of files in the place of the running system
    #[arg(long = "root", value_name = "DIR", hide = true, default_value = "/")]
    pub(crate) path: PathBuf,
}

/// Where settings and their undo logs are.
#[derive(Debug, Clone, Args)]
pub(crate) struct SystemArgs {
    /// Where the undo logs are; by default WINDHOVER_STATE, or /run/windhover
    #[arg(hide_short_help = true, long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    root: Root,
}

impl SystemArgs {
    pub(crate) fn usual() -> Self {
        Self { state_dir: None, root: Root { path: "/".into() } }
    }

    pub(crate) fn state(&self) -> StateDir {
        self.state_dir.as_ref().map_or_else(StateDir::usual, StateDir::at)
    }

    pub(crate) fn kernel(&self) -> Kernel {
        Kernel::at(Machine::at(self.root()))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root.path
    }
}

/// Which of a name's addresses.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Family {
    /// Use IPv4 when a name has both
    #[arg(hide_short_help = true, long, short = '4', conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 when a name has both
    #[arg(hide_short_help = true, long, short = '6')]
    pub(crate) ipv6: bool,
}

/// Seconds, from a millisecond to a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "use a number of seconds".to_owned())?;
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("use 0.001 to 86400 seconds".to_owned())
    }
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("use NAME=VALUE, such as policy=other".to_owned()),
    }
}
