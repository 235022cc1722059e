//! What the network stack does with each packet on its way.

use super::check::{Answer, Check, checks, found_or, note, ok, warning};
use super::subject::{Skip, Subject};
use model::NicFacts;

pub(super) const CHECKS: &[Check] = checks![
    "net.firewall" by Once(firewall),
        reads "running processes: firewalld; /proc/net/ip*_tables_names; nf_tables in /proc/modules",
        when "rules are looked at for each packet",
        why "each rule costs time at every packet",
        on [Papers];
    "net.conntrack" by Once(conntrack),
        reads "net.netfilter.nf_conntrack_count",
        when "connections are tracked",
        why "each packet is looked up in a table, and a full table drops",
        on [Practice];
    "net.qdisc" by EachNic(qdisc),
        reads "the queueing discipline of the devices",
        when "it delays or shapes",
        why "a shaper's timer, not the link, then sets the time of sending",
        on [Practice];
    "net.tcp" by Once(tcp),
        reads "net.ipv4.tcp_autocorking, tcp_slow_start_after_idle",
        when "TCP may hold back small messages",
        why "Windhover sets TCP_NODELAY; other programs that do not will wait for acknowledgements",
        on [Practice];
];

fn firewall(s: &Subject<'_>) -> Answer {
    let mut found = Vec::new();
    if let Some(task) = s.running("firewalld") {
        found.push(warning("firewalld runs").read_name(task).tune("service.firewalld", "stopped"));
    }
    for path in ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"] {
        if let Some(tables) = s.maybe(path).filter(|text| !text.is_empty()) {
            found.push(
                note(format!("iptables has tables: {}", tables.split_whitespace().collect::<Vec<_>>().join(", ")))
                    .read(path, &tables)
                    .advice("let the measured port pass first: iptables -t raw -I PREROUTING -p udp --dport PORT -j NOTRACK"),
            );
        }
    }
    let modules = s.maybe("/proc/modules").unwrap_or_default();
    let users = modules.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nf_tables")).then(|| words.nth(1).and_then(|users| users.parse::<u32>().ok())).flatten()
    });
    if let Some(users) = users.filter(|users| *users > 0) {
        found.push(
            note("nf_tables is in use: rules may be looked at for each packet")
                .read("/proc/modules nf_tables", users)
                .command("nft list ruleset"),
        );
    }
    if found.is_empty() && s.tasks().is_empty() {
        return Err(Skip::not_here("/proc shows no processes, and no tables"));
    }
    found_or(found, || ok("no sign of packet filter rules"))
}

fn conntrack(s: &Subject<'_>) -> Answer {
    let path = "/proc/sys/net/netfilter/nf_conntrack_count";
    if !s.machine.exists(path) {
        return Ok(vec![ok("connections are not tracked").read(path, "absent")]);
    }
    let tracked = s.number(path)?;
    let answer = if tracked > 0 {
        warning(format!("{tracked} connections are tracked"))
            .advice("exempt the measured port with a rule in the raw table (notrack)")
    } else {
        note("connection tracking is loaded and tracks nothing now")
    };
    Ok(vec![answer.read(path, tracked)])
}

fn qdisc(_: &Subject<'_>, nic: &NicFacts) -> Answer {
    /// These hold packets back on purpose.
    const SLOW: [&str; 6] = ["netem", "tbf", "htb", "hfsc", "cbs", "cake"];
    let Some(kind) = &nic.qdisc else {
        return Err(Skip::not_here("no device tells its queueing discipline"));
    };
    let answer = if SLOW.contains(&kind.as_str()) {
        warning(format!("{} sends through {kind}, which delays or shapes", nic.name))
            .command(format!("tc qdisc del dev {} root", nic.name))
    } else {
        ok(format!("{} sends through {kind}", nic.name))
    };
    Ok(vec![answer.read(format!("{} qdisc", nic.name), kind)])
}

fn tcp(s: &Subject<'_>) -> Answer {
    let (path, other) = ("/proc/sys/net/ipv4/tcp_autocorking", "/proc/sys/net/ipv4/tcp_slow_start_after_idle");
    let cork = s.number(path)?;
    let slow = s.number(other).unwrap_or(0);
    let answer = if cork == 0 && slow == 0 {
        ok("TCP sends small messages at once")
    } else {
        note("TCP may hold back small messages, or start slowly after a pause")
            .tune("sysctl.net.ipv4.tcp_autocorking", 0)
            .tune("sysctl.net.ipv4.tcp_slow_start_after_idle", 0)
    };
    Ok(vec![answer.read(path, cork).read(other, slow)])
}
