//! One host's supervisor: workers and loads behind a byte pipe.
