//! What data messages carry, by size, and the datagram that proves a path.
//!
//! | size in bytes | content |
//! |---|---|
//! | 16 and more | sequence number (u64 LE), tag (u64 LE): strays of other sessions are told apart |
//! | 8 to 15 | sequence number (u64 LE) |
//! | 1 to 7 | the low bytes of the sequence number |
//! | 0 | nothing: one message is in flight, the peer is known by its address |
//!
//! All are prefixes of the first, so an answer cut from a longer request still reads as its own tier.
//!
//! # Messages at a rate
//! Many are in flight, so each has [`PACED_BYTES`] at least. Answers carry the reflector's stamps where there is room;
//! requests carry zeros there, and a stamp of 0 is one that was not taken.
//!
//! | bytes | content | in answers of |
//! |---|---|---|
//! | 16 to 23 | when the reflector's receive call had returned, in its ticks (u64 LE) | 32 bytes and more |
//! | 24 to 31 | when it made the send call, in its ticks (u64 LE) | 32 bytes and more |
//! | 32 to 39 | when its stack (or NIC) received the message, wall clock in ns since 1970 (u64 LE) | 56 bytes and more, when stamps are asked for |
//! | 40 to 47 | when its receive call had returned, wall clock | likewise |
//! | 48 to 55 | when it made the send call, wall clock | likewise |
//! | 56 to 63 | what repairs cost the message on its way there ([`model::Repaired::word`]) | 64 bytes and more, over PGM |
//! | 64 to 71 | the reflector's tick (bytes 24 to 31) in an earlier answer of this session (u64 LE) | 80 bytes and more, when stamps are asked for |
//! | 72 to 79 | when its driver (or NIC) sent that one, wall clock: that is known only once it has left | likewise |

use crate::control::Token;
use model::Repaired;

/// What fits into a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Nothing,
    /// So many low bytes of the sequence number, 1 to 7.
    Truncated(u8),
    Sequence,
    /// The sequence number and the session's tag.
    Tagged,
}

impl Tier {
    /// What a message of `size` bytes carries.
    #[inline]
    pub const fn for_size(size: usize) -> Self {
        match size {
            0 => Self::Nothing,
            #[expect(clippy::cast_possible_truncation, reason = "1 to 7")]
            1..=7 => Self::Truncated(size as u8),
            8..=15 => Self::Sequence,
            _ => Self::Tagged,
        }
    }

    /// What both a request and its answer carry: the answer is cut from the request's bytes.
    #[inline]
    pub const fn for_exchange(request: usize, answer: usize) -> Self {
        Self::for_size(if request < answer { request } else { answer })
    }

    /// Bytes at the start of a message that this tier uses.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Truncated(bytes) => bytes as usize,
            Self::Sequence => 8,
            Self::Tagged => 16,
        }
    }

    /// The bits of a sequence number that the tier keeps.
    #[inline]
    pub const fn mask(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Truncated(bytes) => (1 << (8 * bytes as u32)) - 1,
            Self::Sequence | Self::Tagged => u64::MAX,
        }
    }
}

/// Writes the header that fits into `message`, by its length. The rest of the message stays as it is.
#[inline]
pub fn write(seq: u64, tag: u64, message: &mut [u8]) {
    let seq = seq.to_le_bytes();
    if let Some(head) = message.first_chunk_mut::<16>() {
        head[..8].copy_from_slice(&seq);
        head[8..].copy_from_slice(&tag.to_le_bytes());
    } else {
        let bytes = message.len().min(8);
        message[..bytes].copy_from_slice(&seq[..bytes]);
    }
}

/// The sequence number as `tier` has it. `None`: a short message, another tag, or [`Tier::Nothing`].
#[inline]
pub fn read(tier: Tier, tag: u64, message: &[u8]) -> Option<u64> {
    match tier {
        Tier::Nothing => None,
        Tier::Truncated(bytes) => {
            let bytes = usize::from(bytes.min(7));
            let mut seq = [0; 8];
            seq[..bytes].copy_from_slice(message.get(..bytes)?);
            Some(u64::from_le_bytes(seq))
        }
        Tier::Sequence => message.first_chunk::<8>().map(|head| u64::from_le_bytes(*head)),
        Tier::Tagged => {
            let (seq, rest) = message.split_first_chunk::<8>()?;
            let found = u64::from_le_bytes(*rest.first_chunk::<8>()?);
            (found == tag).then(|| u64::from_le_bytes(*seq))
        }
    }
}

/// The shortest message at a rate: its whole number, because many are in flight.
pub const PACED_BYTES: usize = 8;
/// Where the stamps of an answer begin.
const STAMPS_AT: usize = 16;
/// A message of so many bytes has room for the reflector's ticks.
pub const STAMPED_BYTES: usize = 32;
/// A message of so many bytes has room for the reflector's wall-clock times too.
pub const WALL_BYTES: usize = 56;

/// A message of so many bytes has room for what repairs cost it too.
pub const REPAIRED_BYTES: usize = 64;

/// A message of so many bytes has room for the stamp of an earlier answer too.
pub const TX_STAMP_BYTES: usize = 80;

