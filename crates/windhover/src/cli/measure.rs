//! Flags of the measuring commands.

use super::Format;
use super::shared::{Family, FormArgs};
use clap::{Args, ValueEnum};
use model::{OutlierRule, Policy, Probe, ProbeSpec, Protocol, Receive, SizeList, SocketSpec};
use std::net::IpAddr;
use std::path::PathBuf;

/// Protocols of the measuring commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolWord {
    /// TCP
    Tcp,
    /// UDP, unicast or multicast
    Udp,
    /// A UNIX stream socket between two processes of this machine
    UnixStream,
    /// A UNIX datagram socket between two processes of this machine
    UnixDgram,
    /// Two pipes between two processes of this machine
    Pipe,
    /// PGM, reliable multicast: only with pace
    Pgm,
}

impl From<ProtocolWord> for Protocol {
    fn from(word: ProtocolWord) -> Self {
        match word {
            ProtocolWord::Tcp => Self::Tcp,
            ProtocolWord::Udp => Self::Udp,
            ProtocolWord::UnixStream => Self::UnixStream,
            ProtocolWord::UnixDgram => Self::UnixDgram,
            ProtocolWord::Pipe => Self::Pipe,
            ProtocolWord::Pgm => Self::Pgm,
        }
    }
}

/// Where the far end is.
#[derive(Debug, Args)]
pub(crate) struct Peer {
    /// What carries the messages
    #[arg(value_enum)]
    pub(crate) protocol: ProtocolWord,
    /// The endpoint, as ADDR, ADDR:PORT, [V6]:PORT or a host name; not for unix-stream, unix-dgram and pipe
    #[arg(value_name = "ADDR[:PORT]")]
    pub(crate) address: Option<String>,
    /// Run the far end here too: an endpoint on ADDR [default: 127.0.0.1, with -6 ::1] as a child, ended with the
    /// measurement. Both ends are then on one host. unix-stream, unix-dgram and pipe need no such flag
    #[arg(long, alias = "forkboth")]
    pub(crate) fork_both: bool,
    /// File with the endpoint's key (see `windhover key`)
    #[arg(long, value_name = "FILE", env = "WINDHOVER_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) family: Family,
}

/// Both ends' behaviour.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ends")]
pub(crate) struct Ends {
    /// How this end waits for a message: block, spin, poll, select, epoll, epoll-mod, epoll-adddel
    #[arg(long, default_value = "block", value_name = "MODE")]
    pub(crate) receive: Receive,
    /// How the far end waits [default: as this end]
    #[arg(long, value_name = "MODE")]
    pub(crate) remote_receive: Option<Receive>,
    /// Scheduling policy of this end: other, batch, idle, fifo:N, rr:N
    #[arg(long, default_value = "other", value_name = "POLICY")]
    pub(crate) policy: Policy,
    /// Scheduling policy of the far end [default: other]
    #[arg(long, value_name = "POLICY")]
    pub(crate) remote_policy: Option<Policy>,
    /// CPU of this end
    #[arg(long, value_name = "N", alias = "cpus")]
    pub(crate) cpu: Option<u32>,
    /// CPU of the far end
    #[arg(long, value_name = "N")]
    pub(crate) remote_cpu: Option<u32>,
    /// CPU of each end as in sfnt-pingpong: THIS;FAR, or one number for both
    #[arg(long, value_name = "N;N", hide = true, value_parser = affinity, conflicts_with_all = ["cpu", "remote_cpu"])]
    pub(crate) affinity: Option<(u32, u32)>,
    /// SO_BUSY_POLL of this end in µs
    #[arg(long, value_name = "US")]
    pub(crate) busy_poll: Option<u32>,
    /// SO_BUSY_POLL of the far end in µs
    #[arg(long, value_name = "US")]
    pub(crate) remote_busy_poll: Option<u32>,
    /// SO_SNDBUF of both ends in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) send_buffer: Option<u32>,
    /// SO_RCVBUF of both ends in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) receive_buffer: Option<u32>,
    /// Local address of the data socket
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// Network device that the data socket is bound to
    #[arg(long, value_name = "DEV", aliases = ["bindtodev", "bind-dev"])]
    pub(crate) device: Option<String>,
    /// Local address of the far end's data socket [default: the one that it serves at]
    #[arg(long, value_name = "ADDR")]
    pub(crate) remote_bind: Option<IpAddr>,
    /// Network device that the far end's data socket is bound to
    #[arg(long, value_name = "DEV")]
    pub(crate) remote_device: Option<String>,
}

