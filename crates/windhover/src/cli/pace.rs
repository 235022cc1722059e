//! Flags of `pace`.

use super::measure::{Ends, Length, Output, Patience, Peer, Sizes, Socket, Warmup};
use super::pgm::{NakTimers, Packets, ReplyGroup, SourceTimers, settings};
use anyhow::{Context as _, bail};
use clap::Args;
use model::plan::schedule_factors;
use model::{PaceSpec, Pacer, PgmSpec, Probe, ProbeSpec, Protocol, RateList, Shape, Stamps, schedule};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// `windhover pace`
#[derive(Debug, Args)]
pub(crate) struct Pace {
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// With pgm: the endpoints, after the group, which is the argument before. Each gets every message
    #[arg(value_name = "PEER")]
    pub(crate) peers: Vec<String>,
    /// A further endpoint that gets every message too; may be repeated. Its key is that of --key-file
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub(crate) to: Vec<String>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) schedule: Schedule,
    #[command(flatten)]
    pub(crate) length: Length,
    #[command(flatten)]
    pub(crate) warmup: Warmup,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// CPU of the receiving thread [default: that of --cpu]
    #[arg(long, value_name = "N", help_heading = "Ends")]
    pub(crate) receive_cpu: Option<u32>,
    #[command(flatten)]
    pub(crate) socket: Socket,
    #[command(flatten)]
    pub(crate) group: Group,
    #[command(flatten)]
    pub(crate) pcap: super::dump::Pcap,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Say each interval of 100 ms on standard output as a JSON line of type `interval` as soon as it is over; each
    /// result follows as one of type `result`
    #[arg(long, conflicts_with_all = ["format", "json"], help_heading = "Output")]
    pub(crate) jsonl: bool,
}

/// What only PGM has: its groups, windows and timers, the same at both ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "PGM (pace pgm GROUP PEER...)")]
pub(crate) struct Group {
    #[command(flatten)]
    reply: ReplyGroup,
    /// Interface for the groups by name or address [default: that of the address to the first endpoint]
    #[arg(long, value_name = "IF")]
    group_interface: Option<String>,
    #[command(flatten)]
    packets: Packets,
    #[command(flatten)]
    source: SourceTimers,
    #[command(flatten)]
    naks: NakTimers,
}

impl Group {
    /// The settings on a group.
    pub(super) fn spec(&self, group: IpAddr) -> PgmSpec {
        PgmSpec {
            reply_group: self.reply.reply_group,
            interface: self.group_interface.clone(),
            ..settings(group, &self.packets, Some(&self.source), Some(&self.naks))
        }
    }

    /// Whether anything was said that is not so anyway.
    fn is_told(&self) -> bool {
        let nowhere = Ipv4Addr::UNSPECIFIED.into();
        self.spec(nowhere) != PgmSpec::new(nowhere)
    }
}

/// When messages are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Schedule")]
pub(crate) struct Schedule {
    /// Messages a second: 10000, 10k,20k, 10k-50k+10k or 1k-64kx2, measured one after the other
    #[arg(long, value_name = "LIST", default_value = "10k", conflicts_with = "schedule", aliases = ["rates", "mps"])]
    pub(crate) rate: RateList,
    /// How the sends lie at that rate: even, poisson, burst:N (N at once, then a pause)
    #[arg(long, value_name = "SHAPE", default_value = "even", conflicts_with = "schedule")]
    pub(crate) shape: Shape,
    /// Send at the times in a file instead: one a line since the start, in seconds or with ns, us, ms, never going back.
    /// It is repeated when it is shorter than the measurement
    #[arg(long, value_name = "FILE")]
    pub(crate) schedule: Option<PathBuf>,
    /// What the sender does until a message is due: sleep, hybrid (sleep until shortly before, then spin), spin
    #[arg(long, value_name = "PACER", default_value = "sleep")]
    pub(crate) pacer: Pacer,
    /// The far end answers message 0 and each Nth after it; the others are one-way traffic
    #[arg(long, value_name = "N", default_value_t = 1, alias = "reply-every")]
    pub(crate) every: u32,
    /// Time stamps beside the application's: none, kernel (driver and stack), hardware (NIC), auto (the best each end has)
    #[arg(long, value_name = "WHERE", default_value = "none")]
    pub(crate) stamps: Stamps,
    /// Seed of --shape poisson
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Go on with higher rates although one was not reached
    #[arg(long)]
    pub(crate) beyond_saturation: bool,
    /// The sending application is what is measured: its lateness is part of the figures from the intended send, and makes
    /// none of them untrustworthy
    #[arg(long)]
    pub(crate) sender_measured: bool,
}

fn file(path: &Path) -> anyhow::Result<Vec<u64>> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the schedule {name}"))?;
    Ok(schedule::times(&name, &text)?)
}

impl Schedule {
    fn spec(&self) -> anyhow::Result<PaceSpec> {
        let (rates_pps, shape) = match &self.schedule {
            Some(path) => {
                let offsets_ns = file(path)?;
                (vec![schedule::rate_of(&offsets_ns)], Shape::Times { offsets_ns })
            }
            None => (self.rate.rates().to_vec(), self.shape.clone()),
        };
        Ok(PaceSpec {
            rates_pps,
            shape,
            seed: self.seed,
            pacer: self.pacer,
            every: self.every,
            receive_cpu: None,
            stamps: self.stamps,
            beyond_saturation: self.beyond_saturation,
            sender_measured: self.sender_measured,
        })
    }
}

/// Factors of a result by name.
pub(crate) type Factors = std::collections::BTreeMap<String, serde_json::Value>;

impl Pace {
    /// What PGM is told, with it and only then.
    fn pgm(&self, protocol: Protocol) -> anyhow::Result<Option<PgmSpec>> {
        if protocol != Protocol::Pgm {
            if let Some(peer) = self.peers.first() {
                bail!("'{peer}' is one endpoint too many: name further ones with --to");
            }
            if self.group.is_told() {
                bail!("groups, windows and timers of PGM say nothing to {protocol}: use pace pgm GROUP PEER");
            }
            return Ok(None);
        }
        let Some(group) = &self.peer.address else { bail!("pgm needs a group and an endpoint: pace pgm GROUP PEER") };
        let group: IpAddr = group.parse().with_context(|| {
            format!("'{group}' is no multicast group: pace pgm GROUP PEER, as in pgm 239.192.0.1 10.0.0.2")
        })?;
        if self.peers.is_empty() && !self.peer.fork_both {
            bail!("pgm needs an endpoint after its group: start 'windhover serve' there and use pace pgm {group} PEER");
        }
        Ok(Some(self.group.spec(group)))
    }

    /// The measurement asked for, and what its results are told apart by beside protocol, size and rate.
    pub(crate) fn spec(&self) -> anyhow::Result<(ProbeSpec, Factors)> {
        let protocol = Protocol::from(self.peer.protocol);
        let mut spec = ProbeSpec::new(Probe::Pace, protocol);
        spec.socket = self.socket.spec(protocol);
        spec.socket.pgm = self.pgm(protocol)?;
        spec.sizes = self.sizes.list(protocol)?;
        spec.pace = Some(PaceSpec { receive_cpu: self.receive_cpu, ..self.schedule.spec()? });
        self.length.apply(&mut spec)?;
        spec.warmup = model::Warmup { time_ms: self.warmup.warmup, count: 0 };
        spec.timeout_ms = self.patience.timeout;
        self.ends.apply(&mut spec);
        self.output.apply(&mut spec);
        spec.check()?;
        let factors = schedule_factors(&spec);
        Ok((spec, factors))
    }
}
