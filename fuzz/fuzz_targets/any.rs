//! Every target in one program, which is built once: `WINDHOVER_FUZZ` names the one to run.
#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: {
    let name = std::env::var("WINDHOVER_FUZZ").expect("WINDHOVER_FUZZ names a target");
    let targets = windhover_fuzz::targets::TARGETS;
    let (_, target) = targets.iter().find(|(known, _)| *known == name).expect("there is no such target");
    TARGET.get_or_init(|| *target);
}, |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(bytes);
    }
});
