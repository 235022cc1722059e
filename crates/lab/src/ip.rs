//! iproute2's `ip`, started through `task`: batches of commands, and questions answered in JSON.

use crate::LabError;
use crate::build::Batch;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use task::{Finished, Launch, TaskError};

/// More than any command of a lab takes; a kernel that is slow to take namespaces down makes the next one wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a batch; the first command that fails ends it.
pub(crate) fn run(batch: &Batch) -> Result<(), LabError> {
    if batch.lines.is_empty() {
        return Ok(());
    }
    let finished = start(batch.netns.as_deref(), &["-batch", "-"], &batch.lines)?;
    if finished.status.success() {
        return Ok(());
    }
    Err(failure(batch, &String::from_utf8_lossy(&finished.stderr)))
}

/// Runs a batch to its end, whatever fails. For taking down what may be half there: the caller looks at what is left.
pub(crate) fn run_all(batch: &Batch) -> Result<(), LabError> {
    if batch.lines.is_empty() {
        return Ok(());
    }
    start(batch.netns.as_deref(), &["-force", "-batch", "-"], &batch.lines).map(drop)
}

/// Asks a question whose answer is a JSON list; `None` when `ip` refuses it.
pub(crate) fn ask(netns: Option<&str>, words: &[&str]) -> Result<Option<Vec<Value>>, LabError> {
    let arguments: Vec<&str> = ["-json"].iter().chain(words).copied().collect();
    let finished = start(netns, &arguments, &[])?;
    if !finished.status.success() {
        return Ok(None);
    }
    Ok(Some(items(&finished.stdout)))
}

/// The objects of an answer. Old versions answer "nothing" with an empty document, and pad lists with empty objects.
pub(crate) fn items(answer: &[u8]) -> Vec<Value> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or(Value::Null);
    let list = answer.as_array().cloned().unwrap_or_default();
    list.into_iter().filter(|item| item.as_object().is_some_and(|object| !object.is_empty())).collect()
}

fn start(netns: Option<&str>, arguments: &[&str], lines: &[String]) -> Result<Finished, LabError> {
    let mut input = lines.join("\n");
    if !input.is_empty() {
        input.push('\n');
    }
    let mut launch = Launch::new(program()).env("LC_ALL", "C").env_remove("LD_PRELOAD");
    if let Some(netns) = netns {
        launch = launch.args(["-netns", netns]);
    }
    launch.args(arguments.iter().copied()).finish(input.as_bytes(), TIMEOUT).map_err(|error| match error {
        TaskError::Start { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => {
            LabError::Refused("the program 'ip' is missing: apt install iproute2".to_owned())
        }
        other => other.into(),
    })
}

/// `ip` by its name, or where distributions put it when PATH has no sbin (as under cron and some sudo settings).
fn program() -> PathBuf {
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("ip").is_file()));
    let usual = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"].map(Path::new);
    match usual.into_iter().find(|path| !on_path && path.is_file()) {
        Some(path) => path.to_owned(),
        None => PathBuf::from("ip"),
    }
}

/// Finds the command that failed by the line number that `ip` ends with (`Command failed -:3`).
fn failure(batch: &Batch, said: &str) -> LabError {
    let number = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Command failed -:"))
        .and_then(|number| number.trim().parse::<usize>().ok());
    let line = number.and_then(|number| batch.lines.get(number.checked_sub(1)?));
    let command = line.map_or("-batch", String::as_str);
    let command = match &batch.netns {
        Some(netns) => format!("-netns {netns} {command}"),
        None => command.to_owned(),
    };
    let why: Vec<&str> =
        said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Command failed")).collect();
    let why = if why.is_empty() { "failed without a word".to_owned() } else { why.join("; ") };
    LabError::Failed(format!("ip {command}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_command() {
        let lines = ["link set lo up", "link add wh0 type veth"].map(str::to_owned).to_vec();
        let batch = Batch { netns: Some("wh-t-a".to_owned()), lines };
        let error = failure(&batch, "RTNETLINK answers: File exists\nCommand failed -:2\n");
        assert_eq!(error.to_string(), "ip -netns wh-t-a link add wh0 type veth: RTNETLINK answers: File exists");
        let silent = failure(&Batch { netns: None, ..batch }, "");
        assert_eq!(silent.to_string(), "ip -batch: failed without a word");
    }
}
