//! Policy, CPUs, memory lock, limits; the only place that starts processes.
