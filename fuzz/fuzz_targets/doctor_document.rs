#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| windhover_fuzz::targets::doctor_document(bytes));
