//! Tests of plans of `stream`.

use crate::plan::testing::{assert_refused, cells};
use crate::{Direction, StreamSpec};

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
