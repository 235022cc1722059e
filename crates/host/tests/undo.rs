//! The undo log on a tree of files: killed at every single step, by two at once, with values that others changed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

extern crate windhover_host as host;

#[path = "undo/beside.rs"]
mod beside;
#[path = "undo/damage.rs"]
mod damage;
#[path = "undo/killed.rs"]
mod killed;
#[path = "undo/namespaces.rs"]
mod namespaces;
#[path = "undo/several.rs"]
mod several;
#[path = "undo/single.rs"]
mod single;
#[path = "undo/tree.rs"]
mod tree;
