//! `windhover dump`: captured packets as lines, Windhover's own messages and PGM named, with the time between them.

mod lines;
mod pgm_lines;
mod pgm_summary;
mod summary;

use super::signals;
use crate::cli::dump::{Dump, DumpFormat};
use crate::output::{Failure, Output, wrapped};
use anyhow::anyhow;
use dump::{Content, Decoder, Record, Selection, Sink};
use net::capture::{CaptureError, Live, Reader};
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(arguments: &Dump, output: &Output) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let source = arguments.source.as_str();
    if source == "-" {
        file(std::io::stdin().lock(), arguments, output, &stop)?;
    } else if Path::new(source).is_file() || source.contains('/') {
        let file = File::open(source).map_err(|error| {
            Failure::usage(anyhow!("cannot read {source}: {error}: name a capture, or a network interface ('ip link')"))
        })?;
        self::file(BufReader::with_capacity(1 << 18, file), arguments, output, &stop)?;
    } else {
        live(source, arguments, output, &stop)?;
    }
    Ok(if stop.load(Ordering::Relaxed) { 130 } else { 0 })
}

fn file(input: impl Read, arguments: &Dump, output: &Output, stop: &AtomicBool) -> Result<(), Failure> {
    let broken = |error: CaptureError| Failure::new(1, anyhow!("{}: {error}", arguments.source));
    let mut reader = Reader::new(input).map_err(|error| match error {
        CaptureError::NotACapture(_) => Failure { code: 2, ..broken(error) },
        error => broken(error),
    })?;
    let (mut decoder, mut printer) = (decoder(arguments), Printer::new(arguments, output));
    let ended = decoder.file(&mut reader, stop, &mut printer);
    // What was decoded before the damage is printed all the same.
    printer.finish(decoder)?;
    ended.map_err(broken)
}

fn live(name: &str, arguments: &Dump, output: &Output, stop: &AtomicBool) -> Result<(), Failure> {
    let mut live = Live::open(name).map_err(|error| match error {
        net::NetError::NoInterface { .. } => {
            Failure::usage(anyhow!("'{name}' is neither a file nor a network interface: see 'ip link' for those"))
        }
        net::NetError::CaptureNotPermitted => Failure::new(2, error),
        other => Failure::new(1, other),
    })?;
    output.note(format_args!("listening on {}", live.link().name));
    let (mut decoder, mut printer) = (decoder(arguments), Printer::new(arguments, output));
    decoder.live(&mut live, stop, &mut printer);
    printer.finish(decoder)
}

fn decoder(arguments: &Dump) -> Decoder {
    Decoder::new(Selection {
        count: arguments.count,
        seconds: arguments.seconds,
        ports: arguments.port.clone(),
        pgm_ports: arguments.pgm_port.clone(),
        hosts: arguments.host.clone(),
    })
}

struct Printer<'a> {
    arguments: &'a Dump,
    output: &'a Output,
    headed: bool,
    buffer: String,
    /// Why nothing more can be written.
    failed: Option<Failure>,
}

impl<'a> Printer<'a> {
    fn new(arguments: &'a Dump, output: &'a Output) -> Self {
        Self { arguments, output, headed: false, buffer: String::new(), failed: None }
    }

    fn is_json(&self) -> bool {
        self.arguments.form.get() == DumpFormat::Json
    }

    fn wanted(&self, content: &Content<'_>) -> bool {
        let arguments = self.arguments;
        !arguments.summary
            && match content {
                Content::Message { ours, .. } => *ours || arguments.all,
                Content::Pgm { .. } | Content::Exchange { .. } => true,
                // Neither port nor address is known of them.
                Content::Undecoded(_) => arguments.all && arguments.port.is_empty() && arguments.host.is_empty(),
            }
    }

    /// Breaks off once the reader has closed standard output.
    fn flush(&mut self) -> ControlFlow<()> {
        if self.buffer.is_empty() {
            return ControlFlow::Continue(());
        }
        let read = self.output.part(&self.buffer);
        self.buffer.clear();
        match read {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn finish(mut self, decoder: Decoder) -> Result<(), Failure> {
        let summary = decoder.finish();
        if self.is_json() {
            self.buffer.push_str(&format!("{}\n", summary::json(&summary)));
        } else {
            self.buffer.push_str(&wrapped(&summary::text(&summary)));
        }
        if self.failed.is_none() {
            let _ = self.flush();
        }
        self.failed.map_or(Ok(()), Err)
    }
}

impl Sink for Printer<'_> {
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        const FULL: usize = 1 << 16;
        if self.wanted(&record.content) {
            if self.is_json() {
                self.buffer.push_str(&format!("{}\n", lines::json(record)));
            } else {
                if !std::mem::replace(&mut self.headed, true) {
                    self.buffer.push_str(lines::HEADING);
                }
                lines::text(record, &mut self.buffer);
            }
        }
        if self.buffer.len() >= FULL { self.flush() } else { ControlFlow::Continue(()) }
    }

    fn idle(&mut self) -> ControlFlow<()> {
        self.flush()
    }
}
