//! From the words on the command line to a command, or to what is printed in its place.

use super::usage::{self, UsageError};
use super::{Cli, Command as Chosen, guide, pace, serve};
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, CommandFactory as _, FromArgMatches as _, parser::ValueSource};

#[derive(Debug)]
pub(crate) enum Stopped {
    Help(StyledStr),
    Wrong(UsageError),
}

/// The whole command line: help by purpose, examples, and numbers that may be written with a minus, so that a negative one is
/// answered with what is allowed.
pub(crate) fn definition() -> Command {
    adorned(guide::by_purpose(Cli::command()), "")
}

fn adorned(command: Command, path: &str) -> Command {
    let command = command.mut_args(|arg| if is_plain(&arg) { arg.allow_negative_numbers(true) } else { arg });
    let command = command.mut_args(|arg| if is_rare(&arg) { arg.hide_short_help(true) } else { arg });
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

/// A flag that only `--help` shows, by its heading; others say so themselves (`Flag::daily_on`, `hide_short_help`).
fn is_rare(arg: &Arg) -> bool {
    arg.get_help_heading().is_some_and(|heading| [pace::PGM, serve::LIMITS].contains(&heading))
}

pub(crate) fn parse() -> Result<Cli, Stopped> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut definition = definition();
    definition.build();
    let told = |error: clap::Error| match error.use_stderr() {
        false => Stopped::Help(version(&error).unwrap_or_else(|| error.render())),
        true if usage::lacks_command(&error) && usage::command_of(&definition, &words).1.is_empty() => {
            Stopped::Help(guide::overview(&definition).into())
        }
        true => Stopped::Wrong(UsageError::of(&error, &definition, &words)),
    };
    let matches = definition.clone().try_get_matches().map_err(told)?;
    if let Some(line) = negative_below(&definition, &matches) {
        return Err(Stopped::Wrong(UsageError::plain(line)));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(told)?;
    match &cli.command {
        Chosen::Measure(crate::cli::Measure::Wake(wake)) if wake.asks_for_help() => {
            let wake = definition.find_subcommand_mut("wake").map(Command::render_help);
            Err(Stopped::Help(wake.unwrap_or_default()))
        }
        _ => {
            let second = super::against::second(&definition, &matches).map_err(Stopped::Wrong)?;
            Ok(Cli { second: second.map(Box::new), ..cli })
        }
    }
}

/// The answer to `--version`. It is made only when it is asked for, because it takes a read of the whole program.
fn version(error: &clap::Error) -> Option<StyledStr> {
    let asked = error.kind() == ErrorKind::DisplayVersion && std::env::args().any(|word| word == "--version");
    let version = asked.then(crate::commands::identity::long_version)?.ok()?;
    Some(format!("{version}\n").into())
}

/// What is wrong with the first negative value of an option, of this command or the one below it that was typed.
fn negative_below(command: &Command, matches: &ArgMatches) -> Option<String> {
    let own = command.get_arguments().filter(|arg| is_plain(arg)).find_map(|arg| {
        let id = arg.get_id().as_str();
        let typed = matches.try_contains_id(id).is_ok_and(|there| there)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut values = if typed { matches.get_raw(id) } else { None }?;
        let value = values.find_map(|value| value.to_str().filter(|text| usage::is_negative(text)))?;
        Some(usage::negative(&format!("--{}", arg.get_long().unwrap_or(id)), value))
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

    fn typed(line: &str) -> crate::cli::Command {
        let matches = definition().try_get_matches_from(line.split(' ')).unwrap();
        Cli::from_arg_matches(&matches).unwrap().command
    }

    /// The words of other tools mean here what they mean there.
    #[test]
    fn words_of_other_tools() {
        let crate::cli::Command::Measure(crate::cli::Measure::Pingpong(sfnt)) = typed(
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
        assert!(spec.socket().unwrap().multicast.as_ref().unwrap().loopback);
        let crate::cli::Command::Measure(crate::cli::Measure::Stream(iperf)) =
            typed("windhover stream tcp x -t 0.5 -P 2 -R -b 10M -N -J")
        else {
            panic!()
        };
        let (spec, _) = iperf.spec(|| Ok(1472)).unwrap();
        let stream = spec.stream().unwrap().clone();
        assert_eq!((stream.flows, stream.direction, stream.rate_bps), (2, model::Direction::Down, Some(10_000_000)));
        assert_eq!((spec.stop.max_ms, spec.socket.unwrap().nodelay), (500, true));
        for flag in ["-l", "-t"] {
            let crate::cli::Command::Measure(crate::cli::Measure::Rr(netperf)) =
                typed(&format!("windhover rr tcp x {flag} 2"))
            else {
                panic!()
            };
            assert_eq!(netperf.spec().unwrap().stop.max_ms, 2000);
        }
        let crate::cli::Command::Measure(crate::cli::Measure::Pace(sfnt)) =
            typed("windhover pace udp x --rates 1k-3k+1k --msgsize 100 --millisec 500")
        else {
            panic!()
        };
        let (spec, _) = sfnt.spec().unwrap();
        assert_eq!((spec.pace().unwrap().clone().rates_pps, spec.stop.max_ms), (vec![1e3, 2e3, 3e3], 500));
    }

    /// cyclictest's command lines mean the same, or are answered (`tests/cli.rs`).
    #[test]
    fn letters_of_cyclictest() {
        let wake = |line: &str| match typed(line) {
            crate::cli::Command::Measure(crate::cli::Measure::Wake(wake)) => wake,
            _ => panic!("{line}"),
        };
        let smp = wake("windhover wake -m -Sp90 -i200 -h400 -q");
        assert!(smp.is_quiet && !smp.asks_for_help());
        assert_eq!(smp.histogram, Some(400));
        let spec = smp.spec(|| "0-2".parse().unwrap()).unwrap();
        assert_eq!((spec.initiator.policy, spec.interval_us), (model::Policy::Fifo(90), Some(200)));
        assert_eq!(spec.wake().unwrap().clone().cpus, "0-2".parse().unwrap());
        let one = wake("windhover wake -n -a1 -p 80 -l1000 -D 5").spec(|| panic!("not asked for")).unwrap();
        assert_eq!((one.initiator.policy, one.initiator.cpu), (model::Policy::Fifo(80), Some(1)));
        assert_eq!((one.stop.max_count, one.stop.max_ms), (1000, 5000));
        assert!(wake("windhover wake -h").asks_for_help() && wake("windhover wake -qh").asks_for_help());
    }

    /// All commands below this one, with their paths.
    fn each<'a>(command: &'a Command, path: &str, look: &mut impl FnMut(&str, &'a Command)) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
            look(&path, sub);
            each(sub, &path, look);
        }
    }

    /// `-t` is a time in seconds in every command that has one; but in `wake` cyclictest's, which is answered.
    #[test]
    fn a_letter_for_seconds() {
        let mut seen = 0;
        each(&definition(), "", &mut |path, command| {
            let has = |arg: &&Arg| arg.get_short_and_visible_aliases().is_some_and(|all| all.contains(&'t'));
            let letter = command.get_arguments().find(has).and_then(Arg::get_long);
            let seconds = command.get_arguments().find_map(|arg| arg.get_long().filter(|long| *long == "seconds"));
            assert_eq!(letter, seconds.filter(|_| path != "wake"), "{path}");
            seen += usize::from(letter.is_some());
        });
        assert!(seen >= 8, "{seen}");
    }

    /// `-h` shows the flags of every day, `--help` all.
    #[test]
    fn short_help_has_ten_flags() {
        for path in ["pingpong", "rr", "pace", "stream", "wake", "ping", "serve", "campaign run", "report", "compare"] {
            let mut root = definition();
            root.build();
            let command = path.split(' ').try_fold(&root, |command, name| command.find_subcommand(name)).unwrap();
            // Texts are further in.
            let is_flag = |line: &&str| line.find('-').is_some_and(|at| at <= 6 && line[..at].trim().is_empty());
            let flags = |help: String| help.lines().filter(is_flag).count();
            let short = flags(command.clone().render_help().to_string());
            let long = flags(command.clone().render_long_help().to_string());
            // One of them is --help.
            assert!((3..=11).contains(&short), "{path}: {short} of {long}");
            assert!(long > short, "{path}: {short} of {long}");
        }
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
