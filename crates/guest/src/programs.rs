//! The control port of a guest, from outside: orders to it, and programs in it.

use crate::GuestError;
use crate::control::{self, FromGuest, ProgramEvent, ToGuest};
use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the stop flag is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// What a program is sent when the command that started it is to stop (SIGTERM), and when that command has ended (SIGKILL).
const ASK: i32 = 15;
const KILL: i32 = 9;
/// How long a command may leave what its program wrote unread.
const UNREAD: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// On which host; on none: in the guest's first network namespace.
    pub host: Option<&'a str>,
    pub argv: &'a [String],
    /// How long it may take, in time of this machine.
    pub limit: Option<Duration>,
    pub stop: &'a AtomicBool,
    /// Whether the program is then asked to end (SIGTERM) and waited for; else it is left running.
    pub asks: bool,
}

#[derive(Debug)]
pub(crate) struct Line {
    stream: UnixStream,
    pub(crate) told: Receiver<FromGuest>,
}

impl Line {
    pub(crate) fn start(stream: UnixStream) -> std::io::Result<Self> {
        let (sender, told) = channel();
        let from = stream.try_clone()?;
        std::thread::Builder::new().name("guest-control".to_owned()).spawn(move || follow(from, &sender))?;
        Ok(Self { stream, told })
    }

    pub(crate) fn order(&mut self, order: &ToGuest) -> Result<(), GuestError> {
        let line = control::line(order);
        if line.len() > control::LONGEST_LINE {
            let most = control::LONGEST_LINE >> 20;
            return Err(GuestError::Refused(format!("the guest takes no command line above {most} MB: pass a file")));
        }
        let sent = self.stream.write_all(&line);
        sent.map_err(|error| GuestError::Failed(format!("the guest's control port: {error}")))
    }

    /// Runs a program to its end; the status as a shell would give it. `output` gets what it writes; `ended`: why the guest did.
    pub(crate) fn run(
        &mut self,
        job: &Job<'_>,
        output: &mut dyn FnMut(bool, &[u8]),
        ended: &mut dyn FnMut() -> String,
    ) -> Result<i32, GuestError> {
        let &Job { host, argv, limit, stop, asks } = job;
        let id = 0;
        self.order(&ToGuest::Run { id, host: host.map(str::to_owned), argv: argv.to_vec() })?;
        let (began, mut asked) = (Instant::now(), false);
        loop {
            match self.told.recv_timeout(LOOK) {
                Ok(FromGuest::Program { event: ProgramEvent::Output { error, bytes }, .. }) => {
                    output(error, &control::decoded(&bytes));
                }
                Ok(FromGuest::Program { event: ProgramEvent::Ended(status), .. }) => return Ok(status),
                Ok(FromGuest::Program { event: ProgramEvent::Failed(why), .. }) => return GuestError::failed(why),
                Ok(FromGuest::Up(_) | FromGuest::Note(_) | FromGuest::Failed(_)) => {}
                Err(RecvTimeoutError::Disconnected) => return GuestError::failed(ended()),
                Err(RecvTimeoutError::Timeout) if limit.is_some_and(|limit| began.elapsed() >= limit) => {
                    let seconds = limit.unwrap_or_default().as_secs();
                    return GuestError::failed(format!("{} was not done in {seconds} s", argv.join(" ")));
                }
                Err(RecvTimeoutError::Timeout) if asked || !stop.load(Ordering::Relaxed) => {}
                Err(RecvTimeoutError::Timeout) if !asks => return Err(GuestError::Interrupted),
                Err(RecvTimeoutError::Timeout) => {
                    asked = true;
                    self.order(&ToGuest::Signal { id, signal: ASK })?;
                }
            }
        }
    }

