//! The CPUs a thread may run on.

use crate::{TaskError, check};
use model::CpuList;
use model::cpus::MAX_CPU;
use std::io;
use std::sync::OnceLock;

const BITS: usize = u64::BITS as usize;
const WORDS: usize = (MAX_CPU as usize + 1) / BITS;

/// A CPU mask for every CPU number that the model accepts: glibc's own `cpu_set_t` ends at 1023.
#[derive(Clone, Copy)]
pub(crate) struct Mask([u64; WORDS]);

impl Mask {
    pub(crate) fn new(cpus: &CpuList) -> Self {
        let mut words = [0_u64; WORDS];
        for cpu in cpus.iter() {
            let cpu = cpu as usize;
            if let Some(word) = words.get_mut(cpu / BITS) {
                *word |= 1 << (cpu % BITS);
            }
        }
        Self(words)
    }

    fn list(&self) -> CpuList {
        (0..=MAX_CPU)
            .filter(|&cpu| self.0.get(cpu as usize / BITS).is_some_and(|word| word >> (cpu as usize % BITS) & 1 == 1))
            .collect()
    }

    /// Applies the mask to the calling thread without allocating: also fit for the time between fork and exec.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.apply_to(0)
    }

    /// Lets a thread run on these CPUs; 0 is the calling one.
    pub(crate) fn apply_to(&self, thread: i32) -> io::Result<()> {
        // SAFETY: the kernel reads `size_of_val` bytes at the address; it treats them as a bit mask of any length.
        check(unsafe { libc::sched_setaffinity(thread, size_of_val(&self.0), self.0.as_ptr().cast()) })
    }
}

/// The CPUs that the thread may run on now (sched_getaffinity(2)); 0 is the calling one.
fn mask_of(thread: i32) -> io::Result<Mask> {
    let mut mask = Mask([0; WORDS]);
    // SAFETY: the kernel writes at most `size_of_val` bytes at the address.
    check(unsafe { libc::sched_getaffinity(thread, size_of_val(&mask.0), mask.0.as_mut_ptr().cast()) })?;
    Ok(mask)
}

/// The CPUs that the calling thread may run on now.
pub fn allowed_cpus() -> Result<CpuList, TaskError> {
    allowed_cpus_of(0)
}

/// The CPUs that a thread may run on now, by its kernel thread id; 0 is the calling one.
pub fn allowed_cpus_of(thread: i32) -> Result<CpuList, TaskError> {
    let failed = |cause| TaskError::refused("the CPUs of this thread cannot be read", cause);
    Ok(mask_of(thread).map_err(failed)?.list())
}

/// The CPUs of the machine that are online; those allowed for this thread where the system does not say.
pub fn online_cpus() -> Result<CpuList, TaskError> {
    match std::fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| text.parse().ok()) {
        Some(cpus) => Ok(cpus),
        None => allowed_cpus(),
    }
}

/// What the process was allowed before it pinned any thread: where its helpers of ordinary policy belong.
fn allowed_at_first() -> &'static CpuList {
    static FIRST: OnceLock<CpuList> = OnceLock::new();
    FIRST.get_or_init(|| allowed_cpus().unwrap_or_default())
}

/// CPUs for helpers: the process's first ones without `measuring`, else other online ones, else that one.
pub fn housekeeping_cpus(measuring: Option<u32>) -> CpuList {
    let less = |cpus: &CpuList| cpus.iter().filter(|&cpu| Some(cpu) != measuring).collect::<CpuList>();
    let first = less(allowed_at_first());
    if !first.is_empty() {
        return first;
    }
    let online = less(&online_cpus().unwrap_or_default());
    if online.is_empty() { allowed_at_first().clone() } else { online }
}

/// Pins the calling thread to one CPU; the error names the CPUs to use instead.
pub fn pin(cpu: u32) -> Result<(), TaskError> {
    set_affinity(&[cpu].into_iter().collect())
}

/// Lets the calling thread run on these CPUs only; refuses a list of which the kernel would silently leave out a member.
pub fn set_affinity(cpus: &CpuList) -> Result<(), TaskError> {
    let _ = allowed_at_first();
    require_online(cpus)?;
    let failed = |cause: io::Error| refused(cpus, cause);
    Mask::new(cpus).apply().map_err(failed)?;
    let got = allowed_cpus()?;
    match cpus.iter().find(|&cpu| !got.contains(cpu)) {
        Some(cpu) => Err(TaskError::CpuNotAllowed { cpu, available: got }),
        None => Ok(()),
    }
}

/// Checks that a list names at least one CPU and that all of them are online.
pub fn require_online(cpus: &CpuList) -> Result<(), TaskError> {
    if cpus.is_empty() {
        return Err(TaskError::NoCpu);
    }
    let online = online_cpus()?;
    match cpus.iter().find(|&cpu| !online.contains(cpu)) {
        Some(cpu) => Err(TaskError::NoSuchCpu { cpu, available: online }),
        None => Ok(()),
    }
}

/// Words for the kernel's refusal of a list whose members all exist.
pub(crate) fn refused(cpus: &CpuList, cause: io::Error) -> TaskError {
    match cpus.iter().next() {
        Some(cpu) if cause.raw_os_error() == Some(libc::EINVAL) => {
            TaskError::CpuNotAllowed { cpu, available: housekeeping_cpus(None) }
        }
        _ => TaskError::refused(format!("the CPUs of this thread cannot be set to {cpus}"), cause),
    }
}

/// The CPU that the calling thread is on at this moment (sched_getcpu(3), through the vDSO). Allocates nothing.
#[inline]
pub fn current_cpu() -> Option<u32> {
    // SAFETY: takes nothing and returns a number or -1.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_what_the_list_says() {
        let cpus: CpuList = "0,63-65,1500,8191".parse().unwrap();
        assert_eq!(Mask::new(&cpus).list(), cpus);
    }
}
