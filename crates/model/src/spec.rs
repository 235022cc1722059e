//! What one measurement does, as the command line or a plan asks for it.

use crate::error::within;
use crate::{
    CycleSpec, EndSpec, LatencyKind, ModelError, PaceSpec, PeerProgram, Probe, Protocol, Receive, Role, SizeList,
    SocketSpec, StreamSpec, WakeSpec,
};

/// Idle time between two rounds, in µs; both may be set, the sleep comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Gap {
    /// Time to sleep.
    pub sleep_us: u32,
    /// Time to spin.
    pub spin_us: u32,
}

/// Untimed rounds before each size; both conditions must be met. `pace` warms up at its rate, for the time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Warmup {
    /// At least this long, in ms.
    pub time_ms: u32,
    /// At least this many rounds.
    pub count: u32,
}

impl Default for Warmup {
    fn default() -> Self {
        Self { time_ms: 200, count: 1000 }
    }
}

/// When a size is done: at `max_*`, or earlier once `min_*` are met and the interval asked for is narrow enough, or at once with
/// `at_minimum`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct StopRule {
    /// At least this long, in ms.
    pub min_ms: u32,
    /// At most this long, in ms.
    pub max_ms: u32,
    /// At least this many rounds.
    pub min_count: u64,
    /// At most this many rounds.
    pub max_count: u64,
    /// Stop once the 95 % confidence interval of the median is narrower than this share of the median, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_percent: Option<f64>,
    /// Stop as soon as both minimums are met.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_minimum: bool,
}

impl StopRule {
    /// What a measurement typed by hand has without any limit: a second, and on a slow path up to 5 s until there are enough
    /// messages for the p99.9 that tables print.
    pub const UNTIL_KNOWN: Self = Self {
        min_ms: 1000,
        max_ms: 5000,
        min_count: 10_000,
        max_count: u64::MAX,
        interval_percent: None,
        at_minimum: true,
    };
}

impl Default for StopRule {
    fn default() -> Self {
        Self { min_ms: 0, max_ms: 1000, min_count: 1, max_count: u64::MAX, interval_percent: None, at_minimum: false }
    }
}

/// Which messages are kept one by one beside the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct OutlierRule {
    /// The worst so many; with a schedule by each of: time from the intended send, from the actual send, lateness.
    pub worst: u32,
    /// And all whose RTT is over this many ns (up to 10,000 of them).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_ns: Option<u64>,
}

impl Default for OutlierRule {
    fn default() -> Self {
        Self { worst: 20, over_ns: None }
    }
}

/// What only `rr` has.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct RrSpec {
    /// Response size in bytes; absent: as the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_size: Option<u32>,
    /// A new TCP connection for each transaction (netperf's TCP_CRR).
    pub connect_each: bool,
}

/// The kind of measurement, with the options that only this kind has.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "probe", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the kinds are described where they have their words, the options with their types")]
pub enum ProbeOptions {
    Pingpong,
    Rr(RrSpec),
    Ping,
    Pace {
        #[serde(default)]
        pace: PaceSpec,
    },
    Stream {
        #[serde(default)]
        stream: StreamSpec,
    },
    Wake {
        #[serde(default)]
        wake: WakeSpec,
    },
    Cycle {
        #[serde(default)]
        cycle: CycleSpec,
    },
}

impl ProbeOptions {
    /// The defaults of a kind.
    pub fn new(probe: Probe) -> Self {
        match probe {
            Probe::Pingpong => Self::Pingpong,
            Probe::Rr => Self::Rr(RrSpec::default()),
            Probe::Ping => Self::Ping,
            Probe::Pace => Self::Pace { pace: PaceSpec::default() },
            Probe::Stream => Self::Stream { stream: StreamSpec::default() },
            Probe::Wake => Self::Wake { wake: WakeSpec::default() },
            Probe::Cycle => Self::Cycle { cycle: CycleSpec::default() },
        }
    }
}

