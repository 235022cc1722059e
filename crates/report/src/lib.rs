//! Tables, plots and one-file HTML from stored runs.
