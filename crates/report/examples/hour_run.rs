//! Writes a synthetic run of `pace` for `cargo xtask bench render`: one cell for each policy named, 40,000 messages a second
//! for an hour, or for as many seconds as are given. Arguments: folder, seconds, policies.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::error::Error;
use std::path::Path;
use synthetic::{Cell, Message, chance, files};

/// A tail as measured: most within a few µs, few far out. From four numbers of one draw.
fn message(policy: &str, seq: u64) -> Message {
    let draw = chance(seq);
    let (a, b, c, d) = (draw & 0xffff, draw >> 16 & 0xffff, draw >> 32 & 0xffff, draw >> 48);
    // The sum of three is nearly normal.
    let mut rtt_ns = 7_000 + (a + b + c) / 32;
    let mut lateness_ns = 3_000 + (b + c + d) / 64;
    let noisy = policy == "other";
    if d < if noisy { 700 } else { 60 } {
        // One over a number: a tail over three decades.
        rtt_ns += 60_000_000 / (a + 12) / if noisy { 1 } else { 12 };
    }
    if d > if noisy { 65_000 } else { 65_530 } {
        lateness_ns += 40_000_000 / (c + 12);
    }
    let lost = noisy && draw.is_multiple_of(1_000_003);
    Message { lateness_ns, rtt_ns: (!lost).then_some(rtt_ns) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let seconds = arguments.next().map_or(Ok(3600), |text| text.parse())?;
    let policies: Vec<String> = match arguments.collect::<Vec<_>>() {
        named if named.is_empty() => vec!["other".to_owned()],
        named => named,
    };
    let cells: Vec<_> = policies
        .iter()
        .map(|policy| {
            let rule = |seq: u64, _: u64| message(policy, seq);
            files(&Cell { policy, rate: 40_000, seconds, events: Vec::new(), rule: &rule })
        })
        .collect();
    let run = synthetic::run(Path::new(&folder), "hour", &cells);
    std::fs::write(Path::new(&folder).join("run-directory"), run.display().to_string())?;
    Ok(())
}
