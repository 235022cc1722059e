//! A synthetic run: distributions drawn from a fixed seed, shaped like those of two namespaces under load. Used by the
//! example and by the tests; never a measurement.

#![allow(clippy::unwrap_used, reason = "a generator for tests and for looking at")]
#![allow(dead_code, reason = "the example and the tests each use a part")]

pub(crate) mod paced;

use digest::RunInput;
use model::Participants;
use model::result::{EndReport, SelfCost, Transactions};
use model::run::{RunHost, RunStep};
use model::{
    ClockMap, ClockPoint, ClockSource, EndUsage, Finding, FindingId, HostFacts, Latency, LatencyKind, LoadProfile,
    LoadReport, LoadSpec, MachineFacts, NicFacts, Policy, Probe, ResultDocument, RunDocument, Substrate, TickRate,
    Verdict,
};
use stats::SplitMix64;
use std::collections::BTreeMap;

/// What samples draw.
pub(crate) struct Chance(SplitMix64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// About normal, from sums alone, so that no platform's logarithm matters.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// What shapes one cell.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) probe: Probe,
    pub(crate) protocol: &'static str,
    pub(crate) load: &'static str,
    pub(crate) policy: &'static str,
    pub(crate) size: u64,
    pub(crate) repetition: u32,
    pub(crate) messages: u64,
}

