//! Flags of `stream`.

use super::Format;
use super::dump::Pcap;
use super::factors::{Factors, StreamFlags};
use super::measure::{Output, Peer};
use super::shared::FormArgs;
use clap::Args;
use model::{Probe, ProbeSpec, Protocol, SizeList, factor};

#[derive(Debug, Args)]
pub(crate) struct Stream {
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) flags: StreamFlags,
    #[command(flatten)]
    pub(crate) pcap: Pcap,
    #[command(flatten)]
    pub(crate) against: super::against::Against,
    #[command(flatten)]
    pub(crate) form: FormArgs<Format>,
    /// Write each second to standard output as a JSON line of type `interval` once it is complete; the result follows as
    /// one of type `result`
    #[arg(hide_short_help = true, long, conflicts_with_all = ["format", "json"], help_heading = "Output")]
    pub(crate) jsonl: bool,
}

pub(crate) fn bits(text: &str) -> Result<u64, String> {
    let bits = factor::scaled(text)?.round();
    if !(1.0..=1e13).contains(&bits) {
        return Err("use 1 bit to 10,000 Gbit a second".to_owned());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(bits as u64)
}

/// An owner's limit: 0 is one too.
pub(crate) fn bits_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { bits(text) }
}

impl Stream {
    /// The measurement asked for; `fitting` gives the payload of a datagram that the route carries whole.
    pub(crate) fn spec(&self, fitting: impl FnOnce() -> anyhow::Result<u32>) -> anyhow::Result<(ProbeSpec, Factors)> {
        let protocol = self.peer.protocol;
        let mut spec = ProbeSpec::new(Probe::Stream, protocol);
        let most = model::stream::default_size(Some(protocol));
        spec.sizes = SizeList::one(most);
        spec.stop.max_ms = 10_000;
        let mut spec = self.output().fill(&self.flags, spec)?;
        self.form.not_sfnt("a stream")?;
        if protocol == Protocol::Udp && !self.flags.has("size") {
            spec.sizes = SizeList::one(fitting()?.clamp(model::stream::MIN_DATAGRAM, most));
        }
        let factors = self.flags.factors(&spec);
        Ok((spec, factors))
    }

    pub(crate) fn output(&self) -> Output {
        Output { form: self.form, raw: None, percentile: None, ladder: false, histogram_us: None }
    }
}
