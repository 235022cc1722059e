//! What a source counts.

/// What a source did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "what has no comment is what its name says")]
pub struct SourceCounts {
    /// Packets of new data, parity not included.
    pub odata: u64,
    /// Repairs, parity not included.
    pub rdata: u64,
    /// Parity packets sent unasked (section 11.3.4).
    pub parity_odata: u64,
    /// Parity packets on demand (section 11.3.3).
    pub parity_rdata: u64,
    /// NAKs for parity received; they are among `naks` too.
    pub parity_naks: u64,
    /// Parity packets asked for in them.
    pub parity_asked: u64,
    /// Transmission groups that were ended before they were full (section 11.2).
    pub short_groups: u64,
    pub spms: u64,
    pub ncfs: u64,
    pub naks: u64,
    /// Numbers in them.
    pub numbers_asked: u64,
    /// Of these, no longer (or not yet) in the window.
    pub numbers_outside: u64,
    /// Of these, left without another NCF because one had just been sent, or too many waited.
    pub ncfs_spared: u64,
    pub spmrs: u64,
    /// Datagrams that were no packet, or not for this source.
    pub ignored: u64,
    /// Bytes of all packets sent, PGM headers included.
    pub bytes: u64,
}
