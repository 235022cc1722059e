//! Keeps CPUs out of deep sleep: a process holds /dev/cpu_dma_latency open (pm_qos_interface.rst) until an undo.

use crate::Kernel;
use host::knob::{Knob, KnobError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use task::{Launch, Stream};

/// Why a hold would do nothing here, if so.
pub(super) fn useless(kernel: &Kernel) -> Option<String> {
    let machine = kernel.machine();
    if !machine.exists("/dev/cpu_dma_latency") {
        return Some("there is no /dev/cpu_dma_latency".to_owned());
    }
    let driver = machine.text("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    match driver.trim() {
        "" | "none" => {
            Some("no cpuidle driver (a guest, or idle=poll): the CPUs have no deep sleep to keep them from".to_owned())
        }
        _ => None,
    }
}

/// Opens the device with a request; closing the file ends it.
pub fn open(latency_us: u32) -> io::Result<OwnedFd> {
    let mut file = std::fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    let value = i32::try_from(latency_us).unwrap_or(i32::MAX);
    file.write_all(&value.to_ne_bytes())?;
    Ok(file.into())
}

/// Sets the hold: starts a holder for the new value, then ends those of the old one, so that there is no gap.
pub(crate) fn write(program: &Path, value: &str) -> Result<(), KnobError> {
    let knob = Knob::CpuLatency;
    let failed = |cause| KnobError::unwritten(&knob, value, cause);
    let old = host::holders::find(&host::knob::Machine::running());
    if value != "none" {
        start(program, value).map_err(failed)?;
    }
    for holder in old {
        host::holders::end(&holder.task).map_err(failed)?;
    }
    Ok(())
}

fn start(program: &Path, value: &str) -> io::Result<()> {
    let us: u32 = value.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a number of µs"))?;
    let launch = Launch::new(program)
        .args([host::holders::COMMAND, host::holders::FLAG, &us.to_string()])
        .bystander(None)
        .env_remove(host::undo::KILL_AT)
        .stdout(Stream::Pipe)
        .stderr(Stream::Null);
    let mut child = launch.start().map_err(|error| io::Error::other(error.to_string()))?;
    let mut said = String::new();
    if let Some(stdout) = child.take_stdout() {
        stdout.take(64).read_to_string(&mut said)?;
    }
    if said.trim() != "held" {
        let why =
            format!("the holder did not come up: {}", if said.is_empty() { "it said nothing" } else { said.trim() });
        return Err(io::Error::other(why));
    }
    // It lives on; an undo finds it by its command line.
    std::mem::forget(child);
    Ok(())
}
