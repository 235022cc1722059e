//! A lab's life: made, listed, used, removed.

use crate::build::{Batch, LOOPBACK, LabHost, LabRecord, LabSpec, NETNS_FOLDER, Port};
use crate::registry::Lock;
use crate::{LabError, Owner, Registry, ip};
use model::plan::LabKind;
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use task::{Keeper, Launch, Stream};

/// How long a veth pair may take to come up, in seconds.
const VETH_SECONDS: u64 = 5;
/// How long two real ports may take to agree on a link, in seconds.
const PORT_SECONDS: u64 = 30;
/// The first and the longest pause between looks at a link. A veth pair takes up to 1 s, a look in a guest 20 ms of CPU.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(160));
/// CAP_NET_ADMIN and CAP_SYS_ADMIN (linux/capability.h), which namespaces and their links need.
const NEEDED_CAPABILITIES: u64 = 1 << 12 | 1 << 21;

/// A lab that is up. Dropping it takes it down if this process owns it; call [`Lab::down`] to see errors.
#[derive(Debug)]
pub struct Lab {
    record: LabRecord,
    registry: Registry,
    ours: bool,
    /// Somebody else made it and takes it down.
    is_borrowed: bool,
    guest: Option<guest::Guest>,
    _used: Option<File>,
    /// Dropped after the lab was taken down: then it finds nothing to do.
    _keeper: Option<Keeper>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabStatus {
    pub record: LabRecord,
    /// Whether its owner has ended, so that it may be removed.
    pub stale: bool,
}

impl Lab {
    /// Makes a lab and waits for its links, or removes what it made. Stale labs are removed first. A loopback lab makes nothing.
    pub fn up(registry: &Registry, spec: &LabSpec) -> Result<Self, LabError> {
        spec.check()?;
        if spec.kind == LabKind::Guest {
            return LabError::refused("a guest is booted, not made of namespaces: name its kernel");
        }
        if spec.kind == LabKind::Loopback {
            let record = LabRecord::plan(spec, None, has_ipv6(), Vec::new());
            return Ok(Self::of(record, registry));
        }
        need_privileges()?;
        let lock = registry.lock()?;
        remove_stale(registry, &lock)?;
        refuse_existing(registry, &spec.name)?;
        let ports = spec.ports.iter().map(|port| look_at_port(port)).collect::<Result<Vec<_>, _>>()?;
        let record = LabRecord::plan(spec, Some(registry.free_subnet()?), has_ipv6(), ports);
        if let Some(netns) = record.namespaces().find(|netns| namespace_exists(netns)) {
            let remedy = format!("remove it with ip netns delete {netns}");
            return LabError::refused(format!("network namespace '{netns}' exists and belongs to no lab: {remedy}"));
        }
        let ours = matches!(&record.owner, Owner::Process { pid, .. } if *pid == std::process::id());
        let keeper = spec.keeper.as_ref().filter(|_| ours).map(|program| start_keeper(program, registry, &record));
        let keeper = keeper.transpose()?;
        // Written down before anything is made: a kill in between leaves nothing unregistered.
        registry.put(&record)?;
        let made = record.batches().iter().try_for_each(ip::run).and_then(|()| wait_for_links(&record));
        if let Err(error) = made {
            // The first failure is the one to report; what cannot be removed stays in the registry for later.
            let _ = remove(registry, &lock, &record);
            return Err(error);
        }
        let mut lab = Self::of(record, registry);
        (lab.ours, lab._keeper) = (ours, keeper);
        Ok(lab)
    }

    fn of(record: LabRecord, registry: &Registry) -> Self {
        let registry = registry.clone();
        Self { record, registry, ours: false, is_borrowed: false, guest: None, _used: None, _keeper: None }
    }

    /// A lab that is up already, which stays up; an error when there is none, it is stale, or its guests are in use.
    pub fn borrow(registry: &Registry, name: &str) -> Result<Self, LabError> {
        let record = Self::open(registry, name)?;
        record.check_up()?;
        let used = crate::guest::take(&record)?;
        let mut lab = Self::of(record, registry);
        (lab.is_borrowed, lab._used) = (true, used);
        Ok(lab)
    }

