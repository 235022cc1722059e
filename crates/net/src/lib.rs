//! Datapaths through libc only.
