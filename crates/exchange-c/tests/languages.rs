//! Images through the C ABI: called from here, from a C program, and beside it Python, which maps images by itself.
#![allow(unsafe_code, reason = "calls of the C ABI")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

use exchange::{ExchangeFile, Quality};
use exchange_io::{ImageReader, ImageSpec, ImageWriter, Node, Sample as Stored, image_path};
use std::ffi::{CStr, CString};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windhover_exchange::*;

const FILE: &str = r#"
[[topic]]
name = "setpoint"
id = 1
period_us = 1000
stale_us = 10000000
on_stale = "hold"
[[topic.field]]
name = "force"
type = "f64"

[[topic]]
name = "state"
id = 2
period_us = 1000
stale_us = 10000000
on_stale = "default"
[[topic.field]]
name = "valid"
type = "bool"
default = 1
[[topic.field]]
name = "position"
type = "f64"
count = 20
unit = "m"
default = -2.5
[[topic.field]]
name = "step"
type = "u16"
default = 70000

[[node]]
name = "NODE"
id = 1
address = "127.0.0.1"
publish = [{ topic = "setpoint", source = "image" }, { topic = "state" }]
"#;

/// A file whose node is this test's alone; its images are removed with it.
struct Exchange {
    folder: tempfile::TempDir,
    node: String,
    file: ExchangeFile,
}

impl Exchange {
    fn new(test: &str) -> Self {
        let node = format!("{test}-{}", std::process::id());
        let text = FILE.replace("NODE", &node);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("exchange.toml"), &text).unwrap();
        Self { folder, node, file: ExchangeFile::read(&text).unwrap() }
    }

    fn path(&self) -> String {
        self.folder.path().join("exchange.toml").to_str().unwrap().to_owned()
    }

    fn image(&self, topic: &str) -> PathBuf {
        image_path(&self.node, topic, false)
    }

    fn writer(&self, topic: &str) -> ImageWriter {
        ImageWriter::create(&self.image(topic), &ImageSpec::new(self.file.topic(topic).unwrap())).unwrap()
    }

    /// Writes sample `number`, whose elements are all that number, as one of this age.
    fn write(&self, writer: &mut ImageWriter, topic: &str, number: u64, age: Duration) {
        let topic = self.file.topic(topic).unwrap();
        let mut data = vec![0; topic.bytes()];
        topic.write_pattern(number, &mut data);
        let stored_ns = clock::monotonic_ns() - u64::try_from(age.as_nanos()).unwrap();
        let sample = Stored {
            quality: Quality::Good,
            sequence: number,
            epoch: 2,
            cycle: 3,
            scheduled_ns: 4,
            sent_ns: 5,
            stored_ns,
        };
        writer.write(&sample, &data);
    }

    /// Writes samples, one in this time, while `during` runs.
    fn write_while<T>(&self, topic: &str, each: Duration, during: impl FnOnce() -> T) -> T {
        let mut writer = self.writer(topic);
        let is_over = AtomicBool::new(false);
        self.write(&mut writer, topic, 0, Duration::ZERO);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 1;
                while !is_over.load(Ordering::Relaxed) {
                    self.write(&mut writer, topic, number, Duration::ZERO);
                    number += 1;
                    std::thread::sleep(each);
                }
            });
            // The thread ends when this panics, too.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(during));
            is_over.store(true, Ordering::Relaxed);
            result.unwrap()
        })
    }

    fn open_reader(&self, topic: &str) -> (i32, *mut Reader) {
        let [file, node, topic] = [&self.path(), &self.node, topic].map(|text| CString::new(text).unwrap());
        let mut reader = null_mut();
        // SAFETY: C strings, and a place for the handle.
        let code = unsafe { whx_reader_open(file.as_ptr(), node.as_ptr(), topic.as_ptr(), &raw mut reader) };
        (code, reader)
    }

    fn open_writer(&self, topic: &str) -> (i32, *mut Writer) {
        let [file, node, topic] = [&self.path(), &self.node, topic].map(|text| CString::new(text).unwrap());
        let mut writer = null_mut();
        // SAFETY: C strings, and a place for the handle.
        let code = unsafe { whx_writer_open(file.as_ptr(), node.as_ptr(), topic.as_ptr(), &raw mut writer) };
        (code, writer)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        for topic in ["setpoint", "state"] {
            for is_input in [false, true] {
                let _ = std::fs::remove_file(image_path(&self.node, topic, is_input));
            }
        }
    }
}