/// One measurement: what is sent, how often, and how both ends behave.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ProbeSpec {
    /// The kind of measurement, with its own options.
    #[serde(flatten)]
    pub options: ProbeOptions,
    /// Protocol and socket options; absent where nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketSpec>,
    /// The end that starts messages.
    #[serde(default)]
    pub initiator: EndSpec,
    /// The end that sends them back.
    #[serde(default)]
    pub reflector: EndSpec,
    /// The program that sends them back.
    #[serde(default, skip_serializing_if = "PeerProgram::is_own")]
    pub peer: PeerProgram,
    /// Message (or request) sizes in bytes, measured one after the other.
    pub sizes: SizeList,
    /// Messages that the initiator sends before it waits.
    #[serde(default = "one")]
    pub pings: u32,
    /// Messages that the reflector sends once it has received all pings.
    #[serde(default = "one")]
    pub pongs: u32,
    /// Idle time between rounds.
    #[serde(default)]
    pub gap: Gap,
    /// Time between two intended sends, in µs: message k is meant to be sent k intervals after the first, however long
    /// the answers before it took. Absent: no schedule, each round begins when the one before is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<u32>,
    /// Untimed rounds before each size.
    #[serde(default)]
    pub warmup: Warmup,
    /// When a size is done.
    #[serde(default)]
    pub stop: StopRule,
    /// A datagram that has not come back after this many ms is lost; a stream that is silent so long is broken.
    #[serde(default = "second")]
    pub timeout_ms: u32,
    /// Report RTT rather than RTT/2.
    #[serde(default)]
    pub rtt: bool,
    /// Keep each sample (memory: 56 bytes a sample up to `stop.max_count`, at most 4 million).
    #[serde(default)]
    pub raw: bool,
    /// Keep the packets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capture: bool,
    /// Explain late messages, in a pass of its own: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<crate::ExplainOver>,
    /// Which messages are kept one by one.
    #[serde(default)]
    pub outliers: OutlierRule,
    /// The program that is the initiator, and its arguments; empty: Windhover's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
}

defaults! { one: u32 = 1; second: u32 = 1000; }

impl ProbeSpec {
    /// A measurement with the defaults of its protocol, where it sends messages, and a single size of 32 bytes, the papers' size.
    pub fn new(probe: Probe, protocol: impl Into<Option<Protocol>>) -> Self {
        Self {
            options: ProbeOptions::new(probe),
            // Bulk data leaves Nagle's algorithm on, as iperf and netperf do.
            socket: protocol
                .into()
                .map(|protocol| SocketSpec { nodelay: !probe.is_bulk(), ..SocketSpec::new(protocol) }),
            initiator: EndSpec::default(),
            reflector: EndSpec::default(),
            peer: PeerProgram::default(),
            sizes: SizeList::one(if probe.has_peer() { 32 } else { 0 }),
            pings: 1,
            pongs: 1,
            gap: Gap::default(),
            interval_us: match probe {
                Probe::Wake => Some(crate::wake::INTERVAL_US),
                Probe::Cycle => Some(crate::cycle::PERIOD_US),
                _ => None,
            },
            warmup: Warmup::default(),
            stop: StopRule::default(),
            timeout_ms: 1000,
            // The figures of a stream are no times.
            rtt: probe.samples().is_some() && probe.latency_kind(false) == LatencyKind::Rtt,
            raw: false,
            capture: false,
            explain: None,
            outliers: OutlierRule::default(),
            foreign: Vec::new(),
        }
    }

    /// The kind of measurement.
    pub fn probe(&self) -> Probe {
        match self.options {
            ProbeOptions::Pingpong => Probe::Pingpong,
            ProbeOptions::Rr(_) => Probe::Rr,
            ProbeOptions::Ping => Probe::Ping,
            ProbeOptions::Pace { .. } => Probe::Pace,
            ProbeOptions::Stream { .. } => Probe::Stream,
            ProbeOptions::Wake { .. } => Probe::Wake,
            ProbeOptions::Cycle { .. } => Probe::Cycle,
        }
    }

    /// The settings of the participant of a role.
    pub fn end(&self, role: Role) -> &EndSpec {
        match role {
            Role::Initiator => &self.initiator,
            Role::Reflector => &self.reflector,
        }
    }

    /// The same, to be changed.
    pub fn end_mut(&mut self, role: Role) -> &mut EndSpec {
        match role {
            Role::Initiator => &mut self.initiator,
            Role::Reflector => &mut self.reflector,
        }
    }

    /// The settings of each role.
    pub fn ends(&self) -> impl Iterator<Item = &EndSpec> {
        Role::ALL.into_iter().map(|role| self.end(role))
    }

    /// Whether any end spins for its messages.
    pub fn spins(&self) -> bool {
        self.ends().any(|end| end.receive == Receive::Spin)
    }

    /// The CPU that several ends are pinned to.
    pub fn shared_cpu(&self) -> Option<u32> {
        let mut taken = std::collections::BTreeSet::new();
        self.ends().filter_map(|end| end.cpu).find(|cpu| !taken.insert(*cpu))
    }

    /// The options of `rr`.
    pub fn rr(&self) -> Option<&RrSpec> {
        if let ProbeOptions::Rr(rr) = &self.options { Some(rr) } else { None }
    }

    /// The schedule of `pace`.
    pub fn pace(&self) -> Option<&PaceSpec> {
        if let ProbeOptions::Pace { pace } = &self.options { Some(pace) } else { None }
    }

    /// The same, to be changed.
    pub fn pace_mut(&mut self) -> Option<&mut PaceSpec> {
        if let ProbeOptions::Pace { pace } = &mut self.options { Some(pace) } else { None }
    }

