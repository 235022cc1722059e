//! Bulk data beside iperf3, iperf 2 and sockperf: the same lab and CPUs, all tools in every round.
//!
//! Compared is what arrives: datagrams a second, or payload bits a second of TCP; for sockperf, and iperf 2 without its
//! server's report, what is sent.

use super::lab::Lab;
use super::{Measured, Options, column, interleaved, judged, ratio_text, unread};
use crate::{packages, process};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options<20, 2>,
    /// Only this protocol: tcp or udp.
    #[arg(long)]
    protocol: Option<String>,
}

const CASES: [(&str, u32); 3] = [("udp", 64), ("udp", 1472), ("tcp", 131_072)];

/// Command lines of a tool, and how its output is read.
struct Tool {
    name: &'static str,
    /// Absent for windhover.
    program: Option<&'static str>,
    /// Command lines of server and client: over UDP or TCP, to an address, with a size in bytes, for a time in seconds.
    commands: fn(bool, &str, u32, u32) -> [String; 2],
    read: fn(&str, bool, f64) -> Option<Figure>,
}

/// Ours without and with sendmmsg and recvmmsg come first; the second is for UDP.
const TOOLS: [Tool; 5] = [
    Tool {
        name: "windhover",
        program: None,
        commands: |udp, address, size, seconds| windhover(udp, address, size, seconds, ""),
        read: ours,
    },
    Tool {
        name: "windhover --batch 32",
        program: None,
        commands: |udp, address, size, seconds| windhover(udp, address, size, seconds, "--batch 32"),
        read: ours,
    },
    Tool {
        name: "iperf3",
        program: Some("iperf3"),
        commands: |udp, address, size, seconds| {
            let flags = if udp { "-u -b 0" } else { "" };
            [format!("iperf3 -s -1 -B {address}"), format!("iperf3 -c {address} -l {size} -t {seconds} -J {flags}")]
        },
        read: iperf3,
    },
    Tool {
        name: "iperf 2",
        program: Some("iperf"),
        commands: |udp, address, size, seconds| {
            let (server, client) = if udp { ("-u", "-u -b 100G") } else { ("", "") };
            [
                format!("iperf -s -B {address} -l {size} {server}"),
                format!("iperf -c {address} -l {size} -t {seconds} -y C {client}"),
            ]
        },
        read: iperf2,
    },
    Tool {
        name: "sockperf",
        program: Some("sockperf"),
        commands: |udp, address, size, seconds| {
            let flags = if udp { "" } else { "--tcp" };
            [
                format!("sockperf server -i {address} {flags}"),
                format!("sockperf throughput -i {address} -m {} -t {seconds} {flags}", size.min(SOCKPERF_MOST)),
            ]
        },
        read: sockperf,
    },
];

/// sockperf's longest message.
const SOCKPERF_MOST: u32 = 65_507;

fn windhover(udp: bool, address: &str, size: u32, seconds: u32, batch: &str) -> [String; 2] {
    let (protocol, ends) = (if udp { "udp" } else { "tcp" }, "--cpu 0 --remote-cpu 1 --format json");
    [
        format!("windhover --quiet serve --bind {address}"),
        format!("windhover --quiet stream {protocol} {address} --size {size} --seconds {seconds} {ends} {batch}"),
    ]
}

/// A second's datagrams, or bits of TCP.
#[derive(Debug, Clone, Copy)]
struct Figure {
    sent: f64,
    /// Absent where it is not counted.
    delivered: Option<f64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    packages::ensure(&["iperf3", "iperf", "sockperf"], "for the comparison")?;
    let options = &arguments.options;
    let is_there = |tool: &Tool| tool.program.is_none_or(|program| process::find(program).is_some());
    let tools: Vec<Tool> = TOOLS.into_iter().filter(is_there).collect();
    let lab = Lab::up(&options.binary()?)?;
    let measured = interleaved(options.rounds, [CASES.len(), tools.len()], |case, at| {
        let ((protocol, size), tool) = (CASES[case], &tools[at]);
        let udp = protocol == "udp";
        if at == 1 && !udp || arguments.protocol.as_ref().is_some_and(|only| only != protocol) {
            return Ok(None);
        }
        let [server, client] = (tool.commands)(udp, lab.address(), size, options.seconds);
        let _server = lab.serve(&server)?;
        let text = lab.client(&client)?;
        if tool.program.is_none() {
            judged(&format!("{}, {protocol}, {size} bytes", tool.name), &text)?;
        }
        let figure = (tool.read)(&text, udp, size.into()).filter(|figure| figure.sent > 0.0);
        figure.ok_or_else(|| unread(&text)).map(Some).with_context(|| format!("{} {protocol} {size}", tool.name))
    })?;
    drop(lab);
    options.output.publish(&table(&measured, &tools, options))
}

fn ours(text: &str, udp: bool, _: f64) -> Option<Figure> {
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

fn iperf3(text: &str, udp: bool, _: f64) -> Option<Figure> {
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
    let bits = rate * size.min(SOCKPERF_MOST.into()) * 8.0;
    Some(Figure { sent: if udp { rate } else { bits }, delivered: None })
}

fn table(measured: &Measured<Figure>, tools: &[Tool], options: &Options<20, 2>) -> String {
    let mut text = format!(
        "{} rounds of {} s, all tools in every round, sender on CPU 0, receiver on CPU 1, SCHED_OTHER; UDP in \
         datagrams a second, TCP in Gbit/s of payload. The ratio is of what was delivered; with sockperf, which counts \
         only what it sends, and where iperf 2 got no report from its server, of what was sent.\n\n\
         | case | tool | sent | delivered | windhover / tool (95 %) | windhover --batch 32 / tool (95 %) |\n|---|---|---|---|---|---|\n",
        options.rounds, options.seconds
    );
    for ((protocol, size), row) in CASES.into_iter().zip(measured) {
        let udp = protocol == "udp";
        for (tool, figures) in tools.iter().zip(row).filter(|(_, figures)| !figures.is_empty()) {
            let sent = median(figures, |figure| Some(figure.sent), udp);
            let delivered = median(figures, |figure| figure.delivered, udp);
            let against = |ours: &[Figure]| match tool.program {
                Some(_) if !ours.is_empty() => ratio(ours, figures),
                _ => "–".to_owned(),
            };
            let ratios = [0, 1].map(|ours| against(&row[ours])).join(" | ");
            let _ = writeln!(text, "| {protocol} {size} B | {} | {sent} | {delivered} | {ratios} |", tool.name);
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
    let what = if delivered { "" } else { ", sent" };
    ratio_text(&column(ours, pick), &column(theirs, pick)) + what
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
        assert!((iperf3(text, true, 64.0).unwrap().delivered.unwrap() - 40.0).abs() < 1e-9);
        let text = r#"{"stream":{"flows":[{"datagrams_per_second":50.0,"sent":200,"received":100}]}}"#;
        let figure = ours(text, true, 64.0).unwrap();
        assert!((figure.sent - 100.0).abs() < 1e-9 && (figure.delivered.unwrap() - 50.0).abs() < 1e-9);
    }
}
