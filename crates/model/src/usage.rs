//! What a measurement cost one end, and what its host counted meanwhile. All fields are differences over one size.

/// CPU and scheduling of the measuring thread and its machine over one size.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct EndUsage {
    /// Wall time that the other figures cover.
    pub elapsed_ns: u64,
    /// Transactions (rounds) within that time, where it is not exactly the measured part: the reflector's time covers the
    /// warm-up too. Absent where the result's own count is the right one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
    /// User CPU time of the measuring process (getrusage).
    pub process_user_ns: u64,
    /// System CPU time of the measuring process.
    pub process_system_ns: u64,
    /// Machine-wide CPU time that was not idle, over all CPUs (/proc/stat; netperf's definition counts iowait and steal as busy).
    pub machine_busy_ns: u64,
    /// Machine-wide softirq time over all CPUs (/proc/stat).
    pub machine_softirq_ns: u64,
    /// CPU time of the kernel's threads ksoftirqd, over all CPUs (schedstat): softirqs that wait for the scheduler. Absent
    /// where these threads are not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ksoftirqd_ns: Option<u64>,
    /// Machine-wide hard interrupt time over all CPUs (/proc/stat).
    pub machine_irq_ns: u64,
    /// Machine-wide steal time over all CPUs (/proc/stat).
    pub machine_steal_ns: u64,
    /// Number of online CPUs of the machine.
    pub cpus: u32,
    /// Time other tasks ran on the measuring CPU: its busy time less ours, softirq, irq and steal; absent when not pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_tasks_ns: Option<u64>,
    /// Steal of the measuring CPU; absent when not pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_steal_ns: Option<u64>,
    /// Time the measuring thread was ready but not running (/proc/thread-self/schedstat); absent where not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait_ns: Option<u64>,
    /// Context switches because the thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the thread was displaced.
    pub involuntary_switches: u64,
    /// Moves to another CPU (/proc/self/sched where there is one, else seen by getcpu at the borders of batches).
    pub migrations: u64,
    /// Page faults without I/O of the measuring thread.
    pub minor_faults: u64,
    /// Page faults with I/O of the measuring thread.
    pub major_faults: u64,
    /// The CPU the thread was on at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl EndUsage {
    /// The machine's CPU utilization in percent by netperf: 100 less idle of all CPUs; iowait and steal are busy.
    pub fn machine_percent(&self) -> Option<f64> {
        let capacity = self.elapsed_ns as f64 * f64::from(self.cpus);
        (capacity > 0.0).then(|| (100.0 * self.machine_busy_ns as f64 / capacity).min(100.0))
    }

    /// netperf's service demand: µs of machine CPU a transaction. `measured`, the result's own count of transactions,
    /// stands in where this end has no count for its own time, here and below. Absent when nothing was counted.
    pub fn service_demand_us(&self, measured: u64) -> Option<f64> {
        self.us_each(self.machine_busy_ns, measured)
    }

    /// µs of the measuring process' own CPU a transaction.
    pub fn process_us(&self, measured: u64) -> Option<f64> {
        self.us_each(self.process_user_ns + self.process_system_ns, measured)
    }

    /// µs of machine-wide softirq a transaction.
    pub fn softirq_us(&self, measured: u64) -> Option<f64> {
        self.us_each(self.machine_softirq_ns, measured)
    }

    fn us_each(&self, ns: u64, measured: u64) -> Option<f64> {
        let transactions = self.transactions.unwrap_or(measured);
        (transactions > 0 && self.elapsed_ns > 0).then(|| ns as f64 / 1000.0 / transactions as f64)
    }
}

/// A library that LD_PRELOAD names in a measuring process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Preload {
    /// Its name as in the variable.
    pub library: String,
    /// Whether the dynamic loader has mapped it. When it cannot it only warns and goes on with the kernel's stack.
    pub loaded: bool,
}

impl Preload {
    /// The names in a value of LD_PRELOAD; colons and white space part them, and nothing escapes these (ld.so(8)).
    pub fn names(value: &str) -> impl Iterator<Item = &str> {
        value.split(|letter: char| letter == ':' || letter.is_ascii_whitespace()).filter(|name| !name.is_empty())
    }
}

/// Data sockets of a measuring process behind our own preload library, and what carries them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Carried {
    /// The library's word: `spin`, `xdp`, or `kernel` where they are not accelerated.
    pub by: String,
    /// Why they are left to the kernel: one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many.
    pub sockets: u32,
}

/// Where a host dropped messages, as far as it tells. All are differences over one size.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Counters {
    /// Datagrams dropped at our own socket because its buffer was full (SO_RXQ_OVFL).
    pub socket_overflow: u64,
    /// UDP datagrams dropped for want of receive buffer, host-wide (RcvbufErrors of /proc/net/snmp, snmp6).
    pub udp_receive_buffer_errors: u64,
    /// UDP datagrams dropped for other receive errors, checksums included (InErrors less the above).
    pub udp_receive_errors: u64,
    /// UDP send errors for want of buffer (SndbufErrors).
    pub udp_send_buffer_errors: u64,
    /// TCP segments sent again (RetransSegs).
    pub tcp_retransmits: u64,
    /// Received packets dropped by network devices (sum of rx_dropped, rx_missed).
    pub nic_receive_drops: u64,
    /// Packets dropped on sending by network devices.
    pub nic_send_drops: u64,
    /// Packets dropped by queueing disciplines of the devices.
    pub qdisc_drops: u64,
    /// Packets dropped because a CPU's backlog was full (/proc/net/softnet_stat).
    pub backlog_drops: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_costs_what_its_own_time_cost() {
        let usage = EndUsage {
            elapsed_ns: 2_000_000,
            machine_busy_ns: 1_000_000,
            machine_softirq_ns: 100_000,
            process_user_ns: 200_000,
            process_system_ns: 300_000,
            ..EndUsage::default()
        };
        assert_eq!(usage.service_demand_us(100), Some(10.0));
        let reflector = EndUsage { transactions: Some(200), ..usage };
        assert_eq!(reflector.service_demand_us(100), Some(5.0), "warm-up counted in time and in transactions");
        assert_eq!((reflector.process_us(100), reflector.softirq_us(100)), (Some(2.5), Some(0.5)));
    }

    #[test]
    fn an_end_that_never_reported_cost_nothing_known() {
        assert_eq!(EndUsage::default().service_demand_us(100), None);
        assert_eq!(EndUsage::default().process_us(100), None);
    }
}
