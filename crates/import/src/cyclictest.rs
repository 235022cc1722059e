//! cyclictest of rt-tests: its histogram (`-h`, `-H`), its JSON file (`--json`), lines of wake-ups (`-v`), or its summary.

use crate::bins::{Bins, Own, nothing};
use crate::cell::{Thread, Tool, of_samples, result, wake_ups, with_latency};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::worker::Measured;
use model::{LatencyKind, MachineFacts, Policy, Probe, ResultDocument, Sample, WakeReport, WakeThread};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn parse(lines: &Lines<'_>, hints: &Hints) -> Result<Imported, Problem> {
    if lines.whole.trim_start().starts_with('{') {
        return json(lines);
    }
    let unit_ns = if hints.nanoseconds { 1 } else { 1000 };
    let mut text = Text::default();
    lines.all.iter().try_for_each(|line| text.take(line, unit_ns))?;
    let measured = if !text.minima.is_empty() || !text.rows.is_empty() {
        text.histogram(lines, unit_ns)?
    } else if !text.samples.is_empty() {
        text.each(lines, unit_ns)?
    } else if !text.summaries.is_empty() {
        text.summary(unit_ns)
    } else {
        return Err(lines.lacks("this has no histogram and no lines 'T: …' of cyclictest: run it with -q -h 400"));
    };
    Ok(Imported { results: vec![measured], machine: None })
}

const UNKNOWN: &str =
    "the order and the time of the wake-ups, deadlines that were missed, the policy and what disturbed the threads";

fn tool(unit_ns: u64) -> Tool {
    let grain = match unit_ns {
        1 => String::new(),
        _ => "times are whole µs, cut off, so that each may be up to 1 µs longer".to_owned(),
    };
    Tool { name: "cyclictest", grain, unknown: UNKNOWN, bin_ns: Some(unit_ns), ..Tool::default() }
}

#[derive(Debug, Clone)]
struct Summary {
    thread: u32,
    interval_us: Option<u64>,
    count: u64,
    own: Own,
}

#[derive(Debug, Default)]
struct Text {
    /// Bin and a count a thread, with the line.
    rows: Vec<(usize, u64, Vec<u64>)>,
    totals: Vec<u64>,
    minima: Vec<u64>,
    means: Vec<u64>,
    maxima: Vec<u64>,
    overflows: Vec<u64>,
    summaries: Vec<Summary>,
    /// Intervals of the threads in µs, of `-v`.
    intervals: Vec<(u32, u64)>,
    /// Thread, cycle, value and line, of `-v`.
    samples: Vec<(u32, u64, u64, usize)>,
}

impl Text {
    fn take(&mut self, line: &Line<'_>, unit_ns: u64) -> Result<(), Problem> {
        let text = &*line.text;
        let heads: [(&str, &mut Vec<u64>); 5] = [
            ("# Total:", &mut self.totals),
            ("# Min Latencies:", &mut self.minima),
            ("# Avg Latencies:", &mut self.means),
            ("# Max Latencies:", &mut self.maxima),
            ("# Histogram Overflows:", &mut self.overflows),
        ];
        for (head, list) in heads {
            if let Some(rest) = text.strip_prefix(head) {
                *list = numbers(line, rest)?;
                return Ok(());
            }
        }
        if text.starts_with("T:") {
            return self.take_summary(line, unit_ns);
        }
        if let Some(rest) = text.strip_prefix("Thread ")
            && let (Some(thread), Some(interval)) = (rest.split(' ').next(), line.behind("Interval:"))
        {
            self.intervals.push((line.number(thread, "thread")?, line.number(interval, "interval")?));
            return Ok(());
        }
        if !text.starts_with(|letter: char| letter.is_ascii_digit()) {
            // Before them and after them are cyclictest's settings.
            let among_rows = !self.rows.is_empty() && self.totals.is_empty() && self.minima.is_empty();
            if text.starts_with('#') || (!among_rows && self.samples.is_empty()) {
                return Ok(());
            }
            return Err(line.problem("this is no line of cyclictest, among its figures"));
        }
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        match parts.as_slice() {
            [thread, cycle, value] => {
                let value = line.whole_ns(value, unit_ns, "latency")?;
                let (thread, cycle) = (line.number(thread, "thread")?, line.number(cycle, "cycle")?);
                self.samples.push((thread, cycle, value, line.number));
            }
            [_] => {
                let all = numbers(line, text)?;
                let Some((bin, counts)) = all.split_first().filter(|(_, counts)| !counts.is_empty()) else {
                    return Err(line.problem("this row of the histogram has no count"));
                };
                self.rows.push((line.number, *bin, counts.to_vec()));
            }
            _ => return Err(line.problem("this is neither a row of a histogram nor 'thread: cycle: latency'")),
        }
        Ok(())
    }

