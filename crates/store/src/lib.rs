//! The run directory: write, read, merge, export.
