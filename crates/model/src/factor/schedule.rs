//! Factors of the schedule of `pace`, and the two that are swept: rate and size.

use super::flag::{ENDS, Flag, MESSAGES, SCHEDULE};
use super::{Factor, NAMED, Record, Sets, Shown, Value, ValueType, long, on, parsed, sets, some, whole, word};
use crate::Probe::{Pace, Ping, Pingpong, Rr, Stream};
use crate::{ModelError, Probe, ProbeSpec, Protocol, RateList, SizeList};

const fn schedule(long: &'static str, value_name: &'static str, help: &'static str) -> Flag {
    Flag::value(long, &[Pace], value_name, help).heading(SCHEDULE)
}

pub(super) static FACTORS: [Factor; 9] = [
    Factor::new("shape", ValueType::Text, sets!(Pace, shape = parsed))
    .about("How the intended times of pace lie: `even`, `poisson` or `burst:N`.")
    .default("even")
    .record(Record::Changed)
    .flags(&[schedule("shape", "SHAPE", "Shape of the schedule at that rate: even, poisson, burst:N (N at once, then a pause)")
        .default("even")
        .conflicts(&["schedule"])]),
    Factor::new("pacer", ValueType::Text, sets!(Pace, pacer = parsed))
    .about("What the sender of pace does until a message is due: `sleep`, `hybrid` or `spin`.")
    .default("sleep")
    .record(Record::Always)
    .flags(&[schedule(
        "pacer",
        "PACER",
        "What the sender does until a message is due: sleep, hybrid (sleep until shortly before, then spin), spin",
    )
    .default("sleep")]),
    Factor::new("every", ValueType::Whole, sets!(Pace, every = whole))
    .about("The reflectors of pace answer message 0 and every Nth after it.")
    .default("1")
    .record(Record::Changed)
    .flags(&[schedule(
        "every",
        "N",
        "The far end answers message 0 and every Nth after it; the others are one-way traffic",
    )
    .default("1")
    .aliases(&["reply-every"])]),
    Factor::new("stamps", ValueType::Text, sets!(Pace, stamps = parsed))
    .about("Time stamps of pace beside the application's: `none`, `kernel`, `hardware`, `hardware-sent` or `auto`.")
    .default("none")
    .record(Record::Changed)
    .flags(&[schedule(
        "stamps",
        "WHERE",
        "Time stamps beside the application's: none, kernel (driver and stack), hardware (NIC), hardware-sent (NIC sends, stack receives), auto (the best each end has)",
    )
    .default("none")]),
    Factor::new("shape_seed", ValueType::Long, sets!(Pace, seed = long))
    .about("Seed of `shape = \"poisson\"` and of `random_delay_percent`.")
    .default("1")
    // Not where it differs from the default: keys of cells in older runs are without it, and their campaigns can be resumed.
    .flags(&[schedule("seed", "N", "Seed of --shape poisson and of --random-delay").default("1")]),
    Factor::new(
        "random_delay_percent",
        ValueType::Whole,
        Sets::Pace(|pace, value| {
            pace.random_delay_percent = Some(whole(value)?).filter(|percent| *percent > 0);
            Ok(())
        }),
    )
    .default("0")
    .record(Record::Changed)
    .shown(Shown { title: "random delay (%)", ..NAMED })
    .flags(&[schedule(
        "random-delay",
        "PERCENT",
        "Delay each message by a random time: 0 to PERCENT % of the distance to the next message (for bursts: each burst), so \
         that an even schedule does not keep step with timers and cycles of the same period",
    )
    .default("0")
    .conflicts(&["schedule"])]),
    Factor::new("sender_measured", ValueType::Switch, sets!(Pace, sender_measured = on))
    .about("The sending application of pace is what is measured: its lateness is part of the figures and does not invalidate them.")
    .default("false")
    .flags(&[Flag::switch(
        "sender-measured",
        &[Pace],
        "true",
        "The sending application is what is measured: its lateness is part of the figures from the intended send, and does \
         not invalidate them",
    )
    .heading(SCHEDULE)]),
    Factor::new(
        "back_off_us",
        ValueType::Whole,
        Sets::Socket(|socket, value| {
            if let Some(pgm) = &mut socket.pgm {
                pgm.back_off_us = whole(value)?;
            }
            Ok(())
        }),
    )
    .about("Longest random wait before the first NAK of PGM in µs, as in `[measure.pgm]`: it decides how fast a loss is repaired.")
    .of(&[Pace])
    .over(&[Protocol::Pgm]),
    Factor::new("receive_cpu", ValueType::Whole, sets!(Pace, receive_cpu = some(whole)))
    .about("CPU of the receiving thread of pace (default: the sender's).")
    .record(Record::Changed)
    .shown(Shown { title: "receive CPU", ..NAMED })
    .flags(&[Flag::value("receive-cpu", &[Pace], "N", "CPU of the receiving thread [default: that of --cpu]").heading(ENDS)]),
];

