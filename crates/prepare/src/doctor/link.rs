//! The links of network devices: to the wire and to the machine.

use super::check::{Answer, Check, bad, checks, found_or, note, ok, some_of, warning};
use super::nic::{device, folder};
use super::subject::{Skip, Subject};
use host::knob::Form;
use model::NicFacts;

pub(super) const CHECKS: &[Check] = checks![
    "nic.link" by EachNic(link),
        reads "carrier, speed, duplex",
        when "there is no link, or half duplex",
        why "speed is part of every figure, and half duplex waits for the other side",
        on [Practice];
    "nic.pause" by EachNic(pause),
        reads "ethtool -a",
        when "pause frames are obeyed",
        why "a busy receiver elsewhere on the switch can then stop this sender",
        on [Practice];
    "nic.eee" by EachNic(eee),
        reads "ethtool --show-eee",
        when "Energy-Efficient Ethernet is on",
        why "the link sleeps between packets and takes microseconds to wake",
        on [Practice];
    "nic.pcie" by EachNic(pcie),
        reads "current_link_{speed,width} against max_link_*, pcie_aspm policy",
        when "the slot is slower than the card, or the link may sleep",
        why "a sleeping or narrow PCIe link delays every descriptor",
        on [Practice];
    "nic.ipoib" by EachNic(ipoib),
        reads "type, mode, mtu, driver",
        when "always recorded on InfiniBand and Omni-Path",
        why "datagram and connected mode differ in MTU, offloads and latency: both ends must have the same",
        on [Kernel("infiniband/ipoib.rst")];
];

fn link(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let path = format!("{}/carrier", folder(nic));
    let carrier = s.maybe(&path);
    if nic.link == Some(false) || carrier.as_deref() == Some("0") {
        return Ok(vec![
            bad(format!("{} has no link", nic.name))
                .read(path, carrier.unwrap_or_else(|| "0".to_owned()))
                .advice("check the cable, and: ip link set up"),
        ]);
    }
    let duplex = s.maybe(&format!("{}/duplex", folder(nic))).unwrap_or_default();
    if duplex == "half" {
        return Ok(vec![
            bad(format!("{} runs at half duplex", nic.name))
                .read(format!("{}/duplex", folder(nic)), duplex)
                .advice("let both sides negotiate the speed"),
        ]);
    }
    let speed = nic.speed_mbps.map_or_else(|| "speed unknown".to_owned(), |speed| format!("{speed} Mbit/s"));
    let driver = nic.driver.clone().unwrap_or_else(|| "no driver known".to_owned());
    Ok(vec![ok(format!("{}: {speed}, {driver}", nic.name)).read(path, carrier.unwrap_or_else(|| "unknown".to_owned()))])
}

fn pause(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let Some(told) = device(s, nic).map(|device| &device.pause).filter(|told| !told.is_empty()) else {
        return Err(Skip::not_here(format!("{} does not tell whether it obeys pause frames (ethtool -a)", nic.name)));
    };
    let on = told.get("rx") == Some(&true);
    let answer = if on {
        note(format!("{} stops sending when a pause frame comes", nic.name)).tune_nic(&nic.name, "nic.pause.rx", "off")
    } else {
        ok(format!("{} obeys no pause frames", nic.name))
    };
    Ok(vec![answer.read(format!("{} pause rx", nic.name), on_off(on))])
}

fn eee(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let Some(on) = device(s, nic).and_then(|device| device.eee) else {
        return Err(Skip::not_here(format!("{} does not tell about Energy-Efficient Ethernet", nic.name)));
    };
    let answer = if on {
        warning(format!("the link of {} sleeps between packets", nic.name)).tune_nic(&nic.name, "nic.eee", "off")
    } else {
        ok(format!("the link of {} does not sleep", nic.name))
    };
    Ok(vec![answer.read(format!("{} eee", nic.name), on_off(on))])
}

fn pcie(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    let policy_path = "/sys/module/pcie_aspm/parameters/policy";
    let policy = s.maybe(policy_path).map(|text| Form::Choice.value(&text)).unwrap_or_default();
    let device = format!("{}/device", folder(nic));
    let device = if s.machine.exists(format!("{device}/current_link_speed")) { device } else { format!("{device}/..") };
    let speed = s.text(&format!("{device}/current_link_speed"))?;
    let most = s.text(&format!("{device}/max_link_speed"))?;
    let width = s.number(&format!("{device}/current_link_width"))?;
    let widest = s.number(&format!("{device}/max_link_width"))?;
    let gigatransfers = |text: &str| text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    let mut found = Vec::new();
    if width < widest || gigatransfers(&speed) < gigatransfers(&most) {
        found.push(
            warning(format!("{} runs at PCIe {speed} x{width}, it could at {most} x{widest}", nic.name))
                .read(format!("{device}/current_link_speed"), &speed)
                .read(format!("{device}/current_link_width"), width)
                .advice("put the card into a slot of its width and generation"),
        );
    }
    if policy.starts_with("powersave") || policy.starts_with("powersuper") {
        found.push(
            warning(format!("the PCIe link of {} may sleep", nic.name))
                .read(policy_path, &policy)
                .boot("pcie_aspm=off"),
        );
    }
    found_or(found, || {
        ok(format!("{} runs at PCIe {speed} x{width}", nic.name)).read(format!("{device}/current_link_width"), width)
    })
}

fn ipoib(s: &Subject<'_>, nic: &NicFacts) -> Answer {
    /// ARPHRD_INFINIBAND of if_arp.h.
    const INFINIBAND: &str = "32";
    if s.maybe(&format!("{}/type", folder(nic))).as_deref() != Some(INFINIBAND) {
        return Err(Skip::not_here("no InfiniBand or Omni-Path device in question"));
    }
    let path = format!("{}/mode", folder(nic));
    let mode = s.maybe(&path).unwrap_or_else(|| "unknown".to_owned());
    let driver = nic.driver.clone().unwrap_or_default();
    let mtu = nic.mtu.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
    let adapters = s.names("/sys/class/infiniband");
    let fabric = if adapters.iter().any(|name| name.starts_with("hfi1")) { "Omni-Path" } else { "InfiniBand" };
    Ok(vec![
        note(format!("{}: IP over {fabric}, {mode} mode{mtu} ({driver})", nic.name))
            .read(path, mode)
            .read("/sys/class/infiniband", some_of(&adapters, 4)),
    ])
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
