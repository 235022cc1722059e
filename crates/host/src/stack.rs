//! What in the environment selects or tunes a user-space network stack.

use std::collections::BTreeMap;

/// Prefixes of the variables that preloaded stacks read.
const PREFIXES: [&str; 8] = ["EF_", "VMA_", "XLIO_", "ONLOAD_", "SFNT_", "ZF_", "EXASOCK_", "LIBVMA_"];

/// Whether a variable belongs to a preloaded network stack or selects one.
#[must_use]
pub fn is_stack_variable(name: &str) -> bool {
    matches!(name, "LD_PRELOAD" | "LD_LIBRARY_PATH" | "LD_AUDIT")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The variables of this process that do, by name. Values that are not UTF-8 keep what can be read of them.
#[must_use]
pub fn stack_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| is_stack_variable(name))
        .collect()
}
