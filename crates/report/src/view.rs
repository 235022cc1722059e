//! How results of each probe are shown: one row a probe. One without a row of its own is shown as `pingpong` is.

use crate::cell_tables::{Part as Columns, Rows};
use crate::parts::{KEYS, Part};
use crate::result_tables::Keys;
use crate::{single_closed, single_pace, single_stream, single_wake};
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
    /// The tables of all cells in the page.
    pub(crate) page: &'static [PageTable],
    /// What a row of these is about.
    pub(crate) rows: Rows,
}

/// A table of all cells of a probe in the page.
#[derive(Clone, Copy)]
pub(crate) struct PageTable {
    /// Its title; empty: the probe's name.
    pub(crate) title: &'static str,
    /// What it is about, where that is not what the probe measures.
    pub(crate) about: Option<&'static str>,
    pub(crate) columns: &'static [Columns],
}

const fn page(columns: &'static [Columns]) -> PageTable {
    PageTable { title: "", about: None, columns }
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
    page: &[page(&[(
        "",
        &["count", "mean", "stdev", "min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max", "lost"],
    )])],
    rows: Rows::Whole,
};

const RR: View = View {
    page: &[
        page(&[
            ("", &["response", "transactions", "transactions-ci95"]),
            ("latency", &["mean", "stdev", "p50", "p99", "max"]),
        ]),
        PageTable {
            title: "rr: CPU",
            about: Some("what a transaction costs at both ends"),
            columns: &[
                ("initiator", &["initiator.machine", "initiator.demand", "initiator.process", "initiator.softirq"]),
                ("reflector", &["reflector.machine", "reflector.demand", "reflector.process", "reflector.softirq"]),
            ],
        },
    ],
    ..CLOSED
};

const PING: View = View {
    below: single_closed::ping_summary,
    page: &[page(&[("", &["count", "min", "mean", "max", "mdev", "p50", "p99", "p99.9", "lost"])])],
    ..CLOSED
};

const PACE: View = View {
    figures: Some("RTT (round trip) in µs"),
    settings: single_pace::settings,
    sentences: single_pace::sentences,
    tables: single_pace::parts,
    percentiles: Some(single_pace::KEYS),
    page: &[page(&[
        ("messages a second", &["asked", "achieved"]),
        ("RTT from actual send", &["p50", "p99", "p99.9", "max"]),
        ("RTT from intended send", &["intended.p50", "intended.p99", "intended.p99.9", "intended.max"]),
        ("lateness", &["lateness.p50", "lateness.p99", "lateness.max"]),
        ("", &["lost", "gaps"]),
    ])],
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
    page: &[
        page(&[
            ("", &["up.bits", "up.datagrams", "up.lost", "up.reordered", "up.rfc3550-jitter", "up.retransmits"]),
            ("TCP's RTT", &["up.tcp-rtt", "up.tcp-rtt-max"]),
        ]),
        PageTable {
            title: "stream: CPU and RTT",
            about: Some("what a KiB costs at both ends, and a ping-pong before and beside it"),
            columns: &[
                ("CPU at both ends", &["initiator.us-per-kib", "reflector.us-per-kib"]),
                ("RTT idle", &["idle.p50", "idle.p99"]),
                ("RTT under load", &["working.p50", "working.p99"]),
            ],
        },
    ],
    rows: Rows::Directions,
    ..CLOSED
};

const WAKE: View = View {
    sentences: single_wake::sentences,
    tables: single_wake::parts,
    own_cost: |cost| {
        format!(", one in each figure above; recording {:.0} ns a wake-up, on another thread", cost.record_ns)
    },
    page: &[page(&[(
        "",
        &["count", "mean", "stdev", "min", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max", "wake.missed"],
    )])],
    ..CLOSED
};

/// How results of a probe are shown.
pub(crate) fn of(probe: Probe) -> View {
    match probe {
        Probe::Rr => RR,
        Probe::Ping => PING,
        Probe::Pace => PACE,
        Probe::Stream => STREAM,
        Probe::Wake => WAKE,
        _ => CLOSED,
    }
}
