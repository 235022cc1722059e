//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::doctor::{Document, compare};
use crate::tune::{Form, Profile, emit};

/// A profile in TOML, by itself and on top of built-in ones; and what would be installed of it.
pub fn tune_profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(profile) = Profile::parse("fuzzed", text) else { return };
    for form in [Form::Grub, Form::Systemd, Form::Tuned, Form::Udev] {
        let _ = emit(&profile, form, Some("eth0"), "/usr/bin/windhover", &[]);
    }
}

pub fn doctor_document(bytes: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Document>(bytes) else { return };
    assert!(!compare(&document, &document).differs(), "a document differs from itself");
}
