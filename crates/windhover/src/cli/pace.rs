//! Flags of `pace`.

use super::measure::{Ends, Length, Output, Patience, Peer, Sizes, Socket, Warmup};
use anyhow::{Context as _, bail};
use clap::Args;
use model::plan::schedule_factors;
use model::{
    PaceSpec, Pacer, PgmCarrier, PgmFec, PgmSpec, Probe, ProbeSpec, Protocol, RateList, Shape, Stamps, schedule,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Group that the far ends publish on [default: the next address]
    #[arg(long, value_name = "GROUP")]
    pub(crate) reply_group: Option<IpAddr>,
    /// Interface for the groups by name or address [default: that of the address to the first endpoint]
    #[arg(long, value_name = "IF")]
    pub(crate) group_interface: Option<String>,
    /// What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW at both ends) [default: udp]
    #[arg(long, value_name = "CARRIER")]
    pub(crate) carrier: Option<PgmCarrier>,
    /// UDP port of the carrier [default: 3056]
    #[arg(long, value_name = "PORT")]
    pub(crate) udp_port: Option<u16>,
    /// Longest packet in bytes, without headers of IP and UDP [default: 1472]
    #[arg(long, value_name = "BYTES")]
    pub(crate) packet: Option<u16>,
    /// Packets that can be repaired, and that are kept behind a gap: a power of two [default: 8192]
    #[arg(long, value_name = "PACKETS")]
    pub(crate) window: Option<u32>,
    /// Most bits a second of each source, such as 100M or 1G [default: 1G]
    #[arg(long, value_name = "BITS", value_parser = super::stream::bits)]
    pub(crate) bandwidth: Option<u64>,
    /// Longest random wait before the first NAK for a packet [default: 200us]
    #[arg(long, value_name = "TIME", value_parser = super::pgm::time)]
    pub(crate) back_off: Option<Duration>,
    /// How long the confirmation of a NAK (NCF) is waited for before the next one [default: 2ms]
    #[arg(long, value_name = "TIME", value_parser = super::pgm::time)]
    pub(crate) repeat: Option<Duration>,
    /// How long a confirmed repair is waited for before the next NAK [default: 5ms]
    #[arg(long, value_name = "TIME", value_parser = super::pgm::time)]
    pub(crate) data: Option<Duration>,
    /// How often a NAK may go without a confirmation, and a confirmation without a repair, before a packet is given up
    /// [default: 500]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Time between two ambient SPMs [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = super::pgm::time)]
    pub(crate) ambient: Option<Duration>,
    /// First pause without data after which an SPM tells what was sent last [default: 4ms]
    #[arg(long, value_name = "TIME", value_parser = super::pgm::time)]
    pub(crate) heartbeat: Option<Duration>,
    /// Repair by parity (forward error correction) at all ends, over groups of so many packets: a power of two from 2 to 128
    #[arg(long, value_name = "PACKETS")]
    pub(crate) fec: Option<u16>,
    /// Send so many parity packets after each group without being asked [default: 0]
    #[arg(long, value_name = "N", requires = "fec")]
    pub(crate) fec_proactive: Option<u16>,
    /// Send no parity to those that ask, only that of --fec-proactive; further losses are repaired by single packets
    #[arg(long, requires = "fec_proactive")]
    pub(crate) fec_unasked: bool,
    /// End a group that is not full after such a pause [default: never]
    #[arg(long, value_name = "TIME", value_parser = super::pgm::time, requires = "fec")]
    pub(crate) fec_pause: Option<Duration>,
}

impl Group {
    /// The settings on a group.
    fn spec(&self, group: IpAddr) -> PgmSpec {
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let default = PgmSpec::new(group);
        PgmSpec {
            reply_group: self.reply_group,
            interface: self.group_interface.clone(),
            carrier: self.carrier.unwrap_or_default(),
            udp_port: self.udp_port.unwrap_or(default.udp_port),
            packet_bytes: self.packet.unwrap_or(default.packet_bytes),
            window_packets: self.window.unwrap_or(default.window_packets),
            max_bytes_per_second: self.bandwidth.map_or(default.max_bytes_per_second, |bits| bits / 8),
            back_off_us: self.back_off.map_or(default.back_off_us, us),
            repeat_us: self.repeat.map_or(default.repeat_us, us),
            data_us: self.data.map_or(default.data_us, us),
            retries: self.retries.unwrap_or(default.retries),
            ambient_ms: self.ambient.map_or(default.ambient_ms, ms),
            heartbeat_us: self.heartbeat.map_or(default.heartbeat_us, us),
            fec: self.fec.map(|group_packets| PgmFec {
                proactive_packets: self.fec_proactive.unwrap_or(0),
                on_demand: !self.fec_unasked,
                pause_us: self.fec_pause.map(us),
                ..PgmFec::new(group_packets)
            }),
            ..default
        }
    }

    /// Whether anything was said.
    fn is_told(&self) -> bool {
        let times = [self.back_off, self.repeat, self.data, self.ambient, self.heartbeat];
        self.reply_group.is_some()
            || self.group_interface.is_some()
            || self.carrier.is_some()
            || self.udp_port.is_some()
            || self.packet.is_some()
            || self.window.is_some()
            || self.bandwidth.is_some()
            || self.retries.is_some()
            || self.fec.is_some()
            || times.iter().any(Option::is_some)
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
