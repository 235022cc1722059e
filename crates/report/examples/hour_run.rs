//! Writes a synthetic run of `pace` for `cargo xtask bench render`: one cell for each policy named, 40,000 messages a second
//! for an hour, or for as many seconds as are given, as the recorder leaves them. Arguments: folder, seconds, policies.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use model::{LatencyKind, PacedSample, ResultDocument, Sample, SampleFlags, TickRate};
use record::{Paced, PacedConfig, Recorded};
use std::error::Error;
use std::path::Path;
use std::thread;
use synthetic::{Cell, Files, Message, chance, files};

const RATE_PPS: u64 = 40_000;
/// After which a message without an answer is lost.
const TIMEOUT_NS: u64 = 1_000_000_000;
/// When the first message is due.
const BEGIN_NS: u64 = 1_000_000;

/// A tail as measured: most within a few µs, few far out. From four numbers of one draw.
fn sample(noisy: bool, seq: u64) -> Sample {
    let draw = chance(seq);
    let (a, b, c, d) = (draw & 0xffff, draw >> 16 & 0xffff, draw >> 32 & 0xffff, draw >> 48);
    // The sum of three is nearly normal.
    let mut rtt_ns = 7_000 + (a + b + c) / 32;
    let mut lateness_ns = 3_000 + (b + c + d) / 64;
    if d < if noisy { 700 } else { 60 } {
        // One over a number: a tail over three decades.
        rtt_ns += 60_000_000 / (a + 12) / if noisy { 1 } else { 12 };
    }
    if d > if noisy { 65_000 } else { 65_530 } {
        lateness_ns += 40_000_000 / (c + 12);
    }
    let intended = BEGIN_NS + seq * (1_000_000_000 / RATE_PPS);
    let sent = intended + lateness_ns;
    if noisy && draw.is_multiple_of(1_000_003) {
        return Sample {
            seq,
            intended,
            sent,
            received: sent + TIMEOUT_NS,
            flags: SampleFlags::LOST,
            ..Sample::default()
        };
    }
    Sample { seq, intended, sent, received: sent + rtt_ns, ..Sample::default() }
}

fn recorded(noisy: bool, seconds: u64) -> Recorded {
    let mut paced = Paced::new(PacedConfig::new(TickRate::NANOSECONDS, LatencyKind::Rtt, RATE_PPS as f64));
    paced.begin(BEGIN_NS);
    let mut batch = [PacedSample::default(); 1000];
    for first in (0..RATE_PPS * seconds).step_by(batch.len()) {
        for (seq, one) in (first..).zip(&mut batch) {
            one.sample = sample(noisy, seq);
        }
        paced.ingest(&batch);
    }
    paced.finish(None)
}

fn cell(policy: &str, seconds: u64, recorded: &Recorded) -> Files {
    let rule = |_, _| Message { lateness_ns: 0, rtt_ns: None };
    let empty = files(&Cell { policy, rate: RATE_PPS, seconds: 0, events: Vec::new(), rule: &rule });
    let result = ResultDocument {
        elapsed_ns: seconds * 1_000_000_000,
        messages: recorded.messages.clone(),
        series: recorded.series.clone(),
        ..empty.result
    };
    Files { result, hlog: recorded.hlog.clone(), outliers: recorded.outliers.clone(), ..empty }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let seconds = arguments.next().map_or(Ok(3600), |text| text.parse())?;
    let policies: Vec<String> = match arguments.collect::<Vec<_>>() {
        named if named.is_empty() => vec!["other".to_owned()],
        named => named,
    };
    let is_noisy = |policy: &String| policy == "other";
    let [quiet, noisy] = thread::scope(|scope| {
        let both = [false, true].map(|noisy| {
            let is_asked = policies.iter().any(|policy| is_noisy(policy) == noisy);
            scope.spawn(move || is_asked.then(|| recorded(noisy, seconds)))
        });
        both.map(|thread| thread.join().ok().flatten())
    });
    let cells = policies.iter().map(|policy| {
        let recorded = if is_noisy(policy) { &noisy } else { &quiet };
        Ok(cell(policy, seconds, recorded.as_ref().ok_or("recording ended early")?))
    });
    let cells = cells.collect::<Result<Vec<Files>, Box<dyn Error>>>()?;
    let run = synthetic::run(Path::new(&folder), "hour", &cells);
    std::fs::write(Path::new(&folder).join("run-directory"), run.display().to_string())?;
    Ok(())
}