fn last_error() -> String {
    // SAFETY: this thread's text, before its next call.
    unsafe { CStr::from_ptr(whx_last_error()) }.to_str().unwrap().to_owned()
}

#[track_caller]
fn assert_error(code: i32, expected: i32, words: &str) {
    let error = last_error();
    assert!(code == expected && error.contains(words) && !error.contains('\n'), "{code}: {error}\nnot {words}");
}

/// The latest sample with its first element, or by `wait` the next.
fn read(reader: *mut Reader, wait: Option<Duration>, bytes: usize) -> (i32, Sample, Vec<u8>) {
    let mut data = vec![0xaa; bytes];
    let mut sample = Sample::default();
    let place = data.as_mut_ptr().cast();
    // SAFETY: an open handle of this thread, and as many bytes as are named.
    let code = unsafe {
        match wait {
            None => whx_reader_latest(reader, place, bytes, &raw mut sample),
            Some(limit) => {
                let limit_ns = u64::try_from(limit.as_nanos()).unwrap();
                whx_reader_wait(reader, limit_ns, place, bytes, &raw mut sample)
            }
        }
    };
    (code, sample, data)
}

fn number(data: &[u8]) -> f64 {
    f64::from_le_bytes(*data.first_chunk().unwrap())
}

#[test]
fn a_reader_has_value_quality_age_and_sequence() {
    let exchange = Exchange::new("reader");
    let (code, reader) = exchange.open_reader("setpoint");
    assert_error(code, ERROR_IMAGE, "cannot be opened");
    assert!(reader.is_null());
    let mut writer = exchange.writer("setpoint");
    let (code, reader) = exchange.open_reader("setpoint");
    assert_eq!(code, OK, "{}", last_error());
    // SAFETY: an open handle.
    assert_eq!(unsafe { whx_reader_bytes(reader) }, 8);
    let (code, sample, data) = read(reader, None, 8);
    assert_eq!((code, sample.quality, sample.age_ns, number(&data)), (NO_SAMPLE, 2, u64::MAX, 0.0));
    exchange.write(&mut writer, "setpoint", 7, Duration::from_secs(1));
    let (code, sample, data) = read(reader, None, 8);
    assert_eq!((code, sample.quality, sample.sequence, number(&data)), (OK, 0, 7, 7.0));
    assert_eq!((sample.epoch, sample.cycle, sample.scheduled_ns, sample.sent_ns), (2, 3, 4, 5));
    assert!(sample.age_ns >= 1_000_000_000 && sample.age_ns == clock_age(&sample), "{sample:?}");
    exchange.write(&mut writer, "setpoint", 8, Duration::from_secs(11));
    let (code, sample, data) = read(reader, None, 8);
    assert_eq!(
        (code, sample.quality, sample.writer_alive, number(&data)),
        (OK, 3, 0, 8.0),
        "held, and no sign of life"
    );
    // SAFETY: an open handle, used no more.
    unsafe { whx_reader_close(reader) };
}

/// The age of a sample cannot be above what it is now.
fn clock_age(sample: &Sample) -> u64 {
    sample.age_ns.min(clock::monotonic_ns() - sample.stored_ns)
}

#[test]
fn a_value_that_is_too_old_gives_way_to_the_defaults() {
    let exchange = Exchange::new("defaults");
    let mut writer = exchange.writer("state");
    let (_, reader) = exchange.open_reader("state");
    let bytes = exchange.file.topic("state").unwrap().bytes();
    let mut defaults = vec![0; bytes];
    exchange.file.topic("state").unwrap().write_defaults(&mut defaults);
    let (code, sample, data) = read(reader, None, bytes);
    assert_eq!((code, sample.quality, &data), (NO_SAMPLE, 3, &defaults));
    exchange.write(&mut writer, "state", 1, Duration::ZERO);
    let (code, sample, data) = read(reader, None, bytes);
    assert!((code, sample.quality, sample.writer_alive) == (OK, 0, 1) && data != defaults, "{sample:?}");
    exchange.write(&mut writer, "state", 2, Duration::from_secs(11));
    let (code, sample, data) = read(reader, None, bytes);
    assert_eq!((code, sample.quality, sample.sequence, &data), (OK, 3, 2, &defaults));
    // SAFETY: an open handle, used no more.
    unsafe { whx_reader_close(reader) };
}

