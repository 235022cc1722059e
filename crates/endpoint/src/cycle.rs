//! A session's reflector for cycles: echoes the frames of the topic that the client publishes, by the loops of `exchange-io`.
//!
//! Nothing is sent before the session's token came to the data port, and then to the address that showed it alone, no more frames
//! than arrive from it and no faster than the owner allows.

use crate::reflect::{MessageCounts, SizeOutcome};
use crate::reflector::{
    Client, DataSource, Failure, ReflectorConfig, ReflectorEvent, STACK_TOUCHED, SessionLink, StartCommand, failed,
    place_thread, summary,
};
use exchange_io::{Echo, EchoedTopic, Inlet};
use flow::PassObserver as _;
use net::PathError;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use task::Interrupter;
use wire::data::read_prove;
use wire::{RateBudget, RefuseCode};

/// Turns of the loop between two looks at the CPU that the thread is on.
const BATCH: u32 = 1024;

/// Opens the data port, has the client's proved, and echoes one size.
pub(crate) fn run(plan: ReflectorConfig, orders: &Receiver<StartCommand>, link: &SessionLink) -> Result<(), Failure> {
    let longest = plan.longest();
    let ReflectorConfig { request, source, token, clock, limits, notes } = plan;
    let bad = |what: &str| (RefuseCode::BadRequest, format!("cycle needs {what}"));
    let asked = request.cycle.ok_or_else(|| bad("its period"))?;
    let DataSource::Network { local, peer, anywhere } = source else { return Err(bad("a network")) };
    let client = Client { address: peer, anywhere };
    link.halt.attach(Interrupter::for_current_thread().map_err(failed)?);
    let bind = request.end.bind.filter(|bind| !bind.is_unspecified());
    let local = bind.unwrap_or(local.ip()).to_canonical();
    let mut inlet = Inlet::open(request.socket.protocol, local, &request.end).map_err(failed)?;
    place_thread(&request, longest)?;
    link.opened(&token, inlet.local().port(), bind, Default::default());
    let shows = |bytes: &[u8], from| read_prove(bytes).as_ref() == Some(&token) && client.may_use(from);
    let proved = link.until_proved(|| inlet.look(shows).map_err(failed))?;
    let Some(from) = proved else { return Ok(()) };
    let to = SocketAddr::new(from, asked.port);
    link.report(ReflectorEvent::Proved(Some(to)));
    task::prefault_stack(STACK_TOUCHED);
    let Ok(StartCommand { size, explain, .. }) = orders.recv() else { return Ok(()) };
    let topic = EchoedTopic { bytes: size, period_us: asked.period_us, deadline_us: asked.deadline_us };
    let mut echo = inlet.echo(topic, to).map_err(failed)?;
    let mut budget = RateBudget::new(clock.rate(), limits.max_rate_pps);
    let mut observers = flow::far_observers(explain.then_some((&limits, &request.end)));
    let around = link.around(&request.end, (size, None), &mut observers);
    let outcome = around.run(&mut |counts, between| {
        echo_until(link.halt.flag(), &mut echo, || budget.allows(clock.now()), counts, between)
    });
    let ignored = echo.ignored();
    let counts = MessageCounts { ignored, ..outcome.counts };
    let mut report = summary(SizeOutcome { counts, ..outcome }, &notes, clock);
    report.counters.socket_overflow += echo.overflowed();
    observers.judge(&mut report, &[]);
    link.report(ReflectorEvent::Stopped(Box::new(report)));
    match orders.recv() {
        Ok(_) => Err(bad("a session for each size")),
        Err(_) => Ok(()),
    }
}

fn echo_until(
    stop: &AtomicBool,
    echo: &mut Echo,
    mut allows: impl FnMut() -> bool,
    counts: &mut MessageCounts,
    between: &mut dyn FnMut(),
) -> Result<(), PathError> {
    let mut turns = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        let [arrived, echoed] = echo.turn(&mut allows)?;
        counts.received += arrived;
        counts.sent += echoed;
        counts.over_rate += arrived - echoed;
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(BATCH) {
            between();
        }
    }
    Ok(())
}
