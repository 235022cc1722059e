//! Network devices that QEMU emulates, and that the kernel's own drivers serve.

use model::plan::GuestNic;

pub(crate) struct NicRule {
    nic: GuestNic,
    /// What QEMU calls it.
    pub(crate) device: &'static str,
    pub(crate) module: &'static str,
}

const NICS: [NicRule; 2] = [
    NicRule { nic: GuestNic::Igb, device: "igb", module: "igb" },
    NicRule { nic: GuestNic::E1000e, device: "e1000e", module: "e1000e" },
];

/// How a NIC is emulated; nothing for a virtual device, which the kernel makes itself.
pub(crate) fn rule(nic: GuestNic) -> Option<&'static NicRule> {
    NICS.iter().find(|rule| rule.nic == nic)
}

impl NicRule {
    /// Arguments for QEMU: `count` of them on one wire, which leads nowhere else.
    pub(crate) fn arguments(&self, count: u32) -> Vec<String> {
        let of = |number: u32| {
            let (device, chassis) = (self.device, number + 1);
            [
                "-netdev".to_owned(),
                format!("hubport,id=wire{number},hubid=0"),
                // A second igb on the root bus would be where the first one's virtual functions go.
                "-device".to_owned(),
                format!("pcie-root-port,id=slot{number},chassis={chassis}"),
                // Without a ROM, which would look for something to boot from.
                "-device".to_owned(),
                format!("{device},netdev=wire{number},bus=slot{number},romfile="),
            ]
        };
        (0..count).flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_virtual_device_are_emulated() {
        let without: Vec<GuestNic> = GuestNic::ALL.into_iter().filter(|nic| rule(*nic).is_none()).collect();
        assert_eq!(without, [GuestNic::Veth]);
    }

    #[test]
    fn each_device_has_a_port_of_its_own() {
        let arguments = rule(GuestNic::Igb).unwrap().arguments(2);
        let devices: Vec<&str> = arguments.iter().filter_map(|argument| argument.strip_prefix("igb,")).collect();
        assert_eq!(devices, ["netdev=wire0,bus=slot0,romfile=", "netdev=wire1,bus=slot1,romfile="]);
        assert_eq!(arguments.iter().filter(|argument| argument.starts_with("pcie-root-port,")).count(), 2);
    }
}
