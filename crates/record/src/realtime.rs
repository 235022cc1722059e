//! Placeholder until filled.
