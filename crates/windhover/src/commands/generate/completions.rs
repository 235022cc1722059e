//! Completions: clap's scripts, and before them the words that only this machine knows (`windhover complete`).

use clap::Command;
use clap_complete::Shell;

/// What is put before the script of bash. `_windhover` is then the function that it would register; clap's is
/// `_windhover_static`. Words are split at blanks only: readline splits at = and :, too, and replaces what follows the last one.
const BASH: &str = include_str!("known.bash");

/// The same of zsh.
const ZSH: &str = include_str!("known.zsh");

/// What follows the script of fish, which offers them besides; a line for operands, and one for the values of each flag.
const FISH: &str = include_str!("known.fish");
const FISH_KNOWN: &str = r#"-n 'test -n "$(__fish_windhover_known)"' -f -a '(__fish_windhover_known)'"#;

pub(super) const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// The script of a shell. Hidden commands are not offered.
pub(super) fn script(shell: Shell, root: &Command) -> String {
    let shown = root.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    let mut shown = Command::new("windhover").version("0").args(root.get_arguments().cloned()).subcommands(shown);
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut shown, "windhover", &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let renamed = || text.replacen("_windhover() {", "_windhover_static() {", 1);
    match shell {
        Shell::Bash => insert(&renamed(), BASH, "\nif [[ \"${BASH_VERSINFO"),
        Shell::Zsh => insert(&renamed(), ZSH, "\nif [ \"$funcstack[1]\""),
        _ => {
            let flags = crate::cli::values::flags(root, "");
            let flags = flags.iter().map(|flag| format!(" -l {flag} -r"));
            let lines = std::iter::once(String::new()).chain(flags);
            let lines: String = lines.map(|flag| format!("complete -c windhover{flag} {FISH_KNOWN}\n")).collect();
            format!("{text}{FISH}{lines}")
        }
    }
}

/// Puts a part before the place where the script registers its function.
fn insert(script: &str, part: &str, place: &str) -> String {
    let at = script.rfind(place).unwrap_or(script.len());
    let (before, behind) = script.split_at(at);
    format!("{before}{part}{}", behind.trim_start_matches('\n'))
}
