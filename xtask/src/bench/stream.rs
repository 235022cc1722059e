//! Bulk data beside iperf3, iperf 2 and sockperf: the same lab and CPUs, all tools in every round.
//!
//! What is compared is what arrives: datagrams a second at the receiving application, or payload bits a second of TCP.
//! sockperf counts what it sends and nobody counts what arrives, so it is compared by what is sent; so is iperf 2 in a
//! round whose server's report was lost among the datagrams.

use super::lab::Lab;
use super::{Measured, Output, interleaved, ratio_text, unread};
use crate::{packages, process, stats};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; in each every tool measures once, in an order that rotates.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Seconds a measurement.
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// Only this protocol: tcp or udp.
    #[arg(long)]
    protocol: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// Protocol, bytes of a datagram or write.
const CASES: [(&str, u32); 3] = [("udp", 64), ("udp", 1472), ("tcp", 131_072)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Windhover,
    /// With sendmmsg and recvmmsg.
    WindhoverBatch,
    Iperf3,
    Iperf2,
    Sockperf,
}

const TOOLS: [Tool; 5] = [Tool::Windhover, Tool::WindhoverBatch, Tool::Iperf3, Tool::Iperf2, Tool::Sockperf];

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Windhover => "windhover",
            Self::WindhoverBatch => "windhover --batch 32",
            Self::Iperf3 => "iperf3",
            Self::Iperf2 => "iperf 2",
            Self::Sockperf => "sockperf",
        }
    }

    fn program(self) -> Option<&'static str> {
        match self {
            Self::Windhover | Self::WindhoverBatch => None,
            Self::Iperf3 => Some("iperf3"),
            Self::Iperf2 => Some("iperf"),
            Self::Sockperf => Some("sockperf"),
        }
    }

    fn can(self, protocol: &str) -> bool {
        self != Self::WindhoverBatch || protocol == "udp"
    }

    fn is_ours(self) -> bool {
        self.program().is_none()
    }
}

/// A second's datagrams, or bits of TCP.
#[derive(Debug, Clone, Copy)]
struct Figure {
    sent: f64,
    /// Absent where nobody counts.
    delivered: Option<f64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["iperf3", "iperf", "sockperf", "iproute2", "util-linux"], "for the comparison")?;
    let windhover = process::release_binary()?;
    let is_there = |tool: &Tool| tool.program().is_none_or(|program| process::find(program).is_some());
    let tools: Vec<Tool> = TOOLS.into_iter().filter(is_there).collect();
    let lab = Lab::up(&windhover, "benchstream")?;
    let measured = interleaved(arguments.rounds, [CASES.len(), tools.len()], |case, tool| {
        let ((protocol, size), tool) = (CASES[case], tools[tool]);
        if !tool.can(protocol) || arguments.protocol.as_ref().is_some_and(|only| only != protocol) {
            return Ok(None);
        }
        let figure = once(&lab, tool, protocol, size, arguments.seconds);
        figure.map(Some).with_context(|| format!("{} {protocol} {size}", tool.name()))
    })?;
    drop(lab);
    arguments.output.publish(&table(&measured, &tools, arguments))
}

