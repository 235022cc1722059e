//! Examines a host for what makes messages late.
