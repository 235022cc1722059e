//! Losses that a protocol repaired: messages that were repaired, messages held behind a repair, and those that repairs left
//! untouched, whose latency is that of scheduling and the path alone.

use crate::latency::Distribution;
use model::{
    Fate, Finding, FindingId, LatencyKind, Leg, PacedSample, PgmEnd, PgmFate, PgmReport, PgmSpec, PgmSteps, Role,
};
use std::collections::{BTreeMap, HashMap};

/// Notes that are kept.
const MOST_NOTES: usize = 1 << 20;
/// Reflectors that have figures of their own for each fate; each takes some 100 KiB a distribution.
const MOST_OWN: usize = 32;

/// How one message was repaired on one way; all times since its gap was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairNote {
    /// The reflector that it went to or came from, from 0.
    pub reflector: u16,
    /// Whether it was on its way back.
    pub back: bool,
    /// Number of the message.
    pub seq: u64,
    /// The first NAK, where this receiver asked.
    pub nak_ns: Option<u64>,
    /// The first NCF.
    pub ncf_ns: Option<u64>,
    /// The repair itself.
    pub data_ns: u64,
}

#[derive(Debug, Clone, Default)]
pub struct RepairFigures {
    /// By fate; all reflectors together first, then each, where there are several.
    pub fates: Vec<PgmFate>,
    /// By way and reflector, where something was repaired or held.
    pub steps: Vec<PgmSteps>,
}

impl RepairFigures {
    /// The section of the result.
    pub fn report(self, spec: &PgmSpec, ends: Vec<PgmEnd>) -> PgmReport {
        PgmReport {
            carrier: spec.carrier,
            group: spec.group.to_string(),
            reply_group: spec.reply_group().to_string(),
            fec: spec.fec,
            ends,
            fates: self.fates,
            steps: self.steps,
        }
    }
}

/// Why PGM lost messages for good at an end, if it did. Of `several` reflectors one is called by its host.
pub fn lost_for_good(spec: &PgmSpec, end: &PgmEnd, several: bool) -> Option<Finding> {
    let counts = &end.counts;
    (counts.lost > 0).then(|| {
        let mut detail = format!(
            "PGM at {} gave up {} of {} missing packets: not repaired after {} tries, or no longer in the source's window of {} packets; raise retries or window, or use a lower rate",
            end.host, counts.lost, counts.missing, spec.retries, spec.window_packets
        );
        if counts.overflows > 0 {
            detail.push_str(&format!(" ({} came when its own window was full)", counts.overflows));
        }
        let is_only = end.host != Role::Initiator.word() && !several;
        Finding::at(FindingId::Loss, if is_only { Role::Reflector.word() } else { &end.host }, detail)
    })
}

#[derive(Debug, Clone, Default)]
struct FateTimes {
    rtt: Distribution,
    intended: Distribution,
    cost: Distribution,
}

/// Of each fate, in the order of [`Fate::ALL`].
type FatesTimes = [FateTimes; Fate::ALL.len()];

/// What was repaired and held on one way to one receiver.
#[derive(Debug, Clone, Default)]
struct DirectionTimes {
    repair: Distribution,
    held: Distribution,
}

#[derive(Debug, Clone, Default)]
struct PeerRepairs {
    /// Present where there are several.
    fates: Option<Box<FatesTimes>>,
    directions: [Option<Box<DirectionTimes>>; Leg::ALL.len()],
}

/// Takes answered messages and, at the end, notes of repairs.
#[derive(Debug)]
pub(super) struct RepairRecorder {
    all: FatesTimes,
    peers: Vec<PeerRepairs>,
    notes: Vec<RepairNote>,
}

#[inline]
fn fate(one: &PacedSample) -> Fate {
    if one.out.repair_ns > 0 || one.back.repair_ns > 0 {
        Fate::Repaired
    } else if one.out.held_ns > 0 || one.back.held_ns > 0 {
        Fate::Held
    } else {
        Fate::Untouched
    }
}

