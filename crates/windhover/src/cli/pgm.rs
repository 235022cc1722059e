//! Flags of `pgm`: one end of a PGM conversation by hand.

use super::shared::{Form, FormArgs, PlainForm};
use clap::{Args, Subcommand, ValueEnum};
use model::{PgmCarrier, PgmFec, PgmNakPath, PgmSpec};
use pgm::Gsi;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Pgm {
    /// Publish lines, a file or numbered messages on a group, and repair what receivers miss
    ///
    /// Each line of standard input is a message, unless --file or --count says otherwise. Ends the session (OPT_FIN) at the
    /// end and at Ctrl-C.
    Send(Box<Send>),
    /// Print or count what the sources of a group publish, in order and repaired
    ///
    /// Reports losses, repairs with their times, and sources that start and end. Exit code 3 when a packet was lost for good, a
    /// source was refused, or a message arrived damaged or, with --check, out of order; 1 when the time is over before --count
    /// messages arrived.
    Recv(Box<Recv>),
    /// Publish numbered messages and time the answers of one `pgm reflect` or several
    ///
    /// Messages that were repaired in either direction, and those held behind a repair, are reported apart from the rest, whose
    /// times are those of the path and of scheduling alone. Exit code 1 when a reflector that was heard, or that --reflectors
    /// waits for, did not answer.
    Ping(Box<Ping>),
    /// Publish each message of a group again on the next one, for `pgm ping`
    Reflect(Box<Reflect>),
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Multicast group
    pub(crate) group: IpAddr,
    /// Send this file in messages of --size bytes; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    pub(crate) file: Option<PathBuf>,
    /// Send so many numbered messages, which `recv --check` knows: number and time of sending in 8 bytes each, then a
    /// pattern
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Bytes of a message of --count, 8 to 65535 [default: 64], or of --file, 1 to 65535 [default: what a packet carries]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<usize>,
    /// Messages a second, such as 500 or 10k [default: 1000 with --count, else as fast as they come]
    #[arg(long, value_name = "PPS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Lines of standard input are bytes in hexadecimal
    #[arg(long, conflicts_with_all = ["file", "count"])]
    pub(crate) hex: bool,
    /// Announce the source for this long before the first message: OpenPGM's receivers do not ask for what they miss before
    /// the first SPM
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = time)]
    pub(crate) wait: Duration,
    /// Answer NAKs for this long after the last message
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) linger: Duration,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) group_args: GroupArgs,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

#[derive(Debug, Args)]
pub(crate) struct Recv {
    /// Multicast group
    pub(crate) group: IpAddr,
    /// End after so many messages
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) lasts: Option<Duration>,
    /// End when nothing came for so long, counted from the first message
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) idle: Option<Duration>,
    /// End when every source that was heard has ended its session
    #[arg(long)]
    pub(crate) until_fin: bool,
    /// The messages are those of `send --count`: check number and pattern of each
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) receiver: Receiver,
    #[command(flatten)]
    pub(crate) group_args: GroupArgs,
    #[command(flatten)]
    pub(crate) form: FormArgs<MessageForm>,
    /// Print no messages, only the summary
    #[arg(long, help_heading = "Output")]
    pub(crate) summary: bool,
    /// Print each repair too, with its times
    #[arg(long, help_heading = "Output")]
    pub(crate) repairs: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// Multicast group to publish on
    pub(crate) group: IpAddr,
    #[command(flatten)]
    pub(crate) reply: ReplyGroup,
    /// Messages to send
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) count: u64,
    /// Messages a second, such as 10 or 10k
    #[arg(long, value_name = "PPS", default_value = "10", value_parser = rate)]
    pub(crate) rate: f64,
    /// Bytes of a message, 32 or more
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(32..=65_507))]
    pub(crate) size: u32,
    /// Time to wait for the answers to the last message
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) linger: Duration,
    /// Wait for this many reflectors before sending, at most 10 s
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) reflectors: usize,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) receiver: Receiver,
    #[command(flatten)]
    pub(crate) group_args: GroupArgs,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

#[derive(Debug, Args)]
pub(crate) struct Reflect {
    /// Multicast group to receive from
    pub(crate) group: IpAddr,
    #[command(flatten)]
    pub(crate) reply: ReplyGroup,
    /// End after so many messages
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) lasts: Option<Duration>,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) receiver: Receiver,
    #[command(flatten)]
    pub(crate) group_args: GroupArgs,
    #[command(flatten)]
    pub(crate) form: PlainForm,
}

