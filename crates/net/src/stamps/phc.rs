//! A NIC's clock (PTP hardware clock) against the wall clock, CLOCK_REALTIME, with the bound of what that is worth
//! (kernel: Documentation/driver-api/ptp.rst, linux/ptp_clock.h).
//!
//! Comparisons are a tenth of a second apart; between them the NIC's clock is taken to run on at the rate of the last two.
//! Where its rate is constant, a time at most two distances behind the last comparison is then wrong by at most the last
//! one's half width and twice that of both; what a new comparison finds to be further off counts too. Whoever reads stamps
//! in a measured loop reads four words; the comparing is done by the thread that collects stamps of what was sent.

use crate::NetError;
use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

const AGAIN_NS: u64 = 100_000_000;
/// Comparisons at once, of which the closest counts.
const TRIES: u32 = 5;
/// Assumed error of a hardware comparison (PCIe PTM, crystals), which no driver reports: some 10 ns.
const PRECISE_NS: u64 = 100;
/// A NIC's clock that runs further off than this is not one (a stepped one looks so).
const MOST_RATE: f64 = 1e-3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) device_ns: u64,
    pub(super) realtime_ns: u64,
    /// Within how many ns of `realtime_ns` the wall clock was when the NIC's showed `device_ns`.
    pub(super) half_ns: u64,
}

impl Comparison {
    /// Of a reading between two of the wall clock.
    fn between(before: u64, device_ns: u64, after: u64) -> Self {
        let width = after.saturating_sub(before);
        Self { device_ns, realtime_ns: before + width / 2, half_ns: width.div_ceil(2) }
    }

    /// The wall clock less the NIC's.
    fn offset_ns(&self) -> i64 {
        difference(self.realtime_ns, self.device_ns)
    }
}

pub(super) trait Compare: std::fmt::Debug + Send {
    fn compare(&mut self) -> io::Result<Comparison>;
    fn name(&self) -> String;
}

/// How a driver lets its clock be compared, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Both clocks latched at once by the hardware.
    Precise,
    /// The wall clock read directly around the one access to the NIC.
    Extended,
    /// The wall clock read around the driver's whole reading.
    Basic,
    /// clock_gettime(2) of the device, between two of our own.
    Gettime,
}

impl How {
    const ALL: [Self; 4] = [Self::Precise, Self::Extended, Self::Basic, Self::Gettime];

    fn word(self) -> &'static str {
        match self {
            Self::Precise => "PTP_SYS_OFFSET_PRECISE",
            Self::Extended => "PTP_SYS_OFFSET_EXTENDED",
            Self::Basic => "PTP_SYS_OFFSET",
            Self::Gettime => "clock_gettime",
        }
    }
}

#[derive(Debug)]
struct Device {
    path: String,
    file: File,
    how: How,
}

