//! Factors of rounds: how many messages, how long, when it is enough, and what is kept.

use super::Record::{Changed, Listed};
use super::flag::Gives::Thousandths;
use super::flag::{MESSAGES, OUTPUT, SCHEDULE, STOP, TOP};
use super::{Value, in_ms, long, number, on, parsed, some, whole, word};
use crate::Probe::{Cycle, Pace, Ping, Pingpong, Rr, Stream, Wake};
use crate::error::within;
use crate::{CpuList, ModelError, Probe, ProbeOptions, ProbeSpec, Protocol};

/// The commands of a closed loop.
const ROUNDS: &[Probe] = &[Pingpong, Rr];
/// Those that stop by time or count.
const TIMED: &[Probe] = &[Pingpong, Rr, Pace, Cycle];
/// Those that keep single messages.
const KEPT: &[Probe] = &[Pingpong, Rr, Ping, Pace, Wake, Cycle];
/// Those whose late messages can be explained.
const EXPLAINED: &[Probe] = &[Pingpong, Rr, Pace, Wake, Cycle];
/// Those of them that have messages.
const MESSAGES_KEPT: &[Probe] = &[Pingpong, Rr, Ping, Pace, Cycle];

fn echo_interval(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    let seconds = number(value)?;
    // An hour at most, because µs are kept in 32 bits.
    within("interval", seconds, 0.0..=3600.0, "0, or 0.001 to 3600 seconds")?;
    let ms = if seconds > 0.0 { Some(in_ms("interval")(value)?) } else { None };
    spec.interval_us = ms.map(|ms| ms.saturating_mul(1000));
    Ok(())
}

fn wake_cpus(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    let cpus: CpuList = if word(value) == "any" { CpuList::default() } else { parsed(value)? };
    if cpus.is_empty() && word(value) != "any" {
        return Err(ModelError::grammar("CPU list", word(value), "name a CPU, or use any"));
    }
    spec.initiator.cpu = cpus.iter().next().filter(|_| cpus.len() == 1);
    if let ProbeOptions::Wake { wake } = &mut spec.options {
        wake.cpus = if cpus.len() == 1 { CpuList::default() } else { cpus };
    }
    Ok(())
}

fn count(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    (spec.stop.max_count, spec.stop.max_ms) = (long(value)?, u32::MAX);
    Ok(())
}

fn interval_percent(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    let percent = number(value)?;
    within("interval", percent, 0.01..=100.0, "0.01 to 100 percent")?;
    spec.stop.interval_percent = Some(percent);
    Ok(())
}

fn foreign(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    let words: Vec<String> = word(value).split_ascii_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(ModelError::grammar("program", word(value), "name a program, or use none"));
    }
    spec.foreign = if words == ["none"] { Vec::new() } else { words };
    Ok(())
}

fn explain(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    spec.explain = on(value)?.then(|| spec.explain.unwrap_or_default());
    Ok(())
}

fn over(spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; µs to ns")]
    let over_ns = (number(value)? * 1000.0) as u64;
    spec.outliers.over_ns = Some(over_ns);
    Ok(())
}

