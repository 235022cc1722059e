//! BPF objects: programs compiled beforehand are fitted to the running kernel, attached to its tracepoints, and their maps are mapped
//! into memory.
//!
//! Floor 1. What is attached stays as long as the [`Object`], and no longer than the process: nothing is pinned.

#![expect(unsafe_code, reason = "mmap(2), and atomic reads of memory that the kernel writes")]

mod mapping;

pub use mapping::Mapping;

use aya::maps::Map;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use std::io;

/// Why programs cannot be loaded, one variant a step.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum BpfError {
    #[error(
        "the kernel does not describe its types (/sys/kernel/btf/vmlinux: {0}): it must be built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(BtfError),
    #[error("loading BPF programs failed: {0}; it needs CAP_BPF and CAP_PERFMON (run as root), and no lockdown")]
    Maps(String),
    #[error("the map {0} cannot be mapped into memory: {1}")]
    Mapping(&'static str, io::Error),
    #[error(
        "none of the programs could be attached; the first, {name}: {cause}: it needs CAP_BPF and CAP_PERFMON (run as root)"
    )]
    NoPrograms { name: String, cause: String },
}

/// A program is loaded so many times, each of which takes some ms.
const MOST_TRIES: u32 = 20;

/// A loaded object. Dropping it detaches its programs.
pub struct Object {
    ebpf: Ebpf,
    /// Programs that this kernel does not take, with the reason.
    missing: Vec<(String, String)>,
}

impl Object {
    /// Loads maps, with so many entries where it says so, and attaches every program that is used to the tracepoint of its own name. One
    /// that this kernel does not take is left out. Errors: nothing could be loaded or attached.
    pub fn load(object: &[u8], entries: &[(&str, u32)], unused: &[&str]) -> Result<Self, BpfError> {
        let types = Btf::from_sys_fs().map_err(BpfError::NoTypes)?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&types));
        for (map, entries) in entries {
            loader.map_max_entries(map, *entries);
        }
        let mut ebpf = loader.load(object).map_err(|error| BpfError::Maps(refused(&error)))?;
        let names: Vec<String> =
            ebpf.programs().map(|(name, _)| name.to_owned()).filter(|name| !unused.contains(&name.as_str())).collect();
        let mut missing = Vec::new();
        for name in &names {
            let attached = attach(&mut ebpf, name, &types);
            missing.extend(attached.err().map(|cause| (name.clone(), in_a_line(&cause))));
        }
        match missing.first() {
            Some((name, cause)) if missing.len() == names.len() => {
                Err(BpfError::NoPrograms { name: name.clone(), cause: cause.clone() })
            }
            _ => Ok(Self { ebpf, missing }),
        }
    }

    /// Programs that this kernel does not take, with the reason.
    pub fn missing(&self) -> &[(String, String)] {
        &self.missing
    }

    /// The memory of an array map that was made with BPF_F_MMAPABLE: `bytes` of it. Errors: there is no such map, or it cannot be
    /// mapped.
    pub fn memory(&self, map: &'static str, bytes: usize) -> Result<Mapping, BpfError> {
        let failed = |cause| BpfError::Mapping(map, cause);
        match self.ebpf.map(map) {
            Some(Map::Array(data)) => Mapping::new(data.fd(), bytes).map_err(failed),
            _ => Err(failed(io::ErrorKind::NotFound.into())),
        }
    }
}

fn attach(ebpf: &mut Ebpf, name: &str, types: &Btf) -> Result<(), ProgramError> {
    let not_found = || ProgramError::InvalidName { name: name.to_owned() };
    let program: &mut BtfTracePoint = ebpf.program_mut(name).ok_or_else(not_found)?.try_into()?;
    let mut tries = 1;
    // The verifier gives up where a signal is pending (kernel/bpf/verifier.c, EAGAIN).
    while let Err(error) = program.load(name, types) {
        let is_signal =
            matches!(&error, ProgramError::LoadError { io_error, .. } if io_error.kind() == io::ErrorKind::WouldBlock);
        if !is_signal || tries == MOST_TRIES {
            return Err(error);
        }
        tries += 1;
    }
    program.attach().map(|_| ())
}

/// An error with all its causes, and of the verifier's log its last word.
fn in_a_line(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return with_causes(error) };
    let log = verifier_log.to_string();
    let last = log.lines().rev().find(|line| !line.trim().is_empty() && !line.starts_with("processed "));
    last.map_or_else(|| io_error.to_string(), |last| format!("{io_error} ({})", last.trim()))
}

/// Why an object was not loaded. Which of its maps is the first one is chance.
fn refused(error: &EbpfError) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    if matches!(error, EbpfError::MapError(_)) { format!("no map can be made: {last}") } else { with_causes(error) }
}

/// An error with all its causes, each once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
