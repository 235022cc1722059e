//! Packets a second of PGM's simulator: an example of the crate, because xtask links nothing of the tool.

use super::Output;
use crate::process;
use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seconds a setting.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(Arguments { seconds, output }: &Arguments) -> Result<()> {
    let each = seconds.to_string();
    let arguments =
        ["run", "--quiet", "--locked", "--release", "--package", "windhover-pgm", "--example", "sim_rate", "--", &each];
    output.publish(&process::output(&process::cargo(), &arguments)?)
}
