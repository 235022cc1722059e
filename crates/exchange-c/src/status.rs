//! Return codes, the text of the last error, and the guard around each call.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub const OK: c_int = 0;
pub const NO_SAMPLE: c_int = 1;
pub const TIMED_OUT: c_int = 2;
pub const ERROR_ARGUMENT: c_int = -1;
pub const ERROR_SIZE: c_int = -2;
pub const ERROR_FILE: c_int = -3;
pub const ERROR_IMAGE: c_int = -4;
pub const ERROR_BUSY: c_int = -5;
pub const ERROR_INTERNAL: c_int = -6;

/// A code below 0 with its text.
pub(crate) type Failure = (c_int, String);

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs the body of a call: a failure leaves its text and gives its code, and a panic ends here.
pub(crate) fn guard(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let (code, text) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failure)) => failure,
        Err(_) => (ERROR_INTERNAL, "internal error: the library panicked".to_owned()),
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no place for it any more.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    code
}

#[unsafe(no_mangle)]
pub extern "C" fn whx_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

pub(crate) fn check_pointer<T>(pointer: *const T, what: &str) -> Result<(), Failure> {
    if pointer.is_null() { Err((ERROR_ARGUMENT, format!("{what} is NULL"))) } else { Ok(()) }
}

pub(crate) fn check_size(given: usize, expected: usize) -> Result<(), Failure> {
    if given == expected {
        return Ok(());
    }
    Err((ERROR_SIZE, format!("{given} bytes were given where the topic has {expected} bytes of data")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_ends_at_the_boundary() {
        assert_eq!(guard(|| panic!("within a call")), ERROR_INTERNAL);
        // SAFETY: it is this thread's text, and no call is made meanwhile.
        let text = unsafe { CStr::from_ptr(whx_last_error()) }.to_str().unwrap();
        assert!(text.starts_with("internal error"), "{text}");
        assert_eq!(guard(|| Err((ERROR_FILE, "a\0b".to_owned()))), ERROR_FILE);
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(whx_last_error()) }, c"a b");
    }
}
