//! Keeps everything off chosen CPUs that was not placed there.