    /// The data of `stream`.
    pub fn stream(&self) -> Option<&StreamSpec> {
        if let ProbeOptions::Stream { stream } = &self.options { Some(stream) } else { None }
    }

    /// The threads of `wake`.
    pub fn wake(&self) -> Option<&WakeSpec> {
        if let ProbeOptions::Wake { wake } = &self.options { Some(wake) } else { None }
    }

    /// The cycles of `cycle`.
    pub fn cycle(&self) -> Option<&CycleSpec> {
        if let ProbeOptions::Cycle { cycle } = &self.options { Some(cycle) } else { None }
    }

    /// How the sender waits for its schedule, where it has one.
    pub fn pacer(&self) -> Option<crate::Pacer> {
        self.pace().map(|pace| pace.pacer).or(self.cycle().map(|cycle| cycle.pacer))
    }

    /// Whether endpoints of Windhover take part, which get settings and report.
    pub fn has_session(&self) -> bool {
        self.probe().has_reflector() && self.peer.is_own()
    }

    /// What carries the messages; `None`: nothing is sent.
    pub fn protocol(&self) -> Option<Protocol> {
        self.socket.as_ref().map(|socket| socket.protocol)
    }

    /// Whether both ends are processes of one machine without a network between them.
    pub fn is_local(&self) -> bool {
        self.protocol().is_some_and(Protocol::is_local)
    }

    /// As [`Protocol::counts_losses`].
    pub fn counts_losses(&self) -> bool {
        self.protocol().is_none_or(Protocol::counts_losses)
    }

    /// The socket options of a measurement that sends messages. Errors: it has none.
    pub fn socket(&self) -> Result<&SocketSpec, ModelError> {
        let none = || ModelError::conflict(format!("{} has no protocol", self.probe()), "name one");
        self.socket.as_ref().ok_or_else(none)
    }

    /// Checks what needs no host: sizes, counts, contradictions. Errors: the first thing wrong, with the remedy.
    pub fn check(&self) -> Result<(), ModelError> {
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        if self.sizes.is_empty() {
            return conflict("no message size is left", "name at least one with --size");
        }
        for (what, count) in [("pings", self.pings), ("pongs", self.pongs)] {
            within(what, count, 1..=1000, "1 to 1000")?;
        }
        if self.probe().has_peer() || self.socket.is_some() {
            self.check_socket(self.socket()?)?;
        }
        match &self.options {
            ProbeOptions::Pace { pace } => pace.check()?,
            ProbeOptions::Stream { stream } => crate::stream::check(self, stream)?,
            ProbeOptions::Wake { wake } => crate::wake::check(self, wake)?,
            ProbeOptions::Cycle { cycle } => crate::cycle::check(self, cycle)?,
            ProbeOptions::Pingpong | ProbeOptions::Rr(_) | ProbeOptions::Ping => {}
        }
        if self.capture {
            self.check_capture()?;
        }
        if self.explain.is_some() && !self.foreign.is_empty() {
            let remedy = "leave out --explain (in a plan: explain), or follow the program: windhover explain --live";
            return conflict("late messages of a foreign worker are not explained", remedy);
        }
        crate::foreign::check(self)?;
        crate::peer::check(self)?;
        if self.stop.max_ms == 0 || self.stop.max_count == 0 {
            return conflict("the stop rule ends before the first message", "give --seconds or --count above 0");
        }
        if self.stop.min_ms > self.stop.max_ms || self.stop.min_count > self.stop.max_count {
            return conflict(
                "the least time or count of the stop rule is above the most",
                "raise --seconds or --count, or lower --min-seconds or --min-count",
            );
        }
        if self.timeout_ms == 0 {
            return conflict("a time-out of 0 ms loses every message", "give --timeout above 0");
        }
        if self.interval_us == Some(0) {
            return conflict("an interval of 0 is no schedule", "leave it out to send without pauses");
        }
        if self.interval_us.is_some() && self.gap != Gap::default() {
            let what = "a gap after each round and a fixed interval contradict each other";
            return conflict(what, "give only one of them");
        }
        Ok(())
    }

    /// Checks that captures see the packets. Errors: they do not pass the kernel's network stack.
    pub fn check_capture(&self) -> Result<(), ModelError> {
        let protocol = self.socket()?.protocol;
        let of_process =
            |name: &String| crate::plan::STACKS.iter().any(|stack| stack.name == name && stack.leaves_options);
        if let Some(stack) = self.initiator.stack.as_ref().filter(|name| of_process(name)) {
            let what = format!("captures do not see the packets of stack {stack}, which are not the kernel's");
            return Err(ModelError::conflict(
                what,
                "leave out --pcap (in a plan: capture), or use bypass run --capture",
            ));
        }
        if protocol.passes_kernel() {
            return Ok(());
        }
        let others = Protocol::words_of(|one| one.passes_kernel() && one.carries(self.probe()));
        Err(ModelError::conflict(
            format!("captures do not see {protocol}, which does not pass the kernel's network stack"),
            format!("leave out --pcap (in a plan: capture), or measure {others}"),
        ))
    }

