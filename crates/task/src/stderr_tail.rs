//! What a process says on its stderr: each line is passed on at once, and the last ones are kept to explain its death.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest line that is passed on in one piece, in bytes.
const LONGEST: u64 = 4096;

/// The last lines of a stream, which a thread reads to its end.
#[derive(Debug)]
pub struct StderrTail {
    kept: Arc<Mutex<VecDeque<String>>>,
    thread: JoinHandle<()>,
}

impl StderrTail {
    /// Reads `from` in a thread of this name. Lines that are not empty go to `to`; the last `count` are kept.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn follow(
        name: &str,
        from: impl Read + Send + 'static,
        count: usize,
        to: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (lines, mut from, mut to) = (Arc::clone(&kept), BufReader::new(from), to);
        let read = move || {
            let mut line = Vec::new();
            // A line that never ends is passed on in pieces.
            while from.by_ref().take(LONGEST).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if text.is_empty() {
                    continue;
                }
                to(&text);
                let mut kept = lines.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == count {
                    kept.pop_front();
                }
                kept.push_back(text);
            }
        };
        Ok(Self { kept, thread: std::thread::Builder::new().name(name.to_owned()).spawn(read)? })
    }

    /// The last lines, once the stream has ended or `patience` is over; `None` when there are none.
    #[must_use]
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
