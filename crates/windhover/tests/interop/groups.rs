//! Two groups, and both implementations side by side at the same hosts and ports.

use crate::case::{BEGIN, LIMIT, can_run, number};
use crate::network::{Network, address};
use crate::process::{Process, Program};
use std::process::Command;

/// Windhover publishes on the first from one host, OpenPGM on the second from another; a third host hears both: an OpenPGM
/// receiver that has joined both, and a receiver of ours for each.
#[test]
fn two_groups_of_two_implementations_do_not_disturb_each_other() {
    if !can_run("two_groups_of_two_implementations_do_not_disturb_each_other", &[Program::OpenPgm]) {
        return;
    }
    let network = Network::of(3);
    network.lose(2, 2);
    let (first, second) = ("239.192.0.1", "239.192.0.2");
    let both = format!("{first},{second}");
    let ours = |host: usize, words: &[&str]| {
        let mut command = network.command(host, env!("CARGO_BIN_EXE_windhover"));
        command.arg("pgm").args(words);
        command
    };
    let theirs = |host: usize, what: &str, groups: &str, seconds: &str, number: &str| -> Command {
        let mut command = network.command(host, Program::OpenPgm.built().unwrap());
        command.args([what, &address(host), groups, "7500", "3056", "1500", "200", "1500", seconds, number]);
        command
    };
    let receive = |group: &str| {
        let words = ["recv", group, "--check", "--summary", "--format", "json", "--until-fin", "--for", "30s"];
        let mut receiver = Process::start(group, ours(2, &words));
        receiver.says("hears", BEGIN);
        receiver
    };
    let mut hears_both = Process::start("OpenPGM on both", theirs(2, "recv", &both, "5", "2"));
    hears_both.says("ready", BEGIN);
    let receivers = [receive(first), receive(second)];
    let publish = ["send", first, "--count", "1500", "--size", "200", "--rate", "1500", "--json"];
    let senders = [
        Process::start("windhover", ours(0, &publish)),
        Process::start("OpenPGM", theirs(1, "send", second, "1", "1")),
    ];
    for sender in senders {
        let (status, sent) = sender.finish(LIMIT);
        assert!(status.success(), "{sent}");
    }
    for receiver in receivers {
        let (status, seen) = receiver.finish(LIMIT);
        assert!(status.success(), "{seen}");
        let source = &seen["sources"][0];
        assert_eq!(seen["sources"].as_array().map(Vec::len), Some(1), "{seen}");
        assert_eq!((number(&source["messages"]), number(&source["next"])), (1500, 1500), "{seen}");
        assert_eq!((number(&source["damaged"]), number(&source["out_of_order"])), (0, 0), "{seen}");
    }
    let (status, seen) = hears_both.finish(LIMIT);
    assert!(status.success(), "{seen}");
    assert_eq!((number(&seen["messages"]), number(&seen["bad"])), (3000, 0), "{seen}");
    assert_eq!((number(&seen["out_of_order"]), number(&seen["resets"])), (0, 0), "{seen}");
    assert!(network.lost(2) > 0);
    println!(
        "INTEROP two groups: 1500 of 1500 in order at each of four receivers, {} packets dropped",
        network.lost(2)
    );
}