/// Idle descriptors beside the data socket of each end.
#[derive(Debug, Args)]
#[command(next_help_heading = "Idle descriptors (pad the set of select, poll and epoll)")]
pub(crate) struct Idle {
    /// Idle pipes of this end
    #[arg(long, value_name = "N", default_value_t = 0, alias = "n-pipe")]
    pub(crate) idle_pipes: u32,
    /// Idle pipes of the far end [default: as this end]
    #[arg(long, value_name = "N")]
    pub(crate) remote_idle_pipes: Option<u32>,
    /// Idle UNIX datagram sockets of this end
    #[arg(long, value_name = "N", default_value_t = 0, alias = "n-unix-d")]
    pub(crate) idle_unix_dgram: u32,
    /// Idle UNIX datagram sockets of the far end [default: as this end]
    #[arg(long, value_name = "N")]
    pub(crate) remote_idle_unix_dgram: Option<u32>,
    /// Idle UNIX stream sockets of this end
    #[arg(long, value_name = "N", default_value_t = 0, alias = "n-unix-s")]
    pub(crate) idle_unix_stream: u32,
    /// Idle UNIX stream sockets of the far end [default: as this end]
    #[arg(long, value_name = "N")]
    pub(crate) remote_idle_unix_stream: Option<u32>,
    /// Idle UDP sockets of this end
    #[arg(long, value_name = "N", default_value_t = 0, alias = "n-udp")]
    pub(crate) idle_udp: u32,
    /// Idle UDP sockets of the far end [default: as this end]
    #[arg(long, value_name = "N")]
    pub(crate) remote_idle_udp: Option<u32>,
    /// Idle connected TCP sockets of this end
    #[arg(long, value_name = "N", default_value_t = 0, alias = "n-tcpc")]
    pub(crate) idle_tcp: u32,
    /// Idle connected TCP sockets of the far end [default: as this end]
    #[arg(long, value_name = "N")]
    pub(crate) remote_idle_tcp: Option<u32>,
    /// Idle listening TCP sockets of this end
    #[arg(long, value_name = "N", default_value_t = 0, alias = "n-tcpl")]
    pub(crate) idle_tcp_listen: u32,
    /// Idle listening TCP sockets of the far end [default: as this end]
    #[arg(long, value_name = "N")]
    pub(crate) remote_idle_tcp_listen: Option<u32>,
}

/// Sizes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct Sizes {
    /// Message sizes in bytes: 32 or 1-8,64-1024+64,1-65536x2; `default` for the protocol's own list [default: 32, over
    /// pgm 64]
    #[arg(long, value_name = "LIST", aliases = ["sizes", "msgsize"])]
    pub(crate) size: Option<String>,
    /// Leave out sizes below this
    #[arg(long, value_name = "BYTES", alias = "minmsg")]
    pub(crate) min_size: Option<u32>,
    /// Leave out sizes above this
    #[arg(long, value_name = "BYTES", alias = "maxmsg")]
    pub(crate) max_size: Option<u32>,
}

impl Sizes {
    /// The sizes asked for.
    pub(super) fn list(&self, protocol: Protocol) -> Result<SizeList, model::ModelError> {
        let list = match self.size.as_deref() {
            None if protocol == Protocol::Pgm => SizeList::one(64),
            None => SizeList::one(32),
            Some("default") => SizeList::default_for(protocol),
            Some(text) => text.parse::<SizeList>()?,
        };
        Ok(list.within(self.min_size.unwrap_or(0), self.max_size.unwrap_or(u32::MAX)))
    }
}

