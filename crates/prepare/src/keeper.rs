//! A process that undoes a change set when its owner vanishes, also by SIGKILL.
//!
//! The owner locks, begins a set with its name, starts the keeper, then changes. The keeper (a session of its own,
//! ordinary policy, off shielded CPUs) waits for the owner's end, locks, and undoes what is left. It dies with its PID
//! namespace: its owner must not be in one.

use crate::Kernel;
use crate::unlogged::StateCopy;
use host::knob::TaskKey;
use host::undo::{BUSY_WAIT, SetId, StateDir, UndoError, UndoReport};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
pub use task::Keeper;
use task::{Launch, LongWait, TaskError, WaitEnd};

/// How long the end of the owner's own undoing, or of another's change, is waited for.
const LOCK: Duration = Duration::from_secs(300);
/// Attempts at what resists, and the time between them.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("/proc has no entry of this process: nobody could tell that it ended")]
    NoOwner,
    #[error("the keeper's program cannot be found: {0}")]
    Program(std::io::Error),
    #[error("the keeper cannot be started: {0}")]
    Start(#[from] TaskError),
    #[error("the keeper {0} ended before it was ready: nothing was changed without one")]
    NotReady(PathBuf),
}

pub fn this_process() -> Option<TaskKey> {
    TaskKey::of(i32::try_from(std::process::id()).ok()?)
}

/// Starts a keeper of a set that this process owns: after [`StateDir::begin`], before the first change.
pub fn start(set: &SetId, state: &Path) -> Result<Keeper, KeeperError> {
    let program = std::env::current_exe().map_err(KeeperError::Program)?;
    start_program(&program, set, state, Path::new("/"))
}

/// The same with another program and another root of the system, for tests.
pub fn start_program(program: &Path, set: &SetId, state: &Path, root: &Path) -> Result<Keeper, KeeperError> {
    let owner = this_process().ok_or(KeeperError::NoOwner)?;
    let mut launch = Launch::new(program)
        .arg("keeper")
        .args(["--set".to_owned(), set.to_string(), "--owner".to_owned(), format!("{}:{}", owner.tid, owner.started)])
        .arg("--state-dir")
        .arg(state)
        .env_remove(host::undo::KILL_AT);
    if root != Path::new("/") {
        launch = launch.arg("--root").arg(root);
    }
    Keeper::start(launch)?.ok_or_else(|| KeeperError::NotReady(program.to_owned()))
}

#[derive(Debug, Clone)]
pub struct KeeperTask {
    pub set: SetId,
    pub state: StateDir,
    /// Whose end is waited for, by process id and start (see [`TaskKey`]).
    pub owner: (i32, u64),
}

/// The keeper's life, in a process of its own. Returns 0 when the set is undone, else 1 with `keeper-SET.log`.
pub fn run(task: &KeeperTask, kernel: &Kernel, ready: impl FnOnce()) -> u8 {
    let mut words = KeeperLog { path: task.state.folder().ok().map(|f| f.join(format!("keeper-{}.log", task.set))) };
    task::own_session();
    match wait(task, ready) {
        Ok(WaitEnd::Asked) => words.say("asked to undo (SIGTERM)"),
        Ok(WaitEnd::Process | WaitEnd::Input) => {}
        Err(error) => words.say(&error.to_string()),
    }
    let started = Instant::now();
    let mut attempt = 1;
    loop {
        match undo(task, kernel) {
            Ok(None) => return 0,
            Ok(Some(report)) => {
                report.lost.iter().chain(&report.not_put_back()).for_each(|why| words.say(why));
                if report.failed.is_empty() {
                    return u8::from(!report.is_clean());
                }
            }
            Err(UndoError::Locked { .. }) if started.elapsed() < LOCK => continue,
            Err(error) => words.say(&error.to_string()),
        }
        if attempt >= ATTEMPTS {
            words.say("given up: `windhover undo` tries again");
            return 1;
        }
        attempt += 1;
        std::thread::sleep(PAUSE);
    }
}

fn wait(task: &KeeperTask, ready: impl FnOnce()) -> Result<WaitEnd, TaskError> {
    let wait = LongWait::new()?;
    stand_aside(&task.state);
    ready();
    let (tid, started) = task.owner;
    let lives = || TaskKey::of(tid).is_some_and(|now| now.began(started));
    wait.wait(Some(tid), &lives)
}

/// Leaves the shielded CPUs, where a shield is known; else the sweep of whoever makes one moves this process.
fn stand_aside(state: &StateDir) {
    let Some(shield) = host::shield::current(state) else { return };
    let online = task::online_cpus().unwrap_or_default();
    let others: model::CpuList = online.iter().filter(|&cpu| !shield.spec.processes.contains(cpu)).collect();
    if !others.is_empty() {
        let _ = task::set_affinity(&others);
    }
}

/// Undoes the set when it is still the owner's; `None` when there is none.
fn undo(task: &KeeperTask, kernel: &Kernel) -> Result<Option<UndoReport>, UndoError> {
    let (tid, started) = task.owner;
    let mine = |owner: &TaskKey| owner.tid == tid && owner.started == started;
    let is_there = || -> Result<bool, UndoError> {
        let sets = task.state.sets()?;
        Ok(sets.iter().any(|(id, header)| *id == task.set && header.owner.as_ref().is_some_and(mine)))
    };
    // The lock would make the directory anew where it went with its last set.
    if !is_there()? {
        return Ok(None);
    }
    let lock = match task.state.lock(BUSY_WAIT) {
        Err(error) if StateCopy::helps(&error) => {
            return StateCopy::of(&task.state)?.undo(kernel, &task.set, false, BUSY_WAIT).map(Some);
        }
        lock => lock?,
    };
    if is_there()? { task.state.undo(&lock, kernel, &task.set, false, BUSY_WAIT).map(Some) } else { Ok(None) }
}

/// The keeper's log: it has no terminal.
struct KeeperLog {
    path: Option<PathBuf>,
}

impl KeeperLog {
    fn say(&mut self, text: &str) {
        let Some(path) = &self.path else { return };
        if let Ok(mut file) = host::private::open(path, std::fs::OpenOptions::new().create(true).append(true)) {
            let _ = writeln!(file, "{text}");
        }
    }
}