/// How received messages are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MessageForm {
    /// One line a message; what is no printable text is escaped. Parts of one ZeroMQ message have ` | ` between them
    Text,
    /// One line of hexadecimal a message
    Hex,
    /// The bytes as they came, with nothing between messages
    Raw,
    /// One JSON object a message, event or repair, with the lengths of its parts where a ZeroMQ message has several; the last
    /// one is the summary
    Json,
}

impl Form for MessageForm {
    const DEFAULT: &str = "text";
    const JSON: Self = Self::Json;
}

/// What is the same for all ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct GroupArgs {
    /// Interface for the groups: its name, its number or one of its addresses [default: the one that routes to the group]
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// Own address, which NAKs come to [default: the interface's]
    #[arg(long, value_name = "ADDR")]
    pub(crate) local: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) packets: Packets,
    /// Data-destination port of PGM; both ends need the same
    #[arg(long, visible_alias = "data-port", value_name = "PORT", default_value_t = defaults().data_port, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Time to live, or hop limit, of what goes to the group
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) ttl: u8,
    /// Do not loop own packets back to other programs on this host
    #[arg(long)]
    pub(crate) no_loop: bool,
    /// The other end is ZeroMQ's `epgm://`: UDP port and data port are one, and messages are in ZMTP 1.0 frames
    #[arg(long)]
    pub(crate) zeromq: bool,
    #[command(flatten)]
    pub(crate) pcap: super::dump::Pcap,
}

impl GroupArgs {
    pub(crate) fn spec(&self, group: IpAddr, source: Option<&SourceTimers>, naks: Option<&NakTimers>) -> PgmSpec {
        let mut spec = settings(group, &self.packets, source, naks);
        spec.data_port = self.port;
        if self.zeromq && self.packets.udp_port.is_none() {
            spec.udp_port = self.port;
        }
        spec
    }
}

/// The sending half.
#[derive(Debug, Args)]
#[command(next_help_heading = "Source")]
pub(crate) struct Source {
    /// Global source identifier: six numbers with dots, as 10.1.2.3.4.5 [default: the own IPv4 address and two random
    /// numbers, or six random ones]
    #[arg(long, value_name = "GSI", value_parser = gsi)]
    pub(crate) gsi: Option<Gsi>,
    /// Data-source port [default: random]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) source_port: Option<u16>,
    /// Sequence number of the first packet: one near 4294967295 tests what the other end does when the numbers wrap
    #[arg(long, value_name = "SQN", default_value_t = 0)]
    pub(crate) first: u32,
    #[command(flatten)]
    pub(crate) timers: SourceTimers,
}

/// The receiving half.
#[derive(Debug, Args)]
#[command(next_help_heading = "Receiver")]
pub(crate) struct Receiver {
    #[command(flatten)]
    pub(crate) timers: NakTimers,
    /// Sources at once. A new one replaces one that has ended or is silent, else it is refused (exit code 3). Each takes
    /// memory for --window packets
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) sources: u16,
    /// Forget a source that was silent for so long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) expiry: Duration,
    /// Where a source offers parity, ask for it instead of single packets, and compute what is missing
    #[arg(long)]
    pub(crate) use_fec: bool,
}

/// Where answers go.
#[derive(Debug, Args)]
pub(crate) struct ReplyGroup {
    /// Group that answers are published on [default: the next address]
    #[arg(long, value_name = "GROUP")]
    pub(crate) reply_group: Option<IpAddr>,
}

/// Packets and windows of an end, here and in `pace pgm`.
#[derive(Debug, Args)]
pub(crate) struct Packets {
    /// What packets travel in: udp, or raw (IP protocol 113; needs CAP_NET_RAW)
    #[arg(long, value_name = "CARRIER", default_value_t = defaults().carrier)]
    pub(crate) carrier: PgmCarrier,
    /// UDP port of the carrier; one source an address can have it, for NAKs come to it [default: 3056, with pgm --zeromq
    /// its --port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) udp_port: Option<u16>,
    /// Longest packet in bytes, without headers of IP and UDP
    #[arg(long, value_name = "BYTES", default_value_t = defaults().packet_bytes, value_parser = clap::value_parser!(u16).range(400..=9000))]
    pub(crate) packet: u16,
    /// Packets that can be repaired, and that are kept behind a gap: a power of two
    #[arg(long, value_name = "PACKETS", default_value_t = defaults().window_packets, value_parser = packets::<u32, 16, 1_048_576>)]
    pub(crate) window: u32,
}

