//! PGM as the transport: one source for all reflectors, one receiver for their sources; and what the protocol did in a pass.

use super::open::Remote;
use crate::document::PathInfo;
use crate::peer::{self, UnprovedPath};
use crate::session::OPENING;
use crate::{Context, ProbeError, check};
use clock::Clock;
use model::worker::{ProbeTask, Target};
use model::{Event, Finding, PgmCarrier, PgmEnd, PgmSpec, Role};
use pgm::{Gsi, Tsi};
use pgm_io::{Ends, EventKind, EventNote, PgmSocket, PgmSocketCounts, PgmSocketOptions};
use record::{Paced, RepairNote};
use std::time::Duration;
use wire::{FarRepair, PgmRequest, StopReport, Tier, data};

/// How long the transport is served between two transmissions of the token.
const SERVE: Duration = Duration::from_millis(10);
/// How long the end of the session is announced.
const CLOSE: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(crate) struct Group {
    pub way: PgmSocket,
    /// What all messages carry.
    pub tag: u64,
    pub spec: PgmSpec,
}

pub(super) struct PgmPass<'a> {
    /// The counts when it began.
    pub before: PgmSocketCounts,
    pub clock: Clock,
    /// Tick of the first intended send.
    pub begin: u64,
    /// Number of its first message on the wire, and how many there were.
    pub first_number: u64,
    pub sent: u64,
    pub remotes: &'a [Remote],
    pub reports: &'a [Option<StopReport>],
    /// Whether a reflector's ticks are of this end's clock.
    pub same_ticks: &'a [bool],
}

#[derive(Debug, Default)]
pub(super) struct PgmOutcome {
    pub ends: Vec<PgmEnd>,
    pub events: Vec<Event>,
    pub found: Vec<Finding>,
}

/// Opens a session with each target, then one transport for all, and proves it to each.
pub(super) fn open(
    task: &ProbeTask,
    targets: &[&Target],
    context: &Context,
    clock: Clock,
) -> Result<(Group, Vec<Remote>), ProbeError> {
    let spec = &task.spec;
    let socket = spec.socket()?;
    let Some(pgm) = &socket.pgm else {
        return check::conflict("pgm needs a group", "use pace pgm GROUP PEER");
    };
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(ProbeError::Random)?;
    let [a, b, c, d, e, f, high, low, tag @ ..] = random;
    let own = Tsi { gsi: Gsi([a, b, c, d, e, f]), port: u16::from_be_bytes([high, low]).max(1) };
    let tag = u64::from_ne_bytes(tag);
    let mut asked = Vec::with_capacity(targets.len());
    for target in targets {
        let mut request = peer::request(spec)?;
        if let Some(pace) = &mut request.pace {
            pace.pgm = Some(PgmRequest { source: own.into(), tag });
        }
        asked.push(peer::request_path(spec, target, context, request)?);
    }
    let mut sources = Vec::with_capacity(asked.len());
    for UnprovedPath { session, opened, .. } in &asked {
        sources.push(Tsi::from(opened.source.ok_or_else(|| session.out_of_order(OPENING))?));
    }
    let Some(control) = asked.first().and_then(|first| first.session.own_address()) else {
        return check::conflict("pgm needs a network", "name an endpoint's address");
    };
    let options = PgmSocketOptions::of(&Ends {
        spec: pgm,
        end: &spec.initiator,
        ttl: socket.ttl,
        local: spec.initiator.bind.unwrap_or(control.ip()).to_canonical(),
        interface: pgm.interface.as_deref(),
        publish: (own, pgm.group),
        subscribe: (pgm.reply_group(), sources.len()),
        clock,
    })?;
    let mut way = PgmSocket::open(&options)?;
    way.set_peers(&sources)?;
    let local = std::net::SocketAddr::new(way.local(), if pgm.carrier == PgmCarrier::Udp { pgm.udp_port } else { 0 });
    let mut remotes = Vec::with_capacity(asked.len());
    for UnprovedPath { mut session, opened, address, one_machine } in asked {
        let proof = data::prove(&opened.token);
        session.prove(socket.protocol, || {
            way.send(&proof)?;
            // A token that is lost is asked for again.
            Ok(way.drive(SERVE)?)
        })?;
        let path_info = PathInfo { one_machine, ..peer::path_info(context, Some(local), address) };
        remotes.push(Remote { session, path_info, _child: None });
    }
    Ok((Group { way, tag, spec: pgm.clone() }, remotes))
}

impl Group {
    pub(super) fn begin(&mut self) -> PgmSocketCounts {
        self.way.clear_log();
        self.way.counts()
    }

    /// Datagrams that the kernel dropped so far for want of room.
    pub(super) fn dropped(&self) -> u64 {
        self.way.counts().overflowed
    }

