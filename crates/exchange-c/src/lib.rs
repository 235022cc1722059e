//! The C ABI of exchange's images: `include/windhover_exchange.h` documents each function and what its caller has to keep to.
//!
//! Each function checks pointers for NULL, sizes and strings, and returns a code. A panic does not cross the boundary
//! (`status::guard`). What is done with the images is in `reader` and `writer`, without unsafe code.
#![expect(unsafe_code, reason = "the C ABI: pointers of the caller")]
#![expect(missing_docs, clippy::missing_safety_doc, reason = "the header has them")]

mod reader;
mod status;
mod writer;

pub use reader::Reader;
pub use status::*;
pub use writer::Writer;

use exchange::{ExchangeFile, Topic};
use std::ffi::{CStr, c_char, c_int, c_void};

type Text = *const c_char;
type Data = *mut c_void;

/// `whx_sample`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub sequence: u64,
    pub epoch: u64,
    pub cycle: u64,
    pub scheduled_ns: u64,
    pub sent_ns: u64,
    pub stored_ns: u64,
    pub age_ns: u64,
    pub quality: u32,
    pub writer_alive: u32,
}

/// A node of a file, and a topic.
fn topic([file, node, topic]: [&str; 3]) -> Result<(exchange::Node, Topic), Failure> {
    let wrong = |why: String| (ERROR_FILE, format!("{file}: {why}"));
    let text = std::fs::read_to_string(file).map_err(|cause| wrong(format!("it cannot be read: {cause}")))?;
    let read = ExchangeFile::read(&text).map_err(|cause| wrong(cause.to_string()))?;
    let node = read.node(node).ok_or_else(|| wrong(format!("it has no node '{node}'")))?.clone();
    let topic = read.topic(topic).ok_or_else(|| wrong(format!("it has no topic '{topic}'")))?.clone();
    Ok((node, topic))
}

/// # Safety
/// `pointer` is NULL, or a C string that lives as long as the result.
unsafe fn text<'a>(pointer: Text, what: &str) -> Result<&'a str, Failure> {
    check_pointer(pointer, what)?;
    // SAFETY: it is a C string by this function's contract.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| (ERROR_ARGUMENT, format!("{what} is not UTF-8")))
}

/// Gives a handle to the caller, or NULL with an error.
///
/// # Safety
/// Strings are NULL or C strings; `out` is NULL or may be written.
unsafe fn open<T>(strings: [Text; 3], out: *mut *mut T, open: fn([&str; 3]) -> Result<T, Failure>) -> c_int {
    guard(|| {
        check_pointer(out, "the place for the handle")?;
        let [file, node, topic] = strings;
        // SAFETY: C strings by this function's contract.
        let read = || unsafe { Ok([text(file, "file")?, text(node, "node")?, text(topic, "topic")?]) };
        let opened = read().and_then(open).map(|handle| Box::into_raw(Box::new(handle)));
        // SAFETY: it may be written by this function's contract.
        unsafe { out.write(*opened.as_ref().unwrap_or(&std::ptr::null_mut())) };
        opened.map(|_| OK)
    })
}

/// # Safety
/// `handle` is NULL or from [`open`], and used no more.
unsafe fn close<T>(handle: *mut T) {
    guard(|| {
        if !handle.is_null() {
            // SAFETY: it is from a box, which nobody uses any more by this function's contract.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(OK)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_reader_open(file: Text, node: Text, topic: Text, out: *mut *mut Reader) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { open([file, node, topic], out, Reader::open) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_reader_bytes(reader: *const Reader) -> usize {
    // SAFETY: NULL or an open handle, as the header demands.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.data().len())
}

/// Reads by `read` and copies what it found to the caller.
///
/// # Safety
/// As the header demands of [`whx_reader_latest`].
unsafe fn read_with(
    reader: *mut Reader,
    (data, bytes): (Data, usize),
    sample: *mut Sample,
    read: impl FnOnce(&mut Reader) -> Result<(c_int, Sample), Failure>,
) -> c_int {
    guard(|| {
        check_pointer(reader, "reader")?;
        check_pointer(data, "data")?;
        check_pointer(sample, "sample")?;
        // SAFETY: an open handle that no other thread uses.
        let reader = unsafe { &mut *reader };
        check_size(bytes, reader.data().len())?;
        let (code, found) = read(reader)?;
        // SAFETY: `data` has the bytes that were compared above and is not the handle's own memory; `sample` may be written.
        unsafe {
            std::ptr::copy_nonoverlapping(reader.data().as_ptr(), data.cast::<u8>(), bytes);
            sample.write(found);
        }
        Ok(code)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_reader_latest(
    reader: *mut Reader,
    data: Data,
    bytes: usize,
    sample: *mut Sample,
) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { read_with(reader, (data, bytes), sample, Reader::latest) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_reader_wait(
    reader: *mut Reader,
    timeout_ns: u64,
    data: Data,
    bytes: usize,
    sample: *mut Sample,
) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { read_with(reader, (data, bytes), sample, |reader| reader.wait(timeout_ns)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_reader_close(reader: *mut Reader) {
    // SAFETY: the contract is the same.
    unsafe { close(reader) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_writer_open(file: Text, node: Text, topic: Text, out: *mut *mut Writer) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { open([file, node, topic], out, Writer::open) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_writer_publish(
    writer: *mut Writer,
    data: *const c_void,
    bytes: usize,
    quality: u32,
) -> c_int {
    guard(|| {
        check_pointer(writer, "writer")?;
        check_pointer(data, "data")?;
        // SAFETY: an open handle that no other thread uses, as the header demands.
        let writer = unsafe { &mut *writer };
        check_size(bytes, writer.bytes())?;
        // SAFETY: as many initialized bytes as the header demands.
        writer.publish(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) }, quality)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn whx_writer_close(writer: *mut Writer) {
    // SAFETY: the contract is the same.
    unsafe { close(writer) };
}
