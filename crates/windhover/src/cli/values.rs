//! Which values the shells complete with words that only this machine knows: profiles, labs, runs and what is in them.

use clap::{Arg, Command};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Profile,
    BypassProfile,
    Lab,
    LabChoice,
    Host,
    Run,
    /// A factor of the cells of the runs on the command line.
    Factor,
    /// FACTOR=VALUE of these cells.
    FactorValue,
    /// The key of one of these cells.
    Cell,
    Device,
}

/// Arguments by command and name, and what their values are; `tune *` is any command below `tune`.
const KINDS: [(&str, &str, Kind); 22] = [
    ("tune *", "profile", Kind::Profile),
    ("bypass *", "profile", Kind::BypassProfile),
    ("lab exec", "host", Kind::Host),
    ("lab down", "name", Kind::Lab),
    ("campaign run", "lab", Kind::LabChoice),
    ("tune try", "lab", Kind::LabChoice),
    ("campaign resume", "run", Kind::Run),
    ("report", "runs", Kind::Run),
    ("show", "run", Kind::Run),
    ("plot", "runs", Kind::Run),
    ("compare", "runs", Kind::Run),
    ("compare", "second", Kind::Run),
    ("compare", "axis", Kind::Factor),
    ("compare", "wheres", Kind::FactorValue),
    ("compare", "wheres_b", Kind::FactorValue),
    ("plot", "cell", Kind::Cell),
    ("plot", "against", Kind::Cell),
    ("tune *", "nic", Kind::Device),
    ("shield", "nic", Kind::Device),
    ("shield exec", "nic", Kind::Device),
    ("doctor", "nic", Kind::Device),
    ("bypass *", "interface", Kind::Device),
];

/// The word that is typed at the moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    /// What stands before the value in the same word: `--axis=`, or nothing.
    pub(crate) before: String,
    pub(crate) typed: String,
    /// The operands before it, which are runs where the value is of one.
    pub(crate) operands: Vec<String>,
}

/// Finds what the last of the words behind the program's name is; `None` where the shell knows as much as we do.
pub(crate) fn place(root: &Command, words: &[String]) -> Option<Place> {
    let (typed, before) = words.split_last()?;
    let mut walk =
        Walk { command: root, path: String::new(), pending: None, operands: Vec::new(), only_operands: false };
    before.iter().for_each(|word| walk.step(word));
    let (arg, before, typed) = match (walk.pending, typed.split_once('=')) {
        (Some(arg), _) => (arg, String::new(), typed.clone()),
        (None, Some((flag, value))) if flag.starts_with("--") => {
            (walk.long(flag)?, format!("{flag}="), value.to_owned())
        }
        (None, _) if typed.starts_with('-') => return None,
        (None, _) => (walk.operand()?, String::new(), typed.clone()),
    };
    let kind = kind(&walk.path, arg.get_id().as_str())?;
    Some(Place { kind, before, typed, operands: walk.operands })
}

/// The long flags, of any command, whose values are of a kind.
pub(crate) fn flags(command: &Command, path: &str) -> BTreeSet<String> {
    let own = command.get_arguments().filter(|arg| kind(path, arg.get_id().as_str()).is_some());
    let below = command.get_subcommands().flat_map(|sub| flags(sub, format!("{path} {}", sub.get_name()).trim_start()));
    own.filter_map(Arg::get_long).map(str::to_owned).chain(below).collect()
}

fn kind(path: &str, name: &str) -> Option<Kind> {
    let fits = |pattern: &str| pattern.strip_suffix('*').map_or(path == pattern, |begin| path.starts_with(begin));
    KINDS.iter().find(|(pattern, known, _)| *known == name && fits(pattern)).map(|(.., kind)| *kind)
}

struct Walk<'c> {
    command: &'c Command,
    path: String,
    pending: Option<&'c Arg>,
    operands: Vec<String>,
    only_operands: bool,
}

