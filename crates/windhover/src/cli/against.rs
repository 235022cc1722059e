//! `--against`: the command line of the second side, made of that of the first and of the flags that replace some of it.

use super::usage::UsageError;
use super::{Cli, Command};
use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches as _};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

const OUTPUT: &str = "Output";
const COMPARISON: &str = "Comparison";
const CAPTURE: &str = "Capture";

/// Flags of a comparison typed at the command line.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = COMPARISON)]
pub(crate) struct Against {
    /// Measure a second setting in turn with this one and say what differs: the same command with FLAGS, which replace those
    /// typed before, as in --against '--policy fifo:1'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    against: Option<String>,
    /// With --against: end after this time, as 90s, 10m or 2h; earlier once the answer is known
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "against", hide_short_help = true,
          value_parser = super::shield::duration)]
    pub(crate) at_most: Duration,
}

#[derive(Debug)]
pub(crate) struct Second {
    pub(crate) command: Command,
    /// What sentences call the first side and the second: `without`, `with --policy fifo:1`.
    pub(crate) names: [String; 2],
}

/// What was typed of a command, by the names of its flags, in order of their definition.
type Typed<'a> = BTreeMap<usize, (&'a Arg, Vec<OsString>)>;

/// Flags that belong to one measurement, not to a comparison of many.
const OF_ONE: [&str; 6] = ["raw", "pcap", "jsonl", "percentile", "ladder", "histogram"];

/// The second side that `--against` asks for; nothing without it.
pub(super) fn second(definition: &clap::Command, matches: &ArgMatches) -> Result<Option<Second>, UsageError> {
    let Some((name, first)) = matches.subcommand() else { return Ok(None) };
    let Some(command) = definition.find_subcommand(name) else { return Ok(None) };
    // `plot` has an --against of its own. The definition is asked, because matches answer for a flag that they do not know as
    // for one that was not typed, where they are built without debug assertions.
    if !command.get_arguments().any(|arg| arg.get_id() == "at_most") {
        return Ok(None);
    }
    let Some(text) = first.get_one::<String>("against") else { return Ok(None) };
    let refused = |why: &str| UsageError::plain(format!("--against '{text}': {why}"));
    let words = split(text).ok_or_else(|| refused("a quote is not closed"))?;
    let unlike = |flag: &str| {
        refused(&format!("{flag} is no setting to compare: leave it out, or type it outside of the quotes"))
    };
    let wrong = |error: clap::Error| {
        // Help was asked for.
        if !error.use_stderr() {
            return unlike("--help");
        }
        let line: Vec<String> = ["windhover", name].into_iter().map(str::to_owned).chain(words.clone()).collect();
        let UsageError { error, tip } = UsageError::of(&error, definition, &line);
        UsageError { tip, ..refused(&error) }
    };
    let alone = command.clone().no_binary_name(true).disable_help_flag(true).mut_args(|arg| {
        // What it needs is looked for in the whole line.
        arg.required(false).requires(Resettable::Reset)
    });
    let replacing = alone.try_get_matches_from(&words).map_err(wrong)?;
    let (mut merged, replacing) = (typed(command, first), typed(command, &replacing));
    for flag in OF_ONE {
        if let Some((arg, _)) = merged.values().chain(replacing.values()).find(|(arg, _)| arg.get_id() == flag) {
            return Err(refused(&format!("{} is of one measurement: leave it out", written(arg))));
        }
    }
    if let Some((arg, _)) = replacing.values().find(|(arg, _)| !is_setting(arg)) {
        return Err(unlike(&written(arg)));
    }
    let excludes =
        |a: &Arg, b: &Arg| command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id());
    let mut replaced = Vec::new();
    merged.retain(|place, (arg, values)| {
        let gone = replacing.iter().any(|(other, (by, _))| other == place || excludes(arg, by) || excludes(by, arg));
        if gone {
            replaced.push(shown(arg, values));
        }
        !gone && !["against", "at_most"].iter().any(|own| arg.get_id() == own)
    });
    merged.extend(replacing);
    let line = line(name, &merged);
    let matches = definition.clone().try_get_matches_from(line).map_err(wrong)?;
    let command = Cli::from_arg_matches(&matches).map_err(wrong)?.command;
    let name = |words: &str| if words.is_empty() { "without".to_owned() } else { format!("with {words}") };
    let names = match text.trim() {
        "" => ["the first time", "the second time"].map(str::to_owned),
        words => [name(&replaced.join(" ")), name(words)],
    };
    Ok(Some(Second { command, names }))
}

fn typed<'a>(command: &'a clap::Command, matches: &ArgMatches) -> Typed<'a> {
    let own = command.get_arguments().enumerate().filter(|(_, arg)| {
        let id = arg.get_id().as_str();
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    own.map(|(place, arg)| {
        let occurrences = matches.get_raw_occurrences(arg.get_id().as_str()).into_iter().flatten();
        let mut values: Vec<OsString> = Vec::new();
        for occurrence in occurrences.filter(|_| arg.get_action().takes_values()) {
            match arg.get_value_delimiter().map(String::from) {
                Some(joint) => values.push(occurrence.collect::<Vec<_>>().join(std::ffi::OsStr::new(&joint))),
                None => values.extend(occurrence.map(OsString::from)),
            }
        }
        (place, (arg, values))
    })
    .collect()
}

fn line(name: &str, typed: &Typed<'_>) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec!["windhover".into(), name.into()];
    for (arg, values) in typed.values().filter(|(arg, _)| !arg.is_positional()) {
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            line.push(written(arg).into());
        }
        line.extend(values.iter().map(|value| {
            let mut word = OsString::from(format!("{}=", written(arg)));
            word.push(value);
            word
        }));
    }
    line.push("--".into());
    let mut positional: Vec<_> = typed.values().filter(|(arg, _)| arg.is_positional()).collect();
    positional.sort_by_key(|(arg, _)| arg.get_index());
    line.extend(positional.into_iter().flat_map(|(_, values)| values.iter().cloned()));
    line
}

