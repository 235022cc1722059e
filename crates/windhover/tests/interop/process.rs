//! Programs of a test: built when their library is there, never outliving the test.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A C program of ours over somebody's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    OpenPgm,
    ZeroMq,
}

impl Program {
    /// Where it is, or why it is not.
    pub(crate) fn built(self) -> Result<&'static str, String> {
        static BUILT: [OnceLock<Result<String, String>>; 2] = [OnceLock::new(), OnceLock::new()];
        let (place, name, module, package) = match self {
            Self::OpenPgm => (&BUILT[0], "openpgm", "openpgm-5.3", "libpgm-dev"),
            Self::ZeroMq => (&BUILT[1], "zeromq", "libzmq", "libzmq3-dev"),
        };
        place.get_or_init(|| build(name, module, package)).as_deref().map_err(Clone::clone)
    }
}

fn build(name: &str, module: &str, package: &str) -> Result<String, String> {
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", module])
        .output()
        .map_err(|_| "pkg-config is not installed".to_owned())?;
    if !flags.status.success() {
        return Err(format!("the library {module} is not installed (Debian package {package})"));
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name).with_extension("c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, fresh) = (folder.join(name), folder.join(format!("{name}-{}", std::process::id())));
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic"])
        .arg(&source)
        .arg("-o")
        .arg(&fresh)
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .output()
        .map_err(|_| "gcc is not installed".to_owned())?;
    // The library is there: what does not compile is our mistake.
    assert!(compiled.status.success(), "{name}.c: {}", String::from_utf8_lossy(&compiled.stderr));
    // Another run of these tests may be using the one that is there: it goes on with that.
    std::fs::rename(&fresh, &program).unwrap();
    Ok(program.to_str().unwrap().to_owned())
}

/// A program that runs, and ends with the test at the latest.
pub(crate) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    pub(crate) fn start(name: &str, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, lines) = channel();
        read(child.stdout.take().unwrap(), out.clone());
        read(child.stderr.take().unwrap(), out);
        Self { name: name.to_owned(), child, lines, seen: Vec::new() }
    }

    /// Waits for a line with these words.
    #[track_caller]
    pub(crate) fn says(&mut self, words: &str, limit: Duration) -> String {
        let end = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(words) {
                        return line;
                    }
                }
                Err(_) => panic!("{} does not say '{words}':\n{}", self.name, self.seen.join("\n")),
            }
        }
    }

    /// Asks it to end, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// Waits for its end: how it ended, and its last line of JSON.
    #[track_caller]
    pub(crate) fn finish(mut self, limit: Duration) -> (ExitStatus, Value) {
        let status = self.ended(limit);
        let document = self.seen.iter().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let document = document.unwrap_or_else(|| panic!("{} ({status}): {}", self.name, self.seen.join("\n")));
        (status, document)
    }

    /// Waits for its end, and for all that it says.
    #[track_caller]
    pub(crate) fn ended(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= end {
                self.rest(Duration::ZERO);
                panic!("{} does not end:\n{}", self.name, self.seen.join("\n"));
            }
            self.rest(Duration::from_millis(20));
        };
        self.rest(Duration::from_secs(1));
        status
    }

    fn rest(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) if !limit.is_zero() => {
                    std::thread::sleep(Duration::from_millis(1));
                    return;
                }
                Err(_) => return,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines are read on a thread, which nobody waits for.
fn read(pipe: impl Read + Send + 'static, out: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if out.send(line).is_err() {
                return;
            }
        }
    });
}