impl RepairRecorder {
    pub(super) fn new(peers: usize) -> Box<Self> {
        let several = (2..=MOST_OWN).contains(&peers);
        let peer = || PeerRepairs { fates: several.then(Box::default), directions: [None, None] };
        Box::new(Self { all: Default::default(), peers: (0..peers).map(|_| peer()).collect(), notes: Vec::new() })
    }

    /// A message that was answered in time.
    pub(super) fn take(&mut self, one: &PacedSample, peer: usize, rtt_ns: u64, intended_ns: u64) {
        let place = fate(one) as usize;
        let cost_ns = one.out.ns() + one.back.ns();
        let record = |fate: &mut FateTimes| {
            fate.rtt.record(rtt_ns);
            fate.intended.record(intended_ns);
            if cost_ns > 0 {
                fate.cost.record(cost_ns);
            }
        };
        record(&mut self.all[place]);
        let Some(peer) = self.peers.get_mut(peer) else { return };
        if let Some(fates) = &mut peer.fates {
            record(&mut fates[place]);
        }
        for (direction, repaired) in peer.directions.iter_mut().zip([one.out, one.back]) {
            if repaired.ns() > 0 {
                let direction = direction.get_or_insert_default();
                if repaired.repair_ns > 0 {
                    direction.repair.record(repaired.repair_ns.into());
                }
                if repaired.held_ns > 0 {
                    direction.held.record(repaired.held_ns.into());
                }
            }
        }
    }

    pub(super) fn note(&mut self, note: RepairNote) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(note);
        }
    }

    /// What is told of one message of the outliers: its own repairs, and what held it.
    pub(super) fn name(
        by_message: &HashMap<(u64, u16), Vec<RepairNote>>,
        key: (u64, u16),
        cost: [model::Repaired; 2],
        named: &mut BTreeMap<String, i64>,
    ) {
        let mut put = |direction: Leg, name: &str, ns: Option<u64>| {
            if let Some(ns) = ns.and_then(|ns| i64::try_from(ns).ok()) {
                named.insert(format!("{direction}-{name}"), ns);
            }
        };
        for (direction, cost) in Leg::ALL.into_iter().zip(cost) {
            put(direction, "gap-to-repair", Some(u64::from(cost.repair_ns)).filter(|ns| *ns > 0));
            put(direction, "held", Some(u64::from(cost.held_ns)).filter(|ns| *ns > 0));
        }
        for note in by_message.get(&key).into_iter().flatten() {
            let direction = Leg::ALL[usize::from(note.back)];
            for (name, ns) in
                [("gap-to-nak", note.nak_ns), ("nak-to-ncf", note.nak_to_ncf()), ("ncf-to-repair", note.ncf_to_data())]
            {
                put(direction, name, ns);
            }
            put(direction, "gap-to-repair", Some(note.data_ns));
        }
    }

    pub(super) fn by_message(&self) -> HashMap<(u64, u16), Vec<RepairNote>> {
        let mut by_message: HashMap<(u64, u16), Vec<RepairNote>> = HashMap::with_capacity(self.notes.len());
        for note in &self.notes {
            by_message.entry((note.seq, note.reflector)).or_default().push(*note);
        }
        by_message
    }

    pub(super) fn finish(&self, hosts: &[String], kind: LatencyKind) -> RepairFigures {
        let several = self.peers.len() > 1;
        let host = |at: usize| hosts.get(at).filter(|_| several).cloned();
        let each = self.peers.iter().enumerate().filter_map(|(at, peer)| Some((peer.fates.as_deref()?, host(at))));
        let all = std::iter::once((&self.all, None)).chain(each);
        let fates = all.flat_map(|(of, host)| {
            Fate::ALL.into_iter().zip(of).rev().map(move |(fate, times)| PgmFate {
                fate,
                host: host.clone(),
                messages: times.rtt.moments.count(),
                latency: summary(kind, &times.rtt),
                latency_intended: summary(kind, &times.intended),
                in_repair: summary(LatencyKind::OneWay, &times.cost),
            })
        });
        let fates = fates.collect();
        let mut steps = Vec::new();
        for (at, peer) in self.peers.iter().enumerate() {
            for (way, direction) in Leg::ALL.into_iter().zip(&peer.directions) {
                let back = way == Leg::Back;
                let of = |note: &&RepairNote| note.back == back && usize::from(note.reflector) == at;
                let mut parts: [Distribution; 3] = Default::default();
                for note in self.notes.iter().filter(of) {
                    let times = [note.nak_ns, note.nak_to_ncf(), note.ncf_to_data()];
                    let known = parts.iter_mut().zip(times).filter_map(|(part, ns)| Some((part, ns?)));
                    known.for_each(|(part, ns)| part.record(ns));
                }
                let [nak, ncf, data] = parts.each_ref().map(|part| summary(LatencyKind::OneWay, part));
                if direction.is_none() && nak.is_none() && data.is_none() {
                    continue;
                }
                let of_way = |pick: fn(&DirectionTimes) -> &Distribution| {
                    direction.as_deref().and_then(|direction| summary(LatencyKind::OneWay, pick(direction)))
                };
                steps.push(PgmSteps {
                    way,
                    host: host(at),
                    gap_to_nak: nak,
                    nak_to_ncf: ncf,
                    ncf_to_repair: data,
                    gap_to_repair: of_way(|direction| &direction.repair),
                    held: of_way(|direction| &direction.held),
                });
            }
        }
        RepairFigures { fates, steps }
    }
}

