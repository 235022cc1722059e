//! Ticks, their calibration, and the clock map.
