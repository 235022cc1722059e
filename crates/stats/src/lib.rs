//! Exact moments, the one histogram, quantiles with confidence intervals, periodic stalls.
