//! `windhover serve`.

use super::{key, signals};
use crate::cli::serve::Serve;
use crate::output::{Failure, Output};
use model::worker::EndpointTask;

/// Serves until it is asked to end.
pub(crate) fn run(arguments: &Serve, output: &Output) -> Result<u8, Failure> {
    let task = EndpointTask {
        bind: arguments.bind.clone(),
        key: key::read(arguments.key_file.as_deref(), output)?,
        limits: arguments.limits(),
    };
    let endpoint = endpoint::Endpoint::bind(&task).map_err(failed)?;
    let keyed = if task.key.is_some() { ", clients need the key" } else { "" };
    output.note(format_args!("serving on {}{keyed}; Ctrl-C ends it", endpoint.local_address()));
    let stop = endpoint::Stop::new().map_err(|error| Failure::new(1, error))?;
    let asked = stop.clone();
    signals::on_stop(move || asked.stop())?;
    endpoint.serve(&stop).map_err(failed)?;
    Ok(0)
}

/// What is wrong with the address or the key is a usage error.
pub(crate) fn failed(error: endpoint::EndpointError) -> Failure {
    use endpoint::EndpointError::{Address, Key, KeyNeeded};
    let code = if matches!(error, Address { .. } | KeyNeeded { .. } | Key(_)) { 2 } else { 1 };
    Failure::new(code, error)
}
