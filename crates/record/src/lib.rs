//! Samples to results: loss, order, intervals, outliers, verdict.
