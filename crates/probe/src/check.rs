//! What can only be checked on this machine or once the peer is known, before the first message is sent.

use crate::ProbeError;
use model::{CpuList, Policy, ProbeSpec, Receive};

fn conflict<T>(what: impl Into<String>, remedy: &str) -> Result<T, ProbeError> {
    Err(ProbeError::Conflict { what: what.into(), remedy: remedy.to_owned() })
}

/// Checks the initiator's side against this machine. The policy is tried on a thread of its own, so that a refusal is
/// told before the peer hears of us.
pub(crate) fn here(spec: &ProbeSpec) -> Result<(), ProbeError> {
    if let Some(cpu) = spec.initiator.cpu {
        let wanted: CpuList = [cpu].into_iter().collect();
        on_a_thread(move || task::set_affinity(&wanted))?;
    }
    let policy = spec.initiator.policy;
    if policy != Policy::Other {
        on_a_thread(move || task::apply_policy(policy))?;
    }
    let several = spec.pings > 1 || spec.pongs > 1;
    if spec.socket.more && several && !spec.socket.protocol.is_stream() {
        return conflict(
            "MSG_MORE joins the datagrams of a round into one, so they never arrive as messages",
            "use tcp, or leave --more out",
        );
    }
    Ok(())
}

fn on_a_thread(try_it: impl FnOnce() -> Result<(), task::TaskError> + Send) -> Result<(), ProbeError> {
    let outcome = std::thread::scope(|scope| scope.spawn(try_it).join());
    outcome.map_or(Ok(()), |tried| tried.map_err(ProbeError::from))
}

/// Checks both ends against each other when they share a machine.
pub(crate) fn same_machine(spec: &ProbeSpec) -> Result<(), ProbeError> {
    let spins = spec.initiator.receive == Receive::Spin || spec.reflector.receive == Receive::Spin;
    if let (Some(a), Some(b)) = (spec.initiator.cpu, spec.reflector.cpu)
        && a == b
        && spins
    {
        return conflict(
            format!("both ends are on CPU {a} of one machine and one of them spins, so the other never runs"),
            "give the ends different CPUs with --cpu and --remote-cpu, or use --receive block",
        );
    }
    let unpinned = spec.initiator.cpu.is_none() || spec.reflector.cpu.is_none();
    let single = task::online_cpus().is_ok_and(|cpus| cpus.iter().count() == 1);
    if spins && unpinned && single {
        return conflict(
            "this machine has one CPU, and an end that spins on it keeps the other from running",
            "use --receive block",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Probe, Protocol};

    fn spec(protocol: Protocol) -> ProbeSpec {
        ProbeSpec::new(Probe::Pingpong, protocol)
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_told_with_those_that_do() {
        let mut spec = spec(Protocol::Udp);
        spec.initiator.cpu = Some(8000);
        let error = here(&spec).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains("8000") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn trying_a_cpu_leaves_this_thread_alone() {
        let before = task::allowed_cpus().unwrap();
        let mut spec = spec(Protocol::Udp);
        spec.initiator.cpu = before.iter().next();
        here(&spec).unwrap();
        assert_eq!(task::allowed_cpus().unwrap(), before);
    }

    #[test]
    fn spinning_on_one_cpu_is_refused_and_blocking_is_not() {
        let mut spec = spec(Protocol::Tcp);
        spec.initiator.cpu = Some(0);
        spec.reflector.cpu = Some(0);
        same_machine(&spec).unwrap();
        spec.reflector.receive = Receive::Spin;
        let error = same_machine(&spec).unwrap_err();
        assert!(error.to_string().contains("CPU 0"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn joined_datagrams_are_refused() {
        let mut udp = spec(Protocol::Udp);
        udp.socket.more = true;
        here(&udp).unwrap();
        udp.pings = 2;
        assert!(matches!(here(&udp), Err(ProbeError::Conflict { .. })));
        let mut tcp = spec(Protocol::Tcp);
        tcp.socket.more = true;
        tcp.pings = 2;
        here(&tcp).unwrap();
    }
}
