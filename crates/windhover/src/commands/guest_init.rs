//! `windhover guest-init`: the process of a guest that makes its hosts and serves its ports.

use crate::cli::lab::GuestInit;
use crate::output::Failure;
use anyhow::anyhow;
use guest::{GuestHost, inside};
use lab::{Lab, LabSpec, Owner, Registry};

pub(crate) fn run(arguments: &GuestInit) -> Result<u8, Failure> {
    let mut make = |hosts| {
        make_hosts(&LabSpec {
            hosts,
            first: arguments.first,
            ports: arguments.ports.clone(),
            owner: Owner::Persistent,
            ..LabSpec::new("guest")
        })
    };
    inside::serve(arguments.hosts, &mut make).map_err(|why| Failure::from(anyhow!(why)))?;
    Ok(0)
}

/// A lab like that of `windhover lab up`, here in the guest.
fn make_hosts(spec: &LabSpec) -> Result<Vec<GuestHost>, String> {
    let lab = Lab::up(&Registry::default(), spec).map_err(|error| error.to_string())?;
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