impl RepairNote {
    fn nak_to_ncf(&self) -> Option<u64> {
        self.ncf_ns?.checked_sub(self.nak_ns?)
    }

    fn ncf_to_data(&self) -> Option<u64> {
        self.data_ns.checked_sub(self.ncf_ns?)
    }
}

fn summary(kind: LatencyKind, one: &Distribution) -> Option<model::Latency> {
    (one.moments.count() > 0).then(|| one.summary(kind))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, message, run};
    use super::*;
    use crate::paced::{Paced, PacedConfig, PacedPeer};
    use model::Repaired;

    const MS: u64 = 1_000_000;

    fn with_repairs(peers: &[&str]) -> PacedConfig {
        let peers = peers.iter().map(|host| PacedPeer { host: (*host).to_owned(), ..PacedPeer::default() });
        PacedConfig { repairs: true, peers: peers.collect(), ..config() }
    }

    /// Message 10 was repaired on its way there after 5 ms, 11 and 12 waited behind it, 20 was repaired on its way back.
    fn samples(config: &PacedConfig) -> Vec<PacedSample> {
        (0..100)
            .map(|seq| {
                let (rtt, out, back) = match seq {
                    10 => (6 * MS, Repaired::new(5 * MS, 0), Repaired::default()),
                    11 => (5 * MS, Repaired::new(0, 4 * MS), Repaired::default()),
                    12 => (4 * MS, Repaired::new(0, 3 * MS), Repaired::default()),
                    20 => (9 * MS, Repaired::default(), Repaired::new(7 * MS, MS)),
                    _ => (MS / 10, Repaired::default(), Repaired::default()),
                };
                PacedSample { out, back, ..message(config, seq, 0, rtt) }
            })
            .collect()
    }

    #[test]
    fn loss_and_repair_are_kept_apart_from_the_rest() {
        let config = with_repairs(&["b"]);
        let mut paced = Paced::new(config.clone());
        paced.ingest(&samples(&config));
        paced.repair(RepairNote {
            seq: 10,
            nak_ns: Some(200),
            ncf_ns: Some(500),
            data_ns: 5 * MS,
            ..RepairNote::default()
        });
        paced.repair(RepairNote {
            seq: 20,
            back: true,
            nak_ns: None,
            ncf_ns: Some(900),
            data_ns: 7 * MS,
            ..RepairNote::default()
        });
        let recorded = paced.finish(None);
        let figures = recorded.pace.as_ref().unwrap().repairs.as_ref().unwrap();
        let counts: Vec<_> = figures.fates.iter().map(|fate| (fate.fate, fate.messages)).collect();
        assert_eq!(counts, [(Fate::Repaired, 2), (Fate::Held, 2), (Fate::Untouched, 96)]);
        let [repaired, held, untouched] = figures.fates.as_slice() else { panic!("{figures:?}") };
        let most = |latency: &Option<model::Latency>| latency.as_ref().and_then(|latency| latency.max_ns);
        assert_eq!(most(&repaired.latency), Some(9 * MS));
        assert_eq!(most(&repaired.in_repair), Some(8 * MS), "its own repair and what held it");
        assert_eq!(most(&held.latency), Some(5 * MS));
        assert_eq!(most(&untouched.latency), Some(MS / 10));
        assert_eq!(untouched.in_repair, None);
        let [out, back] = figures.steps.as_slice() else { panic!("{figures:?}") };
        assert_eq!((out.way, back.way), (Leg::Out, Leg::Back));
        assert_eq!((most(&out.gap_to_nak), most(&out.nak_to_ncf)), (Some(200), Some(300)));
        assert_eq!(most(&out.ncf_to_repair), Some(5 * MS - 500));
        assert_eq!((most(&out.gap_to_repair), most(&out.held)), (Some(5 * MS), Some(4 * MS)));
        assert_eq!((most(&back.gap_to_nak), most(&back.nak_to_ncf)), (None, None), "another one asked");
        assert_eq!(most(&back.ncf_to_repair), Some(7 * MS - 900));
        // Each message carries it.
        let parts = |seq: u64| &recorded.outliers.iter().find(|outlier| outlier.seq == seq).unwrap().parts_ns;
        let expected =
            [("gap-to-nak", 200), ("gap-to-repair", 5_000_000), ("nak-to-ncf", 300), ("ncf-to-repair", 4_999_500)];
        let expected: BTreeMap<String, i64> = expected.map(|(name, ns)| (format!("out-{name}"), ns)).into();
        assert_eq!(parts(10), &expected);
        assert_eq!(parts(11), &BTreeMap::from([("out-held".to_owned(), 4_000_000)]));
        assert_eq!(parts(20).get("back-held"), Some(&1_000_000));
        assert_eq!(parts(20).get("back-gap-to-repair"), Some(&7_000_000));
    }

    #[test]
    fn each_reflector_has_its_own() {
        let config = with_repairs(&["b", "c"]);
        let mut all = samples(&config);
        all.extend((0..100).map(|seq| PacedSample { reflector: 1, ..message(&config, seq, 0, MS / 10) }));
        let recorded = run(&config, all);
        let figures = recorded.pace.unwrap().repairs.unwrap();
        let by_message: Vec<_> = figures.fates.iter().map(|fate| (fate.host.as_deref(), fate.messages)).collect();
        let [b, c] = [Some("b"), Some("c")];
        assert_eq!(by_message, [(None, 2), (None, 2), (None, 196), (b, 2), (b, 2), (b, 96), (c, 0), (c, 0), (c, 100)]);
        assert!(figures.steps.iter().all(|step| step.host.as_deref() == b), "{:?}", figures.steps);
    }

    #[test]
    fn a_repair_is_no_stall_of_anybody() {
        let config = with_repairs(&["b"]);
        let slow = |out: Repaired| {
            let all = (0..100).map(|seq| match seq {
                50 => PacedSample { out, ..message(&config, seq, 0, 50 * MS) },
                _ => message(&config, seq, 0, MS / 10),
            });
            run(&config, all.collect()).slow
        };
        assert_eq!(slow(Repaired::new(50 * MS - 1000, 0)), []);
        assert_eq!(slow(Repaired::default()).len(), 1);
        // Beyond the repair it stood still all the same.
        assert_eq!(slow(Repaired::new(0, 10 * MS)), [(5 * MS, 40 * MS)]);
    }

    #[test]
    fn without_repairs_there_are_no_figures_of_them() {
        let config = config();
        assert!(run(&config, vec![message(&config, 0, 0, 1)]).pace.unwrap().repairs.is_none());
    }
}
