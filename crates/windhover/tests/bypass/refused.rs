//! What keeps `--stack xdp` from an interface: one line with the remedy, the program on the kernel's sockets or not at all, and
//! the interfaces as they were.

use super::support::{Folder, assert_code, run_directory, stderr, stdout, windhover};
use super::{Started, bypass, compile};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use std::process::{Command, Output};

/// What the kernel tells of the namespace's interfaces, programs of XDP among it, and of its packet sockets.
fn interfaces() -> String {
    let shown = |arguments: &[&str]| stdout(&Command::new("ip").args(arguments).output().unwrap());
    let sockets = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    [shown(&["link"]), shown(&["-brief", "address"]), shown(&["rule"]), sockets].concat()
}

/// Without and with `--require`: the program ran and what was said, both on one line.
#[track_caller]
fn assert_left_to_the_kernel(start: &dyn Fn(&[&str]) -> Output, flags: &[&str], words: &str) {
    let output = start(&[flags, &["--", "echo", "it", "ran"]].concat());
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "it ran\n", "{flags:?}");
    let said = stderr(&output);
    assert!(
        said.contains(words) && said.contains("the program's calls spin on the kernel's sockets"),
        "{flags:?}: {said}"
    );
    assert_eq!(said.trim_end().lines().count(), 1, "{flags:?}: {said}");
    let output = start(&[flags, &["--require", "--", "echo", "it", "ran"]].concat());
    assert_code(&output, 125);
    assert_eq!(stdout(&output), "", "{flags:?}");
    let said = stderr(&output);
    assert!(said.contains("not accelerated, because") && said.contains(words), "{flags:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{flags:?}: {said}");
}

/// Catches: a refusal without reason or remedy or on several lines, a program that does not run for it, one that runs although it
/// requires the stack, a back-end that would have done and is not tried, and anything that stays behind.
#[test]
fn what_keeps_the_stack_from_an_interface_is_one_line_and_changes_nothing() {
    let test = "what_keeps_the_stack_from_an_interface_is_one_line_and_changes_nothing";
    let folder = Folder::new("bypass-interface");
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
        eprintln!("SKIPPED {test}: no network namespace of its own: {errno}: run as root");
        return;
    }
    let run = |flags: &[&str]| bypass(&folder, &[&["run", "--stack", "xdp"], flags].concat()).output().unwrap();
    assert_left_to_the_kernel(&run, &[], "no network interface but loopback is up: set one up");
    for command in [
        "link set lo up",
        "link add near type veth peer name far",
        "address add 10.9.0.1/24 dev near",
        "link set near up",
        "link set far up",
        "link add bare type bridge",
        // It would have an address of the link as soon as nobody else proved to have it, a second later.
        "link set bare addrgenmode none",
        "link set bare up",
        "link add large mtu 9000 type bridge",
        "address add 10.10.0.1/24 dev large",
        "link set large up",
    ] {
        assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success(), "ip {command}");
    }
    // The interfaces come to rest.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let before = interfaces();
    let on = |interface: &'static str, backend: Option<&'static str>| {
        let backend = backend.map(|word| vec!["--backend", word]).unwrap_or_default();
        [vec!["--interface", interface], backend].concat()
    };
    for (flags, words) in [
        (vec![], "and there is no default route: name one with --interface"),
        (on("nosuch0", None), "'nosuch0' does not exist: see 'ip link'"),
        (on("bare", None), "bare has no IP address: give it one ('ip address add ADDRESS/LENGTH dev bare')"),
        (on("lo", Some("native")), "lo: the driver has no native XDP"),
        (on("near", Some("zero-copy")), "near: the driver has no zero-copy XDP"),
        (on("large", Some("generic")), "an MTU of 9000 does not fit AF_XDP's frames: lower it to 3822 or less"),
    ] {
        assert_left_to_the_kernel(&run, &flags, words);
    }
    // What is reached through another interface stays with the kernel, and a cell of a plan is not what it claims then.
    let plan = folder.file(
        "plan.toml",
        "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
         [measure]\nseconds = 0.1\n[[grid]]\nprobe = [\"pingpong\", \"stream\"]\nprotocol = [\"tcp\", \"udp\"]\nstack = [\"xdp\"]\n",
    );
    let mut campaign = windhover(&["campaign", "run", &plan, "--output", folder.path()]);
    campaign.env("WINDHOVER_STATE", folder.0.join("state")).env("WINDHOVER_BYPASS_INTERFACE", "near");
    assert_code(&campaign.output().unwrap(), 4);
    let stored = run_directory(&folder.0);
    let text = stdout(&super::support::run(&["report", stored.to_str().unwrap(), "--format", "json"]));
    let documents: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(documents.len(), 4, "{text}");
    for document in documents {
        let invalid = document["verdict"]["invalid"].as_array().unwrap();
        for end in ["initiator", "reflector"] {
            let found = invalid.iter().find(|one| one["id"] == "path-not-as-claimed" && one["end"] == end);
            let detail = found.unwrap_or_else(|| panic!("{end}: {document}"))["detail"].as_str().unwrap();
            assert!(
                detail.contains("claims the stack xdp, and") && detail.contains("1 of 1 data sockets"),
                "{end}: {detail}"
            );
        }
    }
    let bare = |flags: &[&str]| {
        let program = env!("CARGO_BIN_EXE_windhover");
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", program, "bypass", "run", "--stack", "xdp"]);
        command.args(flags).env("WINDHOVER_STATE", folder.0.join("state")).output().unwrap()
    };
    for (backend, words) in [
        (None, "needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: run as root"),
        (Some("packet"), "needs CAP_NET_RAW: run as root"),
    ] {
        assert_left_to_the_kernel(&bare, &on("near", backend), words);
    }
    // What AF_XDP does not do AF_PACKET does, unless another back-end was asked for.
    let by_packet = |interface| {
        let flags = [&on(interface, None)[..], &["--require", "--verbose", "--", "true"]].concat();
        let output = run(&flags);
        assert_code(&output, 0);
        let said = stderr(&output);
        assert!(said.contains(&format!("stack xdp on {interface}, back-end packet")), "{said}");
    };
    by_packet("large");
    {
        let interface = xsk::Interface::read("near").unwrap();
        let _taken = xsk::Port::open(&interface, xsk::Backend::Generic).unwrap();
        let words = "near, queue 0: another AF_XDP socket has it: end its program, or use the back-end 'packet'";
        assert_left_to_the_kernel(&run, &on("near", Some("native")), words);
        by_packet("near");
    }
    if let Some(pass) = compile(&folder, test, "pass", &[]) {
        let (other, _) = Started::new(Command::new(&pass).arg("near"), "attached");
        for backend in ["generic", "native"] {
            let words = "near has an XDP program already: detach it";
            assert_left_to_the_kernel(&run, &on("near", Some(backend)), words);
        }
        by_packet("near");
        let text = stdout(&super::support::run(&["doctor", "--only", "nic.xdp", "--nic", "near"]));
        assert!(
            text.contains("near has an XDP program already") && text.contains("1 to be known, 0 in order"),
            "{text}"
        );
        assert_eq!(other.end(), Some(0));
    }
    assert_eq!(interfaces(), before);
}
