//! The measuring commands: how each describes itself. A new one is a variant of [`Measure`], its flags, and an entry here.

use super::child::Worker;
use super::key;
use super::measure::{family, own_endpoint, resolved, target};
use crate::cli::Measure;
use crate::cli::against::Against;
use crate::cli::dump::Pcap;
use crate::cli::measure::{Output, Ping, Rounds, Wake};
use crate::cli::pace::Pace;
use crate::cli::stream::Stream;
use crate::output::Failure;
use anyhow::Context as _;
use model::worker::{ProbeTask, Target};
use std::collections::BTreeSet;

/// A measurement, and the endpoint of --fork-both, which lives as long as it.
pub(super) type Ready = (ProbeTask, Option<Worker>);

pub(super) trait Measuring {
    fn ready(&self) -> Result<Ready, Failure>;
    /// Checks the command line without a host, a network or a file.
    fn check(&self) -> Result<(), Failure>;
    fn given(&self) -> CommonFlags<'_>;
}

pub(super) struct CommonFlags<'a> {
    pub(super) typed: BTreeSet<&'static str>,
    pub(super) against: &'a Against,
    pub(super) output: Output,
    /// The capture beside it, where there can be one.
    pub(super) pcap: Option<&'a Pcap>,
    /// Whether intervals are printed as lines of JSON.
    pub(super) is_jsonl: bool,
}

pub(super) fn of(command: &Measure) -> &dyn Measuring {
    match command {
        Measure::Pingpong(arguments) => arguments,
        Measure::Rr(arguments) => arguments,
        Measure::Ping(arguments) => arguments,
        Measure::Wake(arguments) => arguments,
        Measure::Cycle(arguments) => arguments,
        Measure::Pace(arguments) => arguments.as_ref(),
        Measure::Stream(arguments) => arguments.as_ref(),
    }
}

impl<const PROBE: usize> Measuring for Rounds<PROBE> {
    fn ready(&self) -> Result<Ready, Failure> {
        let mut spec = self.spec().map_err(Failure::usage)?;
        self.peer.claim_stack(&mut spec);
        if self.peer.fork_both && !spec.peer.is_own() {
            refuse!(
                "--fork-both starts Windhover's own endpoint: start '{}' and give its address",
                spec.peer.command()
            );
        }
        let (target, endpoint) = target(&self.peer, spec.peer.port())?;
        Ok((ProbeTask::new(spec, target), endpoint))
    }

    fn check(&self) -> Result<(), Failure> {
        self.spec().map(drop).map_err(Failure::usage)
    }

    fn given(&self) -> CommonFlags<'_> {
        let (typed, against, output) = (self.flags.typed(), &self.against, self.output.clone());
        CommonFlags { typed, against, output, pcap: Some(&self.pcap), is_jsonl: false }
    }
}

impl Measuring for Ping {
    fn ready(&self) -> Result<Ready, Failure> {
        let spec = self.spec().map_err(Failure::usage)?;
        let control = resolved(&self.address, family(self.family))?;
        Ok((ProbeTask::new(spec, Target { control, key: None, host: None }), None))
    }

    fn check(&self) -> Result<(), Failure> {
        self.spec().map(drop).map_err(Failure::usage)
    }

    fn given(&self) -> CommonFlags<'_> {
        let (typed, against, output) = (self.flags.typed(), &self.against, self.output.clone());
        CommonFlags { typed, against, output, pcap: None, is_jsonl: false }
    }
}

impl Measuring for Wake {
    fn ready(&self) -> Result<Ready, Failure> {
        let allowed = task::allowed_cpus()?;
        let spec = self.spec(|| allowed).map_err(Failure::usage)?;
        Ok((ProbeTask::new(spec, Target::default()), None))
    }

    fn check(&self) -> Result<(), Failure> {
        self.spec(|| [0].into_iter().collect()).map(drop).map_err(Failure::usage)
    }

    fn given(&self) -> CommonFlags<'_> {
        let (typed, against, output) =
            (self.flags.typed(), &self.against, Output { histogram_us: self.histogram, ..self.output.clone() });
        CommonFlags { typed, against, output, pcap: None, is_jsonl: false }
    }
}

/// One initiator, and one endpoint or several.
impl Measuring for Pace {
    fn ready(&self) -> Result<Ready, Failure> {
        let (mut spec, factors) = self.spec().map_err(Failure::usage)?;
        self.peer.claim_stack(&mut spec);
        let family = family(self.peer.family);
        // With PGM the address is the group, and what follows are the endpoints.
        let first = self.peers.first();
        let others = self.peers.iter().skip(1).chain(&self.to);
        let others: Vec<String> = others.map(|address| resolved(address, family)).collect::<Result<_, Failure>>()?;
        let (target, endpoint) = match first {
            _ if self.peer.fork_both && spec.protocol() == Some(model::Protocol::Pgm) => {
                let (target, endpoint) = own_endpoint(first.map(String::as_str), &self.peer)?;
                (target, Some(endpoint))
            }
            Some(first) => {
                let key = key::read(self.peer.key_file.as_deref())?;
                (Target { control: resolved(first, family)?, key, host: None }, None)
            }
            None => target(&self.peer, None)?,
        };
        let key = match (&target.key, self.peer.fork_both) {
            // The endpoint of --fork-both has a key of its own.
            (_, true) if !others.is_empty() => key::read(self.peer.key_file.as_deref())?,
            (key, _) => key.clone(),
        };
        let mut task = ProbeTask { factors, ..ProbeTask::new(spec, target) };
        task.others = others.into_iter().map(|control| Target { control, key: key.clone(), host: None }).collect();
        Ok((task, endpoint))
    }

    fn check(&self) -> Result<(), Failure> {
        // A schedule is a file.
        let without_files = self.schedule.schedule.is_none().then(|| self.spec());
        without_files.map_or(Ok(()), |spec| spec.map(drop).map_err(Failure::usage))
    }

    fn given(&self) -> CommonFlags<'_> {
        let (typed, against, output) = (self.flags.typed(), &self.against, self.output.clone());
        CommonFlags { typed, against, output, pcap: Some(&self.pcap), is_jsonl: self.jsonl }
    }
}

impl Measuring for Stream {
    fn ready(&self) -> Result<Ready, Failure> {
        // A wrong command line is refused before an endpoint is started or a name looked up.
        self.spec(|| Ok(u32::MAX)).map_err(Failure::usage)?;
        let (target, endpoint) = target(&self.peer, None)?;
        let (mut spec, factors) = self.spec(|| fitting(&target.control)).map_err(Failure::usage)?;
        self.peer.claim_stack(&mut spec);
        Ok((ProbeTask { factors, ..ProbeTask::new(spec, target) }, endpoint))
    }

    fn check(&self) -> Result<(), Failure> {
        self.spec(|| Ok(1472)).map(drop).map_err(Failure::usage)
    }

    fn given(&self) -> CommonFlags<'_> {
        let (typed, against, output) = (self.flags.typed(), &self.against, self.output());
        CommonFlags { typed, against, output, pcap: Some(&self.pcap), is_jsonl: self.jsonl }
    }
}

/// The payload of a UDP datagram that the route to an address carries in one packet.
fn fitting(control: &str) -> anyhow::Result<u32> {
    let address: std::net::SocketAddr = control.parse().with_context(|| format!("address {control}"))?;
    let mtu = net::bulk::route_mtu(address)?;
    Ok(mtu.saturating_sub(net::bulk::udp_headers(address.is_ipv6())))
}
