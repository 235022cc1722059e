//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang. Not part of the public interface.
#![doc(hidden)]

use crate::doctor::{Document, TextOptions, compare, comparison_text, text};
use crate::tune::{Form, Profile, emit};

/// A profile in TOML, by itself and on top of built-in ones; and what would be installed of it.
pub fn tune_profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(profile) = Profile::parse("fuzzed", text) else { return };
    for form in [Form::Grub, Form::Systemd, Form::Tuned, Form::Udev] {
        let _ = emit(&profile, form, Some("eth0"), "/usr/bin/windhover", &[]);
    }
}

/// A saved document of the doctor: printed, and compared with itself.
pub fn doctor_document(bytes: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Document>(bytes) else { return };
    let form = TextOptions { width: 80, colour: false, verbose: true };
    let _ = text(&document, &form);
    let compared = compare(&document, &document);
    assert!(!compared.differs(), "a document differs from itself");
    let _ = comparison_text(&compared, &form);
}