    pub fn open(registry: &Registry, name: &str) -> Result<LabRecord, LabError> {
        registry.get(name)?.ok_or_else(|| LabError::no_lab(name))
    }

    pub fn record(&self) -> &LabRecord {
        &self.record
    }

    pub fn hosts(&self) -> &[LabHost] {
        &self.record.hosts
    }

    pub(crate) fn with_guest(record: LabRecord, registry: &Registry, guest: guest::Guest) -> Self {
        let mut lab = Self::of(record, registry);
        lab.guest = Some(guest);
        lab
    }

    /// The guest that its hosts are in, when it is one.
    pub fn guest(&mut self) -> Option<&mut guest::Guest> {
        self.guest.as_mut()
    }

    /// Leaves it up when this value is dropped. It stays in the registry with its owner.
    pub fn keep(mut self) {
        self.ours = false;
    }

    /// Removes it, as [`down`] does. A loopback lab has nothing to remove.
    pub fn down(mut self) -> Result<(), LabError> {
        self.ours = false;
        if self.is_borrowed {
            return Ok(());
        }
        match self.record.kind {
            LabKind::Netns => down(&self.registry, &self.record.name),
            LabKind::Loopback => Ok(()),
            // What is in it goes with it: there is nothing to be put back.
            LabKind::Guest => Ok(self.guest.take().map_or(Ok(()), guest::Guest::cut)?),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.ours {
            let _ = down(&self.registry, &self.record.name);
        }
    }
}

/// What a keeper of a lab is started with: `windhover keeper --lab NAME --owner PID:TICKS --state-dir REGISTRY`.
fn start_keeper(program: &Path, registry: &Registry, record: &LabRecord) -> Result<Keeper, LabError> {
    let none = || {
        let remedy = "is the windhover program still where it was?";
        LabError::Refused(format!("the lab's keeper could not be started, so no lab was made: {remedy}"))
    };
    let Owner::Process { pid, start_time, .. } = &record.owner else { return Err(none()) };
    let launch = Launch::new(program)
        .args(["keeper", "--lab", &record.name, "--owner"])
        .arg(format!("{pid}:{start_time}"))
        .arg("--state-dir")
        .arg(registry.folder());
    Keeper::start(launch)?.ok_or_else(none)
}

/// A lab's keeper: waits for the owner's end, then takes the owner's lab down. `ready` prints [`Keeper::READY`].
pub fn keep(registry: &Registry, name: &str, owner: (i32, u64), ready: impl FnOnce()) -> Result<(), LabError> {
    guest::wait_for_owner(owner, ready)?;
    let lock = registry.lock()?;
    match registry.get(name)? {
        Some(record) if matches!(&record.owner, Owner::Process { pid, start_time, .. } if (i64::from(*pid), *start_time) == (i64::from(owner.0), owner.1)) => {
            remove(registry, &lock, &record)
        }
        _ => Ok(()),
    }
}

/// Removes a lab, whoever owns it, and gives borrowed ports back. What cannot be removed keeps it in the registry. Of a
/// damaged record the namespaces of its name are removed; the record is set aside ([`LabError::SetAside`]).
pub fn down(registry: &Registry, name: &str) -> Result<(), LabError> {
    match Lab::open(registry, name) {
        Ok(record) if record.kind == LabKind::Guest => crate::guest::end_holder(&record)?,
        Ok(_) | Err(LabError::Damaged { .. }) => need_privileges()?,
        Err(error) => return Err(error),
    }
    let lock = registry.lock()?;
    // Looked at again under the lock: another process may have been faster.
    match registry.get(name) {
        Ok(Some(record)) => remove(registry, &lock, &record),
        Ok(None) => Err(LabError::no_lab(name)),
        Err(LabError::Damaged { why, .. }) => remove_damaged(registry, &lock, name, &why),
        Err(error) => Err(error),
    }
}

/// Removes all labs whose owner has ended, as [`down`] does; returns their names.
pub fn down_stale(registry: &Registry) -> Result<Vec<String>, LabError> {
    let stale: Vec<LabRecord> = registry.all()?.0.into_iter().filter(|record| record.owner.is_gone()).collect();
    if stale.is_empty() {
        return Ok(Vec::new());
    }
    if stale.iter().any(|record| record.kind != LabKind::Guest) {
        need_privileges()?;
    }
    let lock = registry.lock()?;
    remove_stale(registry, &lock)
}

/// All labs of the registry, by name; and what is wrong with the files of others.
pub fn list(registry: &Registry) -> Result<(Vec<LabStatus>, Vec<LabError>), LabError> {
    let (records, damaged) = registry.all()?;
    let status = |record: LabRecord| LabStatus { stale: record.owner.is_gone(), record };
    Ok((records.into_iter().map(status).collect(), damaged))
}

/// Runs a command on a host; a shell's status. `started` gets its id: a caller killed by a signal takes it along.
pub fn exec(
    registry: &Registry,
    lab: &str,
    host: &str,
    argv: &[String],
    started: &mut dyn FnMut(u32),
) -> Result<i32, LabError> {
    let record = Lab::open(registry, lab)?;
    let host = record.host(host)?;
    let Some((program, arguments)) = argv.split_first() else {
        let remedy = "name one, as in -- ip address";
        return LabError::refused(format!("no command was given for host '{}' of lab '{lab}': {remedy}", host.name));
    };
    // A command must not outlive a killed `lab exec`: it would hold the namespace.
    let mut launch = Launch::new(program)
        .args(arguments)
        .in_our_group()
        .die_with_parent()
        .stdin(Stream::Inherit)
        .stdout(Stream::Inherit);
    if let Some(netns) = host.netns_path() {
        need_privileges()?;
        launch = launch.netns(netns);
    }
    let mut child = launch.start()?;
    started(child.pid());
    let status = child.wait()?;
    Ok(task::shell_status(status))
}

/// Refuses a name that is taken. The registry is locked.
pub(crate) fn refuse_existing(registry: &Registry, name: &str) -> Result<(), LabError> {
    let Some(existing) = registry.get(name)? else { return Ok(()) };
    let remedy = format!("use another name, or windhover lab down {name}");
    LabError::refused(format!("a lab named '{name}' exists ({}): {remedy}", existing.owner))
}

pub(crate) fn remove_stale(registry: &Registry, lock: &Lock) -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for record in registry.all()?.0.into_iter().filter(|record| record.owner.is_gone()) {
        remove(registry, lock, &record)?;
        removed.push(record.name);
    }
    Ok(removed)
}

/// Takes down whatever of a lab is there, looks at what is left, and forgets it when nothing is.
fn remove(registry: &Registry, _lock: &Lock, record: &LabRecord) -> Result<(), LabError> {
    crate::guest::remove_folders(record);
    let here = std::process::id();
    for host in &record.hosts {
        let Some(netns) = host.netns.as_deref().filter(|netns| namespace_exists(netns)) else { continue };
        let device = &host.device;
        // Links deleted by name go at once; with their namespace later, or never while a process holds it.
        let lines = match &host.port {
            Some(_) => vec![format!("link set {device} down"), format!("link set {device} netns {here}")],
            None if device == LOOPBACK => continue,
            None => vec![format!("link del {device}")],
        };
        ip::run_all(&Batch { netns: Some(netns.to_owned()), lines })?;
    }
    let lines = record.namespaces().filter(|netns| namespace_exists(netns)).map(|netns| format!("netns del {netns}"));
    ip::run_all(&Batch { netns: None, lines: lines.collect() })?;
    none_left(record.namespaces(), &record.name)?;
    for port in record.hosts.iter().filter_map(|host| host.port.as_ref()) {
        give_back(record, port)?;
    }
    registry.forget(&record.name)
}

fn remove_damaged(registry: &Registry, _lock: &Lock, name: &str, why: &str) -> Result<(), LabError> {
    let here = std::process::id();
    let names = std::fs::read_dir(NETNS_FOLDER).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names.filter(|netns| is_of_lab(netns, name)).collect();
    found.sort_unstable();
    for netns in &found {
        let links = ip::ask(Some(netns), &["link", "show"])?.unwrap_or_default();
        let devices = links.iter().filter_map(|link| link.get("ifname")?.as_str()).filter(|device| *device != LOOPBACK);
        // What cannot be deleted is a real port: it goes home before its namespace does.
        let lines =
            devices.flat_map(|device| [format!("link del {device}"), format!("link set {device} netns {here}")]);
        ip::run_all(&Batch { netns: Some(netns.clone()), lines: lines.collect() })?;
    }
    ip::run_all(&Batch { netns: None, lines: found.iter().map(|netns| format!("netns del {netns}")).collect() })?;
    none_left(found.iter().map(String::as_str), name)?;
    let removed = if found.is_empty() { "no namespace was left".to_owned() } else { found.join(", ") };
    Err(LabError::SetAside(format!(
        "the record of lab '{name}' was damaged ({why}); removed: {removed}. Ports that the lab had borrowed have lost their \
         addresses; what is left of the record is {}: look there for ports, then remove it",
        registry.set_aside(name)?.display()
    )))
}

fn none_left<'a>(mut namespaces: impl Iterator<Item = &'a str>, lab: &str) -> Result<(), LabError> {
    match namespaces.find(|netns| namespace_exists(netns)) {
        Some(netns) => {
            let why = format!("ip netns delete {netns} does not remove it");
            LabError::left(&format!("namespace {netns}"), lab, &why)
        }
        None => Ok(()),
    }
}