/// Rate, SPMs and parity of a source, here and in `pace pgm`.
#[derive(Debug, Args)]
pub(crate) struct SourceTimers {
    /// Most bits a second of all packets of a source, such as 100M or 1G [default: 1G]
    #[arg(long, value_name = "BITS", default_value_t = defaults().max_bytes_per_second * 8, hide_default_value = true, value_parser = super::stream::bits)]
    bandwidth: u64,
    /// Time between two ambient SPMs, which announce the source and its transmit window
    #[arg(long, value_name = "TIME", default_value_t = Time::us(defaults().ambient_ms * 1000))]
    ambient: Time,
    /// First pause without data after which an SPM announces the last packet; it doubles up to --ambient
    #[arg(long, value_name = "TIME", default_value_t = Time::us(defaults().heartbeat_us))]
    heartbeat: Time,
    /// Parity (forward error correction) over groups of so many packets, a power of two from 2 to 128; all ends of pace use
    /// it, receivers of pgm with --use-fec
    #[arg(long, value_name = "PACKETS", value_parser = packets::<u16, 2, 128>)]
    fec: Option<u16>,
    /// Send this many parity packets after each group unasked
    #[arg(long, value_name = "N", default_value_t = 0, requires = "fec")]
    fec_proactive: u16,
    /// Send no parity on demand, only that of --fec-proactive; further losses are repaired by single packets
    #[arg(long, requires = "fec_proactive")]
    fec_unasked: bool,
    /// End a group that is not full after such a pause [default: never]
    #[arg(long, value_name = "TIME", requires = "fec")]
    fec_pause: Option<Time>,
}

/// When a receiver asks for what it misses, here and in `pace pgm`.
#[derive(Debug, Args)]
pub(crate) struct NakTimers {
    /// Longest random wait before the first NAK for a packet
    #[arg(long, value_name = "TIME", default_value_t = Time::us(defaults().back_off_us))]
    back_off: Time,
    /// Time to wait for the confirmation (NCF) of a NAK before the next NAK
    #[arg(long, value_name = "TIME", default_value_t = Time::us(defaults().repeat_us))]
    repeat: Time,
    /// Time to wait for a confirmed repair before the next NAK
    #[arg(long, value_name = "TIME", default_value_t = Time::us(defaults().data_us))]
    data: Time,
    /// NAKs without a confirmation, and confirmations without a repair, after which a packet is given up
    #[arg(long, value_name = "N", default_value_t = defaults().retries, value_parser = clap::value_parser!(u32).range(1..=1000))]
    retries: u32,
    /// Where NAKs go: data (to where the data come from), or spm (where the SPM says, for networks whose routers speak PGM;
    /// whoever can forge an SPM then decides)
    #[arg(long, value_name = "WHERE", default_value_t = defaults().nak_path)]
    nak_path: PgmNakPath,
}

/// The settings that all flags begin with, on no group.
fn defaults() -> PgmSpec {
    PgmSpec::new(Ipv4Addr::UNSPECIFIED.into())
}

/// The settings on a group; what an end does not have keeps its default.
pub(super) fn settings(
    group: IpAddr,
    packets: &Packets,
    source: Option<&SourceTimers>,
    naks: Option<&NakTimers>,
) -> PgmSpec {
    let mut spec = PgmSpec::new(group);
    spec.carrier = packets.carrier;
    spec.udp_port = packets.udp_port.unwrap_or(spec.udp_port);
    (spec.packet_bytes, spec.window_packets) = (packets.packet, packets.window);
    if let Some(source) = source {
        spec.max_bytes_per_second = (source.bandwidth / 8).max(1);
        spec.ambient_ms = source.ambient.in_us().div_ceil(1000);
        spec.heartbeat_us = source.heartbeat.in_us();
        spec.fec = source.fec.map(|group_packets| PgmFec {
            proactive_packets: source.fec_proactive,
            on_demand: !source.fec_unasked,
            pause_us: source.fec_pause.map(Time::in_us),
            ..PgmFec::new(group_packets)
        });
    }
    if let Some(naks) = naks {
        spec.back_off_us = naks.back_off.in_us();
        spec.repeat_us = naks.repeat.in_us();
        spec.data_us = naks.data.in_us();
        spec.retries = naks.retries;
        spec.nak_path = naks.nak_path;
    }
    spec
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(Duration);

impl Time {
    fn us(us: u32) -> Self {
        Self(Duration::from_micros(us.into()))
    }

    /// In µs, a part of one counted as a whole.
    fn in_us(self) -> u32 {
        u32::try_from(self.0.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        time(text).map(Self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
        let (unit, word) = units.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit)).unwrap_or((1, "ns"));
        write!(f, "{}{word}", ns / unit)
    }
}

/// A time with a unit; without one, seconds.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 6] = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
    let (number, factor) =
        UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor))).unwrap_or((text, 1.0));
    let seconds: f64 = number.trim_end().parse().map_err(|_| "write it as 200us, 5ms, 2s or 1m".to_owned())?;
    let seconds = seconds * factor;
    if (0.0..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("use 0 to 86400 seconds".to_owned())
    }
}

