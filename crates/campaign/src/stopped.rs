//! Agents of this machine that somebody stopped (SIGSTOP). They neither answer nor end, so each request would wait for its limit.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Between two looks: a few µs each.
const LOOK: Duration = Duration::from_millis(500);
/// Looks in a row that find it stopped before it is ended. They are counted, because this process may have been stopped, too.
const LOOKS: u32 = 10;

/// The agents that are watched, by their process.
type Agents = Arc<Mutex<BTreeMap<u32, String>>>;

/// Ends agents, children of this process, that stay stopped: whoever waits for one is answered, and its changes are put back.
#[derive(Debug)]
pub(crate) struct StopWatch {
    agents: Agents,
    /// Closed when the watch is over.
    _over: Sender<()>,
}

impl StopWatch {
    /// Begins to watch; `notes` gets a line for each that is ended. Without a thread none is watched.
    pub(crate) fn new(notes: Sender<String>) -> Self {
        let (over, ended) = mpsc::channel();
        let agents = Agents::default();
        let watched = Arc::clone(&agents);
        let _ = thread::Builder::new().name("stopped".to_owned()).spawn(move || watch(&ended, &watched, &notes));
        Self { agents, _over: over }
    }

    /// Watches the agent of a host, where it is a child of this process.
    pub(crate) fn add(&self, host: &str, agent: u32) {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).insert(agent, host.to_owned());
    }
}

fn watch(over: &Receiver<()>, agents: &Agents, notes: &Sender<String>) {
    let mut looks: BTreeMap<u32, u32> = BTreeMap::new();
    while matches!(over.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
        let known = agents.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (agent, host) in known {
            let seen = looks.entry(agent).or_default();
            *seen = if is_stopped_child(agent) { *seen + 1 } else { 0 };
            if *seen == LOOKS {
                let seconds = (LOOK * LOOKS).as_secs();
                let _ = notes.send(format!(
                    "host '{host}': its agent (process {agent}) was stopped (SIGSTOP) for {seconds} s, so it is ended"
                ));
                end(agent);
            }
        }
    }
}

/// Whether a process is stopped, and is a child of this one: until this one reaps it, its number stays its own.
fn is_stopped_child(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // State and parent follow the name, which may hold anything (proc(5)).
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let mut fields = fields.split(' ');
    let is_stopped = fields.next() == Some("T");
    is_stopped && fields.next().and_then(|parent| parent.parse().ok()) == Some(std::process::id())
}

fn end(process: u32) {
    let process = i32::try_from(process).map(nix::unistd::Pid::from_raw);
    // It may have ended meanwhile.
    let _ = process.map(|process| nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    /// Catches: a stopped agent that holds a campaign for the limits of all its requests.
    #[test]
    fn an_agent_that_stays_stopped_is_ended_and_named() {
        let (sender, notes) = mpsc::channel();
        let watch = StopWatch::new(sender);
        let mut agents = ["a", "b"].map(|host| {
            let agent = Command::new("sleep").arg("600").spawn().unwrap();
            watch.add(host, agent.id());
            agent
        });
        // Somebody else's process is left alone: the first one, which is no child of this one.
        watch.add("c", 1);
        let process = nix::unistd::Pid::from_raw(i32::try_from(agents[0].id()).unwrap());
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGSTOP).unwrap();
        let status = agents[0].wait().unwrap();
        assert_eq!(status.signal(), Some(9));
        let said = notes.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(said.starts_with("host 'a'") && said.contains(&format!("process {process}")), "{said}");
        assert!(agents[1].try_wait().unwrap().is_none(), "one that runs is left alone");
        agents[1].kill().unwrap();
        agents[1].wait().unwrap();
        assert!(notes.try_recv().is_err());
    }
}
