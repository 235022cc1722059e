//! Packets of an interface as they come.

use super::link::Link;
use super::ring::{CapturedPacket, Ring};
use crate::{NetError, sys};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLink {
    pub name: String,
    pub link: u32,
}

/// An interface listened to. Everything passes; it is for looking, not for measuring beside it.
pub struct Live {
    link: Link,
    ring: Ring,
    dropped: u64,
}

impl Live {
    /// Captures on an interface, by its name or an address. Errors: no such interface, or capturing is not permitted.
    pub fn open(name: &str) -> Result<Self, NetError> {
        let index = crate::interface::named(name)?;
        let link = Link::named(&crate::interface::name_of(index)?)?;
        let ring = Ring::open(&link, None)?;
        Ok(Self { link, ring, dropped: 0 })
    }

    pub fn link(&self) -> LiveLink {
        LiveLink { name: self.link.name.clone(), link: u32::from(self.link.head.number()) }
    }

    /// Waits for packets, at most so long, and gives them to `take`. A signal ends the wait.
    pub fn wait(&mut self, patience: Duration, take: &mut dyn FnMut(CapturedPacket<'_>)) {
        let mut set = [libc::pollfd { fd: self.ring.fd(), events: libc::POLLIN, revents: 0 }];
        let left_ms = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
        sys::poll(&mut set, left_ms);
        self.ring.drain(take);
    }

    /// Packets that found no room so far.
    pub fn dropped(&mut self) -> u64 {
        let (_, dropped) = self.ring.counts();
        self.dropped += dropped;
        self.dropped
    }
}
