//! From the words on the command line to a command, or to a message that names what to write instead.

use super::{Cli, guide, peers};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, CommandFactory as _, FromArgMatches as _, parser::ValueSource};

/// Why there is no command to run.
pub(crate) enum Refused {
    /// Help, the version, or an error that clap prints.
    Clap(clap::Error),
    /// One line.
    Line(String),
}

/// The whole command line: help by purpose, examples, and numbers that may be written with a minus, so that a negative one is
/// answered with what is allowed.
pub(crate) fn definition() -> Command {
    adorned(guide::by_purpose(Cli::command()), "")
}

fn adorned(command: Command, path: &str) -> Command {
    let command = command.mut_args(|arg| if is_plain(&arg) { arg.allow_negative_numbers(true) } else { arg });
    let command = guide::with_examples(command, path);
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        adorned(sub, path.trim_start())
    })
}

/// An option with a value that is never meant to begin with a minus.
fn is_plain(arg: &Arg) -> bool {
    !arg.is_positional() && arg.get_action().takes_values() && !arg.is_allow_hyphen_values_set()
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Cli, Refused> {
    let definition = definition();
    let matches = definition.clone().try_get_matches().map_err(explained)?;
    if let Some(line) = negative_below(&definition, &matches) {
        return Err(Refused::Line(line));
    }
    Cli::from_arg_matches(&matches).map_err(Refused::Clap)
}

fn explained(mut error: clap::Error) -> Refused {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (argument, value) = (text(&error, ContextKind::InvalidArg), text(&error, ContextKind::InvalidValue));
    if error.kind() == ErrorKind::ValueValidation && is_negative(&value) {
        return Refused::Line(negative(argument.split_whitespace().next().unwrap_or_default(), &value));
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wrong = match error.kind() {
        ErrorKind::UnknownArgument => argument.split('=').next().unwrap_or_default().to_owned(),
        // netperf's -t names a test, ours a time.
        ErrorKind::ValueValidation => value,
        _ => String::new(),
    };
    if let Some(answer) = peers::answer(&words, &wrong) {
        for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::Suggested] {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![answer.into()]));
    }
    Refused::Clap(error)
}

fn is_negative(value: &str) -> bool {
    value.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

fn negative(argument: &str, value: &str) -> String {
    format!("{argument} must be positive, not {value}")
}

/// The first negative value of an option, of this command or the one below it that was typed.
fn negative_below(command: &Command, matches: &ArgMatches) -> Option<String> {
    let own = command.get_arguments().filter(|arg| is_plain(arg)).find_map(|arg| {
        let id = arg.get_id().as_str();
        let typed = matches.try_contains_id(id).is_ok_and(|there| there)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut values = if typed { matches.get_raw(id) } else { None }?;
        let value = values.find_map(|value| value.to_str().filter(|text| is_negative(text)))?;
        Some(negative(&format!("--{}", arg.get_long().unwrap_or(id)), value))
    });
    own.or_else(|| {
        let (name, below) = matches.subcommand()?;
        negative_below(command.find_subcommand(name)?, below)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap's own checks, and every command in exactly one group of the help.
    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
        let command = Cli::command();
        let shown: Vec<&str> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
        let grouped: Vec<&str> = guide::GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for name in &shown {
            assert_eq!(grouped.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert_eq!(grouped.len(), shown.len());
    }

    /// Each command that does something has two examples or more, each of which begins with it.
    #[test]
    fn every_command_has_examples() {
        fn look(command: &Command, path: &str, seen: &mut usize) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                look(sub, format!("{path} {}", sub.get_name()).trim_start(), seen);
            }
            if command.is_subcommand_required_set() {
                return;
            }
            let examples = guide::examples(path);
            assert!(examples.len() >= 2, "'{path}' has {} examples", examples.len());
            for (line, _) in examples {
                assert!(line.contains(&format!("windhover {path}")), "{line}");
            }
            *seen += 1;
        }
        let mut seen = 0;
        look(&Cli::command(), "", &mut seen);
        assert!(seen > 30, "{seen}");
    }
}
