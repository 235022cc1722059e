//! Confidence intervals that respect that neighbouring messages are not independent: batches in order of time.
//!
//! Values are grouped in their order into 64 to 128 batches of equal length. When a 129th would begin, neighbouring batches are
//! joined two by two and the length doubles, so memory is fixed and the batches always cover the whole run.
//!
//! **Mean**: a batch's mean is exact, and the spread of the batches' means gives the interval by Student's t.
//!
//! **Median**: the share of values in each batch at or below the median. The spread of these shares says how uncertain the
//! *rank* of the median is; the quantiles at the ends of that interval of ranks are the interval of the median. It covers the
//! gap between two states, follows a skewed distribution, and is never narrower than the median's bucket. The share is counted
//! at fixed levels, as the median is not known while values come: quantiles of the first 4096 values, and a grid about their
//! median for runs that drift. The level nearest to the median says how many independent values the run is worth. Below 4097
//! values all are kept, and the median itself is the level.
//!
//! **Dependence**: batches that are correlated with their neighbour are worth fewer than they are. With the lag-1
//! autocorrelation ρ (corrected for its bias in short series by Kendall's (1+3ρ)/n) they are worth n(1-ρ)/(1+ρ). The same is
//! done with the batches joined two by two, and the wider interval counts: what lasts longer than a batch shows there. Where
//! these are worth fewer than 10, there is no interval. Where ρ of single batches is above 0.45, they must be worth 10 by the
//! upper end of the one-sided 99 % interval of their own ρ, whose standard error is sqrt((1-ρ²)/n): else those of the runs
//! about the limit that seem longest would have one. (M. G. Kendall, "Note on bias in the estimation of autocorrelation", 1954;
//! M. S. Bartlett, "On the theoretical specification and sampling properties of autocorrelated time-series", 1946; G. S.
//! Fishman, "Grouping observations in digital simulation", 1978.)

use crate::Block;
use crate::histogram::Bucket;
use crate::levels::{LEVELS, Levels};
use crate::{Tally, t_quantile};
use std::ops::{Add, Sub};

const BLOCK: usize = Block::LENGTH;
const MOST: usize = 128;
const FEWEST: usize = 64;
const KEPT: usize = BLOCK * MOST;
/// Fewer batches give no interval.
const ENOUGH: usize = 10;
/// The same of batches that are worth fewer because they depend on each other.
const WORTH: f64 = 10.0;
/// Above this autocorrelation of single batches dependence lasts longer than a batch.
const LASTING: f64 = 0.45;
/// Standard errors that are then added to the autocorrelation before it is judged: the normal quantile of 99 %.
const CAUTION: f64 = 2.326;
/// The interval of a median needs this many values.
const MEDIAN_VALUES: u64 = 256;
/// Levels at quantiles of the first 4096 values.
const QUANTILES: usize = 15;
/// Distances from their median, as shares of it, at which there is a level below and one above.
const GRID: [f64; 8] = [0.003, 0.01, 0.03, 0.08, 0.2, 0.5, 1.0, 4.0];
/// What [`Levels`] holds.
const _: () = assert!(LEVELS == QUANTILES + 2 * GRID.len());
/// Shares at a level from which the dependence of the median can be told.
const TELLING: std::ops::RangeInclusive<f64> = 0.05..=0.95;

/// Why there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoInterval {
    /// Too few values.
    Few,
    /// Values depend on each other for so long that the run is worth fewer than 10 independent batches, or may be.
    Short,
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    sum: u128,
    /// The sum of [`middles`] of its blocks.
    middles: u128,
    /// Values that are above so many levels as the place says, and at or below the next.
    between: [u64; LEVELS + 1],
}

impl Default for Batch {
    fn default() -> Self {
        Self { sum: 0, middles: 0, between: [0; LEVELS + 1] }
    }
}

impl Batch {
    fn join(&self, other: &Self) -> Self {
        let mut between = self.between;
        for (own, other) in between.iter_mut().zip(other.between) {
            *own += other;
        }
        Self { sum: self.sum + other.sum, middles: self.middles + other.middles, between }
    }

