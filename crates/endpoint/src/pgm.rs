//! A session's reflector over PGM: hears the initiator's source on its group, and re-publishes what carries the session's tag
//! on the reply group, as a source of its own.
//!
//! Nothing is published before the session's token came from that source; packets of others and messages without the tag are
//! counted as ignored. Between two sizes the source is driven all the same, so that it stays heard and repairs.

use crate::pace::{self, AnswerLoop, TxStampFeedback};
use crate::reflect::wanted_tag;
use crate::reflector::{
    DataSource, Failure, ReflectorConfig, ReflectorEvent, STACK_TOUCHED, SessionLink, StartCommand, failed,
    place_thread, summary,
};
use clock::Clock;
use flow::PassObserver as _;
use net::NetError;
use pgm::receiver::SessionEvent;
use pgm::{Gsi, Tsi};
use pgm_io::{Ends, EventKind, Incoming, PgmIoError, PgmSocket, PgmSocketCounts, PgmSocketOptions, RepairNote};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use wire::data::{PROVE_BYTES, read_prove};
use wire::{FarRepair, PgmFarEnd, RateBudget, RefuseCode, Tier, Token, data};

/// Between two looks for an order, while the source is driven.
const LOOK: Duration = Duration::from_millis(2);
/// How long the end of the session is announced and repaired.
const CLOSE: Duration = Duration::from_millis(300);

/// Opens the transport, has it proved, and reflects one size after the other.
pub(crate) fn run(plan: ReflectorConfig, orders: &Receiver<StartCommand>, link: &SessionLink) -> Result<(), Failure> {
    let longest = plan.longest();
    let ReflectorConfig { request, source, token, clock, limits, notes } = plan;
    let (Some(spec), Some(asked)) = (&request.socket.pgm, &request.pace) else { return Err(needs("its groups")) };
    let Some(peer) = asked.pgm else { return Err(needs("the initiator's source")) };
    let DataSource::Network { local, .. } = source else { return Err(needs("a network")) };
    let own = tsi()?;
    let options = PgmSocketOptions::of(&Ends {
        spec,
        end: &request.end,
        ttl: request.socket.ttl,
        local: request.end.bind.unwrap_or(local.ip()).to_canonical(),
        // The initiator's interface has no meaning here.
        interface: None,
        publish: (own, spec.reply_group()),
        subscribe: (spec.group, 1),
        clock,
    });
    let mut way = options.and_then(|options| open(&options, link)).map_err(|error| unsupported(&error))?;
    way.set_peers(&[peer.source.into()]).map_err(failed)?;
    place_thread(&request, longest)?;
    let address = Some(way.local());
    let port = if spec.carrier == model::PgmCarrier::Udp { spec.udp_port } else { 0 };
    link.opened(&token, port, address, (Vec::new(), Some(own.into())));
    let bytes = usize::try_from(request.max_size).map_err(failed)?.max(PROVE_BYTES);
    // Filled with another value than zero, so that each page is really there.
    let mut buffer = vec![0x5a; bytes];
    if !prove(&mut way, &token, &mut buffer, link)? {
        return Ok(());
    }
    link.report(ReflectorEvent::Proved(address.map(|address| SocketAddr::new(address, port))));
    task::prefault_stack(STACK_TOUCHED);
    while let Some(StartCommand { size, explain, .. }) = next(orders, &mut way)? {
        let mut observers = flow::far_observers(explain.then_some((&limits, &request.end)));
        let options = link.path_options(&request.end, clock);
        way.clear_log();
        let before = way.counts();
        let loop_ = AnswerLoop {
            shape: pace::LoopShape {
                size: usize::try_from(size).map_err(failed)?,
                every: u64::from(asked.every),
                wall: false,
                counts_losses: true,
                tag: wanted_tag(usize::try_from(size).map_err(failed)?, peer.tag),
                repairs: true,
            },
            clock,
            budget: RateBudget::new(clock.rate(), limits.max_rate_pps),
            stamp_feedback: TxStampFeedback::new(None),
            buffer: &mut buffer,
            around: link.around(&request.end, (size, None), &mut observers),
        };
        let outcome = way.with_duplex(&options, loop_).map_err(failed)?;
        let after = way.counts();
        let mut report = summary(outcome, &notes, clock);
        report.counters.socket_overflow += after.overflowed.saturating_sub(before.overflowed);
        observers.judge(&mut report, &[]);
        report.pgm = Some(far_end(&way, (&before, &after), clock, peer.tag));
        link.report(ReflectorEvent::Stopped(Box::new(report)));
        if link.halt.is_over() {
            break;
        }
    }
    // A receiver that has ended needs no announcement.
    let _ = way.close(CLOSE);
    Ok(())
}

