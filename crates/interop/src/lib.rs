//! What other tools send each other, so that each end of a measurement can be one of theirs.
//!
//! Floor 0: bytes in, bytes out; no sockets, no clock. One module a tool.

pub mod sockperf;