fn rtt(shape: &Shape, chance: &mut Chance, drift: f64) -> u64 {
    let base = if shape.protocol == "tcp" { 13_200.0 } else { 11_000.0 };
    let bytes = base + shape.size as f64 * 0.55 + if shape.size > 1472 { 2_600.0 } else { 0.0 };
    let mut ns = bytes * drift * (1.0 + 0.16 * chance.normal()).max(0.72);
    if chance.unit() < 0.01 {
        ns += 9_000.0 * chance.unit() + 4_000.0;
    }
    if shape.load != "none" {
        ns *= 1.09;
        let late = chance.unit();
        if shape.policy == "other" {
            if late < 0.02 {
                ns += 4_000.0 / (chance.unit() + 0.002) * 3.0;
            }
            if late < 0.0012 {
                ns += 8_000_000.0 * chance.unit();
            }
        } else if late < 0.01 {
            ns += 18_000.0 * chance.unit() + 20_000.0 * chance.unit().powi(8);
        }
    } else if chance.unit() < 0.0002 {
        ns += 90_000.0 * chance.unit();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
    let ns = ns as u64;
    ns
}

fn machine() -> MachineFacts {
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    MachineFacts {
        boot_id: "7c0f2c1e-0000-4000-8000-000000000001".into(),
        os: Some("Debian GNU/Linux 12 (bookworm)".into()),
        kernel_release: Some("6.1.0-18-amd64".into()),
        kernel_version: Some("#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1".into()),
        architecture: Some("x86_64".into()),
        preemption: Some("PREEMPT_DYNAMIC (voluntary)".into()),
        hz: Some(250),
        command_line: Some("BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro isolcpus=1 nohz_full=1 quiet".into()),
        cpu_model: Some("Intel(R) Xeon(R) Processor".into()),
        cpus_online: Some("0-1".into()),
        cpus_isolated: Some(String::new()),
        smt_active: Some(false),
        numa_nodes: Some(1),
        memory_bytes: Some(24 << 30),
        clocksource: Some("tsc".into()),
        tsc_invariant: Some(true),
        virtualisation: Some("kvm".into()),
        mitigations: pairs(&[
            ("meltdown", "Not affected"),
            ("spectre_v2", "Mitigation: Enhanced IBRS; IBPB: conditional"),
        ]),
        sysctls: pairs(&[
            ("kernel.sched_rt_runtime_us", "950000"),
            ("net.core.busy_poll", "0"),
            ("net.core.busy_read", "0"),
        ]),
        ..MachineFacts::default()
    }
}

fn host(name: &str, address: &str, role: &str) -> RunHost {
    let nic = NicFacts {
        name: format!("wh-{name}"),
        driver: Some("veth".into()),
        speed_mbps: Some(10_000),
        link: Some(true),
        mtu: Some(1500),
        addresses: vec![format!("{address}/30")],
        offloads: [("gro", true), ("gso", true), ("tso", true), ("lro", false)]
            .into_iter()
            .map(|(name, on)| (name.to_owned(), on))
            .collect(),
        qdisc: Some("noqueue".into()),
        ..NicFacts::default()
    };
    RunHost {
        role: role.into(),
        address: Some(address.into()),
        facts: HostFacts {
            boot_id: machine().boot_id,
            hostname: Some("bench".into()),
            netns: Some(4_026_532_200),
            netns_initial: Some(false),
            nics: vec![nic],
            sysctls: BTreeMap::new(),
            uid: 0,
            environment: None,
        },
    }
}

fn end(host: &str, address: &str, cpu: u32, policy: &str, messages: u64) -> EndReport {
    let mut end = EndReport { host: Some(host.into()), address: Some(address.into()), ..EndReport::default() };
    end.spec.cpu = Some(cpu);
    end.spec.policy = policy.parse::<Policy>().unwrap_or_default();
    end.usage = EndUsage {
        elapsed_ns: 1_000_000_000,
        process_user_ns: messages * 700,
        process_system_ns: messages * 3_900,
        machine_busy_ns: 1_120_000_000,
        machine_softirq_ns: messages * 1_100,
        cpus: 2,
        ..EndUsage::default()
    };
    end
}

/// One result document.
pub(crate) fn result(shape: &Shape) -> ResultDocument {
    let seed =
        format!("{}{}{}{}{}{}", shape.probe, shape.protocol, shape.load, shape.policy, shape.size, shape.repetition);
    let seed = seed
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut chance = Chance::new(seed);
    let drift = 1.0 + 0.012 * chance.normal();
    let mut histogram = stats::Histogram::new();
    let (mut sum, mut squares, mut low, mut high) = (0.0, 0.0, u64::MAX, 0);
    for _ in 0..shape.messages {
        let ns = rtt(shape, &mut chance, drift);
        histogram.record(ns);
        sum += ns as f64;
        squares += (ns as f64).powi(2);
        low = low.min(ns);
        high = high.max(ns);
    }
    let n = shape.messages as f64;
    let mean = sum / n;
    let stdev = ((squares - n * mean * mean) / (n - 1.0)).max(0.0).sqrt();
    let kind = if shape.probe == Probe::Ping { LatencyKind::Rtt } else { LatencyKind::RttHalf };
    let by = if kind == LatencyKind::RttHalf { 2 } else { 1 };
    let quantile = |q: f64| histogram.quantile_if_supported(q, 10).map(|ns| ns / by);
    let scale = by as f64;
    let p50 = quantile(0.5).unwrap_or_default();
    let latency = Latency {
        kind,
        count: shape.messages,
        mean_ns: Some(mean / scale),
        stdev_ns: Some(stdev / scale),
        min_ns: Some(low / by),
        p50_ns: Some(p50),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p99_9_ns: quantile(0.999),
        p99_99_ns: quantile(0.9999),
        p99_999_ns: quantile(0.99999),
        max_ns: Some(high / by),
        p50_ci95_ns: Some([p50 - p50 / 400, p50 + p50 / 400]),
        mean_ci95_ns: None,
    };
    let mut verdict = Verdict::default();
    if shape.load != "none" && shape.policy == "other" {
        verdict.add(Finding::at(
            FindingId::OtherTasks,
            "initiator",
            "other tasks ran 31 % of the time on CPU 0: shield it, or use --policy fifo:1",
        ));
    }
    let mut factors: BTreeMap<String, serde_json::Value> = [
        ("probe", shape.probe.word()),
        ("protocol", shape.protocol),
        ("load", shape.load),
        ("policy", shape.policy),
        ("receive", "block"),
        ("cpu", "0;1"),
        ("stack", "kernel"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), serde_json::Value::from(value)))
    .collect();
    factors.insert("size".into(), serde_json::Value::from(shape.size));
    let load = (shape.load != "none").then(|| LoadReport {
        spec: LoadSpec::new(LoadProfile::Build),
        work: 412,
        busy_percent: 96.4,
        work_cv: Some(0.11 + 0.05 * chance.unit()),
        steady_after_ns: 700_000_000,
        steady: true,
        elapsed_ns: 1_400_000_000,
    });
    let transactions = (shape.probe == Probe::Rr).then(|| Transactions {
        per_second: 1e9 / (mean + 180.0),
        ci95_percent: Some(1.3),
        passes: 3,
        request_bytes: 32,
        response_bytes: 32,
        connect_each: false,
    });
    // From JSON, so that fields added to the documents later need no change here.
    serde_json::from_value(serde_json::json!({
        "format": 1,
        "probe": shape.probe,
        "repetition": shape.repetition,
        "started_ns": 1_795_297_384_000_000_000u64,
        "elapsed_ns": 1_000_000_000u64,
        "factors": factors,
        "ends": Participants::new(
            end("a", "198.18.0.1", 0, shape.policy, shape.messages),
            [end("b", "198.18.0.2", 1, shape.policy, shape.messages)],
        ),
        "latency": latency,
        "transactions": transactions,
        "mdev_ns": (shape.probe == Probe::Ping).then_some(stdev),
        "histogram": histogram.to_base64_v2().unwrap(),
        "messages": {
            "sent": shape.messages, "received": shape.messages, "lost": 0, "duplicated": 0, "reordered": 0, "late": 0,
        },
        "self_cost": SelfCost { clock_read_ns: 9.6, loop_ns: 38.0, record_ns: 11.2, startup_ns: Some(41_000_000) },
        "clock": ClockMap {
            source: ClockSource::Tsc,
            rate: TickRate::from_hz(2_100_000_000.0),
            read_ns: 9.6,
            points: vec![ClockPoint { tick: 0, raw_ns: 0, monotonic_ns: 0, realtime_ns: 0, width_ns: 40 }],
            error_ppm: 0.02,
        },
        "load": load,
        "verdict": verdict,
    }))
    .unwrap()
}