    fn take_summary(&mut self, line: &Line<'_>, unit_ns: u64) -> Result<(), Problem> {
        let word = |label| line.behind(label).ok_or_else(|| line.problem(format!("this line has no '{label}'")));
        let time = |label| line.whole_ns(word(label)?, unit_ns, label);
        let count: u64 = line.number(word("C:")?, "C:")?;
        if count == 0 {
            // Nothing was measured yet, and Min: is what it begins with.
            return Ok(());
        }
        let own = Own { min_ns: Some(time("Min:")?), max_ns: Some(time("Max:")?), mean_ns: Some(time("Avg:")? as f64) };
        let thread = line.number(word("T:")?, "T:")?;
        let interval_us = line.behind("I:").map(|word| line.number(word, "I:")).transpose()?;
        self.summaries.retain(|known| known.thread != thread);
        self.summaries.push(Summary { thread, interval_us, count, own });
        Ok(())
    }

    /// One interval of all threads; `None` where it is not known or they differ.
    fn interval_ns(&self) -> Option<u64> {
        let each = self.intervals.iter().map(|(_, us)| *us);
        let mut all: Vec<u64> = each.chain(self.summaries.iter().filter_map(|one| one.interval_us)).collect();
        all.dedup();
        let [us] = all.as_slice() else { return None };
        us.checked_mul(1000)
    }

    fn report(&self) -> WakeReport {
        WakeReport { interval_ns: self.interval_ns(), ..WakeReport::default() }
    }

    fn histogram(&self, lines: &Lines<'_>, unit_ns: u64) -> Result<Measured, Problem> {
        let threads = self.minima.len();
        let whole = [&self.totals, &self.means, &self.maxima, &self.overflows].iter().all(|list| list.len() >= threads);
        if threads == 0 || !whole {
            let why = "the histogram has no summary below it (# Total:, # Min Latencies: …): the file is cut short";
            return Err(lines.lacks(why));
        }
        let mut bins = vec![Bins { width_ns: unit_ns, ..Bins::default() }; threads];
        for (number, bin, counts) in &self.rows {
            // With -H a sum follows the threads.
            if counts.len() != threads && counts.len() != threads + 1 {
                let why = format!("this row has {} counts, and there are {threads} threads", counts.len());
                return Err(Problem::new(*number, why));
            }
            let too_large = || Problem::new(*number, format!("bin {bin} is no latency"));
            let at_ns = bin.checked_mul(unit_ns).filter(|ns| *ns <= stats::HOUR_NS).ok_or_else(too_large)?;
            for (thread, count) in bins.iter_mut().zip(counts).filter(|(_, count)| **count > 0) {
                thread.add(at_ns, *count);
            }
        }
        let mut all = Vec::new();
        for (place, mut bins) in bins.into_iter().enumerate() {
            let of = |list: &[u64]| list.get(place).copied().unwrap_or_default();
            let (total, inside) = (of(&self.totals), bins.inside());
            if total != inside {
                let why = format!(
                    "thread {place} has {inside} values in its bins, and '# Total:' says {total}: rows are missing"
                );
                return Err(lines.lacks(why));
            }
            bins.over = of(&self.overflows);
            let ns = |list: &[u64]| of(list).checked_mul(unit_ns);
            let is_empty = bins.count() == 0;
            // The mean of the bins is more exact than the one that is cut to whole units.
            let mean_ns = ns(&self.means).filter(|_| bins.over > 0).map(|ns| ns as f64);
            let own = Own { min_ns: ns(&self.minima), max_ns: ns(&self.maxima), mean_ns };
            let own = if is_empty { Own::default() } else { own };
            all.push(Thread { name: format!("thread {place}"), bins, own });
        }
        if all.iter().all(|thread| thread.bins.count() == 0) {
            return Err(lines.lacks("the histogram holds no value"));
        }
        wake_ups(&all, &self.report(), tool(unit_ns)).map_err(|why| lines.lacks(why))
    }

