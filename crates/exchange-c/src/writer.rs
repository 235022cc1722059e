//! The image from which a node publishes.

use crate::status::{ERROR_ARGUMENT, ERROR_FILE, ERROR_IMAGE, Failure, OK};
use crate::topic;
use exchange::{Quality, Source};
use exchange_io::{ImageSpec, ImageWriter, Sample, image_path};
use std::ffi::c_int;

/// `whx_writer`: an image that is written. Its file stays, so that a running node has the next writer's samples.
#[derive(Debug)]
pub struct Writer {
    image: ImageWriter,
    bytes: usize,
    epoch: u64,
    sequence: u64,
}

impl Writer {
    pub(crate) fn open(names: [&str; 3]) -> Result<Self, Failure> {
        let [file, _, name] = names;
        let (node, topic) = topic(names)?;
        if !node.publish.iter().any(|published| published.topic == name && published.source == Source::Image) {
            let why = format!("node '{}' does not publish '{name}' with source = \"image\"", node.name);
            return Err((ERROR_FILE, format!("{file}: {why}")));
        }
        let image = ImageWriter::create(&image_path(&node.name, name, true), &ImageSpec::new(&topic));
        let image = image.map_err(|cause| (ERROR_IMAGE, cause.to_string()))?;
        Ok(Self { image, bytes: topic.bytes(), epoch: clock::realtime_ns(), sequence: 0 })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn publish(&mut self, data: &[u8], quality: u32) -> Result<c_int, Failure> {
        if quality > Quality::Substituted as u32 {
            return Err((ERROR_ARGUMENT, format!("quality {quality} is not 0 to 3")));
        }
        let now_ns = clock::realtime_ns();
        let sample = Sample {
            quality: Quality::from_bits(quality.into()),
            sequence: self.sequence,
            epoch: self.epoch,
            cycle: self.sequence,
            scheduled_ns: now_ns,
            sent_ns: now_ns,
            stored_ns: clock::monotonic_ns(),
        };
        self.image.write(&sample, data);
        self.sequence += 1;
        Ok(OK)
    }
}
