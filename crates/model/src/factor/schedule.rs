//! Factors of the schedule of `pace`, and the two that are swept: rate and size.

use super::Record::{Always, Changed};
use super::flag::{DATA, ENDS, MESSAGES, SCHEDULE, TOP};
use super::{NAMED, Shown, Value, long, on, parsed, some, whole, word};
use crate::Probe::{Cycle, Pace, Ping, Pingpong, Rr, Stream};
use crate::{ModelError, PaceSpec, Probe, ProbeOptions, ProbeSpec, Protocol, RateList, SizeList, SocketSpec};

/// The commands with single messages.
const MESSAGES_SENT: &[Probe] = &[Pingpong, Rr, Pace];
/// Those that send when the clock says so.
const TIMED_BY_CLOCK: &[Probe] = &[Pace, Cycle];

fn random_delay(pace: &mut PaceSpec, value: &Value) -> Result<(), ModelError> {
    pace.random_delay_percent = Some(whole(value)?).filter(|percent| *percent > 0);
    Ok(())
}

fn pacer(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    match &mut spec.options {
        ProbeOptions::Pace { pace } => pace.pacer = parsed(value)?,
        ProbeOptions::Cycle { cycle } => cycle.pacer = parsed(value)?,
        _ => {}
    }
    Ok(())
}

fn receive_cpu(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    let cpu = Some(whole(value)?);
    match &mut spec.options {
        ProbeOptions::Pace { pace } => pace.receive_cpu = cpu,
        ProbeOptions::Cycle { cycle } => cycle.receive_cpu = cpu,
        _ => {}
    }
    Ok(())
}

fn back_off(socket: &mut SocketSpec, value: &Value) -> Result<(), ModelError> {
    if let Some(pgm) = &mut socket.pgm {
        pgm.back_off_us = whole(value)?;
    }
    Ok(())
}

fn sizes(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    spec.sizes = match value {
        Value::String(text) if text == "default" => SizeList::default_for(spec.protocol()),
        Value::String(text) => text.parse()?,
        value => SizeList::one(whole(value)?),
    };
    Ok(())
}

fn rates(pace: &mut PaceSpec, value: &Value) -> Result<(), ModelError> {
    pace.rates_pps = match value {
        Value::Number(rate) => vec![rate.as_f64().unwrap_or_default()],
        value => word(value).parse::<RateList>()?.rates().to_vec(),
    };
    Ok(())
}

