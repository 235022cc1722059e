//! `windhover pgm send`

use super::{open, tell};
use crate::cli::pgm::Send;
use crate::commands::signals;
use crate::output::{Failure, Output};
use anyhow::{Context as _, anyhow};
use pgm::source::SourceCounts;
use pgm_io::PgmSocketCounts;
use pgm_io::hand::{self, MOST_BYTES, Next, PublishOptions, PublishReport, numbered, serve};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

pub(super) fn run(arguments: &Send, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut socket = open(&arguments.group_args, Some((arguments.group, &arguments.source)), None)?;
    let mut input = Input::new(arguments, socket.packet_payload_bytes())?;
    output.note(format_args!("{} publishes on {}", socket.local(), arguments.group));
    serve(&mut socket, arguments.wait, &stop)?;
    let began = Instant::now();
    let rate_pps = arguments.rate.or_else(|| arguments.count.map(|_| 1000.0));
    let options = PublishOptions { rate_pps, zeromq: arguments.group_args.zeromq };
    let sent = hand::publish(&mut socket, options, &stop, |number, message| {
        let next = input.next(number, message)?;
        if message.len() > MOST_BYTES && !arguments.group_args.zeromq {
            let why = anyhow!("message {} has {} bytes: PGM carries {MOST_BYTES} at most", number + 1, message.len());
            return Err(Failure::usage(why));
        }
        Ok(next)
    });
    let lasted = began.elapsed();
    if sent.is_ok() {
        serve(&mut socket, arguments.linger, &stop)?;
    }
    let closed = socket.close(hand::CLOSE);
    let PublishReport { messages, bytes } = sent?;
    let finished = closed?;
    let counts = socket.counts();
    if arguments.form.is_json() {
        let summary = serde_json::json!({
            "type": "summary", "messages": messages, "bytes": bytes, "seconds": lasted.as_secs_f64(),
            "finished": finished, "source": tell::source_counts(&counts.source), "unsent": counts.unsent,
        });
        output.result(&format!("{summary}\n"))?;
    } else {
        output.note(text(messages, bytes, lasted, &counts));
    }
    if counts.source.numbers_outside > 0 {
        output.warning(format_args!(
            "{} packets were asked for that were no longer in the window: receivers lost them; --window makes it larger",
            counts.source.numbers_outside
        ));
    }
    if !finished {
        output.warning("the end of the session could not be announced in time");
    }
    Ok(if stop.load(Ordering::Relaxed) { 130 } else { 0 })
}

enum Input {
    Numbered { count: u64, size: usize },
    File { file: Box<dyn Read>, name: String, size: usize },
    Lines { lines: Receiver<std::io::Result<Vec<u8>>>, hex: bool },
}

impl Input {
    fn new(arguments: &Send, packet_payload: Option<usize>) -> Result<Self, Failure> {
        let most = MOST_BYTES;
        if let Some(size) = arguments.size.filter(|size| !(1..=most).contains(size)) {
            return Err(Failure::usage(anyhow!("--size {size} is not from 1 to {most} bytes")));
        }
        if let Some(count) = arguments.count {
            let size = arguments.size.unwrap_or(64);
            if size < numbered::LEAST_BYTES {
                let least = numbered::LEAST_BYTES;
                return Err(Failure::usage(anyhow!(
                    "--size {size} has no room for a number: use {least} bytes or more"
                )));
            }
            return Ok(Self::Numbered { count, size });
        }
        if let Some(path) = &arguments.file {
            let name = path.display().to_string();
            let file: Box<dyn Read> = if path == Path::new("-") {
                Box::new(std::io::stdin())
            } else {
                let file = File::open(path).with_context(|| format!("cannot read {name}")).map_err(Failure::usage)?;
                Box::new(BufReader::new(file))
            };
            // A frame of ZeroMQ takes up to twelve bytes more.
            let size = arguments.size.unwrap_or_else(|| packet_payload.unwrap_or(1448).saturating_sub(12).max(1));
            return Ok(Self::File { file, name, size });
        }
        if arguments.size.is_some() {
            return Err(Failure::usage(anyhow!("--size goes with --count or --file: a line is as long as it is")));
        }
        Ok(Self::Lines { lines: lines()?, hex: arguments.hex })
    }

    /// The next message; what is numbered is written when it is due.
    fn next(&mut self, number: u64, message: &mut Vec<u8>) -> Result<Next, Failure> {
        match self {
            Self::Numbered { count, size } => {
                message.resize(*size, 0);
                Ok(if number < *count { Next::Numbered } else { Next::End })
            }
            Self::File { file, name, size } => {
                message.clear();
                let most = u64::try_from(*size).unwrap_or(u64::MAX);
                file.by_ref().take(most).read_to_end(message).with_context(|| format!("cannot read {name}"))?;
                Ok(if message.is_empty() { Next::End } else { Next::Message })
            }
            Self::Lines { lines, hex } => match lines.try_recv() {
                Err(TryRecvError::Empty) => Ok(Next::NotYet),
                Err(TryRecvError::Disconnected) => Ok(Next::End),
                Ok(line) => {
                    let line = line.context("cannot read standard input")?;
                    message.clear();
                    if *hex {
                        let what = || format!("line {} of standard input", number + 1);
                        message.extend(unhex(&line).with_context(what).map_err(Failure::usage)?);
                    } else {
                        message.extend(line);
                    }
                    Ok(Next::Message)
                }
            },
        }
    }
}

/// Lines of standard input, read on a thread of their own: NAKs are served while no input comes.
fn lines() -> Result<Receiver<std::io::Result<Vec<u8>>>, Failure> {
    let (out, lines) = sync_channel(1024);
    let read = move || {
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line.map(|mut line| {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                line
            });
            let last = line.is_err();
            if out.send(line).is_err() || last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("lines".to_owned()).spawn(read).context("cannot start a thread")?;
    Ok(lines)
}

fn unhex(line: &[u8]) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<u8> = line
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()
        .context("it is not all hexadecimal")?;
    let (pairs, odd) = digits.as_chunks::<2>();
    anyhow::ensure!(odd.is_empty(), "it has an odd number of digits");
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn text(messages: u64, bytes: u64, lasted: Duration, counts: &PgmSocketCounts) -> String {
    let SourceCounts { odata, naks, .. } = counts.source;
    let (seconds, asked) = (lasted.as_secs_f64(), tell::asked_text(&counts.source));
    format!(
        "{messages} messages, {bytes} bytes sent in {seconds:.3} s as {odata} packets; {naks} NAKs asked for {asked}"
    )
}

#[cfg(test)]
mod tests {
    use super::unhex;

    #[test]
    fn hexadecimal_is_bytes() {
        assert_eq!(unhex(b"00fF 10\r").unwrap(), [0, 255, 16]);
        assert!(unhex(b"").unwrap().is_empty());
        unhex(b"0").unwrap_err();
        unhex(b"0g").unwrap_err();
    }
}