    /// Announces the end of the own source.
    pub(super) fn close(mut self) {
        // A peer that has ended needs no announcement.
        let _ = self.way.close(CLOSE);
    }

    /// Gives the repairs to the recorder and returns the rest.
    pub(super) fn finish(&self, pass: &PgmPass<'_>, paced: &mut Paced) -> PgmOutcome {
        let (repairs_dropped, events_dropped) = self.way.unlogged();
        let mut counts = self.way.counts().since(&pass.before);
        counts.unlogged += repairs_dropped + events_dropped;
        let mut outcome = PgmOutcome::default();
        let there = pass.reports.iter().map(|report| Some(report.as_ref()?.pgm.as_ref()?.counts.naks_received));
        let naks_heard = there.sum::<Option<u64>>();
        outcome.ends.push(PgmEnd { host: Role::Initiator.to_string(), counts, naks_heard });
        for note in self.way.repairs() {
            let seq = data::read(Tier::Tagged, self.tag, &note.head).and_then(|number| pass.seq(number));
            if let (Some(repair), Some(seq)) = (note.repair, seq) {
                paced.repair(repair_note(note.from, true, seq, FarRepair::new(seq, &repair, 0)));
            }
        }
        let several = pass.remotes.len() > 1;
        let begin_ns = pass.clock.ns(pass.begin);
        let notes = self.way.events();
        let host = |at: usize| pass.remotes.get(at).filter(|_| several).map(|remote| remote.session.host.clone());
        outcome.events.extend(notes.iter().filter_map(|note| note.event(begin_ns, host(note.from.into()))));
        let heard = if events_dropped == 0 { naks_by_reflector(&notes, pass.remotes.len()) } else { None };
        for (at, (remote, report)) in pass.remotes.iter().zip(pass.reports).enumerate() {
            let reflector = u16::try_from(at).unwrap_or(u16::MAX);
            let naks_heard = heard.as_ref().and_then(|heard| heard.get(at).copied());
            let mut end = PgmEnd { host: remote.session.host.clone(), naks_heard, ..PgmEnd::default() };
            if let Some(there) = report.as_ref().and_then(|report| report.pgm.as_ref()) {
                end.counts = there.counts;
                for repair in &there.repairs {
                    if let Some(seq) = pass.seq(repair.number) {
                        paced.repair(repair_note(reflector, false, seq, *repair));
                    }
                }
                let same = pass.same_ticks.get(at).copied().unwrap_or(false);
                let ns = |tick: u64| tick.checked_sub(pass.begin).filter(|_| same).map(|ticks| pass.clock.ns(ticks));
                outcome.events.extend(there.lost(Some(end.host.clone()), ns));
            }
            outcome.ends.push(end);
        }
        outcome.events.sort_by_key(|event| event.at_ns);
        let several = outcome.ends.len() > 2;
        outcome.found.extend(outcome.ends.iter().filter_map(|end| record::lost_for_good(&self.spec, end, several)));
        outcome
    }
}

impl PgmPass<'_> {
    /// The message of a number on the wire, when it is one of this pass.
    fn seq(&self, number: u64) -> Option<u64> {
        number.checked_sub(self.first_number).filter(|seq| *seq < self.sent)
    }
}

fn repair_note(reflector: u16, back: bool, seq: u64, repair: FarRepair) -> RepairNote {
    let FarRepair { nak_ns, ncf_ns, data_ns, .. } = repair;
    RepairNote { reflector, back, seq, nak_ns, ncf_ns, data_ns }
}

/// The NAKs that came from each reflector; nothing where it is not known of all of them.
fn naks_by_reflector(notes: &[EventNote], reflectors: usize) -> Option<Vec<u64>> {
    let mut heard = vec![0; reflectors];
    for note in notes.iter().filter(|note| matches!(note.what, EventKind::NakReceived { .. })) {
        *heard.get_mut(usize::from(note.from))? += 1;
    }
    Some(heard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgm::Sqn;
    use pgm_io::Numbers;

    #[test]
    fn naks_are_counted_by_reflector_unless_one_of_them_is_nobodys() {
        let note = |from, what| EventNote { at_ns: 1, from, what };
        let nak = EventKind::NakReceived(Numbers { first: Sqn(4), count: 2, parity: false });
        let mut notes = vec![note(1, nak), note(0, nak), note(1, nak)];
        // What the initiator itself did is no NAK of a reflector.
        notes.push(note(0, EventKind::NakSent(Numbers { first: Sqn(4), count: 2, parity: false })));
        notes.push(note(u16::MAX, EventKind::NcfSent(Numbers { first: Sqn(4), count: 2, parity: false })));
        assert_eq!(naks_by_reflector(&notes, 3), Some(vec![1, 2, 0]));
        notes.push(note(u16::MAX, nak));
        assert_eq!(naks_by_reflector(&notes, 3), None);
    }
}
