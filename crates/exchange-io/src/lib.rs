//! An exchange on a host: images of topics in shared memory, and the threads of a node that publish and receive.
//!
//! A node has a thread for each topic that it publishes ([`Node`], `publisher`) and one for each address that it receives at
//! (`receiver`), over UDP, TCP (`tcp`) or PGM (`pgm`). What it received last is in an image ([`ImageReader`]), which other processes
//! read without a system call and without a lock. In a cycle a thread makes no system call but those that send, receive and sleep, and
//! allocates nothing.
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod bench;
mod echoed;
mod error;
mod image;
mod node;
mod pgm;
mod publisher;
mod receiver;
mod report;
mod sender;
mod tcp;

pub use bench::{BenchFigures, bench};
pub use echoed::{Echo, EchoedTopic, Inlet, Listener, Talker};
pub use error::{ImageError, NodeError};
pub use image::{Busy, ImageReader, ImageSpec, ImageWriter, Sample, image_path, images};
pub use node::Node;
pub use report::{Address, Connection, NodeReport, Published, Rejects, Spread, Subscribed};
