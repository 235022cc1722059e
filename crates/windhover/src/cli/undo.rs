//! `windhover undo` and the hidden `windhover keeper`.

use super::shared::{PlainForm, SystemArgs};
use clap::Args;
use std::path::PathBuf;

/// Put settings back as they were before Windhover changed them, newest change set first. What somebody else has
/// changed since then is left as it is and named; the exit code is then 1. Changes that a running process still needs, such as the
/// shield of a campaign, are put back only after a question, or with --yes.
#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// Change sets to undo, such as 0003; without any, all of them, also those made in other network namespaces
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Only list the change sets and what they hold
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) form: PlainForm,
    /// Do not ask, also where the process that made the changes still runs and needs them
    #[arg(long, short, conflicts_with = "list")]
    pub(crate) yes: bool,
    /// Put back also what somebody else has changed since then
    #[arg(long, conflicts_with = "list")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// Enter this network namespace first
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) netns: Option<PathBuf>,
}

/// Undo a change set, or take a lab down, when its owner vanishes.
#[derive(Debug, Args)]
pub(crate) struct Keeper {
    /// The change set
    #[arg(long, required_unless_present_any = ["lab", "folder", "connections"])]
    pub(crate) set: Option<String>,
    /// The lab
    #[arg(long, conflicts_with = "set")]
    pub(crate) lab: Option<String>,
    /// The folder of a guest, to be removed
    #[arg(long, conflicts_with_all = ["set", "lab"])]
    pub(crate) folder: Option<PathBuf>,
    /// The folder of status pages of `bypass`: peers of programs that are killed are told
    #[arg(long, conflicts_with_all = ["set", "lab", "folder"])]
    pub(crate) connections: Option<PathBuf>,
    /// The process that stays, when the one that started it has ended
    #[arg(long, requires = "connections")]
    pub(crate) detached: bool,
    /// Its owner: process id and start time
    #[arg(long, value_name = "PID:TICKS", value_parser = owner)]
    pub(crate) owner: (i32, u64),
    #[command(flatten)]
    pub(crate) system: SystemArgs,
}

fn owner(text: &str) -> Result<(i32, u64), String> {
    let parts = text.split_once(':').and_then(|(pid, ticks)| Some((pid.parse().ok()?, ticks.parse().ok()?)));
    parts.ok_or_else(|| "write PID:TICKS".to_owned())
}
