//! Connections that keep the borders of messages, which many machines' kernels do not have: SCTP and DCCP.

use super::nic::run;
use super::support::{assert_measured, documents, stderr};
use super::tasks::wait_for;
use std::fs;
use std::process::{Child, Command, Stdio};

/// An endpoint of this guest, ended with the value.
struct Serving(Child);

impl Serving {
    fn new() -> Self {
        let serve = ["--quiet", "serve", "--bind", "127.0.0.1"];
        let serving = Self(Command::new("windhover").args(serve).stdin(Stdio::null()).spawn().unwrap());
        // Listening: connections of the test before may still be there.
        let listens = ":1CF4 00000000:0000 0A";
        wait_for("the endpoint serves", || fs::read_to_string("/proc/net/tcp").unwrap().contains(listens));
        serving
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Catches: messages that are framed by length or joined, a way of receiving that such a socket does not have, and an association
/// that is not the measurement's.
#[test]
#[ignore = "runs in a guest"]
fn messages_go_there_and_back_over_each_protocol_in_each_receive_mode() {
    let _serving = Serving::new();
    for protocol in ["sctp", "sctp-seqpacket", "dccp"] {
        for receive in ["block", "poll", "select", "epoll", "spin"] {
            let ends = ["--receive", receive, "--remote-receive", receive];
            let size = ["--size", "32,1200", "--count", "100", "--warmup", "10", "--format", "json"];
            let output = run(&[&["pingpong", protocol, "127.0.0.1"][..], &ends, &size].concat());
            assert_measured(&output);
            let counts: Vec<_> =
                documents(&output).iter().map(|result| result["messages"]["received"].as_u64().unwrap()).collect();
            assert_eq!(counts, [100, 100], "{protocol} {receive}: {}", stderr(&output));
        }
    }
}

/// Catches: an answer of another length than the question that is waited for as a part of a message.
#[test]
#[ignore = "runs in a guest"]
fn transactions_have_answers_of_another_length() {
    let _serving = Serving::new();
    for protocol in ["sctp", "sctp-seqpacket", "dccp"] {
        let sizes = ["--size", "64", "--response", "1000"];
        let output = run(&[&["rr", protocol, "127.0.0.1", "--count", "100", "--format", "json"][..], &sizes].concat());
        assert_measured(&output);
        assert_eq!(documents(&output)[0]["messages"]["received"], 100, "{protocol}: {}", stderr(&output));
    }
}
