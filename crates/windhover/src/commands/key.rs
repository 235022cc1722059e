//! `windhover key`: a fresh shared key on standard output.

use crate::output::{Failure, Output};
use anyhow::Context as _;
use std::io::Read as _;

/// Prints a key file.
pub(crate) fn run(output: &Output) -> Result<u8, Failure> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    output.result(&wire::key::Key::from_bytes(bytes).to_file())?;
    Ok(0)
}

/// Reads a key file and returns the key in hexadecimal.
pub(crate) fn read(path: Option<&std::path::Path>) -> Result<Option<String>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the key file {}", path.display()))
        .map_err(Failure::usage)?;
    let key = wire::key::Key::parse_file(&text)
        .with_context(|| format!("key file {}", path.display()))
        .map_err(Failure::usage)?;
    Ok(Some(key.to_hex()))
}
