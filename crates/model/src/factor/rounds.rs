//! Factors of rounds: how many messages, how long, when it is enough, and what is kept.

use super::flag::{Flag, Gives, MESSAGES, OUTPUT, STOP};
use super::{Factor, Record, Sets, ValueType, in_ms, long, number, on, parsed, sets, some, whole, word};
use crate::Probe::{Pace, Ping, Pingpong, Rr, Stream, Wake};
use crate::error::within;
use crate::{CpuList, ModelError, Probe, ProbeOptions, Protocol};

/// The commands of a closed loop.
const ROUNDS: &[Probe] = &[Pingpong, Rr];
/// Those that stop by time or count.
const TIMED: &[Probe] = &[Pingpong, Rr, Pace];
/// Those that keep single messages.
const KEPT: &[Probe] = &[Pingpong, Rr, Ping, Pace, Wake];
/// Those of them that have messages.
const MESSAGES_KEPT: &[Probe] = &[Pingpong, Rr, Ping, Pace];

const fn message(long: &'static str, value_name: &'static str, help: &'static str) -> Flag {
    Flag::value(long, &[Pingpong], value_name, help).heading(MESSAGES)
}

const fn stop(long: &'static str, on: &'static [Probe], value_name: &'static str, help: &'static str) -> Flag {
    Flag::value(long, on, value_name, help).heading(STOP)
}

