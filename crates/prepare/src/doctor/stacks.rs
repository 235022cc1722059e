//! Which network stacks of `windhover bypass` can run here.

use super::check::{Answer, Check, checks, note, ok};
use super::snapshot::{XDP_IN_DRIVER, XDP_ZERO_COPY};
use super::subject::{Skip, Subject};
use host::tasks::parse_capabilities;
use model::NicFacts;

pub(super) const CHECKS: &[Check] = checks![
    "net.bypass" by Once(stacks),
        reads "/proc/net/protocols: XDP, PACKET; the capabilities of this process",
        when "one of the stacks kernel, spin, xdp cannot run",
        why "bypass xdp carries packets past the kernel by AF_XDP or AF_PACKET, which take capabilities",
        on [Measured("UDP ping-pong of sockperf: 6.9 µs blocking, 2.2 spinning, 1.6 over AF_XDP")];
    "nic.xdp" by EachNic(back_ends),
        reads "netlink netdev: xdp-features; rtnetlink: IFLA_XDP, the device's MTU",
        when "AF_XDP works behind the driver only, does not take the MTU, or another XDP program is attached",
        why "frames without copies, in the driver, behind the driver and by AF_PACKET cost differently on each device",
        on [Kernel("Documentation/networking/af_xdp.rst")];
];

/// What AF_XDP and AF_PACKET take, by the numbers of linux/capability.h.
const CAPABILITIES: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_BPF", 39)];
/// CAP_SYS_ADMIN holds CAP_BPF.
const ADMIN: u32 = 21;
const FAMILIES: &str = "/proc/net/protocols";

fn stacks(s: &Subject<'_>) -> Answer {
    let families = s.text(FAMILIES)?;
    let has = |name: &str| families.lines().any(|line| line.split_ascii_whitespace().next() == Some(name));
    let status = "/proc/self/status";
    let held = parse_capabilities(&s.text(status)?).ok_or_else(|| Skip::not_here("no CapEff in /proc/self/status"))?;
    let holds = |number: u32| held & 1 << number != 0;
    let missing: Vec<&str> = CAPABILITIES
        .into_iter()
        .filter(|(_, number)| !(holds(*number) || *number == 39 && holds(ADMIN)))
        .map(|(name, _)| name)
        .collect();
    let packet = has("PACKET") && holds(13);
    let found = |by: &str| format!("stacks kernel, spin and xdp ({by}) can run here");
    let answer = match (has("XDP"), missing.is_empty(), packet) {
        (true, true, true) => ok(found("over AF_XDP or AF_PACKET")),
        (true, true, false) => ok(found("over AF_XDP")),
        (false, _, true) => note(format!("{}: the kernel has no AF_XDP", found("over AF_PACKET only")))
            .advice("use a kernel with CONFIG_XDP_SOCKETS"),
        (true, false, true) => {
            note(format!("{}: AF_XDP needs {}", found("over AF_PACKET only"), missing.join(" and ")))
                .advice("run as root, or grant the capabilities")
        }
        (xdp, _, false) => {
            let lacks = if xdp || has("PACKET") { missing.join(" and ") } else { "AF_XDP and AF_PACKET".to_owned() };
            let remedy = if missing.is_empty() {
                "use a kernel with CONFIG_XDP_SOCKETS or CONFIG_PACKET"
            } else {
                "run as root, or grant the capabilities"
            };
            note(format!("stacks kernel and spin can run here, xdp cannot: it lacks {lacks}")).advice(remedy)
        }
    };
    Ok(vec![
        answer.read(format!("{FAMILIES} XDP"), has("XDP")).read(format!("{status} CapEff"), format!("{held:016x}")),
    ])
}

fn back_ends(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    /// What fits a page beside the headroom of XDP and the Ethernet header with a tag.
    const MOST: u32 = 4096 - 256 - 18;
    /// Their long frames come in several pieces.
    const SOFTWARE: [&str; 3] = ["veth", "tun", "dummy"];
    let name = &nic.name;
    let device = s.snapshot.devices.get(name);
    let mut found = Vec::new();
    // Whether one is attached is known of devices, too, whose XDP features are not known.
    if let Some(program) = device.and_then(|device| device.xdp_program) {
        let attached = format!(
            "{name} has an XDP program already (number {program}): bypass xdp can run over AF_PACKET only there"
        );
        found.push(
            note(attached)
                .read(format!("{name} xdp program"), program)
                .advice("end the process that attached it, if AF_XDP is wanted; if none did, remove it")
                .command(format!("ip link set dev {name} xdp off")),
        );
    }
    let Some(features) = device.and_then(|device| device.xdp_features) else {
        let unknown = || Skip::not_here(format!("the kernel does not tell what XDP can do on {name}"));
        return if found.is_empty() { Err(unknown()) } else { Ok(found) };
    };
    if found.is_empty() {
        let can = |by: &str| format!("{name} can carry bypass xdp by {by}");
        let best = if features & XDP_ZERO_COPY != 0 {
            ok(can("AF_XDP zero-copy, native, generic, or AF_PACKET"))
        } else if features & XDP_IN_DRIVER == XDP_IN_DRIVER {
            ok(can("AF_XDP native (with copies), generic, or AF_PACKET"))
        } else {
            note(can("AF_XDP generic or AF_PACKET only: its driver has no XDP"))
        };
        found.push(best.read(format!("{name} xdp-features"), format!("{features:#x}")));
    }
    let is_software = name == "lo" || nic.driver.as_deref().is_some_and(|driver| SOFTWARE.contains(&driver));
    if let Some(mtu) = nic.mtu.filter(|mtu| *mtu > MOST && !is_software) {
        found.push(
            note(format!(
                "{name} has an MTU of {mtu}, AF_XDP takes {MOST} at most: bypass xdp runs over AF_PACKET there"
            ))
            .read(format!("{name} mtu"), mtu)
            .command(format!("ip link set dev {name} mtu {MOST}")),
        );
    }
    Ok(found)
}