/// Socket options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Socket options")]
pub(crate) struct Socket {
    /// Leave Nagle's algorithm on (no TCP_NODELAY)
    #[arg(long)]
    pub(crate) no_nodelay: bool,
    /// Do not connect UDP sockets: sendto and recvfrom
    #[arg(long)]
    pub(crate) unconnected: bool,
    /// MSG_MORE on all but the last message of a round
    #[arg(long)]
    pub(crate) more: bool,
    /// Time to live, or hop limit, of data
    #[arg(long, value_name = "N")]
    pub(crate) ttl: Option<u8>,
    /// Multicast group that carries UDP messages both ways [sfnt-pingpong's are 224.1.2.48 and ff05::142]
    #[arg(long, value_name = "GROUP")]
    pub(crate) mcast: Option<IpAddr>,
    /// Interface of the group by name or address
    #[arg(long, value_name = "IF", requires = "mcast", alias = "mcastintf")]
    pub(crate) mcast_interface: Option<String>,
    /// Loop sent multicast messages back to this host
    #[arg(long, requires = "mcast", alias = "mcastloop")]
    pub(crate) mcast_loop: bool,
}

/// How long it is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Warm-up and stop rule (for each size)")]
pub(crate) struct Length {
    /// Measure so long [default: 1, or until --count]
    #[arg(long, short = 't', short_alias = 'l', value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// As --seconds, in the unit of sfnt-pingpong and sfnt-stream
    #[arg(long, value_name = "MS", hide = true, alias = "millisec", conflicts_with = "seconds")]
    pub(crate) maxms: Option<f64>,
    /// Measure so many rounds at most
    #[arg(long, value_name = "N", alias = "maxiter")]
    pub(crate) count: Option<u64>,
}

/// What comes before it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Warm-up and stop rule (for each size)")]
pub(crate) struct Warmup {
    /// Untimed rounds before each size for so many ms
    #[arg(long, value_name = "MS", default_value_t = 200, alias = "warmupms")]
    pub(crate) warmup: u32,
}

/// What is lost.
#[derive(Debug, Args)]
#[command(next_help_heading = "Warm-up and stop rule (for each size)")]
pub(crate) struct Patience {
    /// A datagram is lost, a stream broken, after so many ms
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) timeout: u32,
}

/// When it is done.
#[derive(Debug, Args)]
#[command(next_help_heading = "Warm-up and stop rule (for each size)")]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) length: Length,
    /// Measure at least so long
    #[arg(long, value_name = "S")]
    pub(crate) min_seconds: Option<f64>,
    /// As --min-seconds, in the unit of sfnt-pingpong
    #[arg(long, value_name = "MS", hide = true, conflicts_with = "min_seconds")]
    pub(crate) minms: Option<f64>,
    /// Measure at least so many rounds
    #[arg(long, value_name = "N", alias = "miniter")]
    pub(crate) min_count: Option<u64>,
    /// Stop once the 95 % interval is this many percent wide or less: of the median (pingpong), or of the rate over up to 30
    /// passes that share the time and count (rr; ±1 % is 2 % wide). Without these two limits 60 s at most
    #[arg(long, value_name = "PERCENT")]
    pub(crate) interval: Option<f64>,
    #[command(flatten)]
    pub(crate) warmup: Warmup,
    /// And at least so many untimed rounds
    #[arg(long, value_name = "N", default_value_t = 1000, alias = "warmupiter")]
    pub(crate) warmup_count: u32,
    #[command(flatten)]
    pub(crate) patience: Patience,
}

/// What comes out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    #[command(flatten)]
    pub(crate) form: FormArgs<Format>,
    /// Write raw RTT samples to PREFIX-SIZE.dat: one line a message, send time and RTT in ns (pace: PREFIX-SIZE-RATE.dat,
    /// with the intended send time before them)
    #[arg(long, value_name = "PREFIX")]
    pub(crate) raw: Option<PathBuf>,
    /// The percentile of the %ile column of --format sfnt [default: 99]
    #[arg(long, value_name = "P", value_parser = percentile)]
    pub(crate) percentile: Option<f64>,
    /// Keep the worst so many messages one by one
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) worst: u32,
    /// Keep messages over this RTT in µs one by one
    #[arg(long, value_name = "US")]
    pub(crate) over: Option<f64>,
}