    /// Counts the values of some buckets.
    #[inline]
    fn count(&mut self, levels: &Levels, buckets: impl Iterator<Item = usize>) {
        for bucket in buckets {
            if let Some(slot) = self.between.get_mut(levels.below(bucket)) {
                *slot += 1;
            }
        }
    }

    /// Values at or below a level.
    fn below(&self, level: usize) -> u64 {
        self.between.iter().take(level + 1).sum()
    }
}

/// See the module. Only [`BatchIntervals::new`] takes memory, and touches it.
#[derive(Debug, Clone)]
pub struct BatchIntervals {
    /// The first 4096 values; later ones take the places of the oldest.
    kept: Box<[u64; KEPT]>,
    /// Known from the 4096th value on.
    levels: Levels,
    /// Not within the value: figures of PGM hold more than twenty of these, which no stack of a thread has room for.
    batches: Box<[Batch]>,
    /// Complete batches.
    filled: usize,
    /// Blocks a batch.
    length: u64,
    current: Batch,
    blocks_in_current: u64,
    count: u64,
    /// Of the values of whole blocks.
    sum: u128,
}

impl Default for BatchIntervals {
    fn default() -> Self {
        Self::new()
    }
}

/// [`MIDDLES`] times the middle of a block by the remedian of base 4: medians of fours of values, medians of fours of these,
/// and the mean of the two left (P. J. Rousseeuw and G. W. Bassett, "The remedian: a robust averaging method for large data
/// sets", 1990). The values of a four are eight apart: a processor works on eight fours at once, and a burst of eight slow
/// values, one in each four, does not move it. Eight times a value must fit into its type.
fn middles<T: Copy + Ord + Add<Output = T> + Sub<Output = T> + Into<u64>>(block: &[T; BLOCK]) -> u64 {
    const FOURS: usize = BLOCK / 4;
    // The second and the third of four, together.
    let inner = |[a, b, c, d]: [T; 4]| a + b + c + d - a.min(b).min(c.min(d)) - a.max(b).max(c.max(d));
    let fours: [T; FOURS] = std::array::from_fn(|at| inner(std::array::from_fn(|place| block[at + FOURS * place])));
    let [a, b, c, d, e, f, g, h] = fours;
    inner([a, b, c, d]).into() + inner([e, f, g, h]).into()
}

const MIDDLES: u128 = 8;
const _: () = assert!((Block::END - 1) * 8 <= u32::MAX as u64);

fn buckets(values: &[u64]) -> impl Iterator<Item = usize> {
    values.iter().map(|value| Tally::bucket(*value))
}

/// Where the value of a number is kept.
fn place(number: u64) -> usize {
    usize::try_from(number % KEPT as u64).unwrap_or(0)
}

