//! One end by hand, on one thread: publish, subscribe, ping and reflect until a count, a time or a stop flag.

pub mod numbered;
mod ping;
mod publish;
mod reflect;
mod steps;
mod subscribe;

pub use ping::{PingOptions, PingReflector, Pinger};
pub use publish::{Next, PublishOptions, PublishReport, publish, serve};
pub use reflect::reflect;
pub use steps::RepairSteps;
pub use subscribe::{EndReason, HeardSource, SubscribeOptions, SubscribeReport, SubscribedItem, subscribe};

use std::time::{Duration, Instant};

/// Longest message (RFC 3208 gives fragments 32 bits of length; other implementations stop here).
pub const MOST_BYTES: usize = 65_535;
/// How long the end of a session may take.
pub const CLOSE: Duration = Duration::from_secs(5);
const STOP_CHECK: Duration = Duration::from_millis(50);

/// How long to wait at most until `end`; none: it is over.
fn wait_until(end: Option<Instant>) -> Option<Duration> {
    let left = end.map_or(STOP_CHECK, |end| end.saturating_duration_since(Instant::now()).min(STOP_CHECK));
    (!left.is_zero()).then_some(left)
}