/// Whether a namespace has the name that a lab's host or switch has.
fn is_of_lab(netns: &str, lab: &str) -> bool {
    let part = netns.strip_prefix("wh-").and_then(|rest| rest.strip_prefix(lab)?.strip_prefix('-'));
    part.is_some_and(|part| part == "sw" || (part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_lowercase())))
}

fn give_back(record: &LabRecord, port: &Port) -> Result<(), LabError> {
    let name = &port.name;
    if ip::ask(None, &["link", "show", "dev", name])?.is_none_or(|links| links.is_empty()) {
        let why = "it is not in this network namespace: is the command run in the one it was taken from?";
        return LabError::left(&format!("port {name}"), &record.name, why);
    }
    let mut lines = Vec::new();
    if port.up {
        lines.push(format!("link set {name} up"));
    }
    lines.extend(port.addresses.iter().map(|address| format!("addr replace {address} dev {name}")));
    ip::run_all(&Batch { netns: None, lines })
}

fn look_at_port(name: &str) -> Result<Port, LabError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
    let missing = || LabError::Refused(format!("port '{name}' does not exist here: see `ip link` for the names"));
    if name.is_empty() || name.len() > 15 || !name.chars().all(plain) {
        return Err(missing());
    }
    let links = ip::ask(None, &["addr", "show", "dev", name])?.ok_or_else(missing)?;
    let link = links.first().ok_or_else(missing)?;
    if has_word(link, "flags", "LOOPBACK") {
        let remedy = "name a network card's port";
        return LabError::refused(format!("port '{name}' cannot be moved into a namespace: {remedy}"));
    }
    for family in ["-4", "-6"] {
        let routes = ip::ask(None, &[family, "route", "show", "dev", name])?.unwrap_or_default();
        // Routes would be lost with the move.
        if let Some(route) = routes.iter().find_map(foreign_route) {
            let remedy = "name a port that nothing else needs";
            return LabError::refused(format!("port '{name}' carries this host's route to {route}: {remedy}"));
        }
    }
    Ok(port_from(name, link))
}