#[test]
fn a_wait_ends_with_a_new_sample_or_at_its_time() {
    let exchange = Exchange::new("wait");
    let mut writer = exchange.writer("setpoint");
    exchange.write(&mut writer, "setpoint", 1, Duration::ZERO);
    let (_, reader) = exchange.open_reader("setpoint");
    let begun_ns = clock::monotonic_ns();
    let (code, sample, data) = read(reader, Some(Duration::from_millis(20)), 8);
    assert_eq!((code, sample.sequence, number(&data)), (TIMED_OUT, 1, 1.0), "it was there before");
    assert!(clock::monotonic_ns() - begun_ns >= 20_000_000);
    exchange.write(&mut writer, "setpoint", 2, Duration::ZERO);
    assert_eq!(read(reader, Some(Duration::ZERO), 8).0, OK);
    assert_eq!(read(reader, Some(Duration::ZERO), 8).0, TIMED_OUT, "it was returned");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            exchange.write(&mut writer, "setpoint", 3, Duration::ZERO);
        });
        let (code, sample, data) = read(reader, Some(Duration::from_secs(60)), 8);
        assert_eq!((code, sample.sequence, number(&data)), (OK, 3, 3.0));
    });
    // SAFETY: an open handle, used no more.
    unsafe { whx_reader_close(reader) };
}

#[test]
fn a_node_reads_what_a_writer_publishes() {
    let exchange = Exchange::new("writer");
    let (code, writer) = exchange.open_writer("setpoint");
    assert_eq!(code, OK, "{}", last_error());
    let (code, other) = exchange.open_writer("setpoint");
    assert_error(code, ERROR_IMAGE, "is written by process");
    assert!(other.is_null());
    let path = image_path(&exchange.node, "setpoint", true);
    let reader = ImageReader::open(&path, Some(exchange.file.topic("setpoint").unwrap().layout())).unwrap();
    let mut data = [0; 8];
    for (sequence, quality) in [(0, Quality::Good), (1, Quality::Bad)] {
        let value = 1.5_f64.to_le_bytes();
        // SAFETY: an open handle, and as many bytes as are named.
        let code = unsafe { whx_writer_publish(writer, value.as_ptr().cast(), 8, quality as u32) };
        let sample = reader.latest(&mut data).unwrap().unwrap();
        assert_eq!((code, sample.sequence, sample.quality, data), (OK, sequence, quality, value));
        assert!(sample.epoch > 0 && sample.stored_ns <= clock::monotonic_ns(), "{sample:?}");
    }
    // SAFETY: an open handle, which is used no more after it is closed.
    unsafe {
        assert_error(whx_writer_publish(writer, data.as_ptr().cast(), 8, 4), ERROR_ARGUMENT, "quality 4 is not 0 to 3");
        assert_error(whx_writer_publish(writer, data.as_ptr().cast(), 7, 0), ERROR_SIZE, "7 bytes were given");
        assert_error(whx_writer_publish(writer, null(), 8, 0), ERROR_ARGUMENT, "data is NULL");
        whx_writer_close(writer);
    }
    assert!(path.exists() && reader.written() == 2);
}

/// A writer's value is sent by a node and read at another.
#[test]
fn a_value_goes_from_a_writer_over_two_nodes_to_a_reader() {
    let mut exchange = Exchange::new("nodes");
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let other = format!("{}-b", exchange.node);
    let node = "[[node]]\nname = \"NAME\"\nid = 2\naddress = \"127.0.0.1\"\nport = PORT\nsubscribe = [\"setpoint\"]\n";
    let node = node.replace("NAME", &other).replace("PORT", &free().to_string());
    let text = format!("{}port = {}\n{node}", FILE.replace("NODE", &exchange.node), free());
    std::fs::write(exchange.path(), &text).unwrap();
    exchange.file = ExchangeFile::read(&text).unwrap();
    let (code, writer) = exchange.open_writer("setpoint");
    assert_eq!(code, OK, "{}", last_error());
    let start = |name: &str| Node::start(&exchange.file, exchange.file.node(name).unwrap()).unwrap();
    let nodes = [start(&other), start(&exchange.node)];
    let publisher = std::mem::replace(&mut exchange.node, other);
    let (code, reader) = exchange.open_reader("setpoint");
    assert_eq!(code, OK, "{}", last_error());
    let value = 12.5_f64.to_le_bytes();
    // SAFETY: an open handle, and as many bytes as are named.
    let publish = || unsafe { whx_writer_publish(writer, value.as_ptr().cast(), 8, 0) };
    let end_ns = clock::monotonic_ns() + 60_000_000_000;
    loop {
        assert_eq!(publish(), OK);
        let (code, sample, data) = read(reader, Some(Duration::from_secs(10)), 8);
        // Frames before the first value are BAD.
        if (code, sample.quality, number(&data)) == (OK, 0, 12.5) {
            break;
        }
        assert!(clock::monotonic_ns() < end_ns, "{code}: {sample:?}");
    }
    // SAFETY: open handles, used no more.
    unsafe {
        whx_reader_close(reader);
        whx_writer_close(writer);
    }
    nodes.into_iter().for_each(|node| drop(node.finish().unwrap()));
    exchange.node = publisher;
}

