//! How results of each probe are shown: one row a probe. One without a row of its own is shown as `pingpong` is.

use crate::parts::{KEYS, Part};
use crate::result_tables::Keys;
use crate::{single_closed, single_cycle, single_pace, single_stream, single_wake};
use model::result::SelfCost;
use model::{Probe, ResultDocument};

/// How results of a probe are shown.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// What the heading says of the figures, where it is not what their kind of latency says.
    pub(crate) figures: Option<&'static str>,
    pub(crate) settings: fn(&ResultDocument) -> Vec<String>,
    pub(crate) sentences: fn(&[ResultDocument]) -> Vec<String>,
    pub(crate) tables: fn(&[ResultDocument]) -> Vec<Part>,
    /// What tells apart the rows of the table of percentiles; `None`: it has none.
    pub(crate) percentiles: Option<Keys>,
    /// What is said of each result below the tables.
    pub(crate) below: fn(&ResultDocument) -> String,
    /// What the tool costs beside the clock reads, which the sentence begins with.
    pub(crate) own_cost: fn(&SelfCost) -> String,
    /// A row a result, with a heading; `None`: the columns that all probes have.
    pub(crate) csv: Option<fn(&[ResultDocument]) -> String>,
}

const CLOSED: View = View {
    figures: None,
    settings: |_| Vec::new(),
    sentences: |_| Vec::new(),
    tables: single_closed::closed_loop,
    percentiles: Some(KEYS),
    below: |_| String::new(),
    own_cost: |cost| {
        format!(
            "; loop {:.0} ns a round, included above; recording {:.0} ns a message, outside the timed part",
            cost.loop_ns, cost.record_ns
        )
    },
    csv: None,
};

const RR: View = View { ..CLOSED };

const PING: View = View { below: single_closed::ping_summary, ..CLOSED };

const PACE: View = View {
    figures: Some("RTT (round trip) in µs"),
    settings: single_pace::settings,
    sentences: single_pace::sentences,
    tables: single_pace::parts,
    percentiles: Some(single_pace::KEYS),
    ..CLOSED
};

const STREAM: View = View {
    figures: Some("payload as the receiving end counts it"),
    settings: single_stream::settings,
    sentences: single_stream::sentences,
    tables: single_stream::parts,
    percentiles: None,
    own_cost: |_| ", one read a call".to_owned(),
    csv: Some(single_stream::csv),
    ..CLOSED
};

const WAKE: View = View {
    sentences: single_wake::sentences,
    tables: single_wake::parts,
    own_cost: |cost| {
        format!(", one in each figure above; recording {:.0} ns a wake-up, on another thread", cost.record_ns)
    },
    ..CLOSED
};

const CYCLE: View = View {
    figures: Some("RTT from the actual send in µs"),
    sentences: single_cycle::sentences,
    tables: single_cycle::parts,
    own_cost: |cost| {
        format!(", one in each figure above; recording {:.0} ns a cycle, on another thread", cost.record_ns)
    },
    ..CLOSED
};

pub(crate) fn of(probe: Probe) -> View {
    match probe {
        Probe::Rr => RR,
        Probe::Ping => PING,
        Probe::Pace => PACE,
        Probe::Stream => STREAM,
        Probe::Wake => WAKE,
        Probe::Cycle => CYCLE,
        _ => CLOSED,
    }
}
