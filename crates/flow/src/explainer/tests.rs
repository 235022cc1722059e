use super::*;

/// Catches: a recorder that goes on when its session is gone, and one that keeps all later ones out.
#[test]
fn one_recording_at_a_time_and_the_next_one_after_it() {
    let first = OnlyRecording::begin().unwrap();
    assert!(OnlyRecording::begin().is_err());
    drop(first);
    assert!(OnlyRecording::begin().is_ok());
}
