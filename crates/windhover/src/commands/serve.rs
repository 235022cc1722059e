//! `windhover serve`.

use super::{key, signals};
use crate::cli::serve::Serve;
use crate::output::{Failure, Output};
use model::Limits;
use model::worker::EndpointTask;

/// Serves until it is asked to end.
pub(crate) fn run(arguments: &Serve, output: &Output) -> Result<u8, Failure> {
    let task = EndpointTask {
        bind: arguments.bind.clone(),
        key: key::read(arguments.key_file.as_deref())?,
        limits: arguments.limits(),
    };
    let lab = lab::Registry::default().own_addresses();
    let endpoint = endpoint::Endpoint::bind_in_lab(&task, &lab).map_err(failed)?;
    let keyed = if task.key.is_some() { ", clients need the key" } else { "" };
    let (address, allowed) = (endpoint.local_address(), words(&task.limits));
    output.note(format_args!("serving on {address}{keyed}; limits: {allowed}; Ctrl-C ends it"));
    let stop = endpoint::Stop::new().map_err(|error| Failure::new(1, error))?;
    let asked = stop.clone();
    let _stop = signals::on_stop(move || asked.stop())?;
    endpoint.serve(&stop).map_err(failed)?;
    Ok(0)
}

/// What clients may have, in a few words.
fn words(limits: &Limits) -> String {
    let mut words = vec![
        format!("{} sessions of {} s", limits.max_sessions, limits.max_session_s),
        format!("{} messages/s", limits.max_rate_pps),
    ];
    words.push(match (limits.stream_bps(true, false), limits.stream_bps(true, true)) {
        (Some(0), _) => "no streams".to_owned(),
        (Some(bits), _) => format!("streams of {:.0} Mbit/s", bits as f64 / 1e6),
        (None, Some(bits)) => format!("udp streams to clients of {:.0} Mbit/s", bits as f64 / 1e6),
        (None, None) => "streams of any bandwidth".to_owned(),
    });
    words.push(match (limits.allow_real_time, limits.max_priority) {
        (true, priority) => format!("real-time priority {priority}"),
        (false, _) => "no real-time policy".to_owned(),
    });
    for (allowed, word) in [(limits.allow_spin, "no spinning"), (limits.allow_cpu, "no CPU of its choice")] {
        if !allowed {
            words.push(word.to_owned());
        }
    }
    words.push(
        if limits.allow_other_addresses {
            "data to any address"
        } else {
            "data to the address of the control connection only"
        }
        .to_owned(),
    );
    words.join(", ")
}

/// What is wrong with the address or the key is a usage error.
pub(crate) fn failed(error: endpoint::EndpointError) -> Failure {
    use endpoint::EndpointError::{Address, Key, KeyNeeded};
    let code = if matches!(error, Address { .. } | KeyNeeded { .. } | Key(_)) { 2 } else { 1 };
    Failure::new(code, error)
}
