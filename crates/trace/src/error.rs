//! What goes wrong with tracing.

use std::io;
use std::path::PathBuf;

/// Why kernel events cannot be had, one variant a step.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("no tracefs: it is not mounted at /sys/kernel/tracing and opening one failed ({0}); it needs root")]
    NoTracefs(io::Error),
    #[error("{path}: cannot {step}: {cause}")]
    Step { path: PathBuf, step: &'static str, cause: io::Error },
    #[error("this kernel has none of the trace events {0}")]
    NoEvents(String),
    #[error("the recorder cannot attach to {name}: {cause}; it needs Linux {since} or later")]
    Needed { name: String, cause: String, since: &'static str },
    #[error(
        "this process runs in a PID namespace of its own, so the kernel has other ids of its threads: run it outside the container, or with the host's ids (--pid=host)"
    )]
    Namespace,
    #[error(transparent)]
    Bpf(#[from] bpf::BpfError),
}
