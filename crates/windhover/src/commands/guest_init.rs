//! `windhover guest-init`: the process of a guest that makes its hosts and serves its ports.

use crate::cli::lab::GuestInit;
use crate::output::Failure;
use anyhow::anyhow;
use guest::{GuestHost, inside};
use lab::{Lab, LabSpec, Owner, Registry};

pub(crate) fn run(arguments: &GuestInit) -> Result<u8, Failure> {
    inside::serve(arguments.hosts, &mut make_hosts).map_err(|why| Failure::from(anyhow!(why)))?;
    Ok(0)
}

/// A lab like that of `windhover lab up`, here in the guest.
fn make_hosts(hosts: u32) -> Result<Vec<GuestHost>, String> {
    let spec = LabSpec { hosts, owner: Owner::Persistent, ..LabSpec::new("guest") };
    let lab = Lab::up(&Registry::default(), &spec).map_err(|error| error.to_string())?;
    let inside = |host: &lab::LabHost| GuestHost {
        name: host.name.clone(),
        netns: host.netns.clone(),
        ipv4: host.ipv4,
        ipv6: host.ipv6,
        device: host.device.clone(),
    };
    let made = lab.hosts().iter().map(inside).collect();
    lab.keep();
    Ok(made)
}
