//! Flags of `pace`.

use super::factors::{Factors, PaceFlags};
use super::measure::{MOST_UNTIL_KNOWN, Output, Peer};
use super::pgm::{NakTimers, Packets, ReplyGroup, SourceTimers, settings};
use anyhow::{Context as _, bail};
use clap::Args;
use model::{PaceSpec, PgmSpec, Probe, ProbeOptions, ProbeSpec, Protocol, Shape, SizeList, StopRule, schedule};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Pace {
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// With pgm: the endpoints, after the group, which is the argument before. Each gets every message
    #[arg(value_name = "PEER")]
    pub(crate) peers: Vec<String>,
    /// A further endpoint that gets every message too; may be repeated. Its key is that of --key-file
    #[arg(hide_short_help = true, long, value_name = "ADDR[:PORT]")]
    pub(crate) to: Vec<String>,
    #[command(flatten)]
    pub(crate) flags: PaceFlags,
    #[command(flatten)]
    pub(crate) schedule: Schedule,
    #[command(flatten)]
    pub(crate) group: Group,
    #[command(flatten)]
    pub(crate) pcap: super::dump::Pcap,
    #[command(flatten)]
    pub(crate) against: super::against::Against,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Write each interval of 100 ms to standard output as a JSON line of type `interval` once it is complete; each result
    /// follows as one of type `result`
    #[arg(hide_short_help = true, long, conflicts_with_all = ["format", "json"], help_heading = "Output")]
    pub(crate) jsonl: bool,
}

pub(super) const PGM: &str = "PGM (pace pgm GROUP PEER...)";

/// What only PGM has: its groups, windows and timers, the same at both ends.
#[derive(Debug, Args)]
#[command(next_help_heading = PGM)]
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
    pub(super) fn spec(&self, group: IpAddr) -> PgmSpec {
        PgmSpec {
            reply_group: self.reply.reply_group,
            interface: self.group_interface.clone(),
            ..settings(group, &self.packets, Some(&self.source), Some(&self.naks))
        }
    }

    fn is_told(&self) -> bool {
        let nowhere = Ipv4Addr::UNSPECIFIED.into();
        self.spec(nowhere) != PgmSpec::new(nowhere)
    }
}

/// What of the schedule is no factor.
#[derive(Debug, Args)]
#[command(next_help_heading = "Schedule")]
pub(crate) struct Schedule {
    /// Send at the times in a file instead: one a line since the start, in seconds or with ns, us, ms, never going back.
    /// It is repeated when it is shorter than the measurement
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    pub(crate) schedule: Option<PathBuf>,
    /// Continue with higher rates after one was not reached
    #[arg(hide_short_help = true, long)]
    beyond_saturation: bool,
}

fn file(path: &Path) -> anyhow::Result<Vec<u64>> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the schedule {name}"))?;
    Ok(schedule::times(&name, &text)?)
}

/// How long the lowest rate takes for the answers that p99.9 needs, and a fifth more as some may be lost: 1 to 5 s.
fn until_known_ms(pace: &PaceSpec) -> u32 {
    let limits = StopRule::UNTIL_KNOWN;
    let lowest_pps = pace.rates_pps.iter().copied().fold(f64::INFINITY, f64::min);
    let answers = limits.min_count as f64 * 1.2 * f64::from(pace.every.max(1));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the limits")]
    let ms = (1000.0 * answers / lowest_pps).clamp(f64::from(limits.min_ms), f64::from(limits.max_ms)) as u32;
    ms
}

impl Pace {
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
        let protocol = self.peer.protocol;
        let mut spec = ProbeSpec::new(Probe::Pace, protocol);
        let pgm = self.pgm(protocol)?;
        spec.socket.iter_mut().for_each(|socket| socket.pgm.clone_from(&pgm));
        if protocol == Protocol::Pgm {
            spec.sizes = SizeList::one(ProbeSpec::PGM_LEAST);
        }
        spec.warmup.count = 0;
        let mut pace = PaceSpec { beyond_saturation: self.schedule.beyond_saturation, ..PaceSpec::default() };
        if let Some(path) = &self.schedule.schedule {
            let offsets_ns = file(path)?;
            pace.rates_pps = vec![schedule::rate_of(&offsets_ns)];
            pace.shape = Shape::Times { offsets_ns };
        }
        let times = matches!(pace.shape, Shape::Times { .. }).then(|| pace.shape.to_string());
        spec.options = ProbeOptions::Pace { pace };
        let mut spec = self.output.fill(&self.flags, spec)?;
        let has_length = times.is_some() || ["seconds", "count"].iter().any(|name| self.flags.has(name));
        if let Some(pace) =
            spec.pace().filter(|pace| !has_length && spec.sizes.len() * pace.rates_pps.len() <= MOST_UNTIL_KNOWN)
        {
            spec.stop.max_ms = until_known_ms(pace);
        }
        let mut factors = self.flags.factors(&spec);
        factors.extend(times.map(|times| ("shape".to_owned(), times.into())));
        Ok((spec, factors))
    }
}
