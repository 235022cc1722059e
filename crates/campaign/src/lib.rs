//! Plan, order, run, resume.
