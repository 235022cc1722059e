//! What one end of a measurement is told: how it waits, where and with what policy it runs.

use crate::Policy;
use std::net::IpAddr;

words! {
    "receive mode";
    /// How an end waits for a message.
    #[derive(Default)]
    pub enum Receive {
        /// A blocking receive call.
        #[default]
        Block = "block",
        /// Non-blocking receive calls in a loop; occupies the CPU.
        Spin = "spin",
        /// poll(2), then receive.
        Poll = "poll",
        /// select(2), then receive.
        Select = "select",
        /// epoll_wait(2) on a set made once, then receive.
        Epoll = "epoll",
        /// As `epoll`, with an EPOLL_CTL_MOD before each wait.
        EpollMod = "epoll-mod" | "epoll_mod",
        /// As `epoll`, with EPOLL_CTL_ADD before and EPOLL_CTL_DEL after each wait.
        EpollAdddel = "epoll-adddel" | "epoll_adddel",
        /// Overlapped receive calls that end through an I/O completion port; only at an end on Windows (winpoint).
        Completion = "iocp",
    }
}

impl Receive {
    /// Those that an end on Linux has.
    pub const LINUX: [Self; 7] =
        [Self::Block, Self::Spin, Self::Poll, Self::Select, Self::Epoll, Self::EpollMod, Self::EpollAdddel];
}

/// Idle descriptors that pad the set of select, poll and epoll, as real servers have them (sfnt-pingpong's `n-*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct IdleDescriptors {
    /// Pipes.
    pub pipes: u32,
    /// UNIX datagram sockets.
    pub unix_datagrams: u32,
    /// UNIX stream sockets.
    pub unix_streams: u32,
    /// UDP sockets.
    pub udp: u32,
    /// Connected TCP sockets.
    pub tcp_connected: u32,
    /// Listening TCP sockets.
    pub tcp_listening: u32,
}

impl IdleDescriptors {
    /// How many there are in all.
    pub fn total(&self) -> u32 {
        [self.pipes, self.unix_datagrams, self.unix_streams, self.udp, self.tcp_connected, self.tcp_listening]
            .into_iter()
            .fold(0, u32::saturating_add)
    }
}

/// One end's own settings. The initiator applies its own; the reflector's travel over the control connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct EndSpec {
    /// How it waits for a message.
    pub receive: Receive,
    /// Its scheduling policy while it measures.
    pub policy: Policy,
    /// The one CPU it runs on; absent: wherever the kernel puts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// SO_BUSY_POLL in µs (socket(7)); absent: as the system has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_poll_us: Option<u32>,
    /// SO_SNDBUF in bytes as asked for (the kernel doubles it); absent: the system's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u32>,
    /// SO_RCVBUF in bytes as asked for (the kernel doubles it); absent: the system's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u32>,
    /// Local address that the data socket binds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<IpAddr>,
    /// Network device that the data socket is bound to (SO_BINDTODEVICE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Idle descriptors beside the data socket.
    pub idle: IdleDescriptors,
    /// Libraries that this end is claimed to run with, in the form of LD_PRELOAD (ld.so(8)): what a plan's stack sets. It
    /// is not applied from here but compared with what the end says it loaded, because a prefix may lose the variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preload: Option<String>,
    /// The built-in stack that this end is claimed to run behind ([`crate::plan::STACKS`]); compared with what its data sockets
    /// were carried by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}