    /// Runs programs that other processes ask for ([`run_at`]) until `stopped` or the guest's end. Whether it was stopped.
    pub(crate) fn serve(&mut self, listener: RequestListener, stopped: &dyn Fn() -> bool) -> std::io::Result<bool> {
        let relay = Arc::new(Relay {
            port: Mutex::new(self.stream.try_clone()?),
            clients: Mutex::default(),
            last: AtomicU32::default(),
        });
        let accepting = Arc::clone(&relay);
        std::thread::Builder::new().name("guest-programs".to_owned()).spawn(move || {
            for client in listener.0.incoming().flatten() {
                let relay = Arc::clone(&accepting);
                // A client that gets no thread finds its socket closed.
                let _ = std::thread::Builder::new().spawn(move || relay.serve(&client));
            }
        })?;
        loop {
            match self.told.recv_timeout(LOOK) {
                Ok(FromGuest::Program { id, event }) => relay.pass_on(id, event),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) if stopped() => return Ok(true),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Ends the reading thread.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn follow(from: UnixStream, sender: &Sender<FromGuest>) {
    let mut from = BufReader::new(from);
    while let Some(told) = control::next(&mut from) {
        if sender.send(told).is_err() {
            return;
        }
    }
}

/// Where other processes ask for programs. They may do so before they are served.
#[derive(Debug)]
pub struct RequestListener(UnixListener);

impl RequestListener {
    pub(crate) fn listen(folder: &Path) -> std::io::Result<Self> {
        UnixListener::bind(socket(folder)).map(Self)
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("programs")
}

/// Runs a program in a guest that another process serves ([`crate::Guest::serve`]); it ends with the calling process.
pub fn run_at(folder: &Path, job: &Job<'_>, output: &mut dyn FnMut(bool, &[u8])) -> Result<i32, GuestError> {
    let socket = socket(folder);
    let stream = UnixStream::connect(&socket).map_err(GuestError::file("connect to the guest by", &socket))?;
    let mut line = Line::start(stream).map_err(GuestError::file("use", &socket))?;
    line.run(job, output, &mut || "the guest ended: windhover lab list says why".to_owned())
}

/// Where programs of several clients are kept apart.
struct Relay {
    port: Mutex<UnixStream>,
    /// By the number that a program has in the guest.
    clients: Mutex<BTreeMap<u32, UnixStream>>,
    last: AtomicU32,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    fn serve(&self, client: &UnixStream) {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let order = |order: &ToGuest| drop(locked(&self.port).write_all(&control::line(order)));
        let Ok(writer) = client.try_clone() else { return };
        let _ = writer.set_write_timeout(Some(UNREAD));
        locked(&self.clients).insert(id, writer);
        let mut orders = BufReader::new(client);
        while let Some(asked) = control::next(&mut orders) {
            match asked {
                ToGuest::Run { host, argv, .. } => order(&ToGuest::Run { id, host, argv }),
                ToGuest::Signal { signal, .. } => order(&ToGuest::Signal { id, signal }),
                ToGuest::PowerOff => {}
            }
        }
        if locked(&self.clients).remove(&id).is_some() {
            order(&ToGuest::Signal { id, signal: KILL });
        }
    }

    fn pass_on(&self, id: u32, event: ProgramEvent) {
        let is_over = !matches!(event, ProgramEvent::Output { .. });
        let line = control::line(&FromGuest::Program { id, event });
        let mut clients = locked(&self.clients);
        if let Some(client) = clients.get_mut(&id)
            && client.write_all(&line).is_err()
        {
            // Its reading thread sees the end, and has the program killed.
            let _ = client.shutdown(std::net::Shutdown::Both);
        } else if is_over {
            clients.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a guest would say to each order: a program `echo` writes its host and ends, another one waits for a signal.
    fn guest(stream: UnixStream) {
        let mut to = stream.try_clone().unwrap();
        let mut say = |id, event| to.write_all(&control::line(&FromGuest::Program { id, event })).unwrap();
        let mut orders = BufReader::new(stream);
        while let Some(order) = control::next(&mut orders) {
            match order {
                ToGuest::Run { id, host, argv } if argv[0] == "echo" => {
                    say(id, ProgramEvent::output(false, host.unwrap_or_default().as_bytes()));
                    say(id, ProgramEvent::Ended(7));
                }
                ToGuest::Run { .. } | ToGuest::PowerOff => {}
                ToGuest::Signal { id, signal } => say(id, ProgramEvent::Ended(128 + signal)),
            }
        }
    }

    /// Ends the threads of a test that fails: they would be waited for without end.
    struct End<'a>([&'a AtomicBool; 2]);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        }
    }

    #[test]
    fn programs_of_several_commands_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let mut line = Line::start(near).unwrap();
        let (over, stop, calm) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let path = folder.path();
        let run = |host: &str, program: &str, stop: &AtomicBool| {
            let argv = [program.to_owned()];
            let job = Job { host: Some(host), argv: &argv, limit: None, stop, asks: true };
            let mut written = Vec::new();
            let status = run_at(path, &job, &mut |_, bytes| written.extend_from_slice(bytes)).unwrap();
            (status, String::from_utf8(written).unwrap())
        };
        std::thread::scope(|scope| {
            scope.spawn(|| guest(far));
            // Its end drops the line, and that ends the guest.
            let ended = &over;
            let _end = End([&over, &stop]);
            let listener = RequestListener::listen(path).unwrap();
            // Who asks before programs are served waits.
            UnixStream::connect(socket(path)).unwrap();
            let waiting = scope.spawn(|| run("a", "wait", &stop));
            let serving = scope.spawn(move || line.serve(listener, &|| ended.load(Ordering::Relaxed)).unwrap());
            for host in ["a", "b"] {
                assert_eq!(run(host, "echo", &calm), (7, host.to_owned()));
            }
            assert!(!waiting.is_finished());
            stop.store(true, Ordering::Relaxed);
            assert_eq!(waiting.join().unwrap(), (128 + ASK, String::new()));
            over.store(true, Ordering::Relaxed);
            assert!(serving.join().unwrap(), "the guest seemed to end");
        });
    }
}
