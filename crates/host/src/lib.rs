//! Facts of a Linux host: kernel, CPU, NIC, counters.
