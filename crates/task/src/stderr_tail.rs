//! What a process writes to its stderr: each line is passed on at once, and the last ones are kept to explain its death.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest line that is passed on in one piece, in bytes.
const LONGEST: u64 = 4096;

/// Hands each line of a stream that is not empty to `to`, until its end. One that never ends is handed over in pieces.
pub fn read_pieces(from: impl Read, mut to: impl FnMut(&str)) {
    let (mut from, mut line) = (BufReader::new(from), Vec::new());
    while from.by_ref().take(LONGEST).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        if !text.trim_end().is_empty() {
            to(text.trim_end());
        }
        line.clear();
    }
}

/// The last lines of a stream, which a thread reads to its end.
#[derive(Debug)]
pub struct StderrTail {
    kept: Arc<Mutex<VecDeque<String>>>,
    thread: JoinHandle<()>,
}

impl StderrTail {
    /// Reads `from` in a thread of this name. Lines that are not empty go to `to`; the last `count` are kept.
    pub fn follow(
        name: &str,
        from: impl Read + Send + 'static,
        count: usize,
        to: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (lines, mut to) = (Arc::clone(&kept), to);
        let keep = move |text: &str| {
            to(text);
            let mut kept = lines.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == count {
                kept.pop_front();
            }
            kept.push_back(text.to_owned());
        };
        let read = move || read_pieces(from, keep);
        Ok(Self { kept, thread: std::thread::Builder::new().name(name.to_owned()).spawn(read)? })
    }

    /// The last lines, once the stream has ended or `patience` is over; `None` when there are none.
    pub fn joined(&self, patience: Duration) -> Option<String> {
        let end = Instant::now() + patience;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = kept.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| lines.join(" | "))
    }
}
