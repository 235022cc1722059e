//! Running the binary and looking at what it says.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The binary under test with these arguments, environment clean of what could change it.
pub fn windhover(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windhover"));
    command
        .args(arguments)
        .env_remove("WINDHOVER_KEY_FILE")
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end; once more when only the machine spoilt its figures (see [`BUSY`]), because many tests want figures that
/// can be trusted. Each such retry is printed; `cargo xtask test` counts them. A campaign is not run again: its run directory is there.
pub fn run(arguments: &[&str]) -> Output {
    let output = windhover(arguments).output().unwrap();
    let found = invalid_of(&output);
    if output.status.code() == Some(4) && arguments[0] != "campaign" && is_only_busy(&found) {
        eprintln!("RETRIED windhover {}: {}", arguments.join(" "), found.join(", "));
        return windhover(arguments).output().unwrap();
    }
    output
}

/// Only one test at a time disturbs CPUs: it ends with what is given. Other test programs wait, too.
pub fn disturbs_alone() -> std::fs::File {
    let file = std::fs::File::create(std::env::temp_dir().join("windhover-test-disturbs.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// Signals this far apart are two requests: five times what the program takes for one, because it counts from when it runs.
pub const ANOTHER_REQUEST: std::time::Duration = std::time::Duration::from_secs(1);

/// What a machine that is busy with other work does to a sound measurement: the sender gets a CPU late (`generator-late`), and a
/// kernel that compacts memory, as it does after a large build, moves even locked pages (`faults`). The tool is right to call
/// such figures invalid, so tests accept the two, here and nowhere else. That Windhover itself causes neither is shown behind
/// a shield, where they fail the test unless the hypervisor took the CPU: `shield::real::a_schedule_is_kept_behind_a_shield_and_not_without`.
const BUSY: [&str; 2] = ["generator-late", "faults"];

/// Whether the machine's other work explains all of these findings, of which there is at least one.
pub fn is_only_busy(found: &[String]) -> bool {
    !found.is_empty() && found.iter().all(|word| BUSY.contains(&word.as_str()))
}

/// What a command calls invalid, as the words of its findings: of lines of JSON, else of the printed verdict.
pub fn invalid_of(output: &Output) -> Vec<String> {
    let text = stdout(output) + &stderr(output);
    let printed = text.lines().filter_map(|line| {
        line.trim_start_matches("windhover: ").trim_start_matches("warning: ").trim_start().strip_prefix("invalid:")
    });
    let words = printed.filter_map(|line| line.trim_start().split([',', ':', ' ']).next().map(str::to_owned));
    let documents = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    words.chain(documents.flat_map(|document| invalid_in(&document))).collect()
}

fn invalid_in(document: &serde_json::Value) -> Vec<String> {
    let found = document["verdict"]["invalid"].as_array();
    found.into_iter().flatten().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that a command measured: it ended with 0, or with 4 for what a busy machine does.
#[track_caller]
pub fn assert_measured(output: &Output) {
    assert_judged(output, &invalid_of(output));
}

/// The same of a campaign, by its cells' results, which it returns in the order of the cells.
#[track_caller]
pub fn assert_run_measured(output: &Output, run: &Path) -> Vec<serde_json::Value> {
    let results = results(run);
    assert_judged(output, &results.iter().flat_map(invalid_in).collect::<Vec<_>>());
    results
}

/// The results of a campaign in the order of the cells.
pub fn results(run: &Path) -> Vec<serde_json::Value> {
    let read = |path: &PathBuf| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    cell_files(run).iter().map(read).collect()
}

#[track_caller]
fn assert_judged(output: &Output, found: &[String]) {
    let said = || format!("{found:?}\n{}\n{}", stdout(output), stderr(output));
    assert!(found.is_empty() || is_only_busy(found), "{}", said());
    assert_eq!(output.status.code(), Some(if found.is_empty() { 0 } else { 4 }), "{}", said());
}

/// The only run directory below a folder.
#[track_caller]
pub fn run_directory(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.join("run.json").is_file()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The files of a run's results, in the order of the cells; none before the first cell is done.
pub fn cell_files(run: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run.join("cells")).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

/// Asserts that what a command prints fits terminals of 80 to 300 columns, and that it prints something.
#[track_caller]
pub fn fits_every_width(arguments: &[&str]) {
    for columns in (80..100).step_by(3).chain((100..=300).step_by(25)) {
        let text = stdout(&windhover(arguments).env("COLUMNS", columns.to_string()).output().unwrap());
        assert!(!text.is_empty(), "{} prints nothing", arguments.join(" "));
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{} at {columns} columns:\n{line}", arguments.join(" "));
        }
    }
}

/// Waits until something holds, up to a minute.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Kills a child that lives on after a time. Drop it once the child has ended.
pub struct Watchdog(Option<(std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>)>);

impl Watchdog {
    pub fn new(child: &Child, limit: std::time::Duration) -> Self {
        let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
        let (tell, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL);
            }
        });
        Self(Some((tell, thread)))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some((tell, thread)) = self.0.take() {
            drop(tell);
            let _ = thread.join();
        }
    }
}

/// What a child says until its end; killed where that takes longer than a time.
pub fn ended(child: Child, limit: std::time::Duration) -> Output {
    let watchdog = Watchdog::new(&child, limit);
    let output = child.wait_with_output().unwrap();
    drop(watchdog);
    output
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts an exit code, with what was printed when it differs.
#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "stdout:\n{}\nstderr:\n{}", stdout(output), stderr(output));
}

/// Asserts a failure of one line that holds all these words.
#[track_caller]
pub fn assert_refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    assert_code(&output, code);
    let text = stderr(&output);
    assert_eq!(text.trim_end().lines().count(), 1, "not one line: {text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

/// The result documents of `--format json`.
pub fn documents(output: &Output) -> Vec<serde_json::Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Copies this program, so that it can be started at once: a file that this process writes may stay open in what another test starts
/// (ETXTBSY).
pub fn copy_windhover(to: &std::path::Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_windhover")).arg(to).status().unwrap();
    assert!(copied.success(), "{}", to.display());
}

/// CPU time of a process in clock ticks, user and system: of the time that messages take, the kernel has three quarters.
pub fn computed(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// A closed loop that measures from its first message on.
pub const AT_ONCE: [&str; 4] = ["--warmup", "0", "--warmup-count", "0"];

/// How often the threads of a process have waited of their own accord, and since an earlier look.
pub struct Waits {
    process: u32,
    before: HashMap<std::ffi::OsString, u64>,
}

impl Waits {
    pub fn of(process: u32) -> Self {
        Self { process, before: Self::by_thread(process).collect() }
    }

    pub fn since(&self) -> u64 {
        let grown = |(thread, waits): (_, u64)| waits.saturating_sub(self.before.get(&thread).copied().unwrap_or(0));
        Self::by_thread(self.process).map(grown).sum()
    }

    fn by_thread(process: u32) -> impl Iterator<Item = (std::ffi::OsString, u64)> {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        threads.filter_map(|thread| {
            let thread = thread.ok()?;
            // It may have ended meanwhile.
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            Some((thread.file_name(), waits.trim().parse().ok()?))
        })
    }
}

/// Held by whoever changes this machine or looks at all of it, so that no other test, of this run or another one, changes it
/// meanwhile; `None` where nobody here may change it.
pub fn alone_on_machine() -> Option<std::fs::File> {
    let path = std::env::temp_dir().join("windhover-machine.lock");
    let lock = std::fs::File::create(&path).or_else(|_| std::fs::File::open(&path)).ok()?;
    lock.lock().ok()?;
    Some(lock)
}

pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Whether namespaces can be made here; otherwise the test names itself as skipped.
pub fn can_make_namespaces(test: &str) -> bool {
    if !is_root() {
        eprintln!("SKIPPED {test}: network namespaces need root");
        return false;
    }
    let works = Command::new("unshare").args(["--net", "true"]).output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("SKIPPED {test}: this machine gives no network namespaces");
    }
    works
}

/// `windhover serve` on a port of its own choice, killed at the end.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub fn start(extra: &[&str]) -> Self {
        Self::start_with(extra, &[])
    }

    /// With these variables too.
    pub fn start_with(extra: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_at("127.0.0.1:0", extra, environment)
    }

    /// At this address.
    pub fn start_at(bind: &str, extra: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = windhover(&[&["serve", "--bind", bind], extra].concat());
        command.envs(environment.iter().copied());
        Self::started(command)
    }

    /// By this command, which listens when this returns.
    pub fn started(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        // The dynamic loader may have something to say first.
        let first = lines.find(|line| !line.starts_with("ERROR: ld.so")).unwrap();
        let address = first.split_whitespace().nth(2).unwrap().trim_end_matches([',', ';']).to_owned();
        assert!(address.contains(':'), "{first}");
        // The rest is read so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Server {
    /// Does not wait for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Starts a client and waits until it measures, however long a busy machine takes for that: the server waits for each message.
    /// The begin of a session takes some 20, that of `pace` hundreds; a closed loop has to be without warm-up ([`AT_ONCE`]). By then
    /// the client handles signals.
    #[track_caller]
    pub fn measured_by(&self, mut client: Command) -> Child {
        const WAITS: u64 = 1000;
        let waits = Waits::of(self.id());
        let mut child = client.spawn().unwrap();
        until("measuring", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it measured");
            waits.since() >= WAITS
        });
        child
    }
}

/// Waits until a child with `--jsonl` has reported an interval, so until messages have come back. Its later lines.
#[track_caller]
pub fn first_interval(child: &mut Child) -> std::io::Lines<BufReader<std::process::ChildStdout>> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("\"interval\""), "{first}");
    lines
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("windhover-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A file that only its owner may read.
    pub fn secret(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.file(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