/// `0;1`, or one number for both.
fn affinity(text: &str) -> Result<(u32, u32), String> {
    let (this, far) = text.split_once(';').unwrap_or((text, text));
    let cpu = |text: &str| text.trim().parse::<u32>().map_err(|_| "use THIS;FAR, such as '0;1'".to_owned());
    Ok((cpu(this)?, cpu(far)?))
}

fn percentile(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("use 0 to 100".to_owned()) }
}

/// `windhover pingpong`
#[derive(Debug, Args)]
pub(crate) struct Pingpong {
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Messages sent before waiting for an answer
    #[arg(long, value_name = "N", default_value_t = 1, alias = "n-pings")]
    pub(crate) pings: u32,
    /// Messages that the far end answers with
    #[arg(long, value_name = "N", default_value_t = 1, alias = "n-pongs")]
    pub(crate) pongs: u32,
    /// Sleep between rounds in µs
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub(crate) sleep_gap: u32,
    /// Spin between rounds in µs
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub(crate) spin_gap: u32,
    /// Report RTT instead of RTT/2
    #[arg(long)]
    pub(crate) rtt: bool,
    #[command(flatten)]
    pub(crate) stop: Stop,
    #[command(flatten)]
    pub(crate) ends: Ends,
    #[command(flatten)]
    pub(crate) socket: Socket,
    #[command(flatten)]
    pub(crate) idle: Idle,
    #[command(flatten)]
    pub(crate) pcap: super::dump::Pcap,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// `windhover rr`
#[derive(Debug, Args)]
pub(crate) struct Rr {
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Response size in bytes [default: as the request]
    #[arg(long, value_name = "BYTES")]
    pub(crate) response: Option<u32>,
    /// A new TCP connection for each transaction (netperf's TCP_CRR)
    #[arg(long)]
    pub(crate) connect_each: bool,
    /// Report RTT/2 instead of RTT
    #[arg(long)]
    pub(crate) half: bool,
    #[command(flatten)]
    pub(crate) stop: Stop,
    #[command(flatten)]
    pub(crate) ends: Ends,
    #[command(flatten)]
    pub(crate) socket: Socket,
    #[command(flatten)]
    pub(crate) pcap: super::dump::Pcap,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// `windhover ping`
#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// The host
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    #[command(flatten)]
    pub(crate) family: Family,
    /// Send so many echoes; the median needs 20, p99 1000
    #[arg(long, short = 'c', value_name = "N", default_value_t = 20)]
    pub(crate) count: u64,
    /// Time between two echoes in seconds, whatever their answers take; 0: each as soon as the one before is over
    #[arg(long, short = 'i', value_name = "S", default_value_t = 0.1)]
    pub(crate) interval: f64,
    /// Data bytes after the ICMP header
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = 56)]
    pub(crate) size: u32,
    /// An echo is lost after so many ms
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) timeout: u32,
    /// Time to live, or hop limit
    #[arg(long, value_name = "N")]
    pub(crate) ttl: Option<u8>,
    /// Local address
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// Network device that the socket is bound to
    #[arg(long, value_name = "DEV")]
    pub(crate) device: Option<String>,
    /// Scheduling policy: other, batch, idle, fifo:N, rr:N
    #[arg(long, default_value = "other", value_name = "POLICY")]
    pub(crate) policy: Policy,
    /// CPU to run on
    #[arg(long, value_name = "N", alias = "cpus")]
    pub(crate) cpu: Option<u32>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Seconds as a person writes them, to ms.
