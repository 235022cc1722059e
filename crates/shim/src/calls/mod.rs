//! The calls that this library replaces, by what they do. Each does what the C library's does, by calling it.

mod close;
mod descriptors;
mod establish;
mod inherit;
mod names;
mod poll;
mod processes;
mod receive;
mod select;
mod send;
mod stdio;
mod until_ready;

pub(crate) use inherit::look_up_inherited;
pub(crate) use stdio::flush;
