//! `windhover generate`: man pages, completions, references and schemas from the definitions of commands and documents.

mod completions;
mod man;

use crate::cli::serve::Generate;
use crate::output::Failure;
use anyhow::Context as _;
use clap_complete::Generator as _;
use std::path::Path;

pub(crate) fn run(arguments: &Generate) -> Result<u8, Failure> {
    let folder = arguments.folder.as_path();
    let mut root = crate::cli::parse::definition();
    root.build();
    let mut reference =
        String::from("# Command reference\n\nMade by `cargo xtask generate` from the same definitions as `--help`.\n");
    pages(&root, "windhover", folder, &mut reference)?;
    write(folder, "commands.md", reference.as_bytes())?;
    let checks = format!(
        "# The doctor's checks\n\nMade by `cargo xtask generate` from the checks themselves; [doctor.md](../doctor.md) tells how to read them.\n{}",
        prepare::doctor::table_markdown()
    );
    write(folder, "checks.md", checks.as_bytes())?;
    write(folder, "quantities.md", model::quantity::markdown().as_bytes())?;
    write(folder, "findings.md", model::FindingId::markdown().as_bytes())?;
    write(folder, "causes.md", model::CauseClass::markdown().as_bytes())?;
    write(folder, "plan.md", model::plan::reference::markdown().as_bytes())?;
    write(folder, "schemas/doctor.schema.json", prepare::doctor::schema().as_bytes())?;
    for shell in completions::SHELLS {
        let script = completions::script(shell, &crate::cli::parse::definition());
        write(folder, &format!("completions/{}", shell.file_name("windhover")), script.as_bytes())?;
    }
    for (name, schema) in store::schemas().into_iter().chain(report::schemas()?) {
        write(folder, &format!("schemas/{name}"), schema.as_bytes())?;
    }
    Ok(0)
}

fn pages(command: &clap::Command, name: &str, folder: &Path, reference: &mut String) -> Result<(), Failure> {
    // A page shows all flags, and leaves out the words of those that -h does not show.
    let whole = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let page = man::page(&whole, name).context("man page")?;
    write(folder, &format!("man/{}.1", name.replace(' ', "-")), &page)?;
    let help = command.clone().bin_name(name).term_width(100).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    reference.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.join("\n")));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages(sub, &format!("{name} {}", sub.get_name()), folder, reference)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
