//! `windhover bypass capture` and `bypass run --capture`: frames of a program on the stack in its process, as pcapng.

use super::{identity, signals};
use crate::cli::bypass::Capture as Arguments;
use crate::output::{Failure, Output};
use anyhow::anyhow;
use bypass::{BypassError, Capture, CaptureLimits, Recording};
use net::capture::{CaptureCounts, CaptureFile, CaptureSpec};
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<u8, Failure> {
    if arguments.file == Path::new("-") && std::io::stdout().is_terminal() {
        refuse!("a capture is not for terminals: name a file with -w FILE, or pipe it into `windhover dump --all -`");
    }
    let folder = bypass::folder();
    let _ = bypass::clear(&folder);
    let refused = |error: BypassError| match error {
        BypassError::Several { .. } => Failure::usage(error),
        _ => Failure::new(1, error),
    };
    let process = bypass::choose(&folder, arguments.program.as_deref()).map_err(refused)?;
    let stop = signals::stop_flag()?;
    let mut capture = Capture::ask(&folder, &process, arguments.buffer, arguments.snap)?;
    let (name, pid) = (&process.name, process.pid);
    if !capture.begins(&stop)? {
        let why = anyhow!("interrupted before {name} (process {pid}) began the capture: nothing is written");
        return Err(Failure::new(130, why));
    }
    let (interface, backend) = capture.interface();
    let recording = recording(capture, &arguments.file)?;
    output.note(format_args!("capturing {name} (process {pid}) on {interface} ({backend})"));
    let length = arguments.seconds.map(Duration::from_secs_f64);
    let limits = CaptureLimits { count: arguments.count.unwrap_or(u64::MAX), length };
    report(recording.run(&limits, &stop), &arguments.file, output).map(|()| 0)
}

/// Makes the file, or begins on standard output.
pub(super) fn recording(capture: Capture, path: &Path) -> Result<Recording, Failure> {
    let spec = CaptureSpec {
        path: path.to_owned(),
        application: identity::tool(),
        comment: "packets of accelerated sockets; time stamps: when the program took or sent the frame".to_owned(),
        ..CaptureSpec::default()
    };
    let is_file = path != Path::new("-");
    let file = if is_file { CaptureFile::create(spec) } else { CaptureFile::to_standard_output(spec) };
    Ok(Recording::new(capture, file?))
}

pub(super) fn report(counts: CaptureCounts, path: &Path, output: &Output) -> Result<(), Failure> {
    let place = if path == Path::new("-") { String::new() } else { format!(" in {}", path.display()) };
    output.note(format_args!("{} packets{place}, {} dropped", counts.written, counts.dropped));
    match counts.failed {
        Some(why) => Err(Failure::new(1, anyhow!("{why}: the capture ends early"))),
        None => Ok(()),
    }
}