#[test]
fn what_is_wrong_is_a_code_and_a_line() {
    let exchange = Exchange::new("wrong");
    let (code, _) = exchange.open_reader("speed");
    assert_error(code, ERROR_FILE, "it has no topic 'speed'");
    let (code, _) = exchange.open_writer("state");
    assert_error(code, ERROR_FILE, "does not publish 'state' with source = \"image\"");
    let _writer = exchange.writer("setpoint");
    let (_, reader) = exchange.open_reader("setpoint");
    assert_error(read(reader, None, 7).0, ERROR_SIZE, "7 bytes were given where the topic has 8 bytes");
    assert_error(read(null_mut(), None, 8).0, ERROR_ARGUMENT, "reader is NULL");
    let file = CString::new(exchange.path()).unwrap();
    let (mut sample, mut byte, mut out) = (Sample::default(), [0_u8; 8], null_mut());
    // SAFETY: NULL, C strings, or places that may be written; the handle is used no more after it is closed.
    unsafe {
        let code = whx_reader_latest(reader, null_mut(), 8, &raw mut sample);
        assert_error(code, ERROR_ARGUMENT, "data is NULL");
        let code = whx_reader_wait(reader, 0, byte.as_mut_ptr().cast(), 8, null_mut());
        assert_error(code, ERROR_ARGUMENT, "sample is NULL");
        let code = whx_reader_open(file.as_ptr(), null(), c"setpoint".as_ptr(), &raw mut out);
        assert_error(code, ERROR_ARGUMENT, "node is NULL");
        let code = whx_reader_open(file.as_ptr(), c"\xff".as_ptr(), c"setpoint".as_ptr(), &raw mut out);
        assert_error(code, ERROR_ARGUMENT, "node is not UTF-8");
        let code = whx_reader_open(file.as_ptr(), c"nobody".as_ptr(), c"setpoint".as_ptr(), &raw mut out);
        assert_error(code, ERROR_FILE, "it has no node 'nobody'");
        let code = whx_reader_open(c"/nowhere".as_ptr(), c"a".as_ptr(), c"b".as_ptr(), &raw mut out);
        assert_error(code, ERROR_FILE, "/nowhere: it cannot be read");
        let code = whx_reader_open(file.as_ptr(), c"a".as_ptr(), c"b".as_ptr(), null_mut());
        assert_error(code, ERROR_ARGUMENT, "place for the handle is NULL");
        assert_eq!(whx_reader_bytes(null()), 0);
        whx_reader_close(reader);
        whx_reader_close(null_mut());
        whx_writer_close(null_mut());
    }
    assert!(out.is_null() && last_error().contains("place for the handle"));
}

fn root(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).to_str().unwrap().to_owned()
}

/// Where this build has the C libraries.
fn libraries() -> String {
    std::env::current_exe().unwrap().parent().unwrap().to_str().unwrap().to_owned()
}

