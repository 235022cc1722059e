//! sockperf: what its client prints (ping-pong, under-load), or the file of `--full-log`, which has each message with its times.

use crate::bins::{falls, nothing, set_percentile};
use crate::cell::{Tool, of_samples, result, with_latency};
use crate::lines::{Line, Lines, Problem};
use crate::{Hints, Imported};
use model::worker::Measured;
use model::{Finding, FindingId, Latency, LatencyKind, Messages, Probe, Protocol, ResultDocument, Sample};

pub(crate) fn parse(lines: &Lines<'_>, hints: &Hints) -> Result<Imported, Problem> {
    let mut found = Contents::default();
    lines.all.iter().try_for_each(|line| found.take(line))?;
    let protocol = hints.protocol.or(found.protocol);
    let size = hints.size.or(found.size);
    let measured = if found.in_log || !found.samples.is_empty() {
        found.log(lines, protocol, size)?
    } else {
        found.summary(lines, protocol, size)?
    };
    Ok(Imported { results: vec![measured], machine: None })
}

#[derive(Debug, Default)]
struct Contents {
    version: Option<String>,
    protocol: Option<Protocol>,
    size: Option<u32>,
    /// Messages at a rate that do not wait for answers: only one in N asks for one.
    under_load: bool,
    rate: Option<u32>,
    elapsed_ns: Option<u64>,
    sent: Option<u64>,
    received: Option<u64>,
    dropped: u64,
    duplicated: Option<u64>,
    reordered: Option<u64>,
    is_rtt: bool,
    mean_ns: Option<u64>,
    stdev_ns: Option<u64>,
    count: Option<u64>,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    percentiles: Vec<(f64, u64)>,
    in_log: bool,
    samples: Vec<(u64, u64)>,
}

impl Contents {
    fn take(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        let text = line.text.strip_prefix("sockperf:").map_or(&*line.text, str::trim);
        if self.in_log {
            return self.take_sample(line);
        }
        if text.starts_with("packet, txTime(sec), rxTime(sec)") {
            self.in_log = true;
            self.is_rtt |= text.contains("rtt");
            return Ok(());
        }
        let after = |start: &str| text.strip_prefix(start).map(str::trim);
        let time = |word: &str, what: &str| line.time_ns(word.trim(), 1e3, what);
        let among_figures = self.count.is_some() && self.min_ns.is_none();
        if among_figures && !text.starts_with("--->") {
            return Err(line.problem("this is no observation of sockperf, among them"));
        }
        if let Some(version) = after("== version #") {
            self.version = version.split_ascii_whitespace().next().map(str::to_owned);
        } else if text.contains("PORT =") {
            self.protocol = match text.rsplit('#').next().map(str::trim) {
                Some("UDP") => Some(Protocol::Udp),
                Some("TCP") => Some(Protocol::Tcp),
                _ => None,
            };
        } else if let Some(rest) = after("[Valid Duration]") {
            self.take_counts(line, rest)?;
        } else if let Some(rest) = after("====> avg-") {
            let (kind, figures) = rest.split_once('=').unwrap_or_default();
            self.is_rtt = kind.contains("rtt");
            let (mean, rest) = figures.split_once("(std-dev=").unwrap_or((figures, ""));
            self.mean_ns = Some(time(mean, "mean")?);
            let stdev = rest.split([',', ')']).next().filter(|word| !word.is_empty());
            self.stdev_ns = stdev.map(|word| time(word, "std-dev")).transpose()?;
        } else if text.starts_with("# dropped messages") {
            let mut counts = text.split(';').map(|part| part.rsplit('=').next().unwrap_or_default().trim());
            let mut count = |what| line.number::<u64>(counts.next().unwrap_or_default(), what);
            self.dropped = count("dropped messages")?;
            self.duplicated = Some(count("duplicated messages")?);
            self.reordered = Some(count("out-of-order messages")?);
        } else if let Some(rest) = after("Total").filter(|rest| rest.contains("observations")) {
            self.count = Some(line.number(rest.split(' ').next().unwrap_or_default(), "observations")?);
        } else if let Some(rest) = after("--->") {
            self.take_quantile(line, rest)?;
        } else if text.contains("--msg-size=") {
            self.take_parameters(line)?;
        }
        Ok(())
    }

