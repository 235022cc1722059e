//! What reports, comparisons and pictures say of synthetic runs. One program, because each links all of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod compare;
mod evidence;
mod forms;
mod heat;
mod late;
mod page;
mod pgm;
#[path = "../sample/mod.rs"]
mod sample;
mod sentences;
mod single_pace;
#[path = "../synthetic/mod.rs"]
mod synthetic;
