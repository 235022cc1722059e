//! Man pages: clap's, with a synopsis that names the values, and the examples of the help.

use crate::cli::guide;
use crate::commands::identity::VERSION;
use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use std::io;

/// The man page of a command, which is called `name` with the commands above it.
pub(super) fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let path = name.strip_prefix("windhover").unwrap_or(name).trim_start();
    // The examples have a section of their own.
    let notes = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let notes = notes.split("Examples:\n").next().map(str::trim_end).filter(|notes| !notes.is_empty());
    let command = command.clone().bin_name(name);
    let command = match notes {
        Some(notes) => command.after_long_help(notes.to_owned()),
        None => command.after_long_help(None::<&str>),
    };
    let man = Man::new(command.clone())
        .title(name.replace(' ', "-"))
        .date("")
        .source(format!("windhover {VERSION}"))
        .manual("Windhover");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(&command, name).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if notes.is_some() {
        man.render_extra_section(&mut page)?;
    }
    examples(path).to_writer(&mut page)?;
    // Each part begins with the same definition. What clap calls EXTRA is what man-pages(7) calls NOTES.
    let page = String::from_utf8_lossy(&page).into_owned();
    let begin: String = page.split_inclusive('\n').take_while(|line| !line.starts_with(".TH")).collect();
    Ok((begin.clone() + &page.replace(&begin, "").replace("\n.SH EXTRA\n", "\n.SH NOTES\n")).into_bytes())
}

/// `windhover tune apply [--nic IF] [-y|--yes] [PROFILE]`, options with their values.
fn synopsis(command: &Command, name: &str) -> Roff {
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let options = shown().filter(|arg| !arg.is_positional());
    let mut line = vec![bold(name)];
    for arg in options.chain(shown().filter(|arg| arg.is_positional())) {
        line.push(roman(if arg.is_required_set() { " " } else { " [" }));
        line.extend(argument(arg));
        line.push(roman(if arg.is_required_set() { "" } else { "]" }));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

fn argument(arg: &Arg) -> Vec<Inline> {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let flags: Vec<String> = short.into_iter().chain(arg.get_long().map(|long| format!("--{long}"))).collect();
    let mut words = Vec::new();
    for (at, flag) in flags.iter().enumerate() {
        words.extend((at > 0).then(|| roman("|")));
        words.push(bold(flag));
    }
    if arg.get_action().takes_values() {
        let names = arg.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let counts = arg.get_num_args().unwrap_or(1.into());
        let (open, close) = if counts.min_values() == 0 && !arg.is_positional() { ("[=", "]") } else { (" ", "") };
        words.push(roman(if flags.is_empty() { "" } else { open }));
        words.push(italic(names.join(" ")));
        words.push(roman(if flags.is_empty() { "" } else { close }));
        words.extend((counts.max_values() > names.len().max(1)).then(|| roman(" ...")));
    }
    words
}

fn examples(path: &str) -> Roff {
    let mut roff = Roff::new();
    for (at, (line, words)) in guide::examples(path).into_iter().enumerate() {
        if at == 0 {
            roff.control("SH", ["EXAMPLES"]);
        }
        roff.control("TP", []);
        roff.text([bold(line)]);
        roff.text([roman(words)]);
    }
    roff
}
