//! Knobs of network devices: of the running system by ioctl and netlink, of a tree of files (tests of plans) as files.
//!
//! In a tree, `ROOT/devices/IF/coalesce/rx-usecs` holds that property, `.../flow/3` the rule at location 3 and
//! `.../napi/8193/threaded` that of a NAPI instance. A missing file is a property that the device lacks.

use super::{Knob, KnobError, Machine, ethtool, flow, napi};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) enum DeviceError {
    /// The device or its driver has no such property.
    Absent,
    Failed(io::Error),
    /// No such property, or no such value: one line.
    Unsupported(String),
}

impl DeviceError {
    fn of(self, knob: &Knob, failed: impl FnOnce(io::Error) -> KnobError) -> KnobError {
        match self {
            Self::Absent => KnobError::absent(knob),
            Self::Failed(cause) => failed(cause),
            Self::Unsupported(why) => KnobError::unsupported(knob, why),
        }
    }
}

impl From<io::Error> for DeviceError {
    /// Drivers without a command say EOPNOTSUPP; a device that is not there is ENODEV.
    fn from(cause: io::Error) -> Self {
        match cause.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENODEV) => Self::Absent,
            _ => Self::Failed(cause),
        }
    }
}

impl From<nix::Error> for DeviceError {
    fn from(cause: nix::Error) -> Self {
        io::Error::from(cause).into()
    }
}

pub(super) fn read(machine: &Machine, knob: &Knob) -> Result<String, KnobError> {
    let value = match knob {
        _ if !machine.is_running() => file(knob).and_then(|path| {
            let content = machine.text(path).map_err(|cause| match cause.kind() {
                io::ErrorKind::NotFound => DeviceError::Absent,
                _ => DeviceError::Failed(cause),
            })?;
            Ok(content.trim().to_owned())
        }),
        Knob::Ethtool { device, part, name } => ethtool::read(device, *part, name),
        Knob::Flow { device, location } => flow::read(device, *location),
        Knob::Napi { device, id, name } => napi::read(device, *id, name),
        _ => Err(no_device()),
    };
    value.map_err(|trouble| trouble.of(knob, |cause| KnobError::Read { knob: Box::new(knob.clone()), cause }))
}

pub(super) fn write(machine: &Machine, knob: &Knob, value: &str) -> Result<(), KnobError> {
    let done = match knob {
        _ if !machine.is_running() => file(knob).and_then(|path| machine.put(path, value).map_err(DeviceError::Failed)),
        Knob::Ethtool { device, part, name } => ethtool::write(device, *part, name, value),
        Knob::Flow { device, location } => flow::write(device, *location, value),
        Knob::Napi { device, id, name } => napi::write(device, *id, name, value),
        _ => Err(no_device()),
    };
    done.map_err(|trouble| trouble.of(knob, |cause| KnobError::unwritten(knob, value, cause)))
}

fn file(knob: &Knob) -> Result<PathBuf, DeviceError> {
    let (device, rest) = match knob {
        Knob::Ethtool { device, part, name } => {
            (device, format!("{}/{}", part.word(), ethtool::canonical(*part, name)))
        }
        Knob::Flow { device, location } => (device, format!("flow/{location}")),
        Knob::Napi { device, id, name } => (device, format!("napi/{id}/{name}")),
        _ => return Err(no_device()),
    };
    Ok(Path::new("/devices").join(device).join(rest))
}

fn no_device() -> DeviceError {
    DeviceError::Unsupported("not a property of a network device".to_owned())
}