impl BatchIntervals {
    pub fn new() -> Self {
        // By way of a vector: an array would be made on the stack first.
        let kept = vec![1_u64; KEPT].into_boxed_slice().try_into();
        let mut kept: Box<[u64; KEPT]> = kept.unwrap_or_else(|_| Box::new([1; KEPT]));
        std::hint::black_box(&mut kept).fill(0);
        let mut batches = vec![Batch { sum: 1, ..Batch::default() }; MOST].into_boxed_slice();
        std::hint::black_box(&mut batches).fill(Batch::default());
        Self {
            kept,
            levels: Levels::new(),
            batches,
            filled: 0,
            length: 1,
            current: Batch::default(),
            blocks_in_current: 0,
            count: 0,
            sum: 0,
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub fn push(&mut self, value: u64) {
        let at = place(self.count);
        self.kept[at] = value;
        self.count += 1;
        if at % BLOCK == BLOCK - 1 {
            self.close_block(at);
        }
    }

    /// Values until one can begin a [`Block`] that is taken at once; those of a whole one where the next can.
    #[inline]
    pub fn until_block(&self) -> usize {
        BLOCK - place(self.count) % BLOCK
    }

    #[inline]
    pub fn push_block(&mut self, block: &Block) {
        let at = place(self.count);
        let Some(kept) = self.kept[at..].first_chunk_mut::<BLOCK>().filter(|_| at.is_multiple_of(BLOCK)) else {
            return block.values.iter().for_each(|value| self.push(u64::from(*value)));
        };
        *kept = block.values.map(u64::from);
        self.count += BLOCK as u64;
        if self.count > KEPT as u64 {
            self.current.count(&self.levels, block.buckets.iter().map(|bucket| *bucket as usize));
        }
        self.end_block(u128::from(block.sum), middles(&block.values));
    }

    /// Chooses the levels from the first 4096 values, each a block of which is a batch, and counts these by them.
    fn set_levels(&mut self) {
        let mut sorted = [0_u64; KEPT];
        sorted.copy_from_slice(&self.kept[..]);
        sorted.sort_unstable();
        let at = |place: usize| sorted.get(place).copied().unwrap_or(u64::MAX);
        let median = at(KEPT / 2) as f64;
        let quantiles = (1..=QUANTILES).map(|step| at(step * KEPT / (QUANTILES + 1)));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; `as` saturates")]
        let grid = GRID.into_iter().flat_map(|far| [(median / (1.0 + far)) as u64, (median * (1.0 + far)) as u64]);
        self.levels.set(quantiles.chain(grid));
        for (batch, values) in self.batches.iter_mut().zip(self.kept.chunks_exact(BLOCK)) {
            batch.count(&self.levels, buckets(values));
        }
    }

    /// Counts the block whose last value is at this place.
    fn close_block(&mut self, last: usize) {
        let Some(block) = self.kept[..=last].last_chunk::<BLOCK>() else { return };
        if self.count > KEPT as u64 {
            self.current.count(&self.levels, buckets(block));
        }
        let limited = block.map(|value| value.min(u64::MAX / 64));
        self.end_block(block.iter().copied().map(u128::from).sum(), middles(&limited));
    }

    /// Adds the block that is counted already to its batch.
    fn end_block(&mut self, sum: u128, middles: u64) {
        self.sum += sum;
        self.current.sum += sum;
        self.current.middles += u128::from(middles);
        self.blocks_in_current += 1;
        if self.blocks_in_current < self.length {
            return;
        }
        if self.filled == MOST {
            for at in 0..FEWEST {
                self.batches[at] = self.batches[2 * at].join(&self.batches[2 * at + 1]);
            }
            self.filled = FEWEST;
            self.length *= 2;
            // The batch just filled is the first half of one of the new length.
            return;
        }
        self.batches[self.filled] = self.current;
        self.filled += 1;
        self.current = Batch::default();
        self.blocks_in_current = 0;
        if self.count == KEPT as u64 {
            self.set_levels();
        }
    }

    /// The middle of the blocks of the batch that is being filled, or of the one before: a cheap running estimate.
    pub fn recent_median(&self) -> Option<u64> {
        let batch = if self.blocks_in_current > 0 {
            Some((self.current.middles, self.blocks_in_current))
        } else {
            self.filled.checked_sub(1).and_then(|at| self.batches.get(at)).map(|batch| (batch.middles, self.length))
        };
        batch.and_then(|(middles, blocks)| u64::try_from(middles / (MIDDLES * u128::from(blocks))).ok())
    }

    /// All values in order, while they are kept.
    fn all(&self) -> Option<&[u64]> {
        usize::try_from(self.count).ok().and_then(|count| self.kept.get(..count))
    }

    /// The complete batches, of more values than are kept.
    fn complete(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter().take(self.filled)
    }

    fn batch_values(&self) -> f64 {
        (self.length * BLOCK as u64) as f64
    }

    /// Bounds of the 95 % interval of the mean, the lower at least 0. `None` where there are or count fewer than 10 batches.
    pub fn mean_interval(&self) -> Option<[f64; 2]> {
        let mut spread = Spreads::default();
        match self.all() {
            Some(values) => {
                let length = (values.len() / FEWEST).max(1);
                for batch in values.chunks_exact(length) {
                    spread.add(batch.iter().copied().map(u128::from).sum::<u128>() as f64 / length as f64);
                }
            }
            None => self.complete().for_each(|batch| spread.add(batch.sum as f64 / self.batch_values())),
        }
        let open = &self.kept[..place(self.count)];
        let open = &open[open.len() - open.len() % BLOCK..];
        let sum = self.sum + open.iter().copied().map(u128::from).sum::<u128>();
        let centre = sum as f64 / self.count.max(1) as f64;
        let half = spread.half_width().ok()?;
        Some([(centre - half).max(0.0), centre + half])
    }

    /// Lower and upper bound of the 95 % interval of the median in ns; `bucket_at` gives the bucket of all values' histogram that
    /// holds a quantile (0 to 1). Errors: [`NoInterval::Few`] with fewer than 256 values, [`NoInterval::Short`] where they depend on
    /// each other for so long that an interval would be too narrow.
    pub fn median_interval(&self, bucket_at: impl Fn(f64) -> Option<Bucket>) -> Result<[u64; 2], NoInterval> {
        if self.count < MEDIAN_VALUES {
            return Err(NoInterval::Few);
        }
        let middle = bucket_at(0.5).ok_or(NoInterval::Few)?;
        let worth = match self.all() {
            Some(values) => {
                let length = (values.len() / FEWEST).max(1);
                let at = |level: u64| {
                    let below = |batch: &[u64]| batch.iter().filter(|value| **value <= level).count() as f64;
                    Spreads::of(values.chunks_exact(length).map(|batch| below(batch) / length as f64))
                };
                widest([at(middle.low_ns.saturating_sub(1)), at(middle.high_ns)])?
            }
            None => {
                let at =
                    |level| Spreads::of(self.complete().map(|batch| batch.below(level) as f64 / self.batch_values()));
                let above = (0..LEVELS).find(|level| at(*level).single.mean >= 0.5).unwrap_or(LEVELS - 1);
                match widest([at(above.saturating_sub(1)), at(above)])? {
                    // Nearly all values lie between two levels: of a drift to a place where there is none.
                    None if !self.is_within(above, middle) => {
                        Some(Relative::Value(self.spread_of_middles().half_width()?))
                    }
                    found => found,
                }
            }
        };
        // Where nearly all values are in one bucket, no rank is outside of it.
        let Some(error) = worth else { return Ok([middle.low_ns, middle.high_ns]) };
        match error {
            Relative::Rank(half) if half >= 0.45 => Err(NoInterval::Short),
            Relative::Rank(half) => {
                let low = bucket_at(0.5 - half).map_or(middle.low_ns, |bucket| bucket.low_ns);
                let high = bucket_at(0.5 + half).map_or(middle.high_ns, |bucket| bucket.high_ns);
                Ok([low, high])
            }
            Relative::Value(half) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
                let half = half.ceil() as u64;
                Ok([middle.low_ns.saturating_sub(half), middle.high_ns.saturating_add(half)])
            }
        }
    }

    /// Whether the values between a level and the one below are all in this bucket.
    fn is_within(&self, above: usize, bucket: Bucket) -> bool {
        let level = |place: usize| self.levels.all().get(place).copied().unwrap_or(u64::MAX);
        let low = above.checked_sub(1).map_or(0, |below| level(below).saturating_add(1));
        low >= bucket.low_ns && level(above) <= bucket.high_ns
    }

    /// The batches' middles, as means of their blocks' middles.
    fn spread_of_middles(&self) -> Spreads {
        let blocks = MIDDLES as f64 * self.length as f64;
        Spreads::of(self.complete().map(|batch| batch.middles as f64 / blocks))
    }
}

/// Half of an interval: of ranks (0 to 1) about the median, or of the value.
#[derive(Clone, Copy)]
enum Relative {
    Rank(f64),
    Value(f64),
}

/// The wider half width of the interval of the median's rank, from the shares at two levels; `None`: neither divides values.
fn widest(shares: [Spreads; 2]) -> Result<Option<Relative>, NoInterval> {
    let mut widest: Option<f64> = None;
    for spreads in shares.iter().filter(|spreads| TELLING.contains(&spreads.single.mean)) {
        // What the share's error is at the median, where it would be largest.
        let share = spreads.single.mean;
        let half = spreads.half_width()? * 0.5 / (share * (1.0 - share)).sqrt();
        widest = Some(widest.map_or(half, |widest| widest.max(half)));
    }
    Ok(widest.map(Relative::Rank))
}

/// Mean, spread and lag-1 products of at most 191 figures, one at a time (Welford's recurrence, which does not cancel).
#[derive(Clone, Copy, Default)]
struct Spread {
    count: usize,
    mean: f64,
    squares: f64,
    first: f64,
    last: f64,
    /// Sum of the products of neighbours.
    products: f64,
    sum: f64,
}

/// The batches as they are and joined two by two.
#[derive(Clone, Copy, Default)]
struct Spreads {
    single: Spread,
    joined: Spread,
    left: Option<f64>,
}

impl Spreads {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut spreads = Self::default();
        values.for_each(|value| spreads.add(value));
        spreads
    }

