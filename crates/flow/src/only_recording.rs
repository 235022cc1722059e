//! One recording at a time in a process.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process records.
static RECORDS: AtomicBool = AtomicBool::new(false);

/// The only recording of this process: each recorder costs every process of the machine.
pub(crate) struct OnlyRecording;

impl OnlyRecording {
    pub(crate) fn begin() -> Result<Self, String> {
        let is_other = RECORDS.swap(true, Ordering::AcqRel);
        if is_other { Err("this process explains another measurement".to_owned()) } else { Ok(Self) }
    }
}

impl Drop for OnlyRecording {
    fn drop(&mut self) {
        RECORDS.store(false, Ordering::Release);
    }
}