/// Whether a flag says how it is measured: not how that is written, what is compared, or what only this process does.
fn is_setting(arg: &Arg) -> bool {
    let of_process = ["help", "is_quiet"].iter().any(|own| arg.get_id() == own) || arg.is_global_set();
    !of_process && arg.get_help_heading().is_none_or(|heading| ![OUTPUT, COMPARISON, CAPTURE].contains(&heading))
}

fn written(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (None, Some(short)) => format!("-{short}"),
        (long, _) => format!("--{}", long.unwrap_or(arg.get_id().as_str())),
    }
}

fn shown(arg: &Arg, values: &[OsString]) -> String {
    let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
    let flag = if arg.is_positional() { String::new() } else { written(arg) };
    format!("{flag} {}", values.join(" ")).trim().to_owned()
}

/// Words as a shell divides them: by blanks outside of quotes; `None` where a quote is not closed.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::definition;

    fn sides(line: &[&str]) -> Result<Option<Second>, String> {
        let mut definition = definition();
        definition.build();
        let matches = definition.clone().try_get_matches_from(line).unwrap();
        second(&definition, &matches).map_err(|error| error.error)
    }

    fn pingpong(line: &[&str]) -> (model::ProbeSpec, [String; 2]) {
        let Some(Second { command: Command::Measure(crate::cli::Measure::Pingpong(arguments)), names }) =
            sides(line).unwrap()
        else {
            panic!()
        };
        (arguments.spec().unwrap(), names)
    }

    #[test]
    fn the_second_side_is_the_first_with_what_replaces_it() {
        let head = ["windhover", "--quiet", "pingpong", "udp", "a:1", "--size", "32", "--cpu=1", "--maxms", "500"];
        let of = |text: &str| {
            pingpong(&[&head[..], &["--remote-policy", "fifo:2", "--at-most", "9s", "--against", text]].concat())
        };
        let (spec, names) = of("--policy 'fifo:1' --receive spin");
        assert_eq!(
            (spec.initiator.policy.to_string(), spec.reflector.policy.to_string()),
            ("fifo:1".into(), "fifo:2".into())
        );
        assert_eq!((spec.initiator.cpu, spec.stop.max_ms, spec.sizes.max()), (Some(1), 500, 32));
        assert_eq!(names, ["without", "with --policy 'fifo:1' --receive spin"].map(str::to_owned));
        // What excludes a flag of the first side takes its place.
        let (spec, names) = of("--seconds 2 --size 64");
        assert_eq!((spec.stop.max_ms, spec.sizes.max()), (2000, 64));
        assert_eq!(names[0], "with --size 32 --maxms 500");
        let (spec, names) = of("tcp");
        assert_eq!((spec.protocol(), names), (Some(model::Protocol::Tcp), ["with udp", "with tcp"].map(str::to_owned)));
        let (_, names) = of("--address b:1 --stack spin");
        assert_eq!(names, ["with a:1", "with --address b:1 --stack spin"].map(str::to_owned));
        assert_eq!(of("").1, ["the first time", "the second time"].map(str::to_owned));
        assert!(sides(&head).unwrap().is_none());
        // Peers behind a group are words of their own.
        let group = ["windhover", "pace", "pgm", "239.192.0.1", "10.0.0.2", "10.0.0.3", "--against", "--rate 5k"];
        let Some(Second { command: Command::Measure(crate::cli::Measure::Pace(arguments)), .. }) =
            sides(&group).unwrap()
        else {
            panic!()
        };
        assert_eq!(arguments.peers, ["10.0.0.2", "10.0.0.3"]);
    }

    #[test]
    fn what_cannot_be_is_one_line_with_a_remedy() {
        for (text, words) in [
            ("--polcy x", "--against '--polcy x': unknown flag '--polcy'; did you mean '--policy'?"),
            ("--policy x", "--policy"),
            ("--size 0-", "--size"),
            ("--policy 'fifo:1", "quote"),
            ("--raw x", "--raw is of one measurement"),
            ("--against x", "outside of the quotes"),
            ("--at-most 5s", "outside of the quotes"),
            ("--format json", "--format is no setting"),
            ("-J", "--json is no setting"),
            ("--worst 3", "--worst is no setting"),
            ("--quiet", "--quiet is no setting"),
            ("--help", "--help is no setting"),
            ("-h", "--help is no setting"),
            ("--count", "--count"),
            ("tcp b c", "unexpected argument 'c'"),
        ] {
            let error = sides(&["windhover", "pingpong", "udp", "a:1", "--against", text]).unwrap_err();
            assert!(error.contains(words) && error.lines().count() == 1, "{text}: {error}");
            assert!(error.contains(&format!("--against '{text}'")), "{error}");
        }
    }

    #[test]
    fn words_are_divided_as_a_shell_does() {
        let words = |text: &str| split(text).map(|words| words.join("|"));
        assert_eq!(words(" --a 'b c'  --d=\"e ' f\" ''").as_deref(), Some("--a|b c|--d=e ' f|"));
        assert_eq!((words(""), words("'a")), (Some(String::new()), None));
    }
}