pub(super) fn ms(what: &'static str, seconds: f64) -> Result<u32, model::ModelError> {
    let ms = (seconds * 1000.0).round();
    if !(1.0..=86_400_000.0).contains(&ms) {
        return Err(model::ModelError::OutOfRange {
            what,
            given: seconds.to_string(),
            accepted: "0.001 to 86400".to_owned(),
        });
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(ms as u32)
}

impl Length {
    /// How many seconds, however they were named.
    fn wanted(&self) -> Option<f64> {
        self.seconds.or(self.maxms.map(|ms| ms / 1000.0))
    }

    /// How long a size is measured.
    pub(super) fn apply(&self, spec: &mut ProbeSpec) -> Result<(), model::ModelError> {
        spec.stop.max_ms = match (self.wanted(), self.count) {
            (Some(seconds), _) => ms("--seconds", seconds)?,
            (None, Some(_)) => u32::MAX,
            (None, None) => 1000,
        };
        spec.stop.max_count = self.count.unwrap_or(u64::MAX);
        Ok(())
    }
}

impl Stop {
    fn apply(&self, spec: &mut ProbeSpec) -> Result<(), model::ModelError> {
        self.length.apply(spec)?;
        spec.stop.min_ms = self
            .min_seconds
            .or(self.minms.map(|ms| ms / 1000.0))
            .map_or(Ok(0), |seconds| ms("--min-seconds", seconds))?;
        spec.stop.min_count = self.min_count.unwrap_or(1);
        if let Some(percent) = self.interval
            && !(0.01..=100.0).contains(&percent)
        {
            return Err(model::ModelError::OutOfRange {
                what: "--interval",
                given: percent.to_string(),
                accepted: "0.01 to 100 percent".to_owned(),
            });
        }
        spec.stop.interval_percent = self.interval;
        let open = self.length.wanted().is_none() && self.length.count.is_none();
        if self.interval.is_some() && open {
            spec.stop.max_ms = 60_000;
        }
        spec.warmup = model::Warmup { time_ms: self.warmup.warmup, count: self.warmup_count };
        spec.timeout_ms = self.patience.timeout;
        Ok(())
    }
}

impl Ends {
    /// Both ends as asked for.
    pub(super) fn apply(&self, spec: &mut ProbeSpec) {
        let (initiator, reflector) = (&mut spec.initiator, &mut spec.reflector);
        initiator.receive = self.receive;
        reflector.receive = self.remote_receive.unwrap_or(self.receive);
        initiator.policy = self.policy;
        reflector.policy = self.remote_policy.unwrap_or_default();
        initiator.cpu = self.cpu.or(self.affinity.map(|(this, _)| this));
        reflector.cpu = self.remote_cpu.or(self.affinity.map(|(_, far)| far));
        initiator.busy_poll_us = self.busy_poll;
        reflector.busy_poll_us = self.remote_busy_poll;
        for end in [&mut *initiator, &mut *reflector] {
            end.send_buffer_bytes = self.send_buffer;
            end.receive_buffer_bytes = self.receive_buffer;
        }
        initiator.bind = self.bind;
        initiator.device.clone_from(&self.device);
        reflector.bind = self.remote_bind;
        reflector.device.clone_from(&self.remote_device);
    }
}

impl Idle {
    fn apply(&self, spec: &mut ProbeSpec) {
        spec.initiator.idle = model::IdleDescriptors {
            pipes: self.idle_pipes,
            unix_datagrams: self.idle_unix_dgram,
            unix_streams: self.idle_unix_stream,
            udp: self.idle_udp,
            tcp_connected: self.idle_tcp,
            tcp_listening: self.idle_tcp_listen,
        };
        spec.reflector.idle = model::IdleDescriptors {
            pipes: self.remote_idle_pipes.unwrap_or(self.idle_pipes),
            unix_datagrams: self.remote_idle_unix_dgram.unwrap_or(self.idle_unix_dgram),
            unix_streams: self.remote_idle_unix_stream.unwrap_or(self.idle_unix_stream),
            udp: self.remote_idle_udp.unwrap_or(self.idle_udp),
            tcp_connected: self.remote_idle_tcp.unwrap_or(self.idle_tcp),
            tcp_listening: self.remote_idle_tcp_listen.unwrap_or(self.idle_tcp_listen),
        };
    }
}

impl Socket {
    /// The options asked for.
    pub(super) fn spec(&self, protocol: Protocol) -> SocketSpec {
        SocketSpec {
            nodelay: !self.no_nodelay,
            connected: !self.unconnected,
            more: self.more,
            ttl: self.ttl,
            multicast: self.mcast.map(|group| model::Multicast {
                group,
                interface: self.mcast_interface.clone(),
                loopback: self.mcast_loop,
            }),
            ..SocketSpec::new(protocol)
        }
    }
}

impl Output {
    /// What is kept.
    pub(super) fn apply(&self, spec: &mut ProbeSpec) {
        spec.raw = self.raw.is_some();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; µs to ns")]
        let over_ns = self.over.map(|us| (us * 1000.0) as u64);
        spec.outliers = OutlierRule { worst: self.worst, over_ns };
    }
}

impl Pingpong {
    /// The measurement asked for.
    pub(crate) fn spec(&self) -> Result<ProbeSpec, model::ModelError> {
        let protocol = Protocol::from(self.peer.protocol);
        let mut spec = ProbeSpec::new(Probe::Pingpong, protocol);
        spec.socket = self.socket.spec(protocol);
        spec.sizes = self.sizes.list(protocol)?;
        spec.pings = self.pings;
        spec.pongs = self.pongs;
        spec.gap = model::Gap { sleep_us: self.sleep_gap, spin_us: self.spin_gap };
        spec.rtt = self.rtt;
        self.stop.apply(&mut spec)?;
        self.ends.apply(&mut spec);
        self.idle.apply(&mut spec);
        self.output.apply(&mut spec);
        spec.check()?;
        Ok(spec)
    }
}

impl Rr {
    /// The measurement asked for.
    pub(crate) fn spec(&self) -> Result<ProbeSpec, model::ModelError> {
        let protocol = Protocol::from(self.peer.protocol);
        let mut spec = ProbeSpec::new(Probe::Rr, protocol);
        spec.socket = self.socket.spec(protocol);
        spec.sizes = self.sizes.list(protocol)?;
        spec.response_size = self.response;
        spec.connect_each = self.connect_each;
        spec.rtt = !self.half;
        self.stop.apply(&mut spec)?;
        self.ends.apply(&mut spec);
        self.output.apply(&mut spec);
        spec.check()?;
        Ok(spec)
    }
}

impl Ping {
    /// No schedule for 0. An hour at most, because µs are kept in 32 bits.
    fn interval_us(&self) -> Result<Option<u32>, model::ModelError> {
        if self.interval == 0.0 {
            return Ok(None);
        }
        if self.interval > 3600.0 {
            return Err(model::ModelError::OutOfRange {
                what: "--interval",
                given: self.interval.to_string(),
                accepted: "0, or 0.001 to 3600 seconds".to_owned(),
            });
        }
        Ok(Some(ms("--interval", self.interval)?.saturating_mul(1000)))
    }

    /// The measurement asked for.
    pub(crate) fn spec(&self) -> Result<ProbeSpec, model::ModelError> {
        let mut spec = ProbeSpec::new(Probe::Ping, Protocol::Icmp);
        spec.sizes = SizeList::one(self.size);
        spec.rtt = true;
        spec.stop.max_ms = u32::MAX;
        spec.stop.max_count = self.count;
        spec.interval_us = self.interval_us()?;
        spec.timeout_ms = self.timeout;
        spec.socket.ttl = self.ttl;
        spec.warmup = model::Warmup { time_ms: 0, count: 0 };
        spec.initiator.bind = self.bind;
        spec.initiator.device.clone_from(&self.device);
        spec.initiator.policy = self.policy;
        spec.initiator.cpu = self.cpu;
        self.output.apply(&mut spec);
        spec.check()?;
        Ok(spec)
    }
}
