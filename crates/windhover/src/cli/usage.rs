//! The answer to a wrong command line: one line, and a tip where one fits.

use super::{guide, peers};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use model::text::listed;
use std::error::Error as _;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsageError {
    pub(crate) error: String,
    /// What to write instead, or where that stands.
    pub(crate) tip: Option<String>,
}

pub(super) fn lacks_command(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// The command that was typed, and its path below `windhover`.
pub(super) fn command_of<'a>(definition: &'a Command, words: &[String]) -> (&'a Command, String) {
    let (mut command, mut path) = (definition, String::new());
    for word in words.iter().skip(1).take_while(|word| *word != "--").filter(|word| !word.starts_with('-')) {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            path = format!("{path} {}", below.get_name()).trim_start().to_owned();
        } else if !path.is_empty() {
            // An operand: what follows names no command.
            break;
        }
    }
    (command, path)
}

pub(super) fn is_negative(value: &str) -> bool {
    value.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

pub(super) fn negative(argument: &str, value: &str) -> String {
    format!("{argument} must not be negative, as {value} is")
}

struct Context<'a>(&'a clap::Error);

impl Context<'_> {
    fn all(&self, kind: ContextKind) -> Vec<String> {
        match self.0.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    fn one(&self, kind: ContextKind) -> String {
        self.all(kind).into_iter().next().unwrap_or_default()
    }
}

/// `; did you mean 'X'?` of the name that differs least, where one is near; or nothing.
fn nearest(typed: &str, known: impl Iterator<Item = String>) -> String {
    model::words::nearest(typed, known).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// The commands below this one that help shows.
fn commands(command: &Command) -> impl Iterator<Item = String> {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    shown.map(|sub| sub.get_name().to_owned())
}

/// An argument as people type it: `--size LIST`, `PROTOCOL`.
fn typed(argument: &str) -> String {
    argument.replace("...", "").replace(['<', '>', '[', ']'], "")
}

fn flag(argument: &str) -> String {
    let name = argument.split([' ', '=']).next().unwrap_or_default();
    typed(if name.starts_with('-') { name.split('[').next().unwrap_or_default() } else { argument })
}

impl UsageError {
    pub(super) fn plain(error: String) -> Self {
        Self { error, tip: None }
    }

    pub(super) fn of(error: &clap::Error, definition: &Command, words: &[String]) -> Self {
        let (command, path) = command_of(definition, words);
        let context = Context(error);
        let argument = context.one(ContextKind::InvalidArg);
        let value = context.one(ContextKind::InvalidValue);
        if let Some(line) = below_zero(error.kind(), &argument, &value, words) {
            return Self::plain(line);
        }
        let name = argument.split('=').next().unwrap_or_default().to_owned();
        let wrong = match error.kind() {
            // A letter that takes a value here, and none there.
            ErrorKind::InvalidValue if value.is_empty() => words.iter().map(|word| format!("{word} alone")).collect(),
            // netperf's -t names a test; here it is a time.
            ErrorKind::ValueValidation | ErrorKind::InvalidValue => vec![value],
            // A switch here that takes a file there.
            ErrorKind::TooManyValues => vec![format!("{} FILE", flag(&argument))],
            _ => {
                let before = words.windows(2).find(|two| two[1] == name).map(|two| format!("{} FILE", two[0]));
                std::iter::once(name).chain(before).collect::<Vec<_>>()
            }
        };
        let answer = |wrong: &String| peers::answer(path.split(' ').next().unwrap_or_default(), wrong);
        let answer = wrong.iter().find_map(answer);
        let (line, tip) = said(error, command, &path, &context);
        Self { error: line, tip: answer.or(tip) }
    }
}

/// The line of a number below zero, which clap takes for a flag where it has a unit (-5ms).
fn below_zero(kind: ErrorKind, argument: &str, value: &str, words: &[String]) -> Option<String> {
    if kind == ErrorKind::ValueValidation && is_negative(value) {
        return Some(negative(&flag(argument), value));
    }
    if kind != ErrorKind::UnknownArgument {
        return None;
    }
    let mut pairs = words.windows(2);
    let [option, value] = pairs.find(|two| is_negative(&two[1]) && two[1].starts_with(argument))? else { return None };
    option.starts_with('-').then(|| negative(option, value))
}

fn said(error: &clap::Error, command: &Command, path: &str, context: &Context<'_>) -> (String, Option<String>) {
    // What `windhover help` was asked about is below it for clap.
    let path = path.strip_prefix("help").map_or(path, str::trim_start);
    let name = format!("windhover {path}");
    let name = name.trim_end();
    let lists = |what: &str| Some(format!("{name} --help lists {what}"));
    let (argument, value) = (context.one(ContextKind::InvalidArg), context.one(ContextKind::InvalidValue));
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
            let nearest = nearest(&argument, shown.map(|long| format!("--{long}")));
            (format!("unknown flag '{argument}'{nearest}"), lists("the flags"))
        }
        ErrorKind::UnknownArgument => {
            (format!("unexpected argument '{argument}'"), such_as(path).or(lists("the arguments")))
        }
        ErrorKind::InvalidSubcommand => {
            let typed = context.one(ContextKind::InvalidSubcommand);
            let nearest = nearest(&typed, commands(command));
            (format!("unknown command '{typed}'{nearest}"), lists("the commands"))
        }
        _ if lacks_command(error) => {
            let below: Vec<String> = commands(command).collect();
            match below.is_empty() {
                true => (format!("{name} needs arguments"), such_as(path)),
                false => (format!("{name} needs a command: {}", listed(&below, "or")), lists("them")),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = context.all(ContextKind::InvalidArg).iter().map(|one| typed(one)).collect();
            (format!("missing: {}", listed(&missing, "and")), with(path, &missing))
        }
        ErrorKind::InvalidValue => {
            let allowed = context.all(ContextKind::ValidValue);
            let one_of = if allowed.is_empty() { String::new() } else { format!(": use {}", listed(&allowed, "or")) };
            match value.is_empty() {
                true => (format!("'{}' needs a value{one_of}", typed(&argument)), None),
                false => {
                    let nearest = nearest(&value, allowed.into_iter());
                    (format!("invalid value '{value}' for '{}'{one_of}{nearest}", flag(&argument)), None)
                }
            }
        }
        ErrorKind::ValueValidation => {
            let why = error.source().map_or_else(|| "it cannot be used".to_owned(), ToString::to_string);
            (format!("invalid value '{value}' for '{}': {}", typed(&argument), plain(&why)), None)
        }
        ErrorKind::ArgumentConflict => (conflict(context, &argument), None),
        ErrorKind::NoEquals => {
            let text = typed(&argument);
            (format!("'{}' takes its value behind '=', as {text}", flag(&argument)), None)
        }
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            let takes_none = |arg: &&Arg| arg.get_long().is_some_and(|long| flag(&argument) == format!("--{long}"));
            let is_switch =
                command.get_arguments().find(takes_none).is_some_and(|arg| !arg.get_action().takes_values());
            match is_switch {
                true => (format!("'{}' takes no value, such as '{value}'", flag(&argument)), None),
                false => (format!("wrong number of values for '{}'", typed(&argument)), lists("the flags")),
            }
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            (line.trim_start_matches("error: ").to_owned(), None)
        }
    }
}