    /// What carries the messages, and how both ends use it.
    fn check_socket(&self, socket: &SocketSpec) -> Result<(), ModelError> {
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        let protocol = socket.protocol;
        if !protocol.carries(self.probe()) {
            let what = format!("{} does not go over {protocol}", self.probe());
            let carried: Vec<_> =
                Probe::ALL.into_iter().filter(|one| protocol.carries(*one)).map(Probe::word).collect();
            let (use_of, carried) = (Protocol::words_for(self.probe()), crate::text::listed(&carried, "or"));
            return conflict(&what, &format!("use {use_of}; {protocol} carries {carried}"));
        }
        self.check_pgm(socket)?;
        self.sizes.check(protocol)?;
        let rr = self.rr().cloned().unwrap_or_default();
        if let Some(response) = rr.response_size {
            SizeList::one(response).check(protocol)?;
        }
        for (end, prefix) in self.ends().zip(["--", "--remote-"]) {
            let given = [("bind", end.bind.is_some()), ("device", end.device.is_some())];
            if let Some((name, _)) = given.iter().find(|(_, given)| *given && protocol.is_local()) {
                let others = Protocol::words_of(|one| one.is_served() && one.carries(self.probe()));
                let what = format!("{protocol} has no address and no network device");
                return conflict(&what, &format!("leave {prefix}{name} out, or use {others}"));
            }
        }
        let polls = |end: &EndSpec| !matches!(end.receive, Receive::Block | Receive::Spin);
        if !protocol.is_pollable() && self.ends().any(polls) {
            let what = format!("{protocol} does not wait by select, poll or epoll");
            return conflict(&what, "use --receive spin or --receive block");
        }
        if let Some(cpu) = self.shared_cpu().filter(|_| protocol.is_local() && self.spins()) {
            let what = format!("both ends are on CPU {cpu} and one of them spins, so the other never runs");
            return conflict(&what, "give the ends different CPUs, or use --receive block");
        }
        if let Some(multicast) = &socket.multicast {
            if protocol != Protocol::Udp {
                return conflict("a multicast group needs udp", "use udp, or leave --mcast out");
            }
            if !multicast.group.is_multicast() {
                return Err(ModelError::range("multicast group", multicast.group, "224.0.0.0/4 or ff00::/8"));
            }
        }
        if rr.connect_each && !protocol.connects_each() {
            let which = Protocol::words_of(Protocol::connects_each);
            let what = format!("a connection for each transaction needs rr over {which}");
            return conflict(&what, "use rr tcp --connect-each");
        }
        Ok(())
    }

    fn check_pgm(&self, socket: &SocketSpec) -> Result<(), ModelError> {
        let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(what, remedy));
        let protocol = socket.protocol;
        let pgm = match &socket.pgm {
            Some(pgm) if protocol == Protocol::Pgm => pgm,
            Some(_) => return conflict(&format!("settings of PGM say nothing to {protocol}"), "use pgm"),
            None if protocol == Protocol::Pgm => {
                return conflict("pgm needs a group", "name one: pace pgm GROUP PEER, or pgm.group in a plan");
            }
            None => return Ok(()),
        };
        pgm.check()?;
        // A message carries its number and the session's tag, and its answer what repairs cost it.
        if let Some(small) = self.sizes.iter().find(|size| *size < Self::PGM_LEAST) {
            return Err(ModelError::range("size", small, format!("{} bytes or more over pgm", Self::PGM_LEAST)));
        }
        let most = pgm.max_size();
        within("size", self.sizes.max(), 0..=most, &format!("at most {most} bytes with this window"))?;
        if self.pace().is_some_and(|pace| pace.stamps != crate::Stamps::None) {
            return conflict("pgm has its own times and no stamps", "leave --stamps out");
        }
        Ok(())
    }

    /// The CPUs that the threads of the initiator are pinned to; `None` is one that is not pinned.
    pub fn initiator_cpus(&self) -> impl Iterator<Item = Option<u32>> {
        let several = self.wake().filter(|wake| !wake.cpus.is_empty());
        let first = if several.is_some() { Vec::new() } else { vec![self.initiator.cpu] };
        let receive_cpu = self.pace().map(|pace| pace.receive_cpu).or(self.cycle().map(|cycle| cycle.receive_cpu));
        let receiver = receive_cpu.flatten().map(Some);
        first.into_iter().chain(several.into_iter().flat_map(|wake| wake.cpus.iter().map(Some))).chain(receiver)
    }

    /// The shortest message over PGM: it has room for what repairs cost it on its way there.
    pub const PGM_LEAST: u32 = 64;
}