factors! { FACTORS =
    "pings" Whole Spec(pings = whole), default("1"), of(&[Pingpong]);
        flag "pings" <N> on [Pingpong] MESSAGES "Messages sent before waiting for an answer", default("1"), aliases(&["n-pings"]);
    "pongs" Whole Spec(pongs = whole), default("1"), of(&[Pingpong]);
        flag "pongs" <N> on [Pingpong] MESSAGES "Messages that the far end answers with", default("1"), aliases(&["n-pongs"]);
    "sleep_gap_us" Whole Spec(gap.sleep_us = whole), default("0"), of(&[Pingpong]);
        flag "sleep-gap" <US> on [Pingpong] MESSAGES "Sleep between rounds in µs", default("0");
    "spin_gap_us" Whole Spec(gap.spin_us = whole), default("0"), of(&[Pingpong]);
        flag "spin-gap" <US> on [Pingpong] MESSAGES "Spin between rounds in µs", default("0");
    "rtt" Switch Spec(rtt = on), of(ROUNDS), about("Report RTT instead of RTT/2 (default false, for `ping`, `pace` and `cycle` true).");
        flag "rtt" = "true" on [Pingpong] MESSAGES "Report RTT instead of RTT/2";
        flag "half" = "false" on [Rr] MESSAGES "Report RTT/2 instead of RTT";
    "response_size" Whole Rr(response_size = some(whole)), applies_to(&[Rr]),
        about("Response size of rr in bytes (default: as the request).");
        flag "response" <BYTES> on [Rr] MESSAGES "Response size in bytes [default: as the request]";
    "connect_each" Switch Rr(connect_each = on), default("false"), applies_to(&[Rr]), over(Protocol::BYTE_CONNECTIONS),
        about("A new connection for each rr transaction, where the protocol has connections.");
        flag "connect-each" = "true" on [Rr] MESSAGES "A new connection for each transaction (with tcp: netperf's TCP_CRR)";
    "interval_seconds" Number Spec(echo_interval), default("0"), of(&[Ping]),
        about("Time between two echoes of `ping` in seconds, whatever their answers take; 0: each as soon as the one before is over.");
        flag "interval" <S> on [Ping] TOP
            "Time between two echoes in seconds, whatever their answers take; 0: each as soon as the one before is over",
            short(&['i']), default("0.1"), daily();
    "interval_us" Whole Spec(interval_us = some(whole)), default("1000"), record(Changed), of(&[Wake, Cycle]),
        about("Time between two deadlines of a thread of `wake`, or between two cycles of `cycle` (50 to 10000), in µs.");
        flag "interval-us" <US> on [Wake] TOP "Time between two deadlines of a thread in µs", short(&['i']), aliases(&["interval"]),
            default("1000"), daily();
        flag "interval-us" <US> on [Cycle] SCHEDULE "Time between two cycles in µs: 50 (20 kHz) to 10000 (100 Hz)",
            aliases(&["interval", "period-us"]), default("1000"), daily();
    "cpus" Text Spec(wake_cpus), record(Changed), of(&[Wake]), about("CPUs of the threads of `wake`, one thread each (default: one thread, on `cpu`).");
        flag "cpu" <LIST> on [Wake] TOP "CPUs: one thread on each, as 1 or 1-3,5 [default: one thread, on any CPU]", short(&['a']),
            aliases(&["cpus"]), daily();
    "timer_slack_ns" Whole Wake(timer_slack_ns = some(whole)), record(Changed), of(&[Wake]),
        about("Timer slack of the threads of `wake` in ns (PR_SET_TIMERSLACK; default: the system's). Real-time policies have none.");
        flag "timer-slack-ns" <NS> on [Wake] TOP
            "How late the kernel may let the timers be in ns (PR_SET_TIMERSLACK) [default: the system's, 50000]; real-time \
             policies have none";
    // With a count and no time there is no limit of time, so the count comes first.
    "count" Long Spec(count), record(Listed), about("Rounds of a cell at most (default: no limit; with it and without `seconds`, no limit of time).");
        flag "count" <N> on TIMED STOP "Measure so many rounds at most", aliases(&["maxiter"]), daily_on(ROUNDS);
        flag "count" <N> on [Ping] TOP "Send so many echoes; the median needs 20, p99 1000", short(&['c']), default("20"), daily();
        flag "count" <N> on [Wake] TOP "Measure so many deadlines of each thread; the median needs 20, p99 1000", short(&['l']),
            aliases(&["loops"]), daily();
    "seconds" Number Spec(stop.max_ms = in_ms("seconds")), default("1"), record(Listed), about("Length of a cell in seconds.");
        flag "seconds" <S> on TIMED STOP "Measure so long [default: 1 to 5, until p99.9 is known, or until --count]", short(&['t', 'l']),
            daily();
        flag "maxms" <MS> on TIMED STOP "As --seconds, in the unit of sfnt-pingpong and sfnt-stream", gives(Thousandths),
            aliases(&["millisec"]), conflicts(&["seconds"]), hidden();
        flag "seconds" <S> on [Stream] TOP "Stream so long [default: 10]", short(&['t']), daily();
        // Not -t, which is cyclictest's number of threads.
        flag "seconds" <S> on [Wake] TOP "Measure so long [default: 10, or until --count]", short(&['D']), aliases(&["duration"]),
            daily();
    "min_seconds" Number Spec(stop.min_ms = in_ms("min_seconds")), record(Listed), of(ROUNDS);
        flag "min-seconds" <S> on ROUNDS STOP "Measure at least so long";
        flag "minms" <MS> on ROUNDS STOP "As --min-seconds, in the unit of sfnt-pingpong", gives(Thousandths),
            conflicts(&["min-seconds"]), hidden();
    "min_count" Long Spec(stop.min_count = long), default("1"), record(Listed), of(ROUNDS);
        flag "min-count" <N> on ROUNDS STOP "Measure at least so many rounds", aliases(&["miniter"]);
    "interval_percent" Number Spec(interval_percent), record(Listed), about("Stop earlier once the 95 % interval of the median is narrower than this percentage.");
        flag "interval" <PERCENT> on ROUNDS STOP
            "Stop once the 95 % interval is this many percent wide or less: of the median (pingpong), or of the rate over up to \
             30 passes that share the time and count (rr; ±1 % is 2 % wide). Without these two limits 60 s at most";
    "warmup_ms" Whole Spec(warmup.time_ms = whole), default("200"), record(Listed), about("Warm-up in ms.");
        flag "warmup" <MS> on TIMED STOP "Untimed rounds before each size for so many ms", default("200"), aliases(&["warmupms"]);
        flag "warmup" <MS> on [Wake] TOP "Untimed wake-ups for so many ms", default("200");
    "warmup_count" Whole Spec(warmup.count = whole), default("1000"), record(Listed), applies_to(Probe::WITH_PEER),
        about("Warm-up in rounds.");
        flag "warmup-count" <N> on ROUNDS STOP "And at least so many untimed rounds", default("1000"), aliases(&["warmupiter"]);
    "timeout_ms" Whole Spec(timeout_ms = whole), default("1000"), applies_to(Probe::WITH_PEER),
        about("Time-out of a message in ms.");
        flag "timeout" <MS> on TIMED STOP "A datagram is lost, a stream broken, after so many ms", default("1000");
        flag "timeout" <MS> on [Ping] TOP "An echo is lost after so many ms", default("1000");
    "foreign" Text Spec(foreign), default("none"), of(&[Pingpong, Wake]),
        about("The program that is the initiator of `pingpong` and `wake`, and its arguments, split at blanks; `none`: Windhover's own. \
             docs/foreign-workers.md has its contract.");
        flag "foreign" <COMMAND> on [Pingpong, Wake] TOP "Measure with this program, a foreign worker: its words split at blanks";
    "raw" Switch Spec(raw = on), default("false"), about("Keep raw samples of every cell.");
    "capture" Switch Spec(capture = on), default("false"), of(Probe::WITH_REFLECTOR),
        about("Keep the packets of every cell as `cells/NNNN.pcapng`, with 64 bytes of payload each, up to 64 MiB.");
    "explain" Switch Spec(explain), default("false"), of(EXPLAINED),
        about("Explain late messages and wake-ups in a pass of their own: by kernel events with CAP_BPF and CAP_PERFMON, else by the CPU times \
             of threads.");
        flag "explain" = "true" on EXPLAINED OUTPUT "Explain what is late in a second pass: by kernel events, or without CAP_BPF by the CPU times of threads";
    "explain_over" Text Spec(explain = some(parsed)), of(EXPLAINED),
        about("Which of them are explained: those over a time (`100us`), over the `p99.9`, or `auto`: over the p99 (default: auto).");
        flag "explain-over" <TIME> on EXPLAINED OUTPUT "Explain what is over this time (100us), over p99.9, or auto: over the p99",
            default("auto");
    "worst" Whole Spec(outliers.worst = whole), default("20");
        flag "worst" <N> on KEPT OUTPUT "Keep this many outliers, the slowest messages, one by one", default("20");
    "over_us" Number Spec(over), about("Keep messages over this RTT in µs one by one, beside the worst.");
        flag "over" <US> on MESSAGES_KEPT OUTPUT "Keep messages over this RTT in µs one by one";
        flag "over" <US> on [Wake] OUTPUT "Keep wake-ups later than so many µs one by one";
}
