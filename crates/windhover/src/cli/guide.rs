//! The help's guide: commands by purpose, and examples of each.

use clap::Command;
use std::fmt::Write as _;

/// Purposes in the order of a first experiment, each with its commands.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["serve", "pingpong", "rr", "ping", "pace", "stream", "wake", "cycle", "pgm", "exchange", "key"]),
    ("Prepare a host", &["doctor", "irq", "shield", "tune", "run", "bypass", "load", "undo"]),
    ("Experiment", &["lab", "campaign", "agent"]),
    ("Look at results", &["show", "explain", "report", "compare", "plot", "import", "dump"]),
];

/// Examples of each command, by its path below `windhover`: command lines, each with what it does below it, as help shows
/// them. Documents are tested with them.
const EXAMPLES: &str = include_str!("examples.txt");

/// The examples of a command, by its path below `windhover`: a line and what it does.
pub(crate) fn examples(path: &str) -> Vec<(&'static str, &'static str)> {
    let of_command = EXAMPLES.lines().skip_while(|line| *line != path).skip(1);
    let lines: Vec<&str> = of_command.take_while(|line| line.starts_with(' ')).map(str::trim_start).collect();
    lines.chunks_exact(2).map(|two| (two[0], two[1])).collect()
}

const FIRST: [&str; 6] = ["pingpong", "serve", "doctor", "tune recommend", "campaign run", "report"];

/// What `windhover` alone prints: what it is, the commands to begin with, and where the help is. Ten lines.
pub(super) fn overview(root: &Command) -> String {
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{}\n\n", about(root));
    for path in FIRST {
        let command = path.split(' ').try_fold(root, |command, name| command.find_subcommand(name));
        let line = examples(path).first().map_or("", |(line, _)| line);
        let _ = writeln!(text, "  {line:<34}  {}", command.map(about).unwrap_or_default());
    }
    text.push_str("\nwindhover help lists all commands; windhover help COMMAND, or COMMAND --help, explains one.\n");
    text
}

pub(super) fn with_examples(command: Command, path: &str) -> Command {
    let examples = examples(path);
    if examples.is_empty() {
        return command;
    }
    let mut text =
        command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Examples:");
    for (line, words) in examples {
        let _ = write!(text, "\n  {line}\n      {words}");
    }
    command.after_long_help(text)
}

pub(super) fn by_purpose(root: Command) -> Command {
    let mut text = String::new();
    for (purpose, names) in GROUPS {
        let _ = write!(text, "\n{purpose}:\n");
        for name in names {
            let about =
                root.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
            text.push_str(&report::paragraph(&format!("  {name:<9} "), &about, 78));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}\nOptions:\n{{options}}\n\nwindhover help COMMAND, or COMMAND \
         --help, says more.{{after-help}}"
    );
    root.help_template(template)
        .mut_subcommands(|sub| if sub.has_subcommands() { sub.disable_help_subcommand(true) } else { sub })
}