/// The commands with single messages.
const MESSAGES_SENT: &[Probe] = &[Pingpong, Rr, Pace];

/// One size, or a size list.
fn sizes(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    spec.sizes = match value {
        Value::String(text) if text == "default" => SizeList::default_for(spec.protocol()),
        Value::String(text) => text.parse()?,
        value => SizeList::one(whole(value)?),
    };
    Ok(())
}

/// These vary fastest.
pub(super) static SWEPT: [Factor; 4] = [
    Factor::new("size", ValueType::Sizes, Sets::Spec(sizes))
        .about(
            "Message size in bytes; a text is a size list, such as `\"1-8,64-1024x2\"`, or `\"default\"` for the protocol's \
             own (default 32, for `stream` 1472 over udp and 131072 over tcp).",
        )
        .record(Record::Always)
        .of_messages()
        .flags(&[
            Flag::value(
                "size",
                &[Pingpong, Rr, Pace],
                "LIST",
                "Message sizes in bytes: 32 or 1-8,64-1024+64,1-65536x2; `default` for the protocol's own list [default: \
                 32, over pgm 64]",
            )
            .aliases(&["sizes", "msgsize"])
            .heading(MESSAGES)
            .daily(),
            Flag::value("size", &[Ping], "BYTES", "Data bytes after the ICMP header").short(&['s']).default("56").daily(),
            Flag::value(
                "size",
                &[Stream],
                "BYTES",
                "Bytes of a datagram, or of a write: a number or a list, measured one after the other [default: udp what a \
                 frame of the route carries, at most 1472; tcp 131072]",
            )
            .heading(super::flag::DATA)
            .daily(),
        ]),
    Factor::new(
        "rate",
        ValueType::Rates,
        Sets::Pace(|pace, value| {
            pace.rates_pps = match value {
                Value::Number(rate) => vec![rate.as_f64().unwrap_or_default()],
                value => word(value).parse::<RateList>()?.rates().to_vec(),
            };
            Ok(())
        }),
    )
    .about("Rate of `pace` in messages a second, a number or a rate list (`\"20k\"`, `\"10k-40k+10k\"`).")
    .default("10000")
    .record(Record::Always)
    .flags(&[schedule(
        "rate",
        "LIST",
        "Messages a second: 10000, 10k,20k, 10k-50k+10k or 1k-64kx2, measured one after the other",
    )
    .default("10k")
    .conflicts(&["schedule"])
    .aliases(&["rates", "mps"])
    .daily()]),
    Factor::new(
        "min_size",
        ValueType::Whole,
        Sets::Spec(|spec, value| {
            spec.sizes = spec.sizes.clone().within(whole(value)?, u32::MAX);
            Ok(())
        }),
    )
    .of(MESSAGES_SENT)
    .flags(&[Flag::value("min-size", MESSAGES_SENT, "BYTES", "Leave out sizes below this")
        .aliases(&["minmsg"])
        .heading(MESSAGES)]),
    Factor::new(
        "max_size",
        ValueType::Whole,
        Sets::Spec(|spec, value| {
            spec.sizes = spec.sizes.clone().within(0, whole(value)?);
            Ok(())
        }),
    )
    .of(MESSAGES_SENT)
    .flags(&[Flag::value("max-size", MESSAGES_SENT, "BYTES", "Leave out sizes above this")
        .aliases(&["maxmsg"])
        .heading(MESSAGES)]),
];
