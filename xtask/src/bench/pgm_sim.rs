//! Packets a second of PGM's simulator: an example of the crate, because xtask links nothing of the tool.

use crate::process;
use anyhow::{Context as _, Result};
use std::path::Path;

pub(crate) fn run(seconds: u32, output: Option<&Path>) -> Result<()> {
    let each = seconds.to_string();
    let arguments =
        ["run", "--quiet", "--locked", "--release", "--package", "windhover-pgm", "--example", "sim_rate", "--", &each];
    let table = process::output(&process::cargo(), &arguments)?;
    println!("{table}");
    if let Some(path) = output {
        std::fs::write(path, &table).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