    fn each(&self, lines: &Lines<'_>, unit_ns: u64) -> Result<Measured, Problem> {
        let Some(interval_ns) = self.interval_ns() else {
            return Err(lines.lacks(
                "lines of wake-ups need 'Thread 0 Interval: …' before them: keep all that cyclictest -v prints",
            ));
        };
        let mut samples = Vec::with_capacity(self.samples.len());
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for (thread, cycle, value, number) in &self.samples {
            let expected = next.insert(*thread, cycle.saturating_add(1)).unwrap_or(0);
            if expected != *cycle {
                let why = format!(
                    "cycle {cycle} of thread {thread} follows others than the one before it: run cyclictest without -o"
                );
                return Err(Problem::new(*number, why));
            }
            let sent = cycle.checked_mul(interval_ns).filter(|ns| *ns < u64::MAX / 4);
            let sent = sent.ok_or_else(|| Problem::new(*number, "this cycle is no time of a measurement"))?;
            samples.push(Sample { seq: *cycle, intended: sent, sent, received: sent + value, ..Sample::default() });
        }
        samples.sort_by_key(|sample| sample.sent);
        let last_ns = samples.last().map_or(0, |last| last.sent);
        let tool = Tool {
            unknown: "the time of day, deadlines that were missed, the policy and what disturbed the threads",
            ..tool(unit_ns)
        };
        let result = ResultDocument { wake: Some(self.report()), ..result(Probe::Wake, None, None, tool) };
        Ok(of_samples(&samples, (LatencyKind::WakeUp, false), last_ns, result))
    }

    /// No distribution: the summary of each thread.
    fn summary(&self, unit_ns: u64) -> Measured {
        let latency = |one: &Summary| model::Latency {
            min_ns: one.own.min_ns,
            max_ns: one.own.max_ns,
            mean_ns: one.own.mean_ns,
            ..nothing(LatencyKind::WakeUp, one.count)
        };
        let count = self.summaries.iter().fold(0, |sum: u64, one| sum.saturating_add(one.count));
        let all = || self.summaries.iter();
        let whole = model::Latency {
            min_ns: all().filter_map(|one| one.own.min_ns).min(),
            max_ns: all().filter_map(|one| one.own.max_ns).max(),
            mean_ns: Some(all().filter_map(|one| Some(one.own.mean_ns? * (one.count as f64 / count as f64))).sum()),
            ..nothing(LatencyKind::WakeUp, count)
        };
        let tool = Tool {
            unknown: "the distribution (run cyclictest with -h), the policy and what disturbed the threads",
            ..tool(unit_ns)
        };
        let mut result = result(Probe::Wake, None, None, tool);
        with_latency(&mut result, whole);
        let thread =
            |one: &Summary| WakeThread { name: format!("thread {}", one.thread), missed: None, latency: latency(one) };
        let threads = if self.summaries.len() > 1 { all().map(thread).collect() } else { Vec::new() };
        result.wake = Some(WakeReport { threads, ..self.report() });
        Measured::new(result)
    }
}

fn numbers(line: &Line<'_>, text: &str) -> Result<Vec<u64>, Problem> {
    text.split_ascii_whitespace().map(|word| line.number(word, "count")).collect()
}

