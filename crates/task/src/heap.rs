//! The C library's heap: kept rather than given back and fetched again.

/// Tells glibc's allocator to keep freed memory and to serve large blocks from the heap too (mallopt(3), M_TRIM_THRESHOLD
/// and M_MMAP_MAX): memory once faulted in stays, so a buffer freed between two sizes costs the next one no
/// faults. Without effect on other C libraries.
pub fn keep_heap() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallopt takes two numbers; the values are those that mallopt(3) gives for "never trim" and "no mmap".
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
            libc::mallopt(libc::M_MMAP_MAX, 0);
        }
    }
}