/// What a run is made of.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) substrate: Substrate,
    pub(crate) protocols: &'static [&'static str],
    pub(crate) loads: &'static [&'static str],
    pub(crate) policies: &'static [&'static str],
    pub(crate) sizes: &'static [u64],
    pub(crate) repetitions: u32,
    pub(crate) messages: u64,
    pub(crate) rr: bool,
    pub(crate) ping: bool,
}

/// A run of two namespaces.
pub(crate) fn run(recipe: &Recipe) -> RunInput {
    let mut results = Vec::new();
    let mut shapes = Vec::new();
    for &load in recipe.loads {
        for &policy in recipe.policies {
            for &protocol in recipe.protocols {
                for &size in recipe.sizes {
                    shapes.push((Probe::Pingpong, protocol, load, policy, size));
                }
                if recipe.rr {
                    shapes.push((Probe::Rr, protocol, load, policy, 32));
                }
            }
            if recipe.ping {
                shapes.push((Probe::Ping, "icmp", load, policy, 56));
            }
        }
    }
    for repetition in 1..=recipe.repetitions {
        for &(probe, protocol, load, policy, size) in &shapes {
            let messages = recipe.messages;
            results.push(result(&Shape { probe, protocol, load, policy, size, repetition, messages }));
        }
    }
    let order = results
        .iter()
        .zip(1..)
        .map(|(result, index)| RunStep {
            index,
            cell: String::new(),
            repetition: result.repetition.unwrap_or(1),
            factors: result.factors.clone(),
        })
        .collect();
    // From JSON, so that fields added to the documents later need no change here.
    let hosts: BTreeMap<&str, RunHost> = [("a", "198.18.0.1", "initiator"), ("b", "198.18.0.2", "reflector")]
        .into_iter()
        .map(|(name, address, role)| (name, host(name, address, role)))
        .collect();
    let order: Vec<RunStep> = order;
    let document: RunDocument = serde_json::from_value(serde_json::json!({
        "format": 1,
        "name": "white-paper",
        "title": "Two namespaces: round trips with and without a compile load",
        "tool_version": "0.1.0",
        "build": "9f2c1e77",
        "seed": 2012,
        "order": order,
        "machines": { machine().boot_id: machine() },
        "hosts": hosts,
        "substrate": recipe.substrate,
        "started_ns": 1_795_297_384_000_000_000u64,
        "ended_ns": 1_795_297_584_000_000_000u64,
        "outcome": "done",
    }))
    .unwrap();
    RunInput {
        name: recipe.name.into(),
        document,
        results,
        failed: Vec::new(),
        problems: Vec::new(),
        folder: None,
        steps: Vec::new(),
    }
}
