//! What a campaign needs of its hosts: the border to the lab, so that tests can put other hosts behind it.

use crate::{Boot, Preparation};
use model::plan::StackPlan;
use model::worker::{EndpointTask, Measured, ProbeTask};
use model::{HostFacts, LiveInterval, LoadReport, LoadSpec, MachineFacts, Prepared};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A worker on a host, as its agent numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

/// What can go wrong on a host. One line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The agent's pipe broke, so nothing more can be asked of the host. Exit code 5.
    #[error("host '{host}' was lost: {why}")]
    Lost { host: String, why: String },
    /// The agent or its worker could not do what was asked; others may still work.
    #[error("host '{host}': {why}")]
    Failed { host: String, why: String },
    /// Nothing came within the time given.
    #[error("host '{host}': {what} took longer than {} s", .limit.as_secs())]
    TimedOut { host: String, what: &'static str, limit: Duration },
    /// The stop flag was raised, and what was under way was cancelled.
    #[error("interrupted")]
    Interrupted,
}

/// The hosts of a run. Calls come one at a time; a load may run on one host while another host measures.
///
/// A probe, or a load that becomes steady, is cancelled within about a tenth of a second once `stop` is raised, and
/// [`HostError::Interrupted`] comes back; the other calls are short and end by themselves.
pub trait Hosts: Boot {
    fn facts(&mut self, host: &str) -> Result<(MachineFacts, HostFacts), HostError>;

    /// The address that messages to this host are sent to, where one is known.
    fn address(&self, host: &str) -> Option<IpAddr>;

    /// The network device that settings beginning with `nic.` mean on this host, where one is known.
    fn device(&self, _host: &str) -> Option<String> {
        None
    }

    /// The agent that changes what is machine-wide on a host's machine: it is opened when there is none yet.
    fn machine_agent(&mut self, host: &str) -> Result<String, HostError> {
        Ok(host.to_owned())
    }

    /// Makes an agent keep this in force and nothing else. When it cannot, it has put everything back.
    fn prepare(&mut self, agent: &str, _wanted: &Preparation) -> Result<Prepared, HostError> {
        Err(HostError::Failed { host: agent.to_owned(), why: "it changes no settings".to_owned() })
    }

    /// Asks an agent whether what it was made to keep in force still is. When it is not, it has put everything back.
    fn still_prepared(&mut self, agent: &str, wanted: &Preparation) -> Result<(), HostError> {
        self.prepare(agent, wanted).map(drop)
    }

    /// Makes an agent put back what it changed; gives back what it could not, one line each.
    fn restore(&mut self, _agent: &str) -> Result<Vec<String>, HostError> {
        Ok(Vec::new())
    }

    /// Starts a load on each of `on` at once and waits until all are steady, or have used up `limit` (their reports say which).
    /// `started` gets those that run, also after a failure; they have to be ended. Raising `stop` ends the wait.
    ///
    /// # Errors
    /// [`HostError`] of the first host that cannot.
    fn start_loads(
        &mut self,
        on: &[(String, LoadSpec)],
        limit: Duration,
        stop: &AtomicBool,
        started: &mut Vec<(String, WorkerId)>,
    ) -> Result<(), HostError>;

    fn stop_load(&mut self, host: &str, load: WorkerId) -> Result<LoadReport, HostError>;

    /// Starts an endpoint and waits until it listens; gives back the address and port of its control connection.
    fn start_endpoint(
        &mut self,
        host: &str,
        task: &EndpointTask,
        stack: &StackPlan,
    ) -> Result<(WorkerId, String), HostError>;

    fn stop_endpoint(&mut self, host: &str, endpoint: WorkerId) -> Result<(), HostError>;

    /// Measures and waits for the end. `limit`: how long until it counts as hung. `live` gets intervals where the task has them.
    ///
    /// # Errors
    /// [`HostError`]; what was measured before is lost then, because half a cell is none.
    fn probe(
        &mut self,
        host: &str,
        task: &ProbeTask,
        stack: &StackPlan,
        limit: Option<Duration>,
        stop: &AtomicBool,
        live: &mut dyn FnMut(LiveInterval),
    ) -> Result<Vec<Measured>, HostError>;

    /// What the agents wrote to stderr since the last call, a line each with the host's name. Asked between cells.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}
