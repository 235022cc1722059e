//! Readers of files take any bytes: no panic, no hang.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;
#[path = "../../../fuzz/src/store_entries.rs"]
#[allow(unreachable_pub, reason = "a part of the fuzz package")]
mod entries;

extern crate windhover_store as store;

use proptest::prelude::*;
use store::exercise;

fn all(bytes: &[u8]) {
    exercise::run_json(bytes);
    entries::result_document(bytes);
    exercise::journal(bytes);
    entries::plan(bytes);
    entries::hlog(bytes);
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        all(&bytes);
    }

    /// Real documents with a few bytes changed get further than noise.
    #[test]
    fn damaged_documents(which in 0usize..4, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4)) {
        let mut bytes = match which {
            0 => serde_json::to_vec(&common::run_document(2)).unwrap(),
            1 => serde_json::to_vec(&common::result(1)).unwrap(),
            2 => b"{\"step\":\"start\",\"index\":1,\"at_ns\":2}\n{\"step\":\"end\",\"at_ns\":1,\"outcome\":\"done\"}\n".to_vec(),
            _ => common::measured(1).hlog.into_bytes(),
        };
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        all(&bytes);
    }
}