factors! { FACTORS =
    "shape" Text Pace(shape = parsed), default("even"), record(Changed),
        about("How the intended times of pace lie: `even`, `poisson` or `burst:N`.");
        flag "shape" <SHAPE> on [Pace] SCHEDULE "Shape of the schedule at that rate: even, poisson, burst:N (N at once, then a pause)",
            default("even"), conflicts(&["schedule"]);
    "pacer" Text Timing(pacer), default("sleep"), record(Always), of(TIMED_BY_CLOCK),
        about("What the sender of pace or cycle does until a message is due: `sleep`, `hybrid` or `spin`.");
        flag "pacer" <PACER> on TIMED_BY_CLOCK SCHEDULE
            "What the sender does until a message is due: sleep, hybrid (sleep until shortly before, then spin), spin",
            default("sleep"), aliases(&["wait"]);
    "deadline_us" Whole Cycle(deadline_us = some(whole)), record(Changed),
        about("By when the echo of a cycle must have arrived after it was due, in µs (default: a period).");
        flag "deadline-us" <US> on [Cycle] SCHEDULE
            "By when the echo must have arrived after its cycle was due, in µs [default: the interval]", aliases(&["deadline"]), daily();
    "every" Whole Pace(every = whole), default("1"), record(Changed),
        about("The reflectors of pace answer message 0 and every Nth after it.");
        flag "every" <N> on [Pace] SCHEDULE "The far end answers message 0 and every Nth after it; the others are one-way traffic",
            default("1"), aliases(&["reply-every"]);
    "stamps" Text Pace(stamps = parsed), default("none"), record(Changed),
        about("Time stamps of pace beside the application's: `none`, `kernel`, `hardware`, `hardware-sent` or `auto`.");
        flag "stamps" <WHERE> on [Pace] SCHEDULE
            "Time stamps beside the application's: none, kernel (driver and stack), hardware (NIC), hardware-sent (NIC sends, \
             stack receives), auto (the best each end has)", default("none");
    // Not where it differs from the default: keys of cells in older runs are without it, and their campaigns can be resumed.
    "shape_seed" Long Pace(seed = long), default("1"), about("Seed of `shape = \"poisson\"` and of `random_delay_percent`.");
        flag "seed" <N> on [Pace] SCHEDULE "Seed of --shape poisson and of --random-delay", default("1");
    "random_delay_percent" Whole Pace(random_delay), default("0"), record(Changed), shown(Shown { title: "random delay (%)", ..NAMED });
        flag "random-delay" <PERCENT> on [Pace] SCHEDULE
            "Delay each message by a random time: 0 to PERCENT % of the distance to the next message (for bursts: each burst), so \
             that an even schedule does not keep step with timers and cycles of the same period", default("0"),
            conflicts(&["schedule"]);
    "sender_measured" Switch Pace(sender_measured = on), default("false"),
        about("The sending application of pace is what is measured: its lateness is part of the figures and does not invalidate them.");
        flag "sender-measured" = "true" on [Pace] SCHEDULE
            "The sending application is what is measured: its lateness is part of the figures from the intended send, and does \
             not invalidate them";
    "back_off_us" Whole Socket(back_off), of(&[Pace]), over(&[Protocol::Pgm]),
        about("Longest random wait before the first NAK of PGM in µs, as in `[measure.pgm]`: it decides how fast a loss is repaired.");
    "receive_cpu" Whole Timing(receive_cpu), record(Changed), of(TIMED_BY_CLOCK),
        about("CPU of the receiving thread of pace or cycle (default: the sender's)."), shown(Shown { title: "receive CPU", ..NAMED });
        flag "receive-cpu" <N> on TIMED_BY_CLOCK ENDS "CPU of the receiving thread [default: that of --cpu]";
}

// These vary fastest.
factors! { SWEPT =
    "size" Sizes Spec(sizes), record(Always), applies_to(Probe::WITH_PEER),
        about("Message size in bytes; a text is a size list, such as `\"1-8,64-1024x2\"`, or `\"default\"` for the protocol's own \
             (default 32, for `stream` 1472 over udp and 131072 over tcp).");
        flag "size" <LIST> on [Pingpong, Rr, Pace] MESSAGES
            "Message sizes in bytes: 32 or 1-8,64-1024+64,1-65536x2; `default` for the protocol's own list [default: 32, over pgm \
             64]", aliases(&["sizes", "msgsize"]), daily();
        flag "size" <LIST> on [Cycle] MESSAGES "Data bytes of a cycle, behind a header of 64 bytes: 1 to 1384", default("32"), daily();
        flag "size" <BYTES> on [Ping] TOP "Data bytes after the ICMP header", short(&['s']), default("56"), daily();
        flag "size" <BYTES> on [Stream] DATA
            "Bytes of a datagram, or of a write: a number or a list, measured one after the other [default: udp what a frame of \
             the route carries, at most 1472; tcp 131072]", daily();
    "rate" Rates Pace(rates), default("10000"), record(Always),
        about("Rate of `pace` in messages a second, a number or a rate list (`\"20k\"`, `\"10k-40k+10k\"`).");
        flag "rate" <LIST> on [Pace] SCHEDULE "Messages a second: 10000, 10k,20k, 10k-50k+10k or 1k-64kx2, measured one after the other",
            default("10k"), conflicts(&["schedule"]), aliases(&["rates", "mps"]), daily();
    "min_size" Whole Spec(|spec, value| spec.sizes = spec.sizes.clone().within(whole(value)?, u32::MAX)), of(MESSAGES_SENT);
        flag "min-size" <BYTES> on MESSAGES_SENT MESSAGES "Leave out sizes below this", aliases(&["minmsg"]);
    "max_size" Whole Spec(|spec, value| spec.sizes = spec.sizes.clone().within(0, whole(value)?)), of(MESSAGES_SENT);
        flag "max-size" <BYTES> on MESSAGES_SENT MESSAGES "Leave out sizes above this", aliases(&["maxmsg"]);
}