fn json(lines: &Lines<'_>) -> Result<Imported, Problem> {
    let document: Value = serde_json::from_str(lines.whole).map_err(|error| {
        let why = error.to_string().replace('\n', " ");
        Problem::new(error.line().max(1), format!("this is no JSON of cyclictest: {why}"))
    })?;
    let lacks = |what: &str| lines.lacks(format!("the JSON has no {what}: it is not that of cyclictest --json"));
    let Some(threads) = document.get("thread").and_then(Value::as_object) else { return Err(lacks("'thread'")) };
    let is_ns = document.get("resolution_in_ns").and_then(Value::as_u64).is_some_and(|ns| ns > 0);
    let unit_ns = if is_ns { 1 } else { 1000 };
    let mut all = Vec::new();
    for (name, thread) in threads {
        let of = |field: &str| thread.get(field).and_then(Value::as_u64);
        let ns = |field: &str| of(field).and_then(|value| value.checked_mul(unit_ns));
        let mut bins = Bins { width_ns: unit_ns, ..Bins::default() };
        for (bin, count) in thread.get("histogram").and_then(Value::as_object).into_iter().flatten() {
            let at =
                bin.parse::<u64>().ok().and_then(|bin| bin.checked_mul(unit_ns)).filter(|ns| *ns <= stats::HOUR_NS);
            let (Some(at), Some(count)) = (at, count.as_u64()) else {
                return Err(lacks(&format!("number in bin '{}' of thread {name}", crate::lines::shortened(bin))));
            };
            bins.add(at, count);
        }
        let cycles = of("cycles").ok_or_else(|| lacks(&format!("'cycles' of thread {name}")))?;
        let inside = bins.inside();
        bins.over = cycles.checked_sub(inside).ok_or_else(|| {
            lines.lacks(format!("thread {name} has {inside} values in its bins, and 'cycles' says {cycles}"))
        })?;
        let mean_ns = thread.get("avg").and_then(Value::as_f64).map(|mean| mean * unit_ns as f64);
        let own = Own { min_ns: ns("min"), max_ns: ns("max"), mean_ns: mean_ns.filter(|ns| ns.is_finite()) };
        let own = if cycles == 0 { Own::default() } else { own };
        all.push(Thread { name: format!("thread {name}"), bins, own });
    }
    if all.iter().all(|thread| thread.bins.count() == 0) {
        return Err(lacks("value"));
    }
    // Its own keys end with a colon.
    let text = |key: &str| document.get(key).or_else(|| document.get(format!("{key}:"))).and_then(Value::as_str);
    let command = text("cmdline").unwrap_or_default();
    let tool = Tool { version: text("rt_test_version").map(str::to_owned), ..tool(unit_ns) };
    let report = WakeReport { interval_ns: interval_of(command), ..WakeReport::default() };
    let mut measured = wake_ups(&all, &report, tool).map_err(|why| lines.lacks(why))?;
    if let Some(policy) = policy_of(command) {
        measured.result.factors.insert("policy".to_owned(), policy.to_string().into());
    }
    Ok(Imported { results: vec![measured], machine: document.get("sysinfo").map(machine) })
}

/// The words of an option on a command line: `-p80`, `-p 80`, `--priority=80`, `--priority 80`.
fn option<'a>(command: &'a str, short: &str, long: &str) -> Option<&'a str> {
    let mut words = command.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let rest = word.strip_prefix(long).or_else(|| word.strip_prefix(short).filter(|_| !word.starts_with("--")));
        match rest.map(|rest| rest.trim_start_matches('=')) {
            Some("") => return words.next(),
            Some(value) => return Some(value),
            None => {}
        }
    }
    None
}

fn interval_of(command: &str) -> Option<u64> {
    option(command, "-i", "--interval")?.parse::<u64>().ok()?.checked_mul(1000)
}

/// cyclictest uses SCHED_FIFO where a priority is given, unless another policy is.
fn policy_of(command: &str) -> Option<Policy> {
    let priority = option(command, "-p", "--prio=").or_else(|| option(command, "-p", "--priority"))?;
    let class = option(command, "-y", "--policy").unwrap_or("fifo");
    format!("{}:{priority}", class.to_ascii_lowercase()).parse().ok()
}

fn machine(sysinfo: &Value) -> MachineFacts {
    let text = |key: &str| sysinfo.get(key).and_then(Value::as_str).map(str::to_owned);
    let real_time = sysinfo.get("realtime").and_then(Value::as_u64).is_some_and(|on| on > 0);
    MachineFacts {
        kernel_release: text("release"),
        kernel_version: text("version"),
        architecture: text("machine"),
        preemption: real_time.then(|| "PREEMPT_RT".to_owned()),
        ..MachineFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_command_line() {
        let command = "cyclictest -q -p80 -i 200 --policy=rr -h 400";
        assert_eq!(interval_of(command), Some(200_000));
        assert_eq!(policy_of(command), Some(Policy::Rr(80)));
        assert_eq!(policy_of("cyclictest --priority 3"), Some(Policy::Fifo(3)));
        assert_eq!((policy_of("cyclictest -q"), interval_of("cyclictest -q")), (None, None));
    }
}
