//! The flags of factors: made of the table that plans are read by, and put into a specification in the same way.

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use model::factor::{self, Factor, Flag, Gives, HEADINGS, Sets, Value, ValueType};
use model::{ModelError, Probe, ProbeSpec, Protocol};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Factors = BTreeMap<String, Value>;

/// What was typed of the factors of one measuring command: the one at this place in [`Probe::ALL`].
#[derive(Debug, Clone)]
pub(crate) struct Flags<const PROBE: usize>(Vec<(&'static Factor, Value)>);

pub(crate) type PingFlags = Flags<{ Probe::Ping as usize }>;
pub(crate) type PaceFlags = Flags<{ Probe::Pace as usize }>;
pub(crate) type WakeFlags = Flags<{ Probe::Wake as usize }>;
pub(crate) type StreamFlags = Flags<{ Probe::Stream as usize }>;

/// The flags of a command with their factors. Sizes and rates come first in help, as people think of them first.
fn flags(probe: Probe) -> impl Iterator<Item = (&'static Factor, &'static Flag)> {
    let swept =
        |factor: &&Factor| matches!(factor.kind, ValueType::Sizes | ValueType::Rates) || factor.name.ends_with("_size");
    let factors = factor::all().filter(swept).chain(factor::all().filter(move |factor| !swept(factor)));
    let own = factors.flat_map(|factor| factor.flags.iter().map(move |flag| (factor, flag)));
    own.filter(move |(_, flag)| flag.on.contains(&probe))
}

fn value(factor: &Factor, flag: &Flag, text: &str) -> Result<Value, ModelError> {
    match flag.gives {
        Gives::Word(word) => factor.read(word),
        Gives::After(beginning) => factor.read(&format!("{beginning}{text}")),
        Gives::Thousandths => factor.read(text).map(|value| Value::from(value.as_f64().unwrap_or_default() / 1000.0)),
        Gives::Value | Gives::Local(_) | Gives::Remote => factor.read(text),
    }
}

fn check(probe: Probe, factor: &Factor, flag: &Flag, text: &str) -> Result<String, String> {
    if matches!(flag.gives, Gives::Local(_) | Gives::Remote) && text.contains(';') {
        return Err("give one value: each end has a flag of its own".to_owned());
    }
    let checked = value(factor, flag, text).and_then(|value| match flag.requires {
        None => factor.apply(&mut ProbeSpec::new(probe, Protocol::Udp), &value),
        Some(_) => Ok(()),
    });
    match checked {
        Ok(()) => Ok(text.to_owned()),
        // clap names the flag and the value.
        Err(ModelError::Grammar { why, .. }) => Err(why),
        Err(ModelError::OutOfRange { accepted, .. }) => Err(format!("use {accepted}")),
        Err(error) => Err(error.to_string()),
    }
}

fn argument(probe: Probe, factor: &'static Factor, flag: &'static Flag) -> Arg {
    let arg = Arg::new(flag.long)
        .long(flag.long)
        .help(flag.help)
        .hide(flag.is_hidden)
        .hide_short_help(!flag.daily_on.contains(&probe))
        .aliases(flag.aliases)
        .conflicts_with_all(flag.conflicts)
        .short_aliases(flag.short.iter().skip(1).copied());
    let arg = match flag.short.first() {
        Some(short) => arg.short(*short),
        None => arg,
    };
    let arg = if flag.heading.is_empty() { arg } else { arg.help_heading(flag.heading) };
    let arg = match flag.requires {
        Some(other) => arg.requires(other),
        None => arg,
    };
    if matches!(flag.gives, Gives::Word(_)) {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(flag.value_name).value_parser(move |text: &str| check(probe, factor, flag, text));
    match flag.default {
        Some(default) => arg.default_value(default),
        None => arg,
    }
}

/// What was typed for a factor: by one flag, or by one for each end.
fn typed(probe: Probe, factor: &Factor, matches: &ArgMatches) -> Option<Value> {
    let (mut this, mut far) = (None, None);
    for flag in factor.flags.iter().filter(|flag| flag.on.contains(&probe)) {
        if matches.value_source(flag.long) != Some(ValueSource::CommandLine) {
            continue;
        }
        let text = match flag.gives {
            Gives::Word(word) => word,
            _ => matches.get_one::<String>(flag.long)?.as_str(),
        };
        match flag.gives {
            Gives::Local(alone) => this = Some((text, alone)),
            Gives::Remote => far = Some(text),
            _ => return value(factor, flag, text).ok(),
        }
    }
    let both = match (this, far) {
        (None, None) => return None,
        (Some((this, "")), None) => this.to_owned(),
        (Some((this, alone)), None) => format!("{this};{alone}"),
        (Some((this, _)), Some(far)) => format!("{this};{far}"),
        (None, Some(far)) => format!("{};{far}", factor.default.unwrap_or("default")),
    };
    factor.read(&both).ok()
}

impl<const PROBE: usize> Flags<PROBE> {
    pub(crate) fn fill(&self, spec: &mut ProbeSpec) -> Result<(), ModelError> {
        self.0.iter().try_for_each(|(factor, value)| factor.apply(spec, value))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(factor, _)| factor.name == name)
    }

    pub(crate) fn typed(&self) -> BTreeSet<&'static str> {
        self.0.iter().map(|(factor, _)| factor.name).collect()
    }

    /// What results are told apart by beside protocol, size and rate.
    pub(crate) fn factors(&self, spec: &ProbeSpec) -> Factors {
        let own = factor::all().filter(|factor| {
            let own = matches!(factor.sets, Sets::Timing(_) | Sets::Pace(_) | Sets::Stream(_) | Sets::Cycle(_));
            let of_probe = own && factor.kind != ValueType::Rates;
            of_probe && factor.applies(spec.probe(), spec.protocol())
        });
        let recorded = own.filter_map(|factor| {
            let typed = self.0.iter().find(|(other, _)| other.name == factor.name).map(|(_, value)| value);
            Some((factor.recorded_as.to_owned(), factor.recorded(typed, false, false)?))
        });
        recorded.chain(model::plan::pgm_factors(spec)).collect()
    }
}

impl<const PROBE: usize> Args for Flags<PROBE> {
    fn augment_args(command: Command) -> Command {
        let probe = Probe::ALL[PROBE];
        HEADINGS.into_iter().fold(command, |command, heading| {
            let own = flags(probe).filter(|(_, flag)| flag.heading == heading);
            command.args(own.map(|(factor, flag)| argument(probe, factor, flag)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const PROBE: usize> FromArgMatches for Flags<PROBE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let probe = Probe::ALL[PROBE];
        Ok(Self(factor::all().filter_map(|factor| Some((factor, typed(probe, factor, matches)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
