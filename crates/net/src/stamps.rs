//! Time stamps of the kernel and of the NIC (SO_TIMESTAMPING; kernel: Documentation/networking/timestamping.rst).
//!
//! Stamps of what was received come with the message. Stamps of what was sent come through the socket's error queue,
//! numbered by the order of sending (of a stream: by its bytes): [`SentStamps`] reads them, from any thread, without
//! disturbing the sender.
//! Nothing of a device is changed: a NIC stamps only when its owner has switched that on.

use crate::NetError;
use crate::control::Pair;
use crate::route;
use crate::socket::{DataSocket, SocketKind};
use crate::sys;
use model::{StampClock, Stamps};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

mod hardware;
mod phc;
mod sent;

pub(crate) use hardware::stamps_received;
pub use hardware::{NicStamps, nic_stamps};
use phc::Phc;
pub(crate) use sent::Passed;
pub use sent::SentStamps;

/// How long a stream's peer may take to acknowledge what was sent before: longer than acknowledgements are held back.
const ACKNOWLEDGED: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) from: u16,
    pub(crate) stack_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Stamping {
    pub(crate) reader: Reader,
    /// Where waits put stamps of what was sent; absent when those were not asked for.
    pub(crate) passed: Option<Arc<Passed>>,
}

/// Makes wall-clock times of stamps.
#[derive(Debug, Clone)]
pub(crate) enum Reader {
    Kernel,
    Hardware(Arc<Phc>),
    /// Of what is received the kernel's.
    HardwareSent(Arc<Phc>),
}

impl Reader {
    #[inline]
    pub(crate) fn ns(&self, stamp: Pair) -> u64 {
        match self {
            Self::Kernel => stamp.software_ns,
            Self::Hardware(_) if stamp.hardware_ns == 0 => 0,
            Self::HardwareSent(_) if stamp.hardware_ns == 0 => stamp.software_ns,
            Self::Hardware(clock) | Self::HardwareSent(clock) => clock.realtime(stamp.hardware_ns),
        }
    }

    fn refresh(&self) {
        if let Self::Hardware(clock) | Self::HardwareSent(clock) = self {
            clock.refresh();
        }
    }
}

impl DataSocket {
    /// Has messages stamped from now on; with `sent` those that are sent too. To be called once the peer is known, and
    /// again for numbers of sent messages to begin at 0 again: before a stream's messages are of another length, and after
    /// a send failed, because the kernel may or may not have counted that one. Errors: stamps by hardware that the NIC
    /// towards the peer does not take, with what it has; a stream whose peer does not acknowledge what was sent before; or
    /// a refused option.
    pub fn stamp(&mut self, stamps: Stamps, sent: bool) -> Result<(), NetError> {
        let known = self.stamps.take().map(|known| known.reader);
        let clock = |received| clock_towards(self.peer_address(), received).and_then(Phc::open);
        let reader = match (stamps, known) {
            (Stamps::None, _) => return Ok(()),
            (_, Some(reader)) => reader,
            (Stamps::Kernel, None) => Reader::Kernel,
            (Stamps::Hardware, None) => Reader::Hardware(clock(true)?),
            (Stamps::HardwareSent, None) => Reader::HardwareSent(clock(false)?),
            (Stamps::Auto, None) => clock(true).map_or(Reader::Kernel, Reader::Hardware),
        };
        if matches!(self.kind, SocketKind::Pipe) || self.protocol().is_local() {
            return Err(NetError::Unsupported { protocol: self.protocol(), why: "has no time stamps of the kernel" });
        }
        let (received, of_sent) = match reader {
            Reader::Kernel => (
                libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
                libc::SOF_TIMESTAMPING_TX_SOFTWARE,
            ),
            Reader::Hardware(_) => (
                libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE,
                libc::SOF_TIMESTAMPING_TX_HARDWARE,
            ),
            Reader::HardwareSent(_) => (
                libc::SOF_TIMESTAMPING_RX_SOFTWARE
                    | libc::SOF_TIMESTAMPING_SOFTWARE
                    | libc::SOF_TIMESTAMPING_RAW_HARDWARE,
                libc::SOF_TIMESTAMPING_TX_HARDWARE,
            ),
        };
        // The count begins anew when it is switched on again.
        self.ask_stamps(received)?;
        if sent {
            if self.protocol().is_stream() {
                // The kernel counts a stream's bytes from the first one that is not acknowledged.
                self.wait_acknowledged()?;
            }
            sent::discard(self.read_fd());
            let counted = libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
            self.ask_stamps(received | of_sent | counted)?;
        }
        self.stamps = Some(Stamping { reader, passed: sent.then(|| Arc::new(Passed::new())) });
        Ok(())
    }

    fn ask_stamps(&self, wanted: u32) -> Result<(), NetError> {
        sys::set_option(self.read_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &wanted)
            .map_err(|cause| NetError::Option { option: "SO_TIMESTAMPING", value: format!("{wanted:#x}"), cause })
    }

    fn wait_acknowledged(&self) -> Result<(), NetError> {
        let began = std::time::Instant::now();
        loop {
            let failed = |cause| NetError::Exchange { call: "SIOCOUTQ", cause };
            let left =
                sys::output_queue(self.read_fd()).ok().ok_or_else(|| failed(std::io::ErrorKind::Unsupported.into()))?;
            if left == 0 {
                return Ok(());
            }
            if began.elapsed() > ACKNOWLEDGED {
                let why = format!("the peer has not acknowledged {left} bytes for 2 s: see what holds it up");
                return Err(failed(std::io::Error::new(std::io::ErrorKind::TimedOut, why)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the stamps are of; absent when none were asked for.
    pub fn stamp_clock(&self) -> Option<StampClock> {
        let stamping = self.stamps.as_ref()?;
        let (stamps, clock) = match &stamping.reader {
            Reader::Kernel => return Some(StampClock { stamps: Stamps::Kernel, relation: None, error_ns: 0 }),
            Reader::Hardware(clock) => (Stamps::Hardware, clock),
            Reader::HardwareSent(clock) => (Stamps::HardwareSent, clock),
        };
        Some(StampClock { stamps, relation: Some(clock.name().to_owned()), error_ns: clock.error_ns() })
    }

    /// The stamps of sent messages of `bytes`; absent when not asked for. Errors: the descriptor cannot be copied.
    pub fn sent_stamps(&self, bytes: usize) -> Result<Option<SentStamps>, NetError> {
        let Some(Stamping { reader, passed: Some(passed) }) = &self.stamps else { return Ok(None) };
        let socket = self
            .as_fd()
            .try_clone_to_owned()
            .map_err(|cause| NetError::Descriptors { what: "a copy of the data socket", cause })?;
        let bytes = self.protocol().is_stream().then_some(bytes as u64);
        Ok(Some(SentStamps::new(socket, reader.clone(), Arc::clone(passed), bytes)))
    }
}

/// The PTP clock of the NIC towards a peer, if it stamps all sent messages, with `received` all received ones too.
fn clock_towards(peer: Option<SocketAddr>, received: bool) -> Result<u32, NetError> {
    let refused = |what: String| NetError::Stamps { what };
    let peer = peer.ok_or(NetError::NoPeer)?;
    let device =
        route::lookup(peer)?.interface.ok_or_else(|| refused(format!("no interface leads to {}", peer.ip())))?;
    nic_stamps(&device)
        .map_err(|cause| refused(format!("{device} does not say what it can stamp ({cause})")))?
        .usable(&device, received)
}
