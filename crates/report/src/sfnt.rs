//! sfnt-pingpong's own columns, so that scripts made for its output read ours: integer nanoseconds led by tabs, below
//! header lines that begin with `#`.
//!
//! Different from sfnt-pingpong: figures are rounded rather than cut, the mean and the standard deviation come from
//! exact sums, and halving follows the statistics instead of preceding them.

use crate::tail::Tail;
use crate::units::plain;
use model::{LatencyKind, MachineFacts, ResultDocument};

/// What the header says beside what the results know themselves. All of it may be absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SfntFacts {
    /// The command line that measured.
    pub command_line: Option<String>,
    /// Version of the tool.
    pub version: Option<String>,
    /// The initiator's machine.
    pub machine: Option<MachineFacts>,
    /// The percentile of the `%ile` column, 0 to 100; absent: 99, as sfnt-pingpong has it.
    pub percentile: Option<f64>,
}

/// The header, the column line `#  size  mean  min  median  max  %ile  stddev  iter`, and one row a size. The percentile
/// is the 99th; with few messages, where our own documents leave it out, it is the nearest rank, as sfnt-pingpong has it.
#[must_use]
pub fn sfnt_text(results: &[ResultDocument], facts: &SfntFacts) -> String {
    let mut out = String::new();
    let mut say = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.push_str(&format!("# {name}: {}\n", plain(value)));
        }
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
        let ends = [("", Some(&result.ends.initiator)), ("server ", result.ends.reflector.as_ref())];
        for (whose, end) in ends {
            for (name, value) in end.into_iter().flat_map(|end| &end.stack_environment) {
                say(&format!("{whose}{}", plain(name)), Some(value));
            }
        }
    }
    let rtt = first.and_then(|result| result.latency.as_ref()).is_some_and(|latency| latency.kind == LatencyKind::Rtt);
    let percentile = facts.percentile.unwrap_or(99.0);
    out.push_str(&format!("# percentile={percentile}\n"));
    out.push_str(if rtt { "# reporting: RTT\n" } else { "# reporting: 1/2 RTT\n" });
    out.push_str("#\n#\tsize\tmean\tmin\tmedian\tmax\t%ile\tstddev\titer\n");
    for result in results {
        if let Some(row) = row(result, percentile) {
            out.push_str(&row);
        }
    }
    out
}

fn row(result: &ResultDocument, percentile: f64) -> Option<String> {
    let latency = result.latency.as_ref()?;
    let by = if latency.kind == LatencyKind::RttHalf { 0.5 } else { 1.0 };
    let (tail, _) = Tail::merged(result.histogram.as_deref().into_iter());
    let nearest = tail.and_then(|tail| tail.any_quantile(percentile / 100.0)).map(|ns| ns * by);
    // The figure that the other forms print, where it is the same one.
    let printed = latency.p99_ns.filter(|_| percentile == 99.0).map(|ns| ns as f64);
    let percentile = printed.or(nearest).or(latency.max_ns.map(|ns| ns as f64));
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