fn once(lab: &Lab, tool: Tool, protocol: &str, size: u32, seconds: u32) -> Result<Figure> {
    let address = lab.address();
    let udp = protocol == "udp";
    // sockperf's longest message.
    let size = if tool == Tool::Sockperf { size.min(65_507) } else { size };
    let (server, client) = match tool {
        Tool::Windhover | Tool::WindhoverBatch => {
            let batch = if tool == Tool::WindhoverBatch { "--batch 32" } else { "" };
            let ends = "--cpu 0 --remote-cpu 1 --format json";
            (
                format!("windhover --quiet serve --bind {address}"),
                format!(
                    "windhover --quiet stream {protocol} {address} --size {size} --seconds {seconds} {ends} {batch}"
                ),
            )
        }
        Tool::Iperf3 => {
            let flags = if udp { "-u -b 0" } else { "" };
            (format!("iperf3 -s -1 -B {address}"), format!("iperf3 -c {address} -l {size} -t {seconds} -J {flags}"))
        }
        Tool::Iperf2 => {
            let (server, client) = if udp { ("-u", "-u -b 100G") } else { ("", "") };
            (
                format!("iperf -s -B {address} -l {size} {server}"),
                format!("iperf -c {address} -l {size} -t {seconds} -y C {client}"),
            )
        }
        Tool::Sockperf => {
            let flags = if udp { "" } else { "--tcp" };
            (
                format!("sockperf server -i {address} {flags}"),
                format!("sockperf throughput -i {address} -m {size} -t {seconds} {flags}"),
            )
        }
    };
    let _server = lab.serve(&server)?;
    let text = lab.client(&client)?;
    let figure = match tool {
        Tool::Windhover | Tool::WindhoverBatch => ours(&text, udp),
        Tool::Iperf3 => iperf3(&text, udp),
        Tool::Iperf2 => iperf2(&text, udp, size.into()),
        Tool::Sockperf => sockperf(&text, udp, size.into()),
    };
    figure.filter(|figure| figure.sent > 0.0).ok_or_else(|| unread(&text))
}

fn ours(text: &str, udp: bool) -> Option<Figure> {
    let document: Value = serde_json::from_str(text.trim()).ok()?;
    let flow = &document["stream"]["flows"][0];
    if !udp {
        let bits = flow["bits_per_second"].as_f64()?;
        return Some(Figure { sent: bits, delivered: Some(bits) });
    }
    let delivered = flow["datagrams_per_second"].as_f64()?;
    let (sent, received) = (flow["sent"].as_f64()?, flow["received"].as_f64()?);
    Some(Figure { sent: delivered * sent / received.max(1.0), delivered: Some(delivered) })
}

fn iperf3(text: &str, udp: bool) -> Option<Figure> {
    let document: Value = serde_json::from_str(text).ok()?;
    let end = &document["end"];
    if !udp {
        let bits = end["sum_received"]["bits_per_second"].as_f64()?;
        return Some(Figure { sent: end["sum_sent"]["bits_per_second"].as_f64()?, delivered: Some(bits) });
    }
    let sum = &end["sum"];
    let (packets, lost, seconds) = (sum["packets"].as_f64()?, sum["lost_packets"].as_f64()?, sum["seconds"].as_f64()?);
    Some(Figure { sent: packets / seconds, delivered: Some((packets - lost) / seconds) })
}

/// The last line of `-y C`: with UDP that of the server's report, of 14 fields.
fn iperf2(text: &str, udp: bool, size: f64) -> Option<Figure> {
    let fields: Vec<&str> = text.lines().rfind(|line| line.contains(','))?.split(',').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    if !udp {
        let bits = number(8)?;
        return Some(Figure { sent: bits, delivered: Some(bits) });
    }
    let (from, to) = fields.get(6)?.split_once('-')?;
    let seconds = to.parse::<f64>().ok()? - from.parse::<f64>().ok()?;
    let (lost, total) = (number(10)?, number(11)?);
    if total <= 0.0 {
        // The server's report did not come through; then only what was sent is known.
        return Some(Figure { sent: number(7)? / size / seconds, delivered: None });
    }
    Some(Figure { sent: total / seconds, delivered: Some((total - lost) / seconds) })
}

fn sockperf(text: &str, udp: bool, size: f64) -> Option<Figure> {
    let (_, rest) = text.lines().find_map(|line| line.split_once("Message Rate is "))?;
    let rate = rest.split_whitespace().next()?.parse::<f64>().ok()?;
    Some(Figure { sent: if udp { rate } else { rate * size * 8.0 }, delivered: None })
}

