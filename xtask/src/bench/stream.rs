//! Bulk data beside iperf3, iperf 2 and sockperf: the same lab and CPUs, all tools in every round.
//!
//! What is compared is what arrives: datagrams a second at the receiving application, or payload bits a second of TCP.
//! sockperf counts what it sends and nobody counts what arrives, so it is compared by what is sent; so is iperf 2 in a
//! round whose server's report was lost among the datagrams.

use super::lab::Lab;
use crate::{packages, process, stats};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

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

pub(crate) fn run(rounds: u32, seconds: u32, only: Option<&str>, output: Option<&Path>) -> Result<()> {
    packages::ensure(&["iperf3", "iperf", "sockperf", "iproute2", "util-linux"], "for the comparison")?;
    let windhover = process::release_binary()?;
    let exe = windhover.to_string_lossy().into_owned();
    let tools: Vec<Tool> = TOOLS
        .into_iter()
        .filter(|tool| tool.program().is_none_or(|program| process::find(program).is_some()))
        .collect();
    let lab = Lab::up(&windhover, "benchstream")?;
    let mut measured: Measured = vec![vec![Vec::new(); tools.len()]; CASES.len()];
    for round in 0..rounds as usize {
        for (case, (protocol, size)) in CASES.into_iter().enumerate() {
            for turn in 0..tools.len() {
                let index = (turn + round) % tools.len();
                let tool = tools[index];
                if !tool.can(protocol) || only.is_some_and(|only| only != protocol) {
                    continue;
                }
                let figure = once(&lab, &exe, tool, protocol, size, seconds)
                    .with_context(|| format!("{} {protocol} {size}, round {}", tool.name(), round + 1))?;
                measured[case][index].push(figure);
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    drop(lab);
    let text = table(&measured, &tools, rounds, seconds);
    println!("{text}");
    if let Some(file) = output {
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// For each case and tool the figures of all rounds.
type Measured = Vec<Vec<Vec<Figure>>>;

fn once(lab: &Lab, exe: &str, tool: Tool, protocol: &str, size: u32, seconds: u32) -> Result<Figure> {
    let address = lab.address();
    let udp = protocol == "udp";
    // sockperf's longest message.
    let size = if tool == Tool::Sockperf { size.min(65_507) } else { size };
    let (size, seconds) = (size.to_string(), seconds.to_string());
    let (server, client): (Vec<&str>, Vec<&str>) = match tool {
        Tool::Windhover | Tool::WindhoverBatch => {
            let mut client = vec![exe, "--quiet", "stream", protocol, address, "--size", &size, "--seconds", &seconds];
            client.extend(["--cpu", "0", "--remote-cpu", "1", "--format", "json"]);
            if tool == Tool::WindhoverBatch {
                client.extend(["--batch", "32"]);
            }
            (vec![exe, "--quiet", "serve", "--bind", address], client)
        }
        Tool::Iperf3 => {
            let mut client = vec!["iperf3", "-c", address, "-l", &size, "-t", &seconds, "-J"];
            if udp {
                client.extend(["-u", "-b", "0"]);
            }
            (vec!["iperf3", "-s", "-1", "-B", address], client)
        }
        Tool::Iperf2 => {
            let mut server = vec!["iperf", "-s", "-B", address, "-l", &size];
            let mut client = vec!["iperf", "-c", address, "-l", &size, "-t", &seconds, "-y", "C"];
            if udp {
                server.push("-u");
                client.extend(["-u", "-b", "100G"]);
            }
            (server, client)
        }
        Tool::Sockperf => {
            let mut server = vec!["sockperf", "server", "-i", address];
            let mut client = vec!["sockperf", "throughput", "-i", address, "-m", &size, "-t", &seconds];
            if !udp {
                server.push("--tcp");
                client.push("--tcp");
            }
            (server, client)
        }
    };
    let _server = lab.serve(&server)?;
    let text = lab.client(&client)?;
    let figure = match tool {
        Tool::Windhover | Tool::WindhoverBatch => ours(&text, udp),
        Tool::Iperf3 => iperf3(&text, udp),
        Tool::Iperf2 => iperf2(&text, udp, size.parse().unwrap_or(1.0)),
        Tool::Sockperf => sockperf(&text, udp, size.parse().unwrap_or(0.0)),
    };
    match figure {
        Some(figure) if figure.sent > 0.0 => Ok(figure),
        _ => bail!("cannot read what it printed: {}", text.chars().take(400).collect::<String>()),
    }
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

fn table(measured: &Measured, tools: &[Tool], rounds: u32, seconds: u32) -> String {
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
    let (ratio, low, high) = stats::ratio(&column(ours), &column(theirs));
    let what = if delivered { "" } else { ", sent" };
    format!("{ratio:.3} ({low:.3} to {high:.3}){what}")
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
