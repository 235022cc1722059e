//! Factors of `stream`.

use super::flag::{DATA, Flag};
use super::{Factor, Record, Sets, ValueType, on, parsed, scaled_number, sets, some, whole};
use crate::Probe::Stream;
use crate::error::within;
use crate::{Probe, Protocol};

const STREAM: &[Probe] = &[Stream];

const fn data(long: &'static str, value_name: &'static str, help: &'static str) -> Flag {
    Flag::value(long, STREAM, value_name, help).heading(DATA)
}

const fn switch(long: &'static str, gives: &'static str, help: &'static str) -> Flag {
    Flag::switch(long, STREAM, gives, help).heading(DATA)
}

pub(super) static FACTORS: [Factor; 8] = [
    Factor::new("direction", ValueType::Text, sets!(Stream, direction = parsed))
        .about("Direction of a stream: `up`, `down` or `both`.")
        .default("up")
        .record(Record::Always)
        .flags(&[
            data("direction", "DIRECTION", "Direction: up (from here), down (from the far end), both").default("up"),
            switch("bidir", "both", "Both directions at once: --direction both").conflicts(&["direction", "reverse"]),
            switch("reverse", "down", "From the far end: --direction down")
                .short(&['R'])
                .conflicts(&["direction"])
                .daily(),
        ]),
    Factor::new("flows", ValueType::Whole, sets!(Stream, flows = whole))
        .about("Parallel flows of a stream.")
        .default("1")
        .record(Record::Changed)
        .flags(&[data("flows", "N", "Parallel flows in each direction")
            .short(&['P'])
            .default("1")
            .aliases(&["parallel"])
            .daily()]),
    BANDWIDTH,
    Factor::new("datagrams_pps", ValueType::Scaled, sets!(Stream, rate_pps = some(scaled_number)))
        .about("Datagrams a second of a stream over udp in each direction, instead of `bandwidth_bps`.")
        .over(&[Protocol::Udp])
        .flags(&[data("rate", "PPS", "Datagrams a second in each direction instead, such as 50k; udp only")
            .conflicts(&["bandwidth"])]),
    Factor::new("batch", ValueType::Whole, sets!(Stream, batch = whole))
        .about("Datagrams a system call of a stream over udp.")
        .default("1")
        .record(Record::Changed)
        .over(&[Protocol::Udp])
        .flags(&[data("batch", "N", "Datagrams a system call at most (sendmmsg, recvmmsg); udp only [default: 1]")]),
    Factor::new("gso", ValueType::Switch, sets!(Stream, gso = on))
        .about("The kernel cuts long sends of a stream over udp into datagrams.")
        .default("false")
        .record(Record::Changed)
        .over(&[Protocol::Udp])
        .flags(&[switch("gso", "true", "The kernel splits long sends into datagrams (UDP_SEGMENT); udp only")]),
    Factor::new("gro", ValueType::Switch, sets!(Stream, gro = on))
        .about("The kernel joins datagrams of a stream over udp.")
        .default("false")
        .record(Record::Changed)
        .over(&[Protocol::Udp])
        .flags(&[switch(
            "gro",
            "true",
            "The kernel joins datagrams for the receiver (UDP_GRO): jitter is then unknown; udp only",
        )]),
    Factor::new("working_latency", ValueType::Switch, sets!(Stream, working_latency = on))
        .about("A UDP ping-pong beside a stream.")
        .default("false")
        .flags(&[Flag::switch(
            "working-latency",
            STREAM,
            "true",
            "A UDP ping-pong before and beside the stream shows what the load does to latency",
        )]),
];

const BANDWIDTH: Factor = {
    let mut factor = Factor::new(
        "bandwidth_bps",
        ValueType::Scaled,
        Sets::Stream(|stream, value| {
            let bits = scaled_number(value)?.round();
            within("bandwidth", bits, 0.0..=1e13, "1 bit to 10,000 Gbit a second")?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above; `as` saturates")]
            let bits = bits as u64;
            stream.rate_bps = Some(bits);
            Ok(())
        }),
    )
    .about("Payload bits a second of a stream in each direction, a number or a text such as `\"100M\"` (default: as fast as it goes).")
    .record(Record::Changed)
    .flags(&[data(
        "bandwidth",
        "BITS",
        "Payload bits a second in each direction, such as 500k, 100M, 2.5G [default: as fast as it goes]",
    )
    .short(&['b'])
    .aliases(&["bitrate"])
    .daily()]);
    factor.recorded_as = "bandwidth";
    factor
};
