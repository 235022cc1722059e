//! Where the host of the calling thread dropped messages over a span.
//!
//! All of it is of the thread's network namespace, except the backlog drops, which are of the machine. Sources:
//! /proc/thread-self/net/{snmp,snmp6,dev,softnet_stat} (Documentation/networking/snmp_counter, proc_net(5)) and the
//! statistics of root queueing disciplines over rtnetlink. Datagrams dropped at the measuring socket itself
//! (SO_RXQ_OVFL) are the datapath's to report; that field stays 0 here.

use crate::qdisc;
use model::Counters;
use std::fs;

/// Running totals since boot, or since the namespace was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub udp: Udp,
    pub udp6: Udp,
    pub tcp_retransmits: u64,
    pub devices: Devices,
    pub qdisc_drops: u64,
    /// Packets dropped because a CPU's backlog was full.
    pub backlog_drops: u64,
}

/// The UDP counters that mean loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Udp {
    /// All receive errors, the next two included.
    pub in_errors: u64,
    pub receive_buffer_errors: u64,
    pub send_buffer_errors: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Devices {
    /// rx_dropped and rx_missed_errors (the kernel prints their sum).
    pub receive_drops: u64,
    pub send_drops: u64,
}

/// UDP's counters and TCP's RetransSegs from the text of /proc/net/snmp; 0 for what a kernel does not have.
pub fn parse_snmp(text: &str) -> (Udp, u64) {
    let mut udp = Udp::default();
    let mut retransmits = 0;
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, values))) = (names.split_once(':'), values.split_once(':')) else {
            continue;
        };
        if protocol != same {
            continue;
        }
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            // Some TCP values are signed (MaxConn is -1); none of those wanted is.
            let Ok(value) = value.parse::<u64>() else { continue };
            match (protocol, name) {
                ("Udp", "InErrors") => udp.in_errors = value,
                ("Udp", "RcvbufErrors") => udp.receive_buffer_errors = value,
                ("Udp", "SndbufErrors") => udp.send_buffer_errors = value,
                ("Tcp", "RetransSegs") => retransmits = value,
                _ => {}
            }
        }
    }
    (udp, retransmits)
}

/// UDP over IPv6 from the text of /proc/net/snmp6: a name and a value a line.
pub fn parse_snmp6(text: &str) -> Udp {
    let mut udp = Udp::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse::<u64>)) else { continue };
        match name {
            "Udp6InErrors" => udp.in_errors = value,
            "Udp6RcvbufErrors" => udp.receive_buffer_errors = value,
            "Udp6SndbufErrors" => udp.send_buffer_errors = value,
            _ => {}
        }
    }
    udp
}

/// Drops summed over the devices from the text of /proc/net/dev. The columns are found by the heading's names.
pub fn parse_net_dev(text: &str) -> Devices {
    let mut sums = Devices::default();
    let mut columns = None;
    for line in text.lines() {
        if let Some((_, heads)) = line.split_once('|') {
            if let Some((receive, send)) = heads.split_once('|') {
                let place = |heads: &str| heads.split_ascii_whitespace().position(|head| head == "drop");
                if let (Some(receive_at), Some(send_at)) = (place(receive), place(send)) {
                    columns = Some((receive_at, receive.split_ascii_whitespace().count() + send_at));
                }
            }
            continue;
        }
        // A device's name may contain a colon (an alias), the figures cannot.
        let (Some((_, values)), Some((receive_at, send_at))) = (line.rsplit_once(':'), columns) else { continue };
        let value = |at: usize| values.split_ascii_whitespace().nth(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        sums.receive_drops = sums.receive_drops.saturating_add(value(receive_at));
        sums.send_drops = sums.send_drops.saturating_add(value(send_at));
    }
    sums
}

/// Packets dropped because a CPU's backlog was full: the second column of /proc/net/softnet_stat, summed.
pub fn parse_softnet_drops(text: &str) -> u64 {
    text.lines()
        .filter_map(|line| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok())
        .fold(0, u64::saturating_add)
}

impl Totals {
    /// Reads them now; what is not readable is 0.
    pub fn read() -> Self {
        let text = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let (udp, tcp_retransmits) = parse_snmp(&text("snmp"));
        Self {
            udp,
            udp6: parse_snmp6(&text("snmp6")),
            tcp_retransmits,
            devices: parse_net_dev(&text("dev")),
            qdisc_drops: qdisc::roots().iter().fold(0, |sum, root| sum.saturating_add(root.drops)),
            backlog_drops: parse_softnet_drops(&text("softnet_stat")),
        }
    }

    /// What was added since an earlier reading; 0 where a counter was reset (a device went away).
    pub fn since(&self, earlier: &Self) -> Counters {
        let udp = |field: fn(&Udp) -> u64| {
            field(&self.udp).saturating_sub(field(&earlier.udp))
                + field(&self.udp6).saturating_sub(field(&earlier.udp6))
        };
        let receive_buffer_errors = udp(|udp| udp.receive_buffer_errors);
        Counters {
            socket_overflow: 0,
            udp_receive_buffer_errors: receive_buffer_errors,
            udp_receive_errors: udp(|udp| udp.in_errors).saturating_sub(receive_buffer_errors),
            udp_send_buffer_errors: udp(|udp| udp.send_buffer_errors),
            tcp_retransmits: self.tcp_retransmits.saturating_sub(earlier.tcp_retransmits),
            nic_receive_drops: self.devices.receive_drops.saturating_sub(earlier.devices.receive_drops),
            nic_send_drops: self.devices.send_drops.saturating_sub(earlier.devices.send_drops),
            qdisc_drops: self.qdisc_drops.saturating_sub(earlier.qdisc_drops),
            backlog_drops: self.backlog_drops.saturating_sub(earlier.backlog_drops),
        }
    }
}

/// Counters over a span. Start it before and finish it after [`crate::usage::Sampler`]: it reads files and allocates.
#[derive(Debug, Clone)]
pub struct Sampler(Totals);

impl Sampler {
    /// Starts a span of the network namespace of the calling thread.
    pub fn start() -> Self {
        Self(Totals::read())
    }

    /// Ends the span, in the same network namespace.
    pub fn finish(self) -> Counters {
        Totals::read().since(&self.0)
    }
}
