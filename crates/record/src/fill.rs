//! The figures of timed messages in their result document.

use crate::Recorded;
use model::worker::Measured;
use model::{Probe, ProbeSpec, TickRate};

impl Recorded {
    /// Fills in all that was recorded. `rate`: of the ticks that raw samples are in.
    pub fn fill(mut self, measured: &mut Measured, spec: &ProbeSpec, rate: TickRate) {
        let result = &mut measured.result;
        result.started_ns = self.started_ns;
        result.elapsed_ns = self.elapsed_ns;
        result.latency_corrected = crate::corrected(spec, &self);
        result.latency = Some(self.latency);
        result.latency_intended = self.latency_intended;
        result.lateness = self.lateness;
        if let Some(pace) = self.pace.take() {
            (result.rate, result.one_way) = (Some(pace.rate), pace.one_way);
            (result.segments, result.reflectors) = (pace.segments, pace.reflectors);
        }
        result.mdev_ns = self.mdev_ns.filter(|_| spec.probe() == Probe::Ping);
        result.series = self.series;
        // It fails only for counts above 2^63.
        result.histogram = self.histogram.to_base64_v2().ok();
        if let Some(schedule) = &self.schedule {
            result.histogram_intended = schedule.intended.to_base64_v2().ok();
            result.histogram_lateness = schedule.lateness.to_base64_v2().ok();
        }
        measured.hlog = self.hlog;
        measured.outliers = self.outliers;
        measured.raw = self.raw.map(|samples| crate::raw::encode(&samples, rate, self.first_tick));
    }
}
