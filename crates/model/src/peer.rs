//! The program that sends messages back: Windhover's own endpoint, or a stock server of another tool.

use crate::{EndSpec, ModelError, Probe, ProbeSpec, Protocol};

words! {
    "peer";
    /// The program that sends messages back.
    #[derive(Default)]
    pub enum PeerProgram {
        /// Windhover's endpoint: it is told how to wait and where to run, and reports what it cost.
        #[default]
        Windhover = "windhover",
        /// A stock `sockperf server`.
        Sockperf = "sockperf",
    }
}

/// What is known of a server of another tool.
struct Traits {
    port: u16,
    probes: &'static [Probe],
    protocols: &'static [Protocol],
    /// The messages that it answers, in bytes.
    sizes: std::ops::RangeInclusive<u32>,
    /// How it is started.
    command: &'static str,
}

impl PeerProgram {
    fn traits(self) -> Option<Traits> {
        match self {
            Self::Windhover => None,
            Self::Sockperf => Some(Traits {
                port: 11_111,
                probes: &[Probe::Pingpong],
                protocols: &[Protocol::Udp, Protocol::Tcp],
                sizes: 14..=65_507,
                command: "sockperf server, for tcp sockperf server --tcp",
            }),
        }
    }

    /// Whether it is Windhover's.
    pub fn is_own(&self) -> bool {
        self.traits().is_none()
    }

    /// The default port of another tool's server; `None`: it is Windhover's.
    pub fn port(self) -> Option<u16> {
        self.traits().map(|traits| traits.port)
    }

    /// How another tool's server is started; empty: it is Windhover's.
    pub fn command(self) -> &'static str {
        self.traits().map_or("", |traits| traits.command)
    }
}

/// Checks what a specification asks of another tool's server: it sends back what it gets, and takes no settings.
pub(crate) fn check(spec: &ProbeSpec) -> Result<(), ModelError> {
    let Some(traits) = spec.peer.traits() else { return Ok(()) };
    let conflict = |what: &str, remedy: &str| Err(ModelError::conflict(format!("{} {what}", spec.peer), remedy));
    let probes: Vec<&str> = traits.probes.iter().map(|probe| probe.word()).collect();
    if !traits.probes.contains(&spec.probe()) {
        return conflict(
            &format!("does not answer {}", spec.probe()),
            &format!("use {}", crate::text::listed(&probes, "or")),
        );
    }
    let socket = spec.socket()?;
    if !traits.protocols.contains(&socket.protocol) {
        let all: Vec<&str> = traits.protocols.iter().map(|protocol| protocol.word()).collect();
        let what = format!("does not answer over {}", socket.protocol);
        return conflict(&what, &format!("use {}", crate::text::listed(&all, "or")));
    }
    if spec.reflector != EndSpec::default() {
        return conflict("cannot be told how to run", "set its CPU, policy and waiting where it is started");
    }
    if socket.multicast.is_some() || !spec.foreign.is_empty() {
        return conflict("is reached by Windhover's own worker, at one address", "leave --mcast and --foreign out");
    }
    if spec.explain.is_some() {
        return conflict("does not say why messages were late", "leave --explain out (in a plan: explain)");
    }
    if spec.pings != 1 || spec.pongs != 1 {
        return conflict("answers each message", "leave --pings and --pongs out");
    }
    let (least, most) = (*traits.sizes.start(), *traits.sizes.end());
    match spec.sizes.iter().find(|size| !traits.sizes.contains(size)) {
        Some(size) => Err(ModelError::range("size", size, format!("{least} to {most} bytes with {}", spec.peer))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SizeList;

    /// Catches: a setting that the other tool's server would ignore in silence.
    #[test]
    fn what_another_tools_server_cannot_do_is_refused() {
        let of = |probe, protocol, change: fn(&mut ProbeSpec)| {
            let mut spec = ProbeSpec { peer: PeerProgram::Sockperf, ..ProbeSpec::new(probe, protocol) };
            change(&mut spec);
            spec.check().map_err(|error| error.to_string())
        };
        assert_eq!(of(Probe::Pingpong, Protocol::Udp, |_| ()), Ok(()));
        assert_eq!(of(Probe::Pingpong, Protocol::Tcp, |spec| spec.sizes = SizeList::one(14)), Ok(()));
        let refused = [
            (of(Probe::Pingpong, Protocol::Udp, |spec| spec.sizes = SizeList::one(13)), "14 to 65507"),
            (of(Probe::Pingpong, Protocol::Tcp, |spec| spec.sizes = SizeList::one(100_000)), "14 to 65507"),
            (of(Probe::Pingpong, Protocol::Udp, |spec| spec.reflector.cpu = Some(1)), "where it is started"),
            (of(Probe::Pingpong, Protocol::Udp, |spec| spec.pings = 2), "--pings"),
            (of(Probe::Pingpong, Protocol::Udp, |spec| spec.foreign = vec!["./w".to_owned()]), "--foreign"),
            (of(Probe::Pingpong, Protocol::Mptcp, |_| ()), "use udp or tcp"),
            (of(Probe::Rr, Protocol::Udp, |_| ()), "use pingpong"),
        ];
        for (outcome, words) in refused {
            assert!(outcome.as_ref().is_err_and(|text| text.contains(words)), "{words}: {outcome:?}");
        }
    }
}
