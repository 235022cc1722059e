//! Even, measured background loads.