/// What the standard library and clap say of numbers, in our words.
fn plain(why: &str) -> String {
    if let Some((from, to)) = why.split_once(" is not in ").and_then(|(_, range)| range.split_once("..")) {
        // clap gives a range without an end the largest number as its end.
        let largest = [u64::from(u32::MAX), i64::MAX.cast_unsigned(), u64::MAX].map(|most| most.to_string());
        return match to.trim_start_matches('=') {
            end if end.is_empty() || largest.iter().any(|most| most == end) => format!("use {from} or more"),
            end if !from.is_empty() && to.starts_with('=') => format!("use {from} to {end}"),
            _ => why.to_owned(),
        };
    }
    match why {
        "invalid digit found in string" => "use a whole number".to_owned(),
        "invalid float literal" => "use a number".to_owned(),
        _ if why.starts_with("number too large") => "it is too large".to_owned(),
        _ => why.replace('\n', " "),
    }
}

fn conflict(context: &Context<'_>, argument: &str) -> String {
    let others: Vec<String> =
        context.all(ContextKind::PriorArg).iter().map(|other| format!("'{}'", flag(other))).collect();
    let argument = flag(argument);
    if others.iter().any(|other| *other == format!("'{argument}'")) {
        return format!("'{argument}' is given twice");
    }
    match others.is_empty() {
        true => format!("'{argument}' cannot be used with others of this command line"),
        false => format!("'{argument}' cannot be used with {}", listed(&others, "and")),
    }
}

/// An example with flags that are missing, else the first one with them behind it.
fn with(path: &str, flags: &[String]) -> Option<String> {
    let names: Vec<&str> = flags.iter().filter_map(|text| text.split(' ').next()).collect();
    if !names.iter().all(|name| name.starts_with('-')) {
        return such_as(path);
    }
    let has = |line: &str| names.iter().all(|name| line.split(' ').any(|word| word == *name));
    let found = guide::examples(path).into_iter().find(|(line, _)| has(line));
    found
        .map(|(line, _)| format!("for example: {line}"))
        .or_else(|| Some(format!("{} {}", such_as(path)?, flags.join(" "))))
}

fn such_as(path: &str) -> Option<String> {
    guide::examples(path).first().map(|(line, _)| format!("for example: {line}"))
}