/// The session before this one may still be closing its source at the same address.
fn open(options: &PgmSocketOptions, link: &SessionLink) -> Result<PgmSocket, PgmIoError> {
    let begin = Instant::now();
    loop {
        match PgmSocket::open(options) {
            Err(PgmIoError::AddressInUse { .. }) if begin.elapsed() < 2 * CLOSE && !link.halt.is_over() => {
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
}

fn needs(what: &str) -> Failure {
    (RefuseCode::BadRequest, format!("pgm needs {what}"))
}

fn unsupported(error: &PgmIoError) -> Failure {
    (RefuseCode::Unsupported, error.to_string())
}

fn tsi() -> Result<Tsi, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(failed)?;
    let [a, b, c, d, e, f, high, low] = bytes;
    Ok(Tsi { gsi: Gsi([a, b, c, d, e, f]), port: u16::from_be_bytes([high, low]).max(1) })
}

/// The next order. The source is driven meanwhile; `None` when the session is over.
fn next(orders: &Receiver<StartCommand>, way: &mut PgmSocket) -> Result<Option<StartCommand>, Failure> {
    loop {
        match orders.try_recv() {
            Ok(order) => return Ok(Some(order)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => match way.drive(LOOK) {
                // Somebody closed a port; that is no end.
                Err(PgmIoError::Net(NetError::Exchange { .. })) | Ok(()) => {}
                Err(error) => return Err(failed(error)),
            },
        }
    }
}

/// Waits for the token as a message of the initiator's source; `false` when the session ended meanwhile.
fn prove(way: &mut PgmSocket, token: &Token, buffer: &mut [u8], link: &SessionLink) -> Result<bool, Failure> {
    let shown = link.until_proved(|| {
        // A group whose messages cannot reach us looks as silent as one whose messages are lost.
        let Incoming::Message(message) = way.receive(buffer, Duration::from_millis(50)).map_err(failed)? else {
            return Ok(None);
        };
        Ok((buffer.get(..message.bytes).and_then(read_prove).as_ref() == Some(token)).then_some(()))
    })?;
    Ok(shown.is_some())
}

fn far_end(
    way: &PgmSocket,
    (before, after): (&PgmSocketCounts, &PgmSocketCounts),
    clock: Clock,
    tag: u64,
) -> PgmFarEnd {
    let mut counts = after.since(before);
    let (repairs_dropped, events_dropped) = way.unlogged();
    counts.unlogged += repairs_dropped + events_dropped;
    let repaired: Vec<FarRepair> = way.repairs().iter().filter_map(|note| repair(note, clock, tag)).collect();
    let lost = |note: &pgm_io::EventNote| match note.what {
        EventKind::Session(SessionEvent::Lost { count, .. }) => Some((clock.ticks(note.at_ns), count)),
        _ => None,
    };
    PgmFarEnd::new(counts, &repaired, way.events().iter().filter_map(lost))
}

fn repair(note: &RepairNote, clock: Clock, tag: u64) -> Option<FarRepair> {
    let repair = note.repair?;
    let number = data::read(Tier::Tagged, tag, &note.head)?;
    Some(FarRepair::new(number, &repair, clock.ticks(repair.gap_ns)))
}
