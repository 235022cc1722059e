//! Where a device's flow rules go in its table.

use crate::Kernel;
use host::knob::{Knob, Settings as _, flow_locations, free_location};

/// Where a rule is, or a free place outside `taken`, which grows by it; else why there is none, on one line.
pub(crate) fn place(kernel: &Kernel, device: &str, rule: &str, taken: &mut Vec<u32>) -> Result<Knob, String> {
    let knob = |location: u32| Knob::Flow { device: device.to_owned(), location };
    let location = if kernel.machine().is_running() {
        let same = flow_locations(device)
            .into_iter()
            .find(|&location| kernel.read(&knob(location)).is_ok_and(|there| there == rule));
        same.or_else(|| free_location(device, taken))
    } else {
        // A tree of files has no device to ask.
        u32::try_from(taken.len()).ok()
    };
    let location = location
        .ok_or_else(|| format!("{device} has no table of flow rules, or no room in it (is nic.feature.ntuple on?)"))?;
    taken.push(location);
    Ok(knob(location))
}
