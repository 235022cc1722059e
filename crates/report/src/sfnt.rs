//! sfnt-pingpong's own columns, for scripts made for its output: integer nanoseconds led by tabs, below header lines that begin
//! with `#`; of `pace` those of sfnt-stream.
//!
//! Different from sfnt-stream: latency is the whole round trip, as the header says; `sendjit` is lateness of all messages. From
//! sfnt-pingpong: figures are rounded, mean and standard deviation are of exact sums, and halving follows the statistics.

use crate::units::plain;
use digest::cells::merged;
use model::{Latency, LatencyKind, MachineFacts, ResultDocument, Role};

/// What the header says beside what the results know themselves. All of it may be absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SfntFacts {
    pub command_line: Option<String>,
    pub version: Option<String>,
    pub machine: Option<MachineFacts>,
    /// The percentile of the `%ile` column, 0 to 100; absent: 99, as sfnt-pingpong has it.
    pub percentile: Option<f64>,
}

/// Of `pace` sfnt-stream's header and columns, and one row a rate; of the others the header, the columns
/// `#  size  mean  min  median  max  %ile  stddev  iter`, and one row a size. The percentile is the 99th, by the nearest rank.
pub fn sfnt_text(results: &[ResultDocument], facts: &SfntFacts) -> String {
    let mut out = String::new();
    let mut say = |name: &str, value: Option<&str>| {
        out.extend(value.map(|value| format!("# {name}: {}\n", plain(value))));
    };
    let first = results.first();
    let date = first.map(|result| crate::units::utc(result.started_ns));
    say("date", date.as_deref());
    if let Some(machine) = &facts.machine {
        let words = [&machine.kernel_release, &machine.kernel_version, &machine.architecture];
        let uname: Vec<&str> = words.into_iter().filter_map(Option::as_deref).collect();
        say("uname", Some(format!("Linux {}", uname.join(" ")).trim()));
        say("cpu", machine.cpu_model.as_deref());
        say("ram", machine.memory_bytes.map(|bytes| format!("{} MiB", bytes >> 20)).as_deref());
    }
    if let Some(clock) = first.and_then(|result| result.clock.as_ref()) {
        let hz = 1e9 * 2f64.powi(i32::try_from(clock.rate.shift).unwrap_or(0)) / clock.rate.mult.max(1) as f64;
        say("tsc_hz", Some(&format!("{hz:.0}")));
    }
    say("cmdline", facts.command_line.as_deref());
    say("version", facts.version.as_deref());
    if let Some(result) = first {
        for (whose, role) in [("", Role::Initiator), ("server ", Role::Reflector)] {
            for (name, value) in result.ends.first(role).into_iter().flat_map(|end| &end.stack_environment) {
                say(&format!("{whose}{}", plain(name)), Some(value));
            }
        }
    }
    let rtt = first.and_then(|result| result.latency.as_ref()).is_some_and(|latency| latency.kind == LatencyKind::Rtt);
    let percentile = facts.percentile.unwrap_or(99.0);
    out.push_str(&format!("# percentile={percentile}\n"));
    out.push_str(if rtt { "# reporting: RTT\n" } else { "# reporting: 1/2 RTT\n" });
    if first.is_some_and(|result| result.rate.is_some()) {
        rates(results, percentile, &mut out);
        return out;
    }
    out.push_str("#\n#\tsize\tmean\tmin\tmedian\tmax\t%ile\tstddev\titer\n");
    out.extend(results.iter().filter_map(|result| row(result, percentile)));
    out
}

/// sfnt-stream's columns: messages a second, latency, how late they were sent, and what is missing.
fn rates(results: &[ResultDocument], percentile: f64, out: &mut String) {
    let groups = [("mps", 3), ("latency", 7), ("sendjit", 4), ("gaps", 3)];
    let heads: Vec<&str> = groups.into_iter().flat_map(|(name, columns)| std::iter::repeat_n(name, columns)).collect();
    let columns = [
        "target", "send", "recv", "mean", "min", "median", "max", "%ile", "stddev", "samples", "mean", "min", "max",
        "behind", "n_gaps", "n_drops", "n_ooo",
    ];
    let mut size = None;
    for result in results {
        if size != Some(result.size()) {
            size = Some(result.size());
            out.push_str(&format!("# msgsize={}\n", result.size().unwrap_or(0)));
            out.push_str(&format!("#{}\n#{}\n", heads.join("\t"), columns.join("\t")));
        }
        out.extend(rate_row(result, percentile));
    }
}

fn rate_row(result: &ResultDocument, percentile: f64) -> Option<String> {
    let (rate, latency, messages) = (result.rate.as_ref()?, result.latency.as_ref()?, &result.messages);
    let arrived = messages.sent.saturating_sub(messages.lost) as f64 / messages.sent.max(1) as f64;
    let whole = |value: Option<f64>| format!("{:.0}", value.unwrap_or(0.0));
    let late = result.lateness.as_ref();
    let cells = [
        whole(Some(rate.asked_pps)),
        whole(Some(rate.achieved_pps)),
        whole(Some(rate.achieved_pps * arrived)),
        whole(latency.mean_ns),
        latency.min_ns.unwrap_or(0).to_string(),
        latency.p50_ns.unwrap_or(0).to_string(),
        latency.max_ns.unwrap_or(0).to_string(),
        whole(at(result, latency, percentile)),
        whole(latency.stdev_ns),
        latency.count.to_string(),
        whole(late.and_then(|late| late.mean_ns)),
        late.and_then(|late| late.min_ns).unwrap_or(0).to_string(),
        late.and_then(|late| late.max_ns).unwrap_or(0).to_string(),
        rate.behind.to_string(),
        // Older versions did not count them: there was one at least where something is missing.
        rate.gaps.unwrap_or(u64::from(messages.lost > 0)).to_string(),
        messages.lost.to_string(),
        messages.reordered.unwrap_or(0).to_string(),
    ];
    Some(format!("{}\n", cells.join("\t")))
}

/// A percentile; with few messages the nearest rank, at most the largest value: a stored histogram knows its buckets only.
fn at(result: &ResultDocument, latency: &Latency, percentile: f64) -> Option<f64> {
    let by = if latency.kind == LatencyKind::RttHalf { 0.5 } else { 1.0 };
    let (histogram, _) = merged(result.histogram.as_deref().into_iter());
    let largest = latency.max_ns.map(|ns| ns as f64);
    let nearest = histogram.and_then(|all| all.quantile(percentile / 100.0)).map(|ns| ns as f64 * by);
    let nearest = nearest.map(|ns| largest.map_or(ns, |largest| ns.min(largest)));
    // The figure that the other forms print, where it is the same one.
    let printed = latency.p99_ns.filter(|_| percentile == 99.0).map(|ns| ns as f64);
    printed.or(nearest).or(largest)
}

fn row(result: &ResultDocument, percentile: f64) -> Option<String> {
    let latency = result.latency.as_ref()?;
    let percentile = at(result, latency, percentile);
    Some(format!(
        "\t{}\t{:.0}\t{}\t{}\t{}\t{:.0}\t{:.0}\t{}\n",
        result.size()?,
        latency.mean_ns?,
        latency.min_ns?,
        latency.p50_ns?,
        latency.max_ns?,
        percentile?,
        latency.stdev_ns.unwrap_or(0.0),
        latency.count
    ))
}