/// Where a route leads that is lost when its port moves. Those that the kernel makes with an address come back with it.
pub(crate) fn foreign_route(route: &Value) -> Option<String> {
    let word = |key: &str| route.get(key).and_then(Value::as_str);
    (word("protocol") != Some("kernel")).then(|| word("dst").unwrap_or("another network").to_owned())
}

fn has_word(link: &Value, key: &str, word: &str) -> bool {
    link.get(key).and_then(Value::as_array).is_some_and(|words| words.iter().any(|each| each.as_str() == Some(word)))
}

pub(crate) fn port_from(name: &str, link: &Value) -> Port {
    let words = |key: &str| link.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let addresses = words("addr_info")
        .iter()
        // The kernel makes link-local addresses itself when the port comes up.
        .filter(|address| address.get("scope").and_then(Value::as_str) == Some("global"))
        .filter_map(|address| {
            let parsed = |key: &str| address.get(key)?.as_str()?.parse::<std::net::IpAddr>().ok();
            let (local, prefix) = (parsed("local")?, address.get("prefixlen")?.as_u64()?);
            // Of a point-to-point address the prefix belongs to the peer.
            Some(match parsed("address") {
                Some(peer) => format!("{local} peer {peer}/{prefix}"),
                None => format!("{local}/{prefix}"),
            })
        })
        .collect();
    let up = has_word(link, "flags", "UP");
    Port { name: name.to_owned(), up, addresses }
}

