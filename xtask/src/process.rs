//! Starting programs and saying so.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// An own process that is killed by its id with the value.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a command with its output passed on; fails when it does.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    eprintln!("$ {program} {}", arguments.join(" "));
    finish(&mut command(program, arguments))
}

/// The same for a command that was made before.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let first = command.get_args().next().unwrap_or_default().to_owned();
    let name = format!("{} {}", command.get_program().display(), first.display());
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// Waits for a child at most so long; it is killed when it has not ended by then.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        let ended = child.try_wait().context("waiting for a program")?;
        if ended.is_some() {
            return Ok(ended);
        }
        if began.elapsed() > limit {
            child.kill().context("ending a program")?;
            child.wait().context("waiting for a program")?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a command and returns what it printed; fails when it does.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    output_in(&root(), program, arguments)
}

/// The same in another folder than the root of the checkout.
pub(crate) fn output_in(folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = command(program, arguments)
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} {} ended with {}", arguments.join(" "), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed something that is no text"))
}

pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

pub(crate) fn release_binary() -> Result<PathBuf> {
    run(&cargo(), &["build", "--release", "--locked", "--package", "windhover"])?;
    let binary = target().join("release/windhover");
    if !binary.is_file() {
        bail!("cargo built no {}", binary.display());
    }
    Ok(binary)
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Kills a process and all below it, and returns what they were: number, state and command of each.
pub(crate) fn end_all_below(pid: u32) -> Vec<String> {
    let mut wanted = vec![pid];
    let mut at = 0;
    while let Some(parent) = wanted.get(at).copied() {
        wanted.extend(processes().filter(|process| process.parent == parent).map(|process| process.pid));
        at += 1;
    }
    let told = wanted.iter().filter_map(|pid| Process::read(*pid)).map(|process| process.to_string()).collect();
    // The parents first, so that none starts another child.
    for pid in wanted {
        let _ = Command::new("sh").args(["-c", "kill -9 \"$0\"", &pid.to_string()]).stderr(Stdio::null()).status();
    }
    told
}

struct Process {
    pid: u32,
    parent: u32,
    state: char,
    command: String,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold blanks and parentheses itself.
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let state = words.next()?.chars().next()?;
        let parent = words.next()?.parse().ok()?;
        let command = String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).ok()?).replace('\0', " ");
        Some(Self { pid, parent, state, command })
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "  {} {} {}", self.pid, self.state, self.command.trim_end())
    }
}

pub(crate) fn children(parent: u32) -> Vec<u32> {
    processes().filter(|process| process.parent == parent).map(|process| process.pid).collect()
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Process::read)
}

#[cfg(test)]
mod unit {
    use std::process::{Command, Stdio};

    #[test]
    fn a_family_is_named_and_ended() {
        let mut shell =
            Command::new("sh").args(["-c", "sleep 98765 & wait"]).stdin(Stdio::null()).spawn().expect("sh starts");
        std::thread::sleep(std::time::Duration::from_millis(200));
        let told = super::end_all_below(shell.id());
        assert!(told.len() == 2 && told[1].ends_with("sleep 98765"), "{told:?}");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&shell.wait().expect("it ended")), Some(9));
        let child: u32 = told[1].split_whitespace().next().expect("a number").parse().expect("a number");
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(super::Process::read(child).is_none_or(|process| process.state == 'Z'), "{child} still runs");
    }
}