/// Compiles C against the header and the shared library of this build, as the documents say, or with these flags instead; nothing
/// where there is no compiler.
fn compile(test: &str, source: &str, to: &Path, flags: Option<&[&str]>) -> Option<()> {
    let (include, libraries) = (root("crates/exchange-c/include"), libraries());
    let rpath = format!("-Wl,-rpath,{libraries}");
    let shared = ["-L", &libraries, "-lwindhover_exchange", &rpath];
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", &include, "-o"]).arg(to);
    let Ok(output) = command.arg(source).args(flags.unwrap_or(&shared)).output() else {
        eprintln!("SKIPPED {test}: there is no C compiler cc");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn the_header_is_what_the_library_has() {
    use std::mem::offset_of;
    let exchange = Exchange::new("header");
    let codes = [
        ("OK", OK),
        ("NO_SAMPLE", NO_SAMPLE),
        ("TIMED_OUT", TIMED_OUT),
        ("ERROR_ARGUMENT", ERROR_ARGUMENT),
        ("ERROR_SIZE", ERROR_SIZE),
        ("ERROR_FILE", ERROR_FILE),
        ("ERROR_IMAGE", ERROR_IMAGE),
        ("ERROR_BUSY", ERROR_BUSY),
        ("ERROR_INTERNAL", ERROR_INTERNAL),
        ("GOOD", Quality::Good as i32),
        ("STALE", Quality::Stale as i32),
        ("BAD", Quality::Bad as i32),
        ("SUBSTITUTED", Quality::Substituted as i32),
    ];
    let offsets = [
        ("sequence", offset_of!(Sample, sequence)),
        ("epoch", offset_of!(Sample, epoch)),
        ("cycle", offset_of!(Sample, cycle)),
        ("scheduled_ns", offset_of!(Sample, scheduled_ns)),
        ("sent_ns", offset_of!(Sample, sent_ns)),
        ("stored_ns", offset_of!(Sample, stored_ns)),
        ("age_ns", offset_of!(Sample, age_ns)),
        ("quality", offset_of!(Sample, quality)),
        ("writer_alive", offset_of!(Sample, writer_alive)),
    ];
    let mut text = "#include \"windhover_exchange.h\"\n".to_owned();
    for (name, code) in codes {
        text += &format!("_Static_assert(WHX_{name} == {code}, \"{name}\");\n");
    }
    for (name, offset) in offsets {
        text += &format!("_Static_assert(offsetof(whx_sample, {name}) == {offset}, \"{name}\");\n");
    }
    let size = size_of::<Sample>();
    text += &format!("_Static_assert(sizeof(whx_sample) == {size}, \"size\");\nint main(void) {{ return 0; }}\n");
    let source = exchange.folder.path().join("header.c");
    std::fs::write(&source, text).unwrap();
    let program = exchange.folder.path().join("header");
    compile("the_header_is_what_the_library_has", source.to_str().unwrap(), &program, None);
}

#[test]
fn a_c_program_reads_and_writes_images() {
    const NAME: &str = "a_c_program_reads_and_writes_images";
    let exchange = Exchange::new("c");
    let source = root("examples/exchange/image.c");
    let (shared, fixed) = (exchange.folder.path().join("shared"), exchange.folder.path().join("fixed"));
    if compile(NAME, &source, &shared, None).is_none() {
        return;
    }
    let library = format!("{}/libwindhover_exchange.a", libraries());
    compile(NAME, &source, &fixed, Some(&[&library, "-lpthread", "-ldl", "-lm", "-lgcc_s"]));
    for program in [&shared, &fixed] {
        let run = |what: &str, count: &str| {
            Command::new(program).args([what, &exchange.path(), &exchange.node, "setpoint", count]).output().unwrap()
        };
        let output = run("read", "1");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("open: the image /dev/shm/"), "{output:?}");
        let read = lines(&exchange.write_while("setpoint", Duration::from_millis(1), || run("read", "5")));
        assert_eq!((read.len(), read.first().unwrap().as_str()), (6, "open"));
        let mut before = None;
        for line in read.iter().skip(1) {
            let words: Vec<&str> = line.split(' ').collect();
            let ["new", "sequence", sequence, "force", force, "GOOD"] = words.as_slice() else { panic!("{line}") };
            let sequence: u64 = sequence.parse().unwrap();
            assert_eq!(force.parse(), Ok(sequence as f64), "{line}");
            assert!(before < Some(sequence), "{read:?}");
            before = Some(sequence);
        }
        std::fs::remove_file(exchange.image("setpoint")).unwrap();
        lines(&run("write", "50"));
        let input = image_path(&exchange.node, "setpoint", true);
        let reader = ImageReader::open(&input, None).unwrap();
        let mut data = [0; 8];
        let sample = reader.latest(&mut data).unwrap().unwrap();
        assert_eq!((reader.written(), sample.sequence, sample.quality), (50, 49, Quality::Good));
        assert_eq!(f64::from_le_bytes(data), 24.5);
        std::fs::remove_file(input).unwrap();
    }
}

/// Runs Python with the module; nothing where there is none that has what it needs.
fn python(test: &str, arguments: &[&str]) -> Option<Output> {
    let new = || {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", root("examples/exchange")).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    if !new().args(["-c", "import tomllib"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: there is no Python 3.11 or later");
        return None;
    }
    Some(new().args(arguments).output().unwrap())
}