impl<'c> Walk<'c> {
    fn step(&mut self, word: &str) {
        let is_flag = word.starts_with('-') && word.len() > 1 && !self.only_operands;
        if let Some(arg) = self.pending.filter(|_| !is_flag) {
            let goes_on = arg.get_num_args().is_some_and(|count| count.max_values() > 1);
            self.pending = Some(arg).filter(|_| goes_on);
            return;
        }
        self.pending = None;
        if word == "--" {
            self.only_operands = true;
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| is_flag && !letters.starts_with('-')) {
            // A cluster such as -qo: its first option with a value takes the rest, or the next word.
            let taking =
                letters.char_indices().find_map(|(at, letter)| Some((at + letter.len_utf8(), self.short(letter)?)));
            self.pending = taking.filter(|(end, _)| *end == letters.len()).map(|(_, arg)| arg);
        } else if is_flag {
            self.pending = if word.contains('=') { None } else { self.long(word) };
        } else if let Some(sub) = self.command.find_subcommand(word).filter(|_| self.operands.is_empty()) {
            self.path = format!("{} {}", self.path, sub.get_name()).trim_start().to_owned();
            self.command = sub;
        } else {
            self.operands.push(word.to_owned());
        }
    }

    fn long(&self, flag: &str) -> Option<&'c Arg> {
        let name = flag.trim_start_matches('-');
        let is =
            |arg: &&Arg| arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name));
        self.command.get_arguments().filter(takes_next).find(is)
    }

    fn short(&self, letter: char) -> Option<&'c Arg> {
        let is = |arg: &&Arg| {
            arg.get_short() == Some(letter) || arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
        };
        self.command.get_arguments().filter(takes_next).find(is)
    }

    /// The operand that comes next: the last one where it may be repeated.
    fn operand(&self) -> Option<&'c Arg> {
        let operands: Vec<&Arg> = self.command.get_positionals().collect();
        let repeated = operands.last().filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1));
        operands.get(self.operands.len()).or(repeated).copied()
    }
}

fn takes_next(arg: &&Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<Place> {
        let mut root = crate::cli::parse::definition();
        root.build();
        place(&root, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_kind_of_a_value_follows_from_the_words_before_it() {
        for (line, kind, before, typed) in [
            ("tune apply ", Kind::Profile, "", ""),
            ("--quiet tune apply --nic eth0 -n lat", Kind::Profile, "", "lat"),
            ("bypass run --profile ", Kind::BypassProfile, "", ""),
            ("lab exec four/", Kind::Host, "", "four/"),
            ("report a b r", Kind::Run, "", "r"),
            ("compare a --with b c", Kind::Run, "", "c"),
            ("compare a --axis=po", Kind::Factor, "--axis=", "po"),
            ("compare a --where policy=", Kind::FactorValue, "", "policy="),
            ("plot a --cell ", Kind::Cell, "", ""),
            ("shield --nic ", Kind::Device, "", ""),
        ] {
            let place = found(line).unwrap();
            assert_eq!((place.kind, place.before.as_str(), place.typed.as_str()), (kind, before, typed), "{line}");
        }
        for line in ["", "tu", "tune ", "tune apply --", "report --output ", "lab exec a ip ", "lab boot x --nic "] {
            assert_eq!(found(line), None, "{line}");
        }
        assert_eq!(found("compare a --quiet --axis ").unwrap().operands, ["a"]);
    }

    /// A name in the table that no command has would complete nothing.
    #[test]
    fn every_argument_of_the_table_exists() {
        fn has(command: &Command, path: &str, pattern: &str, name: &str) -> bool {
            let fits = pattern.strip_suffix('*').map_or(path == pattern, |begin| path.starts_with(begin));
            fits && command.get_arguments().any(|arg| arg.get_id() == name)
                || command
                    .get_subcommands()
                    .any(|sub| has(sub, format!("{path} {}", sub.get_name()).trim_start(), pattern, name))
        }
        let root = crate::cli::parse::definition();
        for (pattern, name, _) in KINDS {
            assert!(has(&root, "", pattern, name), "{pattern}: {name}");
        }
    }
}