fn wait_for_links(record: &LabRecord) -> Result<(), LabError> {
    for host in &record.hosts {
        let Some(netns) = host.netns.as_deref() else { continue };
        let seconds = if host.port.is_some() { PORT_SECONDS } else { VETH_SECONDS };
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut pause = LOOKS.0;
        while !link_is_up(netns, &host.device)? {
            if Instant::now() > end {
                let what = format!("link {} in namespace {netns} did not come up within {seconds} s", host.device);
                return Err(LabError::Failed(format!("{what}: check the cable or its peer")));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOKS.1);
        }
    }
    Ok(())
}

fn link_is_up(netns: &str, device: &str) -> Result<bool, LabError> {
    let links = ip::ask(Some(netns), &["link", "show", "dev", device])?.unwrap_or_default();
    // Drivers without carrier detection stay at UNKNOWN and work.
    Ok(links.iter().any(|link| matches!(link.get("operstate").and_then(Value::as_str), Some("UP" | "UNKNOWN"))))
}

fn namespace_exists(netns: &str) -> bool {
    Path::new(NETNS_FOLDER).join(netns).exists()
}

/// Whether addresses of IPv6 can be given in a new namespace, which starts with this one's settings or the kernel's.
fn has_ipv6() -> bool {
    let disabled = |which: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"))
            .map_or(true, |text| text.trim() != "0")
    };
    !disabled("all") && !disabled("default")
}

fn need_privileges() -> Result<(), LabError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match host::tasks::parse_capabilities(&status) {
        Some(capabilities) if capabilities & NEEDED_CAPABILITIES != NEEDED_CAPABILITIES => LabError::refused(
            "network namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run as root; without it, `campaign run \
             --lab loopback` and `tune try --lab loopback` measure within this host",
        ),
        // Without /proc `ip` itself will say what it may not do.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ports_own_addresses_are_kept_and_the_kernels_are_not() {
        let link = serde_json::json!({
            "ifname": "eth1", "flags": ["BROADCAST", "UP", "LOWER_UP"],
            "addr_info": [
                { "family": "inet", "local": "192.0.2.5", "prefixlen": 24, "scope": "global" },
                { "family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link" },
                { "family": "inet6", "local": "2001:db8::5", "prefixlen": 64, "scope": "global" },
                { "family": "inet", "local": "1; rm", "prefixlen": 24, "scope": "global" },
                { "family": "inet", "local": "192.0.2.9", "address": "192.0.2.10", "prefixlen": 32, "scope": "global" },
            ],
        });
        let port = port_from("eth1", &link);
        assert!(port.up);
        assert_eq!(port.addresses, ["192.0.2.5/24", "2001:db8::5/64", "192.0.2.9 peer 192.0.2.10/32"]);
        assert!(!port_from("eth1", &serde_json::json!({ "flags": ["BROADCAST"] })).up);
    }

    #[test]
    fn namespaces_of_other_labs_are_not_taken() {
        assert!(is_of_lab("wh-x-a", "x") && is_of_lab("wh-x-sw", "x"));
        for other in ["wh-x-a-b", "wh-xa-b", "wh-y-a", "x-a", "wh-x-", "wh-x-ab", "wh-x-1"] {
            assert!(!is_of_lab(other, "x"), "{other}");
        }
    }

    #[test]
    fn only_routes_that_come_back_by_themselves_may_be_lost() {
        let of = |route: serde_json::Value| foreign_route(&route);
        assert_eq!(of(serde_json::json!({ "dst": "192.0.2.0/24", "protocol": "kernel" })), None);
        assert_eq!(of(serde_json::json!({ "dst": "default", "protocol": "dhcp" })), Some("default".to_owned()));
        assert_eq!(of(serde_json::json!({ "dst": "203.0.113.0/24" })), Some("203.0.113.0/24".to_owned()));
    }
}
