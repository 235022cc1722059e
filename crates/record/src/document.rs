//! The result document of one measured pass: put together from what its ends left, and judged.

use crate::{EndEvidence, Evidence, PathFacts, Program, Recorded};
use model::factor::Value;
use model::result::{EndReport, SelfCost};
use model::worker::Measured;
use model::{
    ClockMap, Finding, FindingId, Messages, Participants, ProbeSpec, ResultDocument, Role, Source, TickRate, source,
};
use std::collections::BTreeMap;

/// Everything known of one measured pass: a size, or a rate of a size.
#[derive(Debug)]
pub struct Pass<'a> {
    pub spec: &'a ProbeSpec,
    /// Whose flags remedies name.
    pub program: Program,
    pub size: u32,
    /// Mean rate in messages a second, of an open loop.
    pub rate_pps: Option<f64>,
    /// What else results are told apart by; `protocol`, `size`, `rate`, `peer` and `source` are added.
    pub factors: BTreeMap<String, Value>,
    pub initiator: EndReport,
    pub others: Vec<FarEnd>,
    /// Whether the kernel delivers to the peer's address locally.
    pub is_local: bool,
    /// Whether nobody claims that there is a network between the ends.
    pub loopback_intended: bool,
    /// The initiator's clocks; absent where nothing watched them.
    pub clock: Option<ClockMap>,
    /// Of the ticks that raw samples are in.
    pub tick_rate: TickRate,
    pub self_cost: SelfCost,
    pub found: Vec<Finding>,
    pub vanished: Option<String>,
    pub interrupted: bool,
    pub messages: Messages,
    pub recorded: Option<Recorded>,
    /// As in [`Evidence::interval_percent`].
    pub interval_percent: Option<f64>,
    /// Who measured, if that was another program.
    pub source: Option<Source>,
}

/// A participant that sends messages back, or takes them.
#[derive(Debug, Default)]
pub struct FarEnd {
    /// What findings call it, where several have its role.
    pub name: Option<String>,
    pub one_machine: bool,
    /// Whether it has reported: a kernel does not, nor one that vanished.
    pub has_reported: bool,
    /// What it reported, or its address alone.
    pub end: EndReport,
    /// Its own findings.
    pub notes: Vec<Finding>,
    /// Messages that it received.
    pub received: u64,
    /// Messages not answered because they came faster than its owner's limit.
    pub over_rate: u64,
}

impl FarEnd {
    fn named(&self) -> &str {
        self.name.as_deref().unwrap_or(Role::Reflector.word())
    }
}

/// Puts the document together and judges it.
pub fn assemble(mut pass: Pass<'_>) -> Measured {
    for other in &pass.others {
        let of_other = |note: &Finding| Finding { end: Some(other.named().to_owned()), ..note.clone() };
        pass.found.extend(other.notes.iter().map(of_other));
        pass.found.extend(over_rate(&pass, other));
    }
    let verdict = judge(&pass);
    let factors = factors(&pass);
    let spec = pass.spec;
    let others = pass.others.into_iter().map(|other| {
        let mut end = other.end;
        if !spec.probe().is_bulk() {
            end.usage.transactions = Some(other.received / u64::from(spec.pings.max(1))).filter(|rounds| *rounds > 0);
        }
        end
    });
    let result = ResultDocument {
        format: model::FORMAT,
        probe: spec.probe(),
        factors,
        ends: Participants::new(pass.initiator, others),
        messages: pass.messages,
        self_cost: pass.self_cost,
        // The clock of another program is its own.
        clock: pass.clock.filter(|_| pass.source.is_none()),
        source: pass.source,
        interrupted: pass.interrupted,
        verdict,
        ..ResultDocument::default()
    };
    let mut measured = Measured::new(result);
    if let Some(recorded) = pass.recorded {
        recorded.fill(&mut measured, spec, pass.tick_rate);
    }
    measured
}

fn judge(pass: &Pass<'_>) -> model::Verdict {
    let address = pass.others.first().and_then(|other| other.end.address.as_deref());
    let reported = pass.others.iter().filter(|other| other.has_reported);
    let far = |other| EndEvidence::of(Role::Reflector, FarEnd::named(other), other.one_machine, &other.end);
    crate::verdict(&Evidence {
        spec: pass.spec,
        program: pass.program,
        initiator: EndEvidence::of(Role::Initiator, Role::Initiator.word(), true, &pass.initiator),
        reflectors: reported.map(far).collect(),
        clock: pass.clock.as_ref(),
        messages: &pass.messages,
        recorded: pass.recorded.as_ref(),
        path: PathFacts {
            is_local: pass.is_local,
            loopback_intended: pass.loopback_intended,
            peer: address.unwrap_or("this machine"),
        },
        found: &pass.found,
        interval_percent: pass.interval_percent,
        peer_vanished: pass.vanished.as_deref(),
        interrupted: pass.interrupted,
        load: None,
    })
}

/// What follows from the pass wins over what is said of it.
fn factors(pass: &Pass<'_>) -> BTreeMap<String, Value> {
    let spec = pass.spec;
    let own = [
        ("protocol", Some(model::Protocol::word_of(spec.protocol()).into())),
        ("size", spec.probe().has_peer().then(|| pass.size.into())),
        ("peer", (!spec.peer.is_own()).then(|| spec.peer.word().into())),
        ("rate", pass.rate_pps.map(model::schedule::rate_value)),
        (source::FACTOR, pass.source.as_ref().map(|source| source.factor().into())),
    ];
    let mut factors = pass.factors.clone();
    factors.extend(own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    factors
}

/// The endpoint's owner limits the rate: datagrams above it are not answered, streams are read later.
fn over_rate(pass: &Pass<'_>, other: &FarEnd) -> Option<Finding> {
    let count = other.over_rate;
    let detail = if pass.spec.counts_losses() {
        format!("{count} messages came faster than the endpoint's owner allows and were not answered")
    } else {
        format!("the endpoint's owner limits the rate, and {count} times it waited before it read on")
    };
    let remedy = crate::verdict::remedy::OVER_RATE.of(pass.program);
    (count > 0).then(|| Finding::at(FindingId::Loss, other.named(), format!("{detail}: {remedy}")))
}
