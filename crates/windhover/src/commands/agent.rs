//! `windhover agent`: one host's supervisor behind a byte pipe.

use super::{identity, signals};
use crate::output::Failure;
use std::io::Write as _;
use std::sync::Arc;

/// Serves the runner at the other end of stdin and stdout. `build`: the fingerprint, where it is not that of this file.
pub(crate) fn run(build: Option<String>) -> Result<u8, Failure> {
    let context = agent::Context {
        program: identity::executable()?,
        build: build.map_or_else(identity::build, Ok)?,
        lines: Arc::new(|line: &str| {
            // The runner that reads this may have ended.
            let _ = writeln!(std::io::stderr(), "{}", model::text::visible(line));
        }),
    };
    // The agent watches for the first signal itself; this makes the second one end it.
    let _stop = signals::stop_flag()?;
    agent::serve(std::io::stdin(), std::io::stdout(), &context)?;
    Ok(0)
}
