//! What carries the frames of a topic.

use crate::{LENGTH_BYTES, Topic};
use std::fmt;

const UDP_HEADER: usize = 8;
/// With the option of time stamps, which Linux sends.
const TCP_HEADER: usize = 20 + 12;
/// In UDP; more in each packet of a frame that one does not hold.
const PGM_HEADER: usize = UDP_HEADER + 24;
const PGM_FRAGMENT: usize = 20;
/// The MTU of Ethernet.
const MTU: usize = 1500;

/// What carries frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Datagrams, to each subscriber or to a group.
    #[default]
    Udp,
    /// A connection to each subscriber, on which a frame replaces one that was not sent yet.
    Tcp,
    /// A session to a group, with repairs.
    Pgm,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Pgm => "pgm",
        })
    }
}

/// What a frame is on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packets {
    /// IP packets, and their bytes with the headers of IP, all together.
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    /// The acknowledgement in the other direction.
    pub(crate) ack_bytes: Option<usize>,
}

impl Transport {
    /// A frame of a topic behind headers of IP of so many bytes.
    pub(crate) fn packets(self, topic: &Topic, ip: usize) -> Packets {
        let frame = topic.framing.header_bytes() + topic.bytes();
        match self {
            Self::Udp => Packets { count: 1, bytes: ip + UDP_HEADER + frame, ack_bytes: None },
            Self::Pgm => {
                let room = MTU - ip - PGM_HEADER;
                let (count, header) = match frame {
                    frame if frame <= room => (1, ip + PGM_HEADER),
                    frame => (frame.div_ceil(room - PGM_FRAGMENT), ip + PGM_HEADER + PGM_FRAGMENT),
                };
                Packets { count, bytes: count * header + frame, ack_bytes: None }
            }
            Self::Tcp => {
                let (stream, header) = (LENGTH_BYTES + frame, ip + TCP_HEADER);
                let count = stream.div_ceil(MTU - header);
                Packets { count, bytes: count * header + stream, ack_bytes: Some(header) }
            }
        }
    }
}