    /// `RunTime=0.550 sec; SentMessages=45000; ReceivedMessages=45000`
    fn take_counts(&mut self, line: &Line<'_>, rest: &str) -> Result<(), Problem> {
        for part in rest.split(';') {
            let Some((name, value)) = part.split_once('=') else { continue };
            let value = value.trim();
            match name.trim() {
                "RunTime" => {
                    let seconds = value.split(' ').next().unwrap_or_default();
                    self.elapsed_ns = Some(line.time_ns(seconds, 1e9, "RunTime")?);
                }
                "SentMessages" => self.sent = Some(line.number(value, "SentMessages")?),
                "ReceivedMessages" => self.received = Some(line.number(value, "ReceivedMessages")?),
                _ => {}
            }
        }
        Ok(())
    }

    /// `<MAX> observation = 300.1`, `percentile 99.900 = 20.1`
    fn take_quantile(&mut self, line: &Line<'_>, rest: &str) -> Result<(), Problem> {
        let Some((name, value)) = rest.split_once('=') else {
            return Err(line.problem("this observation has no value"));
        };
        let value = line.time_ns(value.trim(), 1e3, "observation")?;
        if name.contains("<MAX>") {
            self.max_ns = Some(value);
        } else if name.contains("<MIN>") {
            self.min_ns = Some(value);
        } else if let Some(percent) = name.trim().strip_prefix("percentile") {
            self.percentiles.push((line.percent(percent.trim())?, value));
        }
        Ok(())
    }

    /// The command line's parameters, which the file of `--full-log` begins with.
    fn take_parameters(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        for word in line.text.split_ascii_whitespace() {
            let Some((name, value)) = word.split_once('=') else { continue };
            let value = value.trim_end_matches([',', ';']);
            match name {
                "--msg-size" => self.size = Some(line.number(value, "--msg-size")?),
                "--mps" => self.rate = Some(line.number(value, "--mps")?),
                "--reply-every" => self.under_load |= value != "1",
                _ => {}
            }
        }
        Ok(())
    }

    /// `0, 0.000012345, 0.000023456, 5.555`
    fn take_sample(&mut self, line: &Line<'_>) -> Result<(), Problem> {
        if line.text.starts_with("---") {
            self.in_log = false;
            return Ok(());
        }
        let fields: Vec<&str> = line.text.split(',').map(str::trim).collect();
        let [_, sent, received, _] = fields.as_slice() else {
            return Err(line.problem("this is no row 'packet, txTime, rxTime, latency' of the log"));
        };
        let (sent, received) = (line.time_ns(sent, 1e9, "txTime")?, line.time_ns(received, 1e9, "rxTime")?);
        if received < sent {
            return Err(line.problem("this message was received before it was sent"));
        }
        self.samples.push((sent, received));
        Ok(())
    }

    /// Out and back differ under load, so half of their sum has no meaning; sockperf prints it all the same.
    fn probe(&self) -> Probe {
        if self.under_load { Probe::Pace } else { Probe::Pingpong }
    }

    fn kind(&self) -> LatencyKind {
        if self.is_rtt { LatencyKind::Rtt } else { LatencyKind::RttHalf }
    }

    fn tool(&self, grain: &str, unknown: &'static str) -> Tool {
        Tool { name: "sockperf", version: self.version.clone(), grain: grain.to_owned(), unknown, ..Tool::default() }
    }

    fn messages(&self, count: u64) -> Messages {
        let received = self.received.unwrap_or(count);
        Messages {
            sent: received.saturating_add(self.dropped),
            received,
            lost: self.dropped,
            duplicated: self.duplicated,
            reordered: self.reordered,
            ..Messages::default()
        }
    }

