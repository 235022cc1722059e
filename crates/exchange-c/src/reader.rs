//! A reader with what it returned last.

use crate::status::{ERROR_BUSY, ERROR_IMAGE, Failure, NO_SAMPLE, OK, TIMED_OUT};
use crate::{Sample, topic};
use exchange::{Shown, judge};
use exchange_io::{ImageReader, image_path};
use std::ffi::c_int;

/// `whx_reader`: an image that is read.
#[derive(Debug)]
pub struct Reader {
    image: ImageReader,
    /// The topic's, which take the place of data that are too old.
    defaults: Vec<u8>,
    data: Vec<u8>,
    last: Option<exchange_io::Sample>,
    /// Samples that the image had when it was read last.
    seen: u64,
}

impl Reader {
    pub(crate) fn open(names: [&str; 3]) -> Result<Self, Failure> {
        let (node, topic) = topic(names)?;
        let image = ImageReader::open(&image_path(&node.name, &topic.name, false), Some(topic.layout()));
        let image = image.map_err(|cause| (ERROR_IMAGE, cause.to_string()))?;
        let bytes = image.spec().data_bytes;
        let mut defaults = vec![0; bytes];
        topic.write_defaults(&mut defaults);
        let (seen, mut data) = (image.written(), vec![0; bytes]);
        // What was there before is not new to a wait.
        let last = image.latest(&mut data).ok().flatten();
        Ok(Self { seen, image, defaults, data, last })
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(crate) fn latest(&mut self) -> Result<(c_int, Sample), Failure> {
        // Before the sample is read: one that comes meanwhile is seen by the next wait.
        self.seen = self.image.written();
        let latest = self.image.latest(&mut self.data).map_err(|cause| (ERROR_BUSY, cause.to_string()))?;
        let now_ns = clock::monotonic_ns();
        let spec = self.image.spec();
        let age_ns = latest.map(|sample| now_ns.saturating_sub(sample.stored_ns));
        let published = latest.map(|sample| sample.quality).zip(age_ns);
        let (quality, shown) = judge(published, spec.stale_ns, spec.on_stale);
        match shown {
            Shown::Latest => {}
            Shown::Zeros => self.data.fill(0),
            Shown::Defaults => self.data.copy_from_slice(&self.defaults),
        }
        self.last = latest;
        let found = latest.unwrap_or_default();
        let exchange_io::Sample { sequence, epoch, cycle, scheduled_ns, sent_ns, stored_ns, .. } = found;
        let (age_ns, quality) = (age_ns.unwrap_or(u64::MAX), quality as u32);
        let writer_alive = self.image.is_writer_alive(now_ns).into();
        let sample = Sample { sequence, epoch, cycle, scheduled_ns, sent_ns, stored_ns, age_ns, quality, writer_alive };
        Ok((if latest.is_some() { OK } else { NO_SAMPLE }, sample))
    }

    pub(crate) fn wait(&mut self, timeout_ns: u64) -> Result<(c_int, Sample), Failure> {
        let before = self.last;
        let end_ns = clock::monotonic_ns().saturating_add(timeout_ns);
        // The header names these times.
        let look_ns = (self.image.spec().period_ns / 20).clamp(10_000, 200_000);
        loop {
            let now_ns = clock::monotonic_ns();
            let is_over = now_ns >= end_ns;
            if is_over || self.image.written() != self.seen {
                let (code, sample) = self.latest()?;
                // The count may follow a sample that was returned already.
                let is_new = self.last.is_some() && self.last != before;
                if is_new || is_over {
                    return Ok((if is_new { code } else { TIMED_OUT }, sample));
                }
            }
            // An interrupted sleep is a look that comes early.
            let _ = clock::sleep_until(end_ns.min(now_ns.saturating_add(look_ns)));
        }
    }
}
