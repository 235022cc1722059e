//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.

use digest::Metric;
use digest::compare::Gate;

/// Gates and metrics as people type them.
pub fn gate(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<Gate>();
    let _ = text.parse::<Metric>();
}