/// Writes words from a place on, where `message` has room for all of them.
#[inline]
fn put<const WORDS: usize>(message: &mut [u8], at: usize, words: [u64; WORDS]) {
    if let Some(room) = message.get_mut(at..at + 8 * WORDS) {
        for (place, word) in room.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The word at a place; 0 where `message` has no room for it.
#[inline]
fn word(message: &[u8], at: usize) -> u64 {
    let bytes = message.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// When an earlier answer was really sent; zeros for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxStamp {
    /// The reflector's tick in that answer ([`FarStamps::tx`]): no two answers have the same.
    pub tx: u64,
    /// When its driver (or NIC) sent it, in ns since 1970.
    pub driver_ns: u64,
}

/// Writes when an earlier answer was sent, where `message` has room for it.
#[inline]
pub fn write_tx_stamp(told: TxStamp, message: &mut [u8]) {
    put(message, REPAIRED_BYTES, [told.tx, told.driver_ns]);
}

/// Reads when an earlier answer was sent; nothing where it has no room.
#[inline]
pub fn read_tx_stamp(message: &[u8]) -> TxStamp {
    if message.len() < TX_STAMP_BYTES {
        return TxStamp::default();
    }
    TxStamp { tx: word(message, REPAIRED_BYTES), driver_ns: word(message, REPAIRED_BYTES + 8) }
}

/// What a reflector writes into an answer; 0 where a stamp was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FarStamps {
    /// When its receive call had returned, in its ticks.
    pub rx: u64,
    /// When it made the send call, in its ticks.
    pub tx: u64,
    /// When its stack (or NIC) received the message, in ns since 1970.
    pub stack_ns: u64,
    /// When its receive call had returned, in ns since 1970.
    pub received_ns: u64,
    /// When it made the send call, in ns since 1970.
    pub sent_ns: u64,
}

/// Writes the reflector's ticks as far as `message` has room for them.
#[inline]
pub fn write_ticks(rx: u64, tx: u64, message: &mut [u8]) {
    put(message, STAMPS_AT, [rx, tx]);
}

/// Writes all of the reflector's stamps, wall clock included, as far as `message` has room for them.
#[inline]
pub fn write_stamps(stamps: &FarStamps, message: &mut [u8]) {
    write_ticks(stamps.rx, stamps.tx, message);
    put(message, STAMPED_BYTES, [stamps.stack_ns, stamps.received_ns, stamps.sent_ns]);
}

/// Writes what repairs cost the message on its way to the reflector, where `message` has room for it.
#[inline]
pub fn write_repaired(repaired: Repaired, message: &mut [u8]) {
    put(message, WALL_BYTES, [repaired.word()]);
}

/// Reads what repairs cost a message on its way to the reflector; nothing where it has no room.
#[inline]
pub fn read_repaired(message: &[u8]) -> Repaired {
    Repaired::from_word(word(message, WALL_BYTES))
}

/// Reads a reflector's stamps: its ticks, and with `wall` its wall-clock times; 0 for what has no room.
#[inline]
pub fn read_stamps(message: &[u8], wall: bool) -> FarStamps {
    let word = |at| word(message, at);
    let mut stamps = FarStamps::default();
    if message.len() >= STAMPED_BYTES {
        (stamps.rx, stamps.tx) = (word(STAMPS_AT), word(STAMPS_AT + 8));
    }
    if wall && message.len() >= WALL_BYTES {
        (stamps.stack_ns, stamps.received_ns) = (word(STAMPED_BYTES), word(STAMPED_BYTES + 8));
        stamps.sent_ns = word(STAMPED_BYTES + 16);
    }
    stamps
}

/// The full sequence number nearest to `near` whose kept bits are `kept`.
#[inline]
pub fn expand(tier: Tier, kept: u64, near: u64) -> u64 {
    let mask = tier.mask();
    if mask == u64::MAX {
        return kept;
    }
    let base = (near & !mask) | (kept & mask);
    let span = mask + 1;
    let candidates = [base.checked_sub(span), Some(base), base.checked_add(span)];
    candidates.into_iter().flatten().min_by_key(|candidate| candidate.abs_diff(near)).unwrap_or(base)
}

/// First bytes of a datagram that proves a path.
pub const PROVE_MAGIC: [u8; 4] = *b"WHpr";
/// Length of a datagram that proves a path.
pub const PROVE_BYTES: usize = 20;

/// The datagram (or the first bytes of a TCP data connection) that proves a path the client's. A reflector never
/// answers it on the data path: the answer, `proved`, goes over the control connection, so that forged sources get
/// nothing. Send it again each 100 ms until `proved` comes.
pub fn prove(token: &Token) -> [u8; PROVE_BYTES] {
    let mut datagram = [0; PROVE_BYTES];
    datagram[..4].copy_from_slice(&PROVE_MAGIC);
    datagram[4..].copy_from_slice(&token.0);
    datagram
}

/// The token of a proving datagram; `None` for any other bytes.
pub fn read_prove(datagram: &[u8]) -> Option<Token> {
    let whole: &[u8; PROVE_BYTES] = datagram.try_into().ok()?;
    let token = whole.strip_prefix(&PROVE_MAGIC)?;
    token.try_into().ok().map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tiers_by_size() {
        let tiers = [0, 1, 7, 8, 15, 16, 4096].map(Tier::for_size);
        assert_eq!(
            tiers,
            [
                Tier::Nothing,
                Tier::Truncated(1),
                Tier::Truncated(7),
                Tier::Sequence,
                Tier::Sequence,
                Tier::Tagged,
                Tier::Tagged
            ]
        );
        assert_eq!(Tier::for_exchange(100, 3), Tier::Truncated(3));
        assert_eq!(Tier::for_exchange(3, 100), Tier::Truncated(3));
    }

    #[test]
    fn a_stray_of_another_session_is_told_apart() {
        let mut message = [0; 32];
        write(5, 77, &mut message);
        assert_eq!(read(Tier::Tagged, 77, &message), Some(5));
        assert_eq!(read(Tier::Tagged, 78, &message), None);
    }

    #[test]
    fn stamps_go_as_far_as_there_is_room() {
        let stamps = FarStamps { rx: 1, tx: 2, stack_ns: 3, received_ns: 4, sent_ns: 5 };
        for (size, expected) in [
            (31, FarStamps::default()),
            (32, FarStamps { rx: 1, tx: 2, ..FarStamps::default() }),
            (55, FarStamps { rx: 1, tx: 2, ..FarStamps::default() }),
            (56, stamps),
            (1000, stamps),
        ] {
            let mut message = vec![0; size];
            write(7, 9, &mut message);
            write_stamps(&stamps, &mut message);
            assert_eq!(read_stamps(&message, true), expected, "{size}");
            assert_eq!(read(Tier::Tagged, 9, &message), Some(7), "the number stays");
            let ticks = FarStamps { rx: expected.rx, tx: expected.tx, ..FarStamps::default() };
            assert_eq!(read_stamps(&message, false), ticks, "{size}: the rest is payload when nobody asked");
            write_ticks(8, 9, &mut message);
            assert_eq!(read_stamps(&message, true).rx, if size < 32 { 0 } else { 8 }, "{size}");
        }
    }

    #[test]
    fn what_repairs_cost_reads_back() {
        let repaired = Repaired::new(2_345_678, u64::MAX);
        assert_eq!((repaired.repair_ns, repaired.held_ns), (2_345_678, u32::MAX));
        for (size, expected) in [(63, Repaired::default()), (64, repaired), (1000, repaired)] {
            let mut message = vec![0; size];
            write_repaired(repaired, &mut message);
            assert_eq!(read_repaired(&message), expected, "{size}");
            write_stamps(&FarStamps { sent_ns: u64::MAX, ..FarStamps::default() }, &mut message);
            assert_eq!(read_repaired(&message), expected, "{size}: stamps lie before it");
        }
    }

    #[test]
    fn what_is_told_of_an_earlier_answer_reads_back() {
        let told = TxStamp { tx: 7, driver_ns: u64::MAX };
        for (size, expected) in [(79, TxStamp::default()), (80, told), (1000, told)] {
            let mut message = vec![0; size];
            write_tx_stamp(told, &mut message);
            assert_eq!(read_tx_stamp(&message), expected, "{size}");
            write_stamps(&FarStamps { sent_ns: u64::MAX, ..FarStamps::default() }, &mut message);
            write_repaired(Repaired::new(u64::MAX, u64::MAX), &mut message);
            assert_eq!(read_tx_stamp(&message), expected, "{size}: the others lie before it");
        }
    }

    #[test]
    fn the_tag_is_not_the_token() {
        let token = Token([9; 16]);
        assert_ne!(token.tag().to_le_bytes(), token.0[..8]);
        assert_ne!(token.tag(), Token([8; 16]).tag());
    }

    proptest! {
        #[test]
        fn a_header_reads_back(seq: u64, tag: u64, size in 0usize..40, answer in 0usize..40) {
            let mut message = vec![0; size.max(answer)];
            write(seq, tag, &mut message[..size]);
            let tier = Tier::for_exchange(size, answer);
            let expected = (tier != Tier::Nothing).then_some(seq & tier.mask());
            prop_assert_eq!(read(tier, tag, &message[..answer]), expected);
        }

        #[test]
        fn a_truncated_number_expands_near_its_place(near in 200u64..u64::MAX - 200, ahead in 0u64..120, back: bool) {
            let seq = if back { near - ahead } else { near + ahead };
            for bytes in 1..=7 {
                let tier = Tier::Truncated(bytes);
                prop_assert_eq!(expand(tier, seq & tier.mask(), near), seq);
            }
        }

        #[test]
        fn only_a_prove_reads_as_one(token: [u8; 16], other: Vec<u8>) {
            prop_assert_eq!(read_prove(&prove(&Token(token))), Some(Token(token)));
            if !other.starts_with(&PROVE_MAGIC) {
                prop_assert_eq!(read_prove(&other), None);
            }
            crate::exercise::data_header(&other);
        }
    }
}
