//! The C library's heap: kept rather than given back and fetched again.

/// Makes glibc's allocator keep freed memory and serve large blocks from the heap too (mallopt(3)): a buffer freed between
/// two sizes costs the next one no page faults.
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
