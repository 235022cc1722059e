//! What goes wrong with tracing.

/// Why kernel events cannot be had, one variant a step.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("the recorder cannot attach to {name}: {cause}; it needs Linux {since} or later")]
    Needed { name: String, cause: String, since: &'static str },
    #[error(
        "this process runs in a PID namespace of its own, so the kernel has other ids of its threads: run it outside the container, or with the host's ids (--pid=host)"
    )]
    Namespace,
    #[error(transparent)]
    Bpf(#[from] bpf::BpfError),
}