fn packets<T: TryFrom<u32>, const LEAST: u32, const MOST: u32>(text: &str) -> Result<T, String> {
    let fits = |packets: &u32| packets.is_power_of_two() && (LEAST..=MOST).contains(packets);
    let packets = text.parse().ok().filter(fits).and_then(|packets| T::try_from(packets).ok());
    packets.ok_or_else(|| format!("use a power of two from {LEAST} to {MOST}"))
}

fn rate(text: &str) -> Result<f64, String> {
    let pps = model::factor::scaled(text)?;
    if (0.001..=1e7).contains(&pps) { Ok(pps) } else { Err("use 0.001 to 10M messages a second".to_owned()) }
}

fn gsi(text: &str) -> Result<Gsi, String> {
    let wrong = || "write six numbers from 0 to 255 with dots between them".to_owned();
    let bytes: Vec<u8> = text.split('.').map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    bytes.try_into().map(Gsi).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("200us").unwrap(), Duration::from_micros(200));
        assert_eq!(time("5 ms").unwrap(), Duration::from_millis(5));
        assert_eq!(time("1.5").unwrap(), Duration::from_millis(1500));
        assert_eq!(time("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(time("0").unwrap(), Duration::ZERO);
        for text in ["", "ms", "-1s", "1h", "1e9"] {
            time(text).unwrap_err();
        }
    }

    #[test]
    fn a_time_is_written_as_it_is_read() {
        for text in ["200us", "5ms", "1s", "90s", "1500us", "7ns"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!(["1ns", "1us", "0"].map(|text| text.parse::<Time>().unwrap().in_us()), [1, 1, 0]);
    }

    /// `pgm` and `pace pgm` without flags are both the settings of a plan without keys, and each flag means the same to both.
    #[test]
    fn flags_of_pgm_and_of_pace_are_the_same_settings() {
        use crate::cli::{Cli, Command};
        use clap::Parser as _;
        let of = |flags: &[&str]| {
            let pgm = Cli::parse_from([&["windhover", "pgm", "ping", "239.1.1.1"], flags].concat());
            let Command::Pgm(Pgm::Ping(ping)) = pgm.command else { unreachable!() };
            let by_hand = ping.group_args.spec(ping.group, Some(&ping.source.timers), Some(&ping.receiver.timers));
            let pace = Cli::parse_from([&["windhover", "pace", "pgm", "239.1.1.1", "10.0.0.2"], flags].concat());
            let Command::Measure(crate::cli::Measure::Pace(pace)) = pace.command else { unreachable!() };
            (by_hand, pace.group.spec(ping.group))
        };
        let default = PgmSpec::new("239.1.1.1".parse().unwrap());
        assert_eq!(of(&[]), (default.clone(), default.clone()));
        let flags = "--carrier raw --udp-port 4000 --packet 1000 --window 64 --bandwidth 8M --ambient 2s --heartbeat 3ms \
            --back-off 1us --repeat 9ms --data 8ms --retries 7 --nak-path spm --fec 8 --fec-proactive 2 --fec-unasked --fec-pause 20ms";
        let flags: Vec<&str> = flags.split_ascii_whitespace().collect();
        let (by_hand, measured) = of(&flags);
        assert_eq!(by_hand, measured);
        let wanted = PgmSpec {
            carrier: PgmCarrier::Raw,
            udp_port: 4000,
            packet_bytes: 1000,
            window_packets: 64,
            max_bytes_per_second: 1_000_000,
            ambient_ms: 2000,
            heartbeat_us: 3000,
            back_off_us: 1,
            repeat_us: 9000,
            data_us: 8000,
            retries: 7,
            nak_path: PgmNakPath::Spm,
            fec: Some(PgmFec { group_packets: 8, proactive_packets: 2, on_demand: false, pause_us: Some(20_000) }),
            ..default
        };
        assert_eq!(measured, wanted);
    }

    #[test]
    fn a_gsi_is_six_numbers() {
        assert_eq!(gsi("10.1.2.3.4.255").unwrap(), Gsi([10, 1, 2, 3, 4, 255]));
        for text in ["", "1.2.3.4.5", "1.2.3.4.5.6.7", "1.2.3.4.5.256", "a.2.3.4.5.6"] {
            gsi(text).unwrap_err();
        }
    }
}
