//! Plans for the tests of this module, and the tests of plans of `stream`.

use crate::{Cell, Direction, ModelError, Plan, StreamSpec};

/// What stands above the grids: a lab of three hosts, of which `reflectors` send back.
pub(super) fn plan_of(reflectors: &str, rest: &str) -> Result<Plan, ModelError> {
    let lab = "name = \"t\"\n[lab]\nkind = \"netns\"\nhosts = 3\n[roles]\ninitiator = \"a\"\n";
    Plan::parse("t.toml", &format!("{lab}reflectors = [{reflectors}]\n{rest}"))
}

pub(super) fn plan(rest: &str) -> Result<Plan, ModelError> {
    plan_of("\"b\"", rest)
}

pub(super) fn cells(rest: &str) -> Vec<Cell> {
    plan(rest).unwrap().cells().unwrap()
}

/// Each of these plans is refused by one line with these words.
pub(super) fn assert_refused<'a>(plans: impl IntoIterator<Item = (impl AsRef<str>, &'a str)>) {
    for (rest, words) in plans {
        let rest = rest.as_ref();
        let text = plan(rest).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{rest}: {text}");
    }
}

#[test]
fn streams_of_both_protocols() {
    let cells = cells(
        "[measure]\ndirection = \"both\"\nflows = 2\nbandwidth_bps = 1000000\nbatch = 8\ngro = true\n\
         [[grid]]\nprobe = [\"stream\"]\nprotocol = [\"udp\", \"tcp\"]\n",
    );
    let specs: Vec<StreamSpec> = cells.iter().map(|cell| cell.spec.stream().unwrap().clone()).collect();
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
    assert_refused([
        ("[measure]\nflows = 2\n[[grid]]\n".to_owned(), "measure.flows"),
        (format!("[measure]\ndirection = \"left\"\n[[grid]]\n{stream}"), "'left'"),
        (format!("[measure]\nflows = 0\n[[grid]]\n{stream}"), "flows 0"),
        (format!("[measure]\nbandwidth_bps = 0\n[[grid]]\n{stream}"), "bandwidth 0"),
        (format!("[[grid]]\n{stream}protocol = [\"pipe\"]\n"), "pipe"),
        (format!("[[grid]]\n{stream}size = [8]\n"), "8 bytes"),
        (format!("[[grid]]\n{stream}receive = [\"epoll\"]\n"), "epoll"),
        (format!("[measure]\ncount = 5\n[[grid]]\n{stream}"), "seconds"),
    ]);
}