    fn summary(&self, lines: &Lines<'_>, protocol: Option<Protocol>, size: Option<u32>) -> Result<Measured, Problem> {
        let lacks = |what: &str| lines.lacks(format!("sockperf's {what} is missing: keep all that its client prints"));
        let under_load = self.sent > self.received.map(|received| received.saturating_add(self.dropped));
        let count =
            self.count.filter(|count| *count > 0).ok_or_else(|| lacks("line 'Total … observations' above 0"))?;
        let mean_ns = self.mean_ns.ok_or_else(|| lacks("line 'avg-latency='"))?;
        self.check(count).map_or(Ok(()), |why| Err(lines.lacks(why)))?;
        let mut latency = Latency {
            mean_ns: Some(mean_ns as f64),
            stdev_ns: self.stdev_ns.map(|ns| ns as f64),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            ..nothing(self.kind(), count)
        };
        for (percent, value) in &self.percentiles {
            set_percentile(&mut latency, *percent, Some(*value));
        }
        let unknown = "the distribution between its percentiles, the order of the messages, policies, CPUs and what disturbed the ends";
        let tool = self.tool("percentiles are sockperf's own, to the digit that it prints", unknown);
        let probe = if under_load { Probe::Pace } else { self.probe() };
        let mut result = result(probe, protocol, size, tool);
        with_latency(&mut result, latency);
        result.elapsed_ns = self.elapsed_ns.unwrap_or(0);
        self.complete(&mut result);
        Ok(Measured::new(result))
    }

    fn check(&self, count: u64) -> Option<String> {
        let mut percentiles = self.percentiles.clone();
        percentiles.sort_by(|one, other| one.0.total_cmp(&other.0));
        let names: Vec<String> = percentiles.iter().map(|(percent, _)| format!("percentile {percent}")).collect();
        let inner = names.iter().zip(&percentiles).map(|(name, (_, value))| (name.as_str(), Some(*value)));
        let rising = std::iter::once(("<MIN>", self.min_ns)).chain(inner).chain([("<MAX>", self.max_ns)]);
        falls(rising).or_else(|| {
            let received = self.received.filter(|received| *received < count)?;
            Some(format!("there are {count} observations of {received} received messages: the file contradicts itself"))
        })
    }

    fn log(&self, lines: &Lines<'_>, protocol: Option<Protocol>, size: Option<u32>) -> Result<Measured, Problem> {
        let Some(first) = self.samples.iter().map(|(sent, _)| *sent).min() else {
            return Err(lines.lacks("the log holds no message"));
        };
        if self.in_log {
            return Err(lines.lacks("the log has no line '------' at its end: the file is cut short"));
        }
        let sample = |(seq, (sent, received)): (u64, &(u64, u64))| Sample {
            seq,
            intended: sent - first,
            sent: sent - first,
            received: received - first,
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..).zip(&self.samples).map(sample).collect();
        let last = samples.iter().map(|sample| sample.received).max().unwrap_or(0);
        let unknown = "the time of day, when lost messages were sent, policies, CPUs and what disturbed the ends";
        let result = result(self.probe(), protocol, size, self.tool("", unknown));
        let mut measured = of_samples(&samples, (self.kind(), true), last, result);
        self.complete(&mut measured.result);
        Ok(measured)
    }

    /// Counts the messages, of which those with a latency are known.
    fn complete(&self, result: &mut ResultDocument) {
        if let (Probe::Pace, Some(rate)) = (result.probe, self.rate) {
            result.factors.insert("rate".to_owned(), rate.into());
        }
        result.messages = self.messages(result.messages.received);
        let lost = result.messages.lost;
        if lost > 0 {
            let sent = result.messages.sent;
            result.verdict.add(Finding::new(FindingId::Loss, format!("{lost} of {sent} messages were not answered")));
        }
    }
}