#[test]
fn python_reads_an_image() {
    let exchange = Exchange::new("python");
    let module = root("examples/exchange/windhover_exchange.py");
    let run = || python("python_reads_an_image", &[&module, &exchange.path(), &exchange.node, "state"]);
    let Some(output) = run() else { return };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("cannot be opened") && error.lines().count() == 1);
    let mut writer = exchange.writer("state");
    let defaults = "\"valid\": [true], \"position\": [-2.5, ";
    let assert_line = |parts: &[&str]| {
        let lines = lines(&run().unwrap());
        assert!(lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part)), "{lines:?}\nnot {parts:?}");
    };
    assert_line(&[defaults, "\"step\": [65535]", "\"quality\": \"SUBSTITUTED\"", "\"age_ns\": null"]);
    exchange.write(&mut writer, "state", 40, Duration::ZERO);
    let values = ["\"valid\": [false], \"position\": [40.0, 40.0, ", "\"step\": [40]", "\"quality\": \"GOOD\""];
    assert_line(&[&values[..], &["\"sequence\": 40, \"epoch\": 2, \"cycle\": 3, \"scheduled_ns\": 4"]].concat());
    // The writer dies within a write: that before it is in the ring.
    let file = std::fs::File::options().read(true).write(true).open(exchange.image("state")).unwrap();
    file.write_all_at(&[3], 64 * 8).unwrap();
    file.write_all_at(&[0xff; 8], 72 * 8).unwrap();
    assert_line(&values);
    file.write_all_at(&[4], 64 * 8).unwrap();
    exchange.write(&mut writer, "state", 41, Duration::from_secs(11));
    assert_line(&[defaults, "\"quality\": \"SUBSTITUTED\"", "\"sequence\": 41", "\"writer_alive\": false"]);
    let own = file.metadata().unwrap().uid();
    if chown(exchange.image("state"), Some(own + 1), None).is_ok() {
        let output = run().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("belongs to user"), "{error}");
        chown(exchange.image("state"), Some(own), None).unwrap();
    } else {
        eprintln!("PARTLY python_reads_an_image: no image of another user, which only root can make");
    }
    // A damaged header, then a file that is shorter than its header says.
    for (at, byte, length, words) in [
        (24, 9, None, "wrong checksum"),
        (0, 0, None, "no magic number"),
        (0, b'W', Some(8 * 128), "where its header says"),
    ] {
        let mut before = [0];
        file.read_exact_at(&mut before, at).unwrap();
        file.write_all_at(&[byte], at).unwrap();
        if let Some(length) = length {
            file.set_len(length).unwrap();
        }
        let output = run().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(words) && error.lines().count() == 1, "{error}");
        file.write_all_at(&before, at).unwrap();
    }
}

/// Views of the mapping, and samples that are whole while the writer writes.
#[test]
fn python_reads_no_torn_samples() {
    const SCRIPT: &str = "
import sys, time
from windhover_exchange import Busy, Image
with Image.open(*sys.argv[1:4]) as image:
    end, numbers = time.monotonic() + 60, set()
    assert image.fields['position'].readonly and image.fields['position'].format == 'd'
    while len(numbers) < 1000 and time.monotonic() < end:
        try:
            step, first, last = image.read(lambda f: (f['step'][0], f['position'][0], f['position'][19]))
        except Busy:
            continue
        assert first == last and step == first % 65536, (step, first, last)
        sample = image.latest()
        positions = sample.values['position']
        assert sample.quality == 'GOOD' and set(positions) == {float(sample.sequence)}, sample
        numbers.add(sample.sequence)
    assert image.wait(60)
    print(len(numbers))
";
    const NAME: &str = "python_reads_no_torn_samples";
    let exchange = Exchange::new("torn");
    let arguments = ["-c", SCRIPT, &exchange.path(), &exchange.node, "state"];
    let output = exchange.write_while("state", Duration::from_micros(50), || python(NAME, &arguments));
    if let Some(output) = output {
        assert_eq!(lines(&output), ["1000"]);
    }
}
