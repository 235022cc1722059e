//! `--pcap`: the capture beside a measurement or a PGM tool.

use super::identity;
use crate::cli::dump::Pcap;
use crate::output::{Failure, Output};
use model::worker::ProbeTask;
use net::NetError;
use net::capture::{CaptureSpec, GroupFlow};
use probe::{ProbeError, Recording};
use std::path::Path;

pub(crate) fn of_task(wanted: &Pcap, task: &ProbeTask) -> Result<Option<Recording>, Failure> {
    started(wanted, |path| Recording::of_task(task, path, wanted.snap, &identity::tool()))
        .map_err(|error| Failure::new(error.exit_code(), error))
}

pub(crate) fn of_group(
    wanted: &Pcap,
    comment: String,
    flow: GroupFlow,
    device: Option<&str>,
) -> Result<Option<Recording>, Failure> {
    let (payload_bytes, application) = (wanted.snap, identity::tool());
    started(wanted, |path| {
        let spec = CaptureSpec { path: path.to_owned(), payload_bytes, application, comment, ..CaptureSpec::default() };
        Recording::of_group(spec, flow, device)
    })
    // Whatever else is wrong is what was typed: the group or the device.
    .map_err(|error| match error {
        ProbeError::Net(NetError::CaptureFile { .. }) | ProbeError::Task(_) => Failure::new(1, error),
        error => Failure::usage(error),
    })
}

fn started(
    wanted: &Pcap,
    start: impl FnOnce(&Path) -> Result<Recording, ProbeError>,
) -> Result<Option<Recording>, ProbeError> {
    wanted.file.as_deref().map(start).transpose()
}

pub(crate) fn finish(recording: &Recording, wanted: &Pcap, output: &Output) {
    let counts = recording.finish();
    let path = wanted.file.as_deref().unwrap_or(Path::new("-")).display();
    let lost = if counts.dropped > 0 { format!(", {} lost", counts.dropped) } else { String::new() };
    output.note(format_args!("{} packets in {path}{lost}", counts.written));
    if let Some(why) = counts.failed {
        output.warning(format_args!("{why}: {path} ends early"));
    }
}