fn table(measured: &Measured<Figure>, tools: &[Tool], Arguments { rounds, seconds, .. }: &Arguments) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{rounds} rounds of {seconds} s, all tools in every round, sender on CPU 0, receiver on CPU 1, SCHED_OTHER; UDP in \
         datagrams a second, TCP in Gbit/s of payload. The ratio is of what was delivered; with sockperf, which counts \
         only what it sends, and where iperf 2 got no report from its server, of what was sent.\n"
    );
    let _ = writeln!(
        text,
        "| case | tool | sent | delivered | windhover / tool (95 %) | windhover --batch 32 / tool (95 %) |\n|---|---|---|---|---|---|"
    );
    for ((protocol, size), row) in CASES.into_iter().zip(measured) {
        let udp = protocol == "udp";
        let of = |wanted: Tool| tools.iter().position(|tool| *tool == wanted).and_then(|at| row.get(at));
        for (tool, figures) in tools.iter().zip(row).filter(|(_, figures)| !figures.is_empty()) {
            let sent = median(figures, |figure| Some(figure.sent), udp);
            let delivered = median(figures, |figure| figure.delivered, udp);
            let against = |us: Tool| match of(us) {
                Some(ours) if !tool.is_ours() && !ours.is_empty() => ratio(ours, figures),
                _ => "–".to_owned(),
            };
            let _ = writeln!(
                text,
                "| {protocol} {size} B | {} | {sent} | {delivered} | {} | {} |",
                tool.name(),
                against(Tool::Windhover),
                against(Tool::WindhoverBatch)
            );
        }
    }
    text
}

fn median(figures: &[Figure], pick: fn(&Figure) -> Option<f64>, udp: bool) -> String {
    let values: Vec<f64> = figures.iter().filter_map(pick).collect();
    match (values.is_empty(), udp) {
        (true, _) => "–".to_owned(),
        (false, true) => format!("{:.0}", stats::median(&values)),
        (false, false) => format!("{:.2}", stats::median(&values) / 1e9),
    }
}

fn ratio(ours: &[Figure], theirs: &[Figure]) -> String {
    let delivered = theirs.iter().all(|figure| figure.delivered.is_some());
    let pick = |figure: &Figure| if delivered { figure.delivered.unwrap_or(figure.sent) } else { figure.sent };
    let column = |of: &[Figure]| of.iter().map(pick).collect::<Vec<f64>>();
    let what = if delivered { "" } else { ", sent" };
    ratio_text(&column(ours), &column(theirs)) + what
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn what_other_tools_print() {
        let line = "20260101,10.0.0.2,5001,10.0.0.1,40000,3,0.0-2.0,1280000,5120000,0.010,5,20000,0.025,0";
        let figure = iperf2(&format!("first,line\n{line}\n"), true, 64.0).unwrap();
        assert!((figure.sent - 10_000.0).abs() < 0.1 && (figure.delivered.unwrap() - 9997.5).abs() < 0.1);
        let line = "19700101000000,10.0.0.1,38195,10.0.0.2,5001,1,0.0-1.0,6400,51200,0.000,0,-1,-0.000,0";
        let figure = iperf2(line, true, 64.0).unwrap();
        assert!((figure.sent - 100.0).abs() < 1e-9 && figure.delivered.is_none());
        let figure = sockperf("sockperf: Summary: Message Rate is 500000 [msg/sec]\n", true, 64.0).unwrap();
        assert!((figure.sent - 500_000.0).abs() < 0.1 && figure.delivered.is_none());
        let text = r#"{"end":{"sum":{"packets":100,"lost_packets":20,"seconds":2.0}}}"#;
        assert!((iperf3(text, true).unwrap().delivered.unwrap() - 40.0).abs() < 1e-9);
        let text = r#"{"stream":{"flows":[{"datagrams_per_second":50.0,"sent":200,"received":100}]}}"#;
        let figure = ours(text, true).unwrap();
        assert!((figure.sent - 100.0).abs() < 1e-9 && (figure.delivered.unwrap() - 50.0).abs() < 1e-9);
    }
}
