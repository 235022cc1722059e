//! The C library's heap: kept rather than given back and fetched again.

/// Keeps freed and large blocks in glibc's heap (mallopt(3)): a buffer reused between sizes causes no page faults.
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