    fn add(&mut self, value: f64) {
        self.single.add(value);
        match self.left.take() {
            Some(left) => self.joined.add(f64::midpoint(left, value)),
            None => self.left = Some(value),
        }
    }

    /// Half the width of the 95 % interval of the mean: the wider of both.
    fn half_width(&self) -> Result<f64, NoInterval> {
        let single = self.single.half_width(2.0, 0.0)?;
        let is_lasting = self.single.autocorrelation() > LASTING;
        match self.joined.half_width(WORTH, if is_lasting { CAUTION } else { 0.0 }) {
            Ok(joined) => Ok(single.max(joined)),
            Err(NoInterval::Few) => Ok(single),
            Err(NoInterval::Short) => Err(NoInterval::Short),
        }
    }
}

impl Spread {
    fn add(&mut self, value: f64) {
        if self.count == 0 {
            self.first = value;
        } else {
            // About the first value, so that little cancels.
            self.products += (self.last - self.first) * (value - self.first);
        }
        self.last = value;
        self.sum += value - self.first;
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// Lag-1 autocorrelation, corrected for its bias; at least 0, and below 1.
    fn autocorrelation(&self) -> f64 {
        if self.squares <= 0.0 {
            return 0.0;
        }
        let (count, mean) = (self.count as f64, self.mean - self.first);
        // Sum over neighbours of (x - mean)(y - mean), from the sums of x (all but the last) and y (all but the first).
        let without_last = self.sum - (self.last - self.first);
        let products = self.products - mean * (without_last + self.sum) + (count - 1.0) * mean * mean;
        let plain = products / self.squares;
        (plain + (1.0 + 3.0 * plain) / count).clamp(0.0, 0.99)
    }

    /// Half the width of the 95 % interval of the mean of values worth at least `enough` independent ones, even if their
    /// autocorrelation is larger by `caution` standard errors.
    fn half_width(&self, enough: f64, caution: f64) -> Result<f64, NoInterval> {
        if self.count < ENOUGH {
            return Err(NoInterval::Few);
        }
        let (count, rho) = (self.count as f64, self.autocorrelation());
        let worth_at = |rho: f64| count * (1.0 - rho) / (1.0 + rho);
        if worth_at(rho + caution * ((1.0 - rho * rho) / count).sqrt()) < enough {
            return Err(NoInterval::Short);
        }
        let worth = worth_at(rho);
        // The spread about their own mean is too small by what that mean is uncertain.
        let variance = self.squares / count * worth / (worth - 1.0);
        Ok(t_quantile(0.975, worth - 1.0) * (variance / worth).sqrt())
    }
}

#[cfg(test)]
mod tests;
