//! The relation of a NIC's clock by a clock that is made up; there is none on most machines that tests run on.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "made-up times that are small; the type of an ioctl's number differs by C library"
)]

use super::*;
use std::mem::offset_of;

/// A NIC's clock by the wall clock: its lead at 0, how fast it gains, and how long and how lopsided a reading is.
#[derive(Debug, Clone)]
struct Fake {
    lead_ns: i64,
    ppm: f64,
    now: Arc<AtomicU64>,
    width_ns: u64,
    /// Part of the width after which the NIC is really read.
    share: f64,
    fails: bool,
}

impl Fake {
    fn new(lead_ns: i64, ppm: f64, width_ns: u64, share: f64) -> Self {
        Self { lead_ns, ppm, now: Arc::new(AtomicU64::new(1_700_000_000_000_000_000)), width_ns, share, fails: false }
    }

    fn device(&self, wall_ns: u64) -> u64 {
        let since = wall_ns - 1_700_000_000_000_000_000;
        let gained = (since as f64 * self.ppm * 1e-6).round() as i64;
        u64::try_from(wall_ns.cast_signed() + self.lead_ns + gained).unwrap()
    }
}

impl Compare for Fake {
    fn compare(&mut self) -> io::Result<Comparison> {
        if self.fails {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let before = self.now.load(Ordering::Relaxed);
        let read = before + (self.width_ns as f64 * self.share) as u64;
        Ok(Comparison::between(before, self.device(read), before + self.width_ns))
    }

    fn name(&self) -> String {
        "a fake".to_owned()
    }
}

#[test]
fn the_kernel_s_structures_and_numbers() {
    // linux/ptp_clock.h on x86-64 and ARM64.
    assert_eq!(size_of::<libc::ptp_clock_time>(), 16);
    assert_eq!(size_of::<libc::ptp_sys_offset>(), 832);
    assert_eq!(size_of::<libc::ptp_sys_offset_extended>(), 1216);
    assert_eq!(size_of::<libc::ptp_sys_offset_precise>(), 64);
    assert_eq!((offset_of!(libc::ptp_sys_offset, ts), offset_of!(libc::ptp_sys_offset_extended, ts)), (16, 16));
    assert_eq!(offset_of!(libc::ptp_sys_offset_precise, sys_realtime), 16);
    assert_eq!(offset_of!(libc::ptp_clock_time, nsec), 8);
    let number = |given: libc::Ioctl| given as u64 & 0xffff_ffff;
    assert_eq!(number(libc::PTP_SYS_OFFSET), 0x4340_3d05);
    assert_eq!(number(libc::PTP_SYS_OFFSET_PRECISE), 0xc040_3d08);
    assert_eq!(number(libc::PTP_SYS_OFFSET_EXTENDED), 0xc4c0_3d09);
}

fn at(ns: u64) -> libc::ptp_clock_time {
    libc::ptp_clock_time { sec: (ns / 1_000_000_000).cast_signed(), nsec: (ns % 1_000_000_000) as u32, reserved: 0 }
}

#[test]
fn the_closest_sample_counts() {
    let mut told: libc::ptp_sys_offset_extended = sys::plain();
    told.n_samples = 2;
    told.ts[0] = [at(1_000_000_000), at(5_000_000_500), at(1_000_001_000)];
    told.ts[1] = [at(2_000_000_000), at(6_000_000_100), at(2_000_000_201)];
    // Not asked for, so not there.
    told.ts[2] = [at(3_000_000_000), at(7_000_000_000), at(3_000_000_000)];
    let found = closest(extended(&told)).unwrap();
    assert_eq!(found, Comparison { device_ns: 6_000_000_100, realtime_ns: 2_000_000_100, half_ns: 101 });

    let mut told: libc::ptp_sys_offset = sys::plain();
    told.n_samples = 2;
    for (slot, ns) in told.ts.iter_mut().zip([10_000, 77, 11_000, 88, 11_400]) {
        *slot = at(ns);
    }
    assert_eq!(closest(basic(&told)), Some(Comparison { device_ns: 88, realtime_ns: 11_200, half_ns: 200 }));
    told.n_samples = 0;
    assert_eq!(closest(basic(&told)), None);
    told.n_samples = 1000;
    assert_eq!(basic(&told).count(), 25, "no further than there is room");

    let mut told: libc::ptp_sys_offset_precise = sys::plain();
    (told.device, told.sys_realtime) = (at(37_000_000_001), at(1_000_000_002));
    let found = precise(&told);
    assert_eq!((found.offset_ns(), found.half_ns), (-35_999_999_999, PRECISE_NS));
}

#[test]
fn stamps_lie_within_the_bound_whatever_the_clock_does() {
    for (lead_ns, ppm, width, share) in
        [(37_000_000_000, 0.0, 200, 0.5), (-5_000, 80.0, 1000, 0.0), (1_000_000, -80.0, 3000, 1.0), (0, 12.5, 1, 0.3)]
    {
        let fake = Fake::new(lead_ns, ppm, width, share);
        let now = Arc::clone(&fake.now);
        let phc = Phc::begin(Box::new(fake.clone())).unwrap();
        now.fetch_add(AGAIN_NS, Ordering::Relaxed);
        phc.compare(true).unwrap();
        for step in 0..50 {
            // A collecting thread is kept from its CPU now and then.
            let pause = AGAIN_NS + if step % 7 == 0 { AGAIN_NS / 2 } else { 0 };
            let from = now.load(Ordering::Relaxed);
            for wall in (from..from + pause).step_by(9_999_999) {
                let off = phc.realtime(fake.device(wall)).abs_diff(wall);
                assert!(off <= phc.error_ns() + 1, "{ppm} {width}: off by {off}, bound {}", phc.error_ns());
            }
            now.fetch_add(pause, Ordering::Relaxed);
            phc.compare(false).unwrap();
        }
        assert!(phc.error_ns() <= 3 * width + 4, "{ppm} {width}: {}", phc.error_ns());
    }
}

#[test]
fn a_clock_that_changes_its_rate_or_is_set_shows_in_the_bound() {
    let mut fake = Fake::new(0, 0.0, 100, 0.5);
    let now = Arc::clone(&fake.now);
    let phc = Phc::begin(Box::new(fake.clone())).unwrap();
    now.fetch_add(AGAIN_NS, Ordering::Relaxed);
    phc.compare(true).unwrap();
    assert!(phc.error_ns() < 400);
    fake.lead_ns = 40_000;
    phc.history.lock().unwrap().source = Box::new(fake.clone());
    now.fetch_add(AGAIN_NS, Ordering::Relaxed);
    phc.compare(false).unwrap();
    assert!(phc.error_ns() >= 40_000, "{}", phc.error_ns());
    // One that cannot be read any more runs on.
    fake.fails = true;
    phc.history.lock().unwrap().source = Box::new(fake);
    assert!(phc.compare(false).is_err());
    phc.refresh();
}

#[test]
fn a_clock_that_is_not_there_is_refused_with_the_remedy() {
    let text = Phc::open(4_000_000).unwrap_err().to_string();
    assert!(text.contains("/dev/ptp4000000") && text.contains("--stamps kernel") && !text.contains('\n'), "{text}");
    // A file that is no clock: the last way explains why.
    assert!(Device::open("/dev/null".to_owned()).is_err());
}