pub(super) static FACTORS: [Factor; 24] = [
    Factor::new("pings", ValueType::Whole, sets!(Spec, pings = whole))
    .default("1")
    .of(&[Pingpong])
    .flags(&[message("pings", "N", "Messages sent before waiting for an answer").default("1").aliases(&["n-pings"])]),
    Factor::new("pongs", ValueType::Whole, sets!(Spec, pongs = whole))
    .default("1")
    .of(&[Pingpong])
    .flags(&[message("pongs", "N", "Messages that the far end answers with").default("1").aliases(&["n-pongs"])]),
    Factor::new("sleep_gap_us", ValueType::Whole, sets!(Spec, gap.sleep_us = whole))
    .default("0")
    .of(&[Pingpong])
    .flags(&[message("sleep-gap", "US", "Sleep between rounds in µs").default("0")]),
    Factor::new("spin_gap_us", ValueType::Whole, sets!(Spec, gap.spin_us = whole))
    .default("0")
    .of(&[Pingpong])
    .flags(&[message("spin-gap", "US", "Spin between rounds in µs").default("0")]),
    Factor::new("rtt", ValueType::Switch, sets!(Spec, rtt = on))
    .about("Report RTT instead of RTT/2 (default false, for `ping` and `pace` true).")
    .of(ROUNDS)
    .flags(&[
        Flag::switch("rtt", &[Pingpong], "true", "Report RTT instead of RTT/2").heading(MESSAGES),
        Flag::switch("half", &[Rr], "false", "Report RTT/2 instead of RTT").heading(MESSAGES),
    ]),
    RESPONSE,
    CONNECT_EACH,
    Factor::new(
        "interval_seconds",
        ValueType::Number,
        Sets::Spec(|spec, value| {
            let seconds = number(value)?;
            // An hour at most, because µs are kept in 32 bits.
            within("interval", seconds, 0.0..=3600.0, "0, or 0.001 to 3600 seconds")?;
            let ms = if seconds > 0.0 { Some(in_ms("interval")(value)?) } else { None };
            spec.interval_us = ms.map(|ms| ms.saturating_mul(1000));
            Ok(())
        }),
    )
    .about("Time between two echoes of `ping` in seconds, whatever their answers take; 0: each as soon as the one before is over.")
    .default("0")
    .of(&[Ping])
    .flags(&[Flag::value(
        "interval",
        &[Ping],
        "S",
        "Time between two echoes in seconds, whatever their answers take; 0: each as soon as the one before is over",
    )
    .short(&['i'])
    .default("0.1")
    .daily()]),
    Factor::new("interval_us", ValueType::Whole, sets!(Spec, interval_us = some(whole)))
    .about("Time between two deadlines of a thread of `wake` in µs.")
    .default("1000")
    .of(&[Wake])
    .record(Record::Changed)
    .flags(&[Flag::value("interval-us", &[Wake], "US", "Time between two deadlines of a thread in µs")
        .short(&['i'])
        .aliases(&["interval"])
        .default("1000")
        .daily()]),
    Factor::new("cpus", ValueType::Text, Sets::Spec(|spec, value| {
        let cpus: CpuList = if word(value) == "any" { CpuList::default() } else { parsed(value)? };
        if cpus.is_empty() && word(value) != "any" {
            return Err(ModelError::grammar("CPU list", word(value), "name a CPU, or use any"));
        }
        spec.initiator.cpu = cpus.iter().next().filter(|_| cpus.len() == 1);
        if let ProbeOptions::Wake { wake } = &mut spec.options {
            wake.cpus = if cpus.len() == 1 { CpuList::default() } else { cpus };
        }
        Ok(())
    }))
    .about("CPUs of the threads of `wake`, one thread each (default: one thread, on `cpu`).")
    .of(&[Wake])
    .record(Record::Changed)
    .flags(&[Flag::value("cpu", &[Wake], "LIST", "CPUs: one thread on each, as 1 or 1-3,5 [default: one thread, on any CPU]")
        .short(&['a'])
        .aliases(&["cpus"])
        .daily()]),
    Factor::new("timer_slack_ns", ValueType::Whole, sets!(Wake, timer_slack_ns = some(whole)))
    .about("Timer slack of the threads of `wake` in ns (PR_SET_TIMERSLACK; default: the system's). Real-time policies have none.")
    .of(&[Wake])
    .record(Record::Changed)
    .flags(&[Flag::value(
        "timer-slack-ns",
        &[Wake],
        "NS",
        "How late the kernel may let the timers be in ns (PR_SET_TIMERSLACK) [default: the system's, 50000]; real-time policies have none",
    )]),
    // With a count and no time there is no limit of time, so the count comes first.
    Factor::new(
        "count",
        ValueType::Long,
        Sets::Spec(|spec, value| {
            spec.stop.max_count = long(value)?;
            spec.stop.max_ms = u32::MAX;
            Ok(())
        }),
    )
    .record(Record::Listed)
    .about("Rounds of a cell at most (default: no limit; with it and without `seconds`, no limit of time).")
    .flags(&[
        stop("count", TIMED, "N", "Measure so many rounds at most").aliases(&["maxiter"]).daily_on(ROUNDS),
        Flag::value("count", &[Ping], "N", "Send so many echoes; the median needs 20, p99 1000")
            .short(&['c'])
            .default("20")
            .daily(),
        Flag::value("count", &[Wake], "N", "Measure so many deadlines of each thread; the median needs 20, p99 1000")
            .short(&['l'])
            .aliases(&["loops"])
            .daily(),
    ]),
    Factor::new("seconds", ValueType::Number, sets!(Spec, stop.max_ms = in_ms("seconds")))
    .record(Record::Listed)
    .about("Length of a cell in seconds.")
    .default("1")
    .flags(&[
        stop("seconds", TIMED, "S", "Measure so long [default: 1 to 5, until p99.9 is known, or until --count]")
            .short(&['t', 'l'])
            .daily(),
        stop("maxms", TIMED, "MS", "As --seconds, in the unit of sfnt-pingpong and sfnt-stream")
            .gives(Gives::Thousandths)
            .aliases(&["millisec"])
            .conflicts(&["seconds"])
            .hidden(),
        Flag::value("seconds", &[Stream], "S", "Stream so long [default: 10]").short(&['t']).daily(),
        // Not -t, which is cyclictest's number of threads.
        Flag::value("seconds", &[Wake], "S", "Measure so long [default: 10, or until --count]")
            .short(&['D'])
            .aliases(&["duration"])
            .daily(),
    ]),
    Factor::new("min_seconds", ValueType::Number, sets!(Spec, stop.min_ms = in_ms("min_seconds")))
    .record(Record::Listed)
    .of(ROUNDS)
    .flags(&[
        stop("min-seconds", ROUNDS, "S", "Measure at least so long"),
        stop("minms", ROUNDS, "MS", "As --min-seconds, in the unit of sfnt-pingpong")
            .gives(Gives::Thousandths)
            .conflicts(&["min-seconds"])
            .hidden(),
    ]),
    Factor::new("min_count", ValueType::Long, sets!(Spec, stop.min_count = long))
    .record(Record::Listed)
    .default("1")
    .of(ROUNDS)
    .flags(&[stop("min-count", ROUNDS, "N", "Measure at least so many rounds").aliases(&["miniter"])]),
    Factor::new(
        "interval_percent",
        ValueType::Number,
        Sets::Spec(|spec, value| {
            let percent = number(value)?;
            within("interval", percent, 0.01..=100.0, "0.01 to 100 percent")?;
            spec.stop.interval_percent = Some(percent);
            Ok(())
        }),
    )
    .record(Record::Listed)
    .about("Stop earlier once the 95 % interval of the median is narrower than this percentage.")
    .flags(&[stop(
        "interval",
        ROUNDS,
        "PERCENT",
        "Stop once the 95 % interval is this many percent wide or less: of the median (pingpong), or of the rate over up \
         to 30 passes that share the time and count (rr; ±1 % is 2 % wide). Without these two limits 60 s at most",
    )]),
    Factor::new("warmup_ms", ValueType::Whole, sets!(Spec, warmup.time_ms = whole))
    .record(Record::Listed)
    .about("Warm-up in ms.")
    .default("200")
    .flags(&[stop("warmup", TIMED, "MS", "Untimed rounds before each size for so many ms")
        .default("200")
        .aliases(&["warmupms"]),
        Flag::value("warmup", &[Wake], "MS", "Untimed wake-ups for so many ms").default("200")]),
    Factor::new("warmup_count", ValueType::Whole, sets!(Spec, warmup.count = whole))
    .record(Record::Listed)
    .about("Warm-up in rounds.")
    .default("1000")
    .of_messages()
    .flags(&[stop("warmup-count", ROUNDS, "N", "And at least so many untimed rounds")
        .default("1000")
        .aliases(&["warmupiter"])]),
    Factor::new("timeout_ms", ValueType::Whole, sets!(Spec, timeout_ms = whole))
    .about("Time-out of a message in ms.")
    .default("1000")
    .of_messages()
    .flags(&[
        stop("timeout", TIMED, "MS", "A datagram is lost, a stream broken, after so many ms").default("1000"),
        Flag::value("timeout", &[Ping], "MS", "An echo is lost after so many ms").default("1000"),
    ]),
    Factor::new("foreign", ValueType::Text, Sets::Spec(|spec, value| {
        let words: Vec<String> = word(value).split_ascii_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(ModelError::grammar("program", word(value), "name a program, or use none"));
        }
        spec.foreign = if words == ["none"] { Vec::new() } else { words };
        Ok(())
    }))
    .about(
        "The program that is the initiator of `pingpong` and `wake`, and its arguments, split at blanks; `none`: Windhover's own. \
         docs/foreign-workers.md has its contract.",
    )
    .default("none")
    .of(&[Pingpong, Wake])
    .flags(&[Flag::value("foreign", &[Pingpong, Wake], "COMMAND", "Measure with this program, a foreign worker: its words split at blanks")]),
    Factor::new("raw", ValueType::Switch, sets!(Spec, raw = on))
    .about("Keep raw samples of every cell.")
    .default("false"),
    Factor::new("capture", ValueType::Switch, sets!(Spec, capture = on))
    .about("Keep the packets of every cell as `cells/NNNN.pcapng`, with 64 bytes of payload each, up to 64 MiB.")
    .default("false")
    .of(Probe::WITH_REFLECTOR),
    Factor::new("worst", ValueType::Whole, sets!(Spec, outliers.worst = whole))
    .default("20")
    .flags(&[Flag::value("worst", KEPT, "N", "Keep this many outliers, the slowest messages, one by one").default("20").heading(OUTPUT)]),
    Factor::new(
        "over_us",
        ValueType::Number,
        Sets::Spec(|spec, value| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; µs to ns")]
            let over_ns = (number(value)? * 1000.0) as u64;
            spec.outliers.over_ns = Some(over_ns);
            Ok(())
        }),
    )
    .about("Keep messages over this RTT in µs one by one, beside the worst.")
    .flags(&[Flag::value("over", MESSAGES_KEPT, "US", "Keep messages over this RTT in µs one by one").heading(OUTPUT),
        Flag::value("over", &[Wake], "US", "Keep wake-ups later than so many µs one by one").heading(OUTPUT),
    ]),
];

const RESPONSE: Factor = {
    let mut factor = Factor::new("response_size", ValueType::Whole, sets!(Rr, response_size = some(whole)))
        .about("Response size of rr in bytes (default: as the request).")
        .flags(&[Flag::value("response", &[Rr], "BYTES", "Response size in bytes [default: as the request]")
            .heading(MESSAGES)]);
    factor.probes = &[Rr];
    factor
};

const CONNECT_EACH: Factor = {
    let mut factor = Factor::new("connect_each", ValueType::Switch, sets!(Rr, connect_each = on))
        .about("A new connection for each rr transaction, where the protocol has connections.")
        .default("false")
        .over(Protocol::BYTE_CONNECTIONS)
        .flags(&[Flag::switch(
            "connect-each",
            &[Rr],
            "true",
            "A new connection for each transaction (with tcp: netperf's TCP_CRR)",
        )
        .heading(MESSAGES)]);
    factor.probes = &[Rr];
    factor
};