impl Device {
    /// Opens it and finds the best way that its driver has.
    fn open(path: String) -> io::Result<Self> {
        let file = File::open(&path)?;
        let mut device = Self { path, file, how: How::Precise };
        let mut failed = None;
        for how in How::ALL {
            device.how = how;
            match device.compare() {
                Ok(_) => return Ok(device),
                // The last one explains most: every clock has that way.
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
    }
}

impl Compare for Device {
    fn compare(&mut self) -> io::Result<Comparison> {
        let fd = self.file.as_raw_fd();
        match self.how {
            How::Precise => {
                let mut asked: libc::ptp_sys_offset_precise = sys::plain();
                sys::clock_ioctl(fd, &mut asked)?;
                Ok(precise(&asked))
            }
            How::Extended => {
                let mut asked: libc::ptp_sys_offset_extended = sys::plain();
                asked.n_samples = TRIES;
                sys::clock_ioctl(fd, &mut asked)?;
                closest(extended(&asked)).ok_or_else(nothing)
            }
            How::Basic => {
                let mut asked: libc::ptp_sys_offset = sys::plain();
                asked.n_samples = TRIES;
                sys::clock_ioctl(fd, &mut asked)?;
                closest(basic(&asked)).ok_or_else(nothing)
            }
            How::Gettime => {
                let mut all = [None; TRIES as usize];
                for one in &mut all {
                    let before = clock::realtime_ns();
                    let now = sys::clock_of(fd)?;
                    *one = Some(Comparison::between(before, now, clock::realtime_ns()));
                }
                closest(all.into_iter().flatten()).ok_or_else(nothing)
            }
        }
    }

    fn name(&self) -> String {
        format!("{} of {}", self.how.word(), self.path)
    }
}

fn nothing() -> io::Error {
    io::Error::other("it gave no comparison")
}

fn closest(all: impl Iterator<Item = Comparison>) -> Option<Comparison> {
    all.min_by_key(|one| one.half_ns)
}

fn time(one: &libc::ptp_clock_time) -> u64 {
    u64::try_from(one.sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(u64::from(one.nsec))
}

fn precise(told: &libc::ptp_sys_offset_precise) -> Comparison {
    Comparison { device_ns: time(&told.device), realtime_ns: time(&told.sys_realtime), half_ns: PRECISE_NS }
}

/// Each sample: wall clock, NIC, wall clock.
fn extended(told: &libc::ptp_sys_offset_extended) -> impl Iterator<Item = Comparison> {
    let count = usize::try_from(told.n_samples).unwrap_or(0);
    told.ts
        .iter()
        .take(count)
        .map(|[before, device, after]| Comparison::between(time(before), time(device), time(after)))
}

/// Wall clock and NIC in turn, ending with the wall clock.
fn basic(told: &libc::ptp_sys_offset) -> impl Iterator<Item = Comparison> {
    let count = usize::try_from(told.n_samples).unwrap_or(0);
    let around = |at: usize| {
        let [before, device, after] = told.ts.get(2 * at..2 * at + 3)? else { return None };
        Some(Comparison::between(time(before), time(device), time(after)))
    };
    (0..count).filter_map(around)
}

#[derive(Debug)]
struct History {
    source: Box<dyn Compare>,
    last: Comparison,
    rate: f64,
    error_ns: u64,
}

impl History {
    fn begin(mut source: Box<dyn Compare>) -> io::Result<Self> {
        let last = source.compare()?;
        Ok(Self { source, last, rate: 0.0, error_ns: 0 })
    }

    /// Compares again. The first time there is no rate yet that could be wrong.
    fn again(&mut self, first: bool) -> io::Result<()> {
        let (before, now) = (self.last, self.source.compare()?);
        let since = now.device_ns.saturating_sub(before.device_ns);
        if since == 0 {
            return Ok(());
        }
        let off = moved(now.device_ns, &before, self.rate).abs_diff(now.realtime_ns);
        let rate = (now.offset_ns() - before.offset_ns()) as f64 / since as f64;
        self.rate = rate.clamp(-MOST_RATE, MOST_RATE);
        self.last = now;
        let within = now.half_ns.saturating_add(2 * now.half_ns.saturating_add(before.half_ns)).saturating_add(1);
        let found = if first { 0 } else { off.saturating_add(now.half_ns) };
        self.error_ns = self.error_ns.max(within).max(found);
        Ok(())
    }
}

/// A stamp as wall-clock time: from the last comparison at the rate of the last two.
fn moved(stamp_ns: u64, from: &Comparison, rate: f64) -> u64 {
    let since = difference(stamp_ns, from.device_ns);
    #[expect(clippy::cast_possible_truncation, reason = "a thousandth of a span in ns; `as` saturates")]
    let gained = (since as f64 * rate).round() as i64;
    let moved = i128::from(stamp_ns) + i128::from(from.offset_ns()) + i128::from(gained);
    u64::try_from(moved).unwrap_or(0)
}

fn difference(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(0)
}

#[derive(Debug)]
pub(crate) struct Phc {
    history: Mutex<History>,
    name: String,
    /// Odd while the words below are being written.
    version: AtomicU64,
    device_ns: AtomicU64,
    realtime_ns: AtomicU64,
    /// The bits of an f64.
    rate: AtomicU64,
}

impl Phc {
    /// Opens /dev/ptpN and compares twice, a tenth of a second apart. Sockets of one NIC share it.
    pub(super) fn open(index: u32) -> Result<Arc<Self>, NetError> {
        static OPEN: Mutex<Vec<(u32, Weak<Phc>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.iter().find(|(one, _)| *one == index).and_then(|(_, phc)| phc.upgrade()) {
            return Ok(known);
        }
        let path = format!("/dev/ptp{index}");
        let failed = |cause: io::Error| NetError::Stamps {
            what: format!(
                "the NIC's clock {path} cannot be read ({cause}): let this user read it, or use --stamps kernel"
            ),
        };
        let device = Device::open(path.clone()).map_err(failed)?;
        let phc = Self::begin(Box::new(device)).map_err(failed)?;
        std::thread::sleep(Duration::from_nanos(AGAIN_NS));
        phc.compare(true).map_err(failed)?;
        let phc = Arc::new(phc);
        open.retain(|(_, one)| one.strong_count() > 0);
        open.push((index, Arc::downgrade(&phc)));
        Ok(phc)
    }

    fn begin(source: Box<dyn Compare>) -> io::Result<Self> {
        let name = source.name();
        let history = History::begin(source)?;
        let phc = Self {
            version: AtomicU64::new(0),
            device_ns: AtomicU64::new(history.last.device_ns),
            realtime_ns: AtomicU64::new(history.last.realtime_ns),
            rate: AtomicU64::new(0),
            name,
            history: Mutex::new(history),
        };
        Ok(phc)
    }

    fn compare(&self, first: bool) -> io::Result<()> {
        // Somebody else who is at it does it for all.
        let Ok(mut history) = self.history.try_lock() else { return Ok(()) };
        history.again(first)?;
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.device_ns.store(history.last.device_ns, Ordering::Relaxed);
        self.realtime_ns.store(history.last.realtime_ns, Ordering::Relaxed);
        self.rate.store(history.rate.to_bits(), Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
        Ok(())
    }

    /// Compares again when it is time to. Not for a measured loop while something is awaited there.
    pub(super) fn refresh(&self) {
        if clock::realtime_ns().saturating_sub(self.realtime_ns.load(Ordering::Relaxed)) >= AGAIN_NS {
            // A clock that could be read a moment ago and cannot now runs on as it did.
            let _ = self.compare(false);
        }
    }

    /// A stamp as wall-clock time.
    #[inline]
    pub(crate) fn realtime(&self, stamp_ns: u64) -> u64 {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let from = Comparison {
                device_ns: self.device_ns.load(Ordering::Relaxed),
                realtime_ns: self.realtime_ns.load(Ordering::Relaxed),
                half_ns: 0,
            };
            let rate = f64::from_bits(self.rate.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return moved(stamp_ns, &from, rate);
            }
            std::hint::spin_loop();
        }
    }

    /// Within how many ns of the wall clock all stamps so far were for the sake of the comparisons.
    pub(super) fn error_ns(&self) -> u64 {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).error_ns
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests;
