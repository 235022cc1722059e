//! Systems other than Windows, by the standard library alone: for tests, and as a plain end.

use super::{PlatformError, PriorityClass, SystemFacts};
use crate::doctor::Reader;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(super) const CLOCK: &str = "the standard library's monotonic clock";

static START: OnceLock<Instant> = OnceLock::new();

#[inline]
pub(super) fn ticks() -> u64 {
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn ticks_per_second() -> u64 {
    1_000_000_000
}

pub(super) fn set_priority_class(_: PriorityClass) -> Result<(), PlatformError> {
    Err(PlatformError::OnlyWindows("--priority"))
}

pub(super) fn pin(_: u32) -> Result<(), PlatformError> {
    Err(PlatformError::OnlyWindows("pinning to a CPU"))
}

pub(super) fn join_mmcss(_: &str) -> Result<(), PlatformError> {
    Err(PlatformError::OnlyWindows("--mmcss"))
}

/// There are no completion ports here.
#[derive(Debug)]
pub(crate) enum Completion {}

impl Completion {
    pub(crate) fn of_datagrams(_: &UdpSocket) -> io::Result<Self> {
        Err(io::Error::other("completion ports are for Windows: use --receive block or spin"))
    }

    pub(crate) fn of_stream(_: &TcpStream) -> io::Result<Self> {
        Err(io::Error::other("completion ports are for Windows: use --receive block or spin"))
    }

    pub(crate) fn receive(&mut self, _: &mut [u8], _: Duration) -> io::Result<(usize, Option<SocketAddr>)> {
        match *self {}
    }
}

pub(super) fn facts() -> SystemFacts {
    SystemFacts { os: std::env::consts::OS.to_owned(), ..SystemFacts::default() }
}

pub(super) fn reader() -> Option<Reader> {
    None
}
