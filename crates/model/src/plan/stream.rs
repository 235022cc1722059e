//! What a plan says about `stream`.

use super::Plan;
use crate::{Direction, ModelError, ProbeSpec, Protocol, StreamSpec};
use serde_json::Value;
use std::collections::BTreeMap;

impl Plan {
    /// The data of a cell of `stream`. What only datagrams have is left out for tcp, so that both can stand in one grid.
    pub(super) fn stream(&self, protocol: Protocol) -> Result<StreamSpec, ModelError> {
        let shared = &self.measure;
        let default = StreamSpec::default();
        let datagrams = protocol == Protocol::Udp;
        Ok(StreamSpec {
            direction: shared.direction.as_deref().map_or(Ok(default.direction), str::parse::<Direction>)?,
            flows: shared.flows.unwrap_or(default.flows),
            rate_bps: shared.bandwidth_bps,
            rate_pps: None,
            batch: shared.batch.filter(|_| datagrams).unwrap_or(default.batch),
            gso: shared.gso.unwrap_or(false) && datagrams,
            gro: shared.gro.unwrap_or(false) && datagrams,
            working_latency: shared.working_latency.unwrap_or(false),
        })
    }

    /// Refuses keys of `stream` in a plan without it: they would do nothing.
    pub(super) fn check_stream_keys(&self, any_stream: bool) -> Result<(), ModelError> {
        let shared = &self.measure;
        let keys = [
            ("measure.direction", shared.direction.is_some()),
            ("measure.flows", shared.flows.is_some()),
            ("measure.bandwidth_bps", shared.bandwidth_bps.is_some()),
            ("measure.batch", shared.batch.is_some()),
            ("measure.gso", shared.gso.is_some()),
            ("measure.gro", shared.gro.is_some()),
            ("measure.working_latency", shared.working_latency.is_some()),
        ];
        match keys.iter().find(|(_, given)| *given && !any_stream) {
            Some((key, _)) => Err(ModelError::Conflict {
                what: format!("{key} says what a stream sends, and no grid has stream"),
                remedy: "add probe = [\"stream\"], or leave it out".to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// What a stream adds to the factors of a result.
#[must_use]
pub fn stream_factors(spec: &ProbeSpec) -> BTreeMap<String, Value> {
    let mut factors = BTreeMap::new();
    let Some(stream) = &spec.stream else { return factors };
    factors.insert("direction".to_owned(), Value::from(stream.direction.word()));
    if stream.flows != 1 {
        factors.insert("flows".to_owned(), Value::from(stream.flows));
    }
    if let Some(bits) = stream.rate_bps {
        factors.insert("bandwidth".to_owned(), Value::from(bits));
    }
    if stream.batch != 1 {
        factors.insert("batch".to_owned(), Value::from(stream.batch));
    }
    for (name, on) in [("gso", stream.gso), ("gro", stream.gro)] {
        if on {
            factors.insert(name.to_owned(), Value::from("on"));
        }
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n";

    fn plan(rest: &str) -> Result<Plan, ModelError> {
        Plan::parse("t.toml", &format!("{HEAD}{rest}"))
    }

    #[test]
    fn streams_of_both_protocols() {
        let plan = plan(
            "[measure]\ndirection = \"both\"\nflows = 2\nbandwidth_bps = 1000000\nbatch = 8\ngro = true\n\
             [[grid]]\nprobe = [\"stream\"]\nprotocol = [\"udp\", \"tcp\"]\n",
        )
        .unwrap();
        let cells = plan.cells().unwrap();
        let specs: Vec<StreamSpec> = cells.iter().map(|cell| cell.spec.stream.clone().unwrap()).collect();
        assert_eq!((specs[0].batch, specs[0].gro, specs[1].batch, specs[1].gro), (8, true, 1, false));
        assert!(specs.iter().all(|spec| spec.direction == Direction::Both && spec.flows == 2));
        assert_eq!(cells.iter().map(|cell| cell.spec.sizes.max()).collect::<Vec<_>>(), [1472, 131_072]);
        assert_eq!(
            cells[0].key,
            "bandwidth=1000000,batch=8,cpu=any,direction=both,flows=2,gro=on,load=none,policy=other,probe=stream,\
             protocol=udp,receive=block,size=1472,stack=kernel"
        );
    }

    #[test]
    fn streams_that_cannot_be() {
        let stream = "probe = [\"stream\"]\n";
        for (rest, word) in [
            ("[measure]\nflows = 2\n[[grid]]\n".to_owned(), "measure.flows"),
            (format!("[measure]\ndirection = \"left\"\n[[grid]]\n{stream}"), "'left'"),
            (format!("[measure]\nflows = 0\n[[grid]]\n{stream}"), "flows 0"),
            (format!("[measure]\nbandwidth_bps = 0\n[[grid]]\n{stream}"), "bandwidth 0"),
            (format!("[[grid]]\n{stream}protocol = [\"pipe\"]\n"), "pipe"),
            (format!("[[grid]]\n{stream}size = [8]\n"), "8 bytes"),
            (format!("[[grid]]\n{stream}receive = [\"epoll\"]\n"), "epoll"),
            (format!("[measure]\ncount = 5\n[[grid]]\n{stream}"), "seconds"),
        ] {
            let text = plan(&rest).unwrap_err().to_string();
            assert!(text.contains(word) && !text.contains('\n'), "{rest}: {text}");
        }
    }
}
