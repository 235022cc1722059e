//! `windhover stream`.

use super::live::Live;
use super::measure;
use crate::cli::stream::Stream;
use crate::output::{Failure, Output};
use anyhow::Context as _;
use model::worker::ProbeTask;
use std::time::Instant;

pub(crate) fn run(arguments: &Stream, output: &Output, started: Instant) -> Result<u8, Failure> {
    let (mut task, _endpoint) = ready(arguments)?;
    let live = Live::new(arguments.jsonl, output)?;
    task.live = live.sink().is_some();
    measure::run(&task, &arguments.output(), Some(&arguments.pcap), live, output, started)
}

pub(super) fn ready(arguments: &Stream) -> Result<measure::Ready, Failure> {
    // Nonsense is told before an endpoint is started or a name looked up.
    let usage = |error: anyhow::Error| Failure::usage(error);
    arguments.spec(|| Ok(u32::MAX)).map_err(usage)?;
    let (target, endpoint) = measure::target(&arguments.peer, None)?;
    let (mut spec, factors) = arguments.spec(|| fitting(&target.control)).map_err(usage)?;
    arguments.peer.claim_stack(&mut spec);
    Ok((ProbeTask { factors, ..ProbeTask::new(spec, target) }, endpoint))
}

/// The payload of a UDP datagram that the route to an address carries in one packet.
fn fitting(control: &str) -> anyhow::Result<u32> {
    let address: std::net::SocketAddr = control.parse().with_context(|| format!("address {control}"))?;
    let mtu = net::bulk::route_mtu(address)?;
    Ok(mtu.saturating_sub(net::bulk::udp_headers(address.is_ipv6())))
}
