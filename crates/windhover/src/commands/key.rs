//! `windhover key`: a fresh shared key on standard output.

use crate::output::{Failure, Output};
use anyhow::Context as _;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use wire::key::Key;

/// Prints a key file.
pub(crate) fn run(output: &Output) -> Result<u8, Failure> {
    output.result(&fresh()?.to_file())?;
    Ok(0)
}

/// A new key.
pub(crate) fn fresh() -> Result<Key, Failure> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(Key::from_bytes(bytes))
}

/// Reads a key file and returns the key in hexadecimal. A file that is no secret is worth a warning.
pub(crate) fn read(path: Option<&Path>, output: &Output) -> Result<Option<String>, Failure> {
    /// "Others may read" of chmod(2).
    const EVERYBODY: u32 = 0o004;
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the key file {}", path.display()))
        .map_err(Failure::usage)?;
    let key = Key::parse_file(&text).with_context(|| format!("key file {}", path.display())).map_err(Failure::usage)?;
    let mode = std::fs::metadata(path).map_or(0, |facts| facts.permissions().mode());
    if mode & EVERYBODY != 0 {
        let file = path.display();
        output.warning(format_args!("every user of this machine can read the key file {file}: chmod 600 {file}"));
    }
    Ok(Some(key.to_hex()))
}
