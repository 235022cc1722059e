//! From the words on the command line to a command, or to a message that names what to write instead.

use super::{Cli, guide, peers};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, CommandFactory as _, FromArgMatches as _, parser::ValueSource};

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
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let definition = definition();
    let matches = definition.clone().try_get_matches().map_err(explained)?;
    if let Some(error) = negative_below(&definition, &matches) {
        return Err(error);
    }
    Cli::from_arg_matches(&matches)
}

fn explained(mut error: clap::Error) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (argument, value) = (text(&error, ContextKind::InvalidArg), text(&error, ContextKind::InvalidValue));
    if error.kind() == ErrorKind::ValueValidation && is_negative(&value) {
        return negative(argument.split_whitespace().next().unwrap_or_default(), &value);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    // A negative number with a unit (-5ms) is a flag in clap's eyes.
    if error.kind() == ErrorKind::UnknownArgument
        && let Some([option, value]) =
            words.windows(2).find(|two| is_negative(&two[1]) && two[1].starts_with(&argument))
        && option.starts_with('-')
    {
        return negative(option, value);
    }
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
        return error;
    }
    if error.kind() == ErrorKind::ValueValidation {
        // The flag, the value and what is allowed: one line says it all.
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        return clap::Error::raw(ErrorKind::ValueValidation, format!("{}\n", line.trim_start_matches("error: ")));
    }
    error
}

fn is_negative(value: &str) -> bool {
    value.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

fn negative(argument: &str, value: &str) -> clap::Error {
    let text = format!("{argument} must not be negative, as {value} is\n");
    clap::Error::raw(ErrorKind::ValueValidation, text)
}

/// The first negative value of an option, of this command or the one below it that was typed.
fn negative_below(command: &Command, matches: &ArgMatches) -> Option<clap::Error> {
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
#[allow(clippy::panic, reason = "tests panic")]
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

    fn typed(line: &str) -> crate::cli::Command {
        let matches = definition().try_get_matches_from(line.split(' ')).unwrap();
        Cli::from_arg_matches(&matches).unwrap().command
    }

    /// The words of other tools mean here what they mean there.
    #[test]
    fn words_of_other_tools() {
        let crate::cli::Command::Pingpong(sfnt) = typed(
            "windhover pingpong udp x -J --maxms 200 --minms 50 --sizes 16,17 --minmsg 17 --affinity 0;1 --warmupms 10 \
             --warmupiter 7 --miniter 3 --maxiter 9 --n-pings 2 --n-pongs 4 --n-pipe 1 --mcast 224.1.2.48 --mcastloop",
        ) else {
            panic!()
        };
        assert_eq!(sfnt.output.form.get(), crate::cli::Format::Json);
        let spec = sfnt.spec().unwrap();
        assert_eq!((spec.stop.max_ms, spec.stop.min_ms, spec.stop.max_count, spec.stop.min_count), (200, 50, 9, 3));
        assert_eq!((spec.initiator.cpu, spec.reflector.cpu), (Some(0), Some(1)));
        assert_eq!((spec.warmup.time_ms, spec.warmup.count, spec.pings, spec.pongs), (10, 7, 2, 4));
        assert_eq!((spec.sizes.iter().collect::<Vec<_>>(), spec.initiator.idle.pipes), (vec![17], 1));
        assert!(spec.socket.multicast.unwrap().loopback);
        let crate::cli::Command::Stream(iperf) = typed("windhover stream tcp x -t 0.5 -P 2 -R -b 10M -N -J") else {
            panic!()
        };
        let (spec, _) = iperf.spec(|| Ok(1472)).unwrap();
        let stream = spec.stream.unwrap();
        assert_eq!((stream.flows, stream.direction, stream.rate_bps), (2, model::Direction::Down, Some(10_000_000)));
        assert_eq!((spec.stop.max_ms, spec.socket.nodelay), (500, true));
        for flag in ["-l", "-t"] {
            let crate::cli::Command::Rr(netperf) = typed(&format!("windhover rr tcp x {flag} 2")) else { panic!() };
            assert_eq!(netperf.spec().unwrap().stop.max_ms, 2000);
        }
        let crate::cli::Command::Pace(sfnt) =
            typed("windhover pace udp x --rates 1k-3k+1k --msgsize 100 --millisec 500")
        else {
            panic!()
        };
        let (spec, _) = sfnt.spec().unwrap();
        assert_eq!((spec.pace.unwrap().rates_pps, spec.stop.max_ms), (vec![1e3, 2e3, 3e3], 500));
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
                let of_sources = ["campaigns/", "docs/"].iter().any(|folder| line.contains(folder));
                assert!(!of_sources, "an installed tool has no such file: {line}");
            }
            *seen += 1;
        }
        let mut seen = 0;
        look(&Cli::command(), "", &mut seen);
        assert!(seen > 30, "{seen}");
    }
}
