//! Every parser of bytes from the network or disk, as fuzz targets.

pub mod targets;
