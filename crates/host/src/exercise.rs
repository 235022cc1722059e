//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::{knob, qdisc, shield, tasks, undo};

/// What the kernel answers about queueing disciplines over rtnetlink.
pub fn qdisc(bytes: &[u8]) {
    let _ = qdisc::parse_dump(bytes);
}

/// What the kernel answers about NAPI instances over netlink.
pub fn napi(bytes: &[u8]) {
    knob::napi::exercise(bytes);
}

/// `shield.json`: what is read is written as what is read again.
pub fn shield_state(bytes: &[u8]) {
    if let Some(state) = shield::parse(bytes) {
        let text = serde_json::to_vec(&state).unwrap_or_default();
        assert_eq!(shield::parse(&text), Some(state));
    }
}

pub fn time_offsets(bytes: &[u8]) {
    let _ = tasks::parse_boot_offset_ns(&String::from_utf8_lossy(bytes));
}

pub fn undo_log(bytes: &[u8]) {
    undo::exercise_log(bytes);
}
