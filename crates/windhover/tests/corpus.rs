//! Every fuzz target over its corpus, so that what once broke a parser stays mended.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

#[path = "../../../fuzz/src/targets.rs"]
#[allow(unreachable_pub, reason = "a library of its own in the fuzz package")]
mod targets;

use std::path::PathBuf;

type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[
    ("frame", targets::frame as fn(&[u8])),
    ("control_server", targets::control_server as fn(&[u8])),
    ("control_client", targets::control_client as fn(&[u8])),
    ("data_header", targets::data_header as fn(&[u8])),
    ("key_file", targets::key_file as fn(&[u8])),
    ("agent_reply", targets::agent_reply as fn(&[u8])),
    ("run_json", targets::run_json as fn(&[u8])),
    ("result_document", targets::result_document as fn(&[u8])),
    ("journal", targets::journal as fn(&[u8])),
    ("plan", targets::plan as fn(&[u8])),
    ("hlog", targets::hlog as fn(&[u8])),
    ("histogram", targets::histogram as fn(&[u8])),
    ("typed_values", targets::typed_values as fn(&[u8])),
    ("worker_line", targets::worker_line as fn(&[u8])),
    ("icmp_reply", targets::icmp_reply as fn(&[u8])),
    ("proc_files", targets::proc_files as fn(&[u8])),
    ("netdev", targets::netdev as fn(&[u8])),
    ("flow_rule", targets::flow_rule as fn(&[u8])),
    ("task_files", targets::task_files as fn(&[u8])),
    ("undo_log", targets::undo_log as fn(&[u8])),
    ("trace_line", targets::trace_line as fn(&[u8])),
    ("capture_file", targets::capture_file as fn(&[u8])),
    ("captured_frame", targets::captured_frame as fn(&[u8])),
    ("pgm_packet", targets::pgm_packet as fn(&[u8])),
    ("pgm_engines", targets::pgm_engines as fn(&[u8])),
    ("doctor_document", targets::doctor_document as fn(&[u8])),
    ("tune_profile", targets::tune_profile as fn(&[u8])),
    ("route", targets::route as fn(&[u8])),
    ("qdisc", targets::qdisc as fn(&[u8])),
    ("shield_state", targets::shield_state as fn(&[u8])),
    ("ip_json", targets::ip_json as fn(&[u8])),
    ("lab_registry", targets::lab_registry as fn(&[u8])),
];

#[test]
fn no_corpus_file_breaks_its_target() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for &(name, target) in TARGETS {
        let files: Vec<PathBuf> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            target(&std::fs::read(&file).unwrap());
        }
    }
    let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    for entry in std::fs::read_dir(corpus).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "{name} has a corpus but no target here");
    }
}
