//! `bypass capture` and `bypass run --capture` between two namespaces: what is in the file, and what happens when an end is killed.

use super::stack::{run, start_on_stack, with_program};
use super::support::{self, Folder, Server, assert_code, stderr, stdout, until};
use super::wire::{FAR, with_wire};
use super::{Started, bypass, stat};
use net::capture::{Entry, Reader, Record};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where `windhover serve` listens at the other end.
const ENDPOINT: &str = "10.9.0.2:7100";

/// `near` with an endpoint at the other end.
fn with_endpoint(test: &str, key: String, near: impl FnOnce() + Send + 'static) {
    let held = Arc::new(Mutex::new(None));
    let server = Arc::clone(&held);
    let near = move || {
        near();
        drop(held.lock().unwrap().take());
    };
    let far = move || *server.lock().unwrap() = Some(Server::start_at(ENDPOINT, &["--key-file", &key], &[]));
    with_wire(test, near, far);
}

/// Packets of a file, and those that its statistics call dropped. A file that was cut off is read up to there.
fn read(file: &Path) -> (Vec<Record>, Option<u64>) {
    let mut reader = Reader::new(std::fs::File::open(file).unwrap()).unwrap();
    let (mut packets, mut dropped) = (Vec::new(), None);
    while let Ok(Some(entry)) = reader.next_entry() {
        match entry {
            Entry::Packet(packet) => packets.push(packet),
            Entry::Dropped(count) => dropped = Some(dropped.unwrap_or(0) + count),
            Entry::Comment(_) => {}
        }
    }
    (packets, dropped)
}

/// Source and destination port of an IPv4 packet, and its TCP flags.
fn ports(packet: &Record) -> (u16, u16, u8) {
    let half = |at: usize| u16::from_be_bytes([packet.frame[at], packet.frame[at + 1]]);
    assert_eq!((half(12), packet.frame[14]), (0x0800, 0x45));
    (half(34), half(36), packet.frame[47])
}

/// What `windhover dump` says of a file.
fn summary(file: &Path) -> Value {
    let output =
        support::windhover(&["dump", "--summary", "--format", "json", file.to_str().unwrap()]).output().unwrap();
    assert_code(&output, 0);
    serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap()
}

/// The readers of others, where they are installed.
fn others_read(test: &str, file: &Path, packets: usize) {
    let path = file.to_str().unwrap();
    for (program, arguments) in
        [("tcpdump", &["-n", "-r", path][..]), ("tshark", &["-n", "-r", path]), ("capinfos", &["-M", "-c", path])]
    {
        let Ok(output) = Command::new(program).args(arguments).output() else {
            eprintln!("PARTLY {test}: {program} is not installed");
            continue;
        };
        assert_code(&output, 0);
        let said = stdout(&output);
        match program {
            "capinfos" => assert!(said.contains(&format!("{packets}\n")), "{said}"),
            _ => assert_eq!(said.lines().count(), packets, "{program}"),
        }
    }
}

/// A capture that was started, its two lines still to come.
fn start(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = bypass(folder, &[&["capture"], arguments].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A program that sends without end on the stack, and that its page shows.
fn flooding(folder: &Folder, program: &str, backend: &str) -> Started {
    let started = start_on_stack(folder, &["--backend", backend], [program, FAR[0], "flood"], "flooding: 0");
    until("the stack's row in the page", || stat(folder)[0]["carrier"].is_object());
    started
}

/// Its end, which has to come by itself.
fn ended(child: Child) -> Output {
    support::ended(child, Duration::from_secs(60))
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// Whether a process has the ring of a capture in its memory.
fn has_ring(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap().contains("windhover-capture")
}

/// What is in the folder of the pages besides the library.
fn left(folder: &Folder) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.0.join("state/bypass")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_none()).collect()
}

/// Catches: a first packet that is missed, one that is missing in a direction, times that go back, a file that others cannot read.
#[test]
fn a_program_is_captured_from_its_first_packet_to_its_last() {
    let test = "a_program_is_captured_from_its_first_packet_to_its_last";
    let folder = Folder::new("bypass-capture-run");
    let key = folder.secret("key", &"5a".repeat(32));
    let for_server = key.clone();
    let near = move || {
        let windhover = env!("CARGO_BIN_EXE_windhover");
        for (protocol, messages) in [("udp", 2000), ("tcp", 300)] {
            let file = folder.0.join(format!("{protocol}.pcapng"));
            let path = file.to_str().unwrap();
            let count = messages.to_string();
            let began = std::time::SystemTime::now();
            let capture = ["run", "--stack", "xdp", "--backend", "generic", "--require", "--capture", path, "--"];
            let program = [windhover, "pingpong", protocol, ENDPOINT, "--key-file", &key, "--count", &count];
            let arguments = [&capture[..], &program, &["--format", "json"]].concat();
            let output = run(&mut bypass(&folder, &arguments));
            support::assert_measured(&output);
            let result = support::documents(&output).remove(0);
            let (packets, dropped) = read(&file);
            assert_eq!(dropped, Some(0), "{}", stderr(&output));
            assert!(stderr(&output).contains(&format!("{} packets in {path}, 0 dropped", packets.len())));
            // The control connection comes first: what is sent first is its SYN, what comes then is the answer.
            let (_, to, flags) = ports(&packets[0]);
            assert_eq!((to, flags, packets[0].leaving), (7100, 0x02, Some(true)));
            let (from, _, flags) = ports(&packets[1]);
            assert_eq!((from, flags, packets[1].leaving), (7100, 0x12, Some(false)));
            assert!(packets.iter().any(|packet| packet.frame[23] == 6 && ports(packet).2 & 1 == 1), "no FIN");
            assert!(packets.iter().all(|packet| packet.frame.len() == packet.sent_bytes as usize));
            let times: Vec<u64> = packets.iter().map(|packet| packet.time_ns.unwrap()).collect();
            assert!(times.is_sorted());
            let ns = |time: std::time::SystemTime| {
                u64::try_from(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()).unwrap()
            };
            assert!(times[0] > ns(began) && times[times.len() - 1] < ns(std::time::SystemTime::now()));
            // As many messages in each direction as were measured and warmed up with.
            let dump = summary(&file);
            let flows = dump["flows"].as_array().unwrap();
            let data =
                flows.iter().find(|flow| flow["control"] == 0 && flow["protocol"] == protocol).unwrap_or(&flows[0]);
            let directions = data["directions"].as_array().unwrap();
            assert_eq!(directions.len(), 2, "{dump}");
            let counted: Vec<u64> = directions.iter().map(|one| one["messages"].as_u64().unwrap()).collect();
            assert_eq!(counted[0], counted[1], "{dump}");
            assert!(
                counted[0] >= messages && result["counts"]["measured"].as_u64().is_none_or(|n| n <= counted[0]),
                "{dump}"
            );
            others_read(test, &file, packets.len());
            assert_eq!(left(&folder), [] as [PathBuf; 0]);
        }
    };
    with_endpoint(test, for_server, near);
}

/// Catches: a capture that does not begin or end in mid-run, cuts wrongly, or is beside another one; and words that miss the reason.
#[test]
fn a_running_program_is_captured_and_what_cannot_be_is_refused() {
    let test = "a_running_program_is_captured_and_what_cannot_be_is_refused";
    with_program(test, "ends", |folder, program| {
        let refused = |arguments: &[&str], code: i32, words: &str| {
            let output = run(&mut bypass(folder, &[&["capture"], arguments].concat()));
            assert_code(&output, code);
            assert!(stderr(&output).contains(words) && stderr(&output).lines().count() == 1, "{}", stderr(&output));
        };
        refused(&[], 1, "a program on --stack xdp does not run behind");
        refused(&["nosuch"], 1, "'nosuch' does not run behind");
        refused(&["4194305"], 1, "process 4194305 does not run behind");
        refused(&["--buffer", "3"], 2, "power of two");
        let (spin, _) = Started::new(&mut bypass(folder, &["run", "--", program, FAR[0], "flood"]), "flooding: 0");
        refused(&["ends"], 1, "has no socket on --stack xdp");
        drop(spin);
        let first = flooding(folder, program, "generic");
        let id = first.0.id().to_string();
        let at = |name: &str| folder.0.join(name);
        // By name, by number, and without either; each ends by its own limit.
        for (arguments, count, longest) in [
            (&["ends", "-c", "500"][..], 500, 1514),
            (&[&id, "--count", "700", "--snap", "60"], 700, 60),
            (&["--seconds", "0.3", "--snap", "100"], 0, 100),
        ] {
            let file = at("attached.pcapng");
            let output = run(&mut bypass(folder, &[&["capture", "-w", file.to_str().unwrap()], arguments].concat()));
            assert_code(&output, 0);
            let line = format!("capturing ends (process {id}) on near (generic)");
            assert!(stderr(&output).starts_with(&line), "{}", stderr(&output));
            let (packets, dropped) = read(&file);
            assert!(packets.len() > 20 && (count == 0 || packets.len() == count), "{} of {count}", packets.len());
            let other = |packet: &Record| if packet.leaving == Some(true) { ports(packet).1 } else { ports(packet).0 };
            assert!(packets.iter().all(|packet| other(packet) == 7004));
            for leaving in [true, false] {
                assert!(packets.iter().any(|packet| packet.leaving == Some(leaving)), "{arguments:?}: {leaving}");
            }
            assert_eq!(packets.iter().map(|packet| packet.frame.len()).max(), Some(longest));
            assert!(dropped.is_some(), "no statistics");
            // The program sends faster than the capture writes.
            let took_ns = packets[packets.len() - 1].time_ns.unwrap() - packets[0].time_ns.unwrap();
            assert!(count > 0 || took_ns <= 300_000_000, "{arguments:?}: packets of {took_ns} ns");
            assert_eq!(summary(&file)["packets"], packets.len());
            until("the ring's end in the program", || !has_ring(first.0.id()));
        }
        // To a pipe, which others close.
        let command = format!("{} bypass capture {id} | head -c 3000 | wc -c", env!("CARGO_BIN_EXE_windhover"));
        let piped = run(Command::new("sh").args(["-c", &command]).env("WINDHOVER_STATE", at("state")));
        assert_eq!(stdout(&piped).trim(), "3000");
        // One at a time. Stopped, it loses frames and counts them; the program is not held up.
        until("the ring's end in the program", || !has_ring(first.0.id()));
        let file = at("full.pcapng");
        let capture = start(folder, &[&id, "-w", file.to_str().unwrap(), "--buffer", "1"]);
        until("packets in the file", || std::fs::metadata(&file).is_ok_and(|facts| facts.len() > 5000));
        refused(&[&id], 1, &format!("is captured already, by process {}", capture.id()));
        signal(&capture, Signal::SIGSTOP);
        let sent = || stat(folder)[0]["carrier"]["sent"].as_u64().unwrap();
        let before = sent();
        until("frames past a full ring", || sent() > before + 5000);
        signal(&capture, Signal::SIGCONT);
        signal(&capture, Signal::SIGINT);
        let output = ended(capture);
        assert_code(&output, 0);
        let (packets, dropped) = read(&file);
        assert!(dropped > Some(100) && packets.len() > 100, "{dropped:?}");
        assert!(stderr(&output).ends_with(&format!(", {} dropped\n", dropped.unwrap())), "{}", stderr(&output));
        assert_eq!(summary(&file)["dropped"], dropped.unwrap());
    });
}

/// Catches: a killed capture that costs its program for ever, a killed program whose capture does not end, and what stays of either.
#[test]
fn nothing_is_left_when_an_end_is_killed() {
    let test = "nothing_is_left_when_an_end_is_killed";
    with_program(test, "ends", |folder, program| {
        let mut flooding = flooding(folder, program, "packet");
        let process = flooding.0.id();
        let file = folder.0.join("killed.pcapng");
        let path = file.to_str().unwrap();
        // Far more than ten packets, however long they are.
        for _ in 0..2 {
            let mut capture = start(folder, &["-w", path]);
            until("packets in the file", || std::fs::metadata(&file).is_ok_and(|facts| facts.len() > 50_000));
            assert!(has_ring(process));
            capture.kill().unwrap();
            capture.wait().unwrap();
            until("the ring's end in the program", || !has_ring(process));
            assert!(read(&file).0.len() > 10);
            std::fs::remove_file(&file).unwrap();
        }
        assert_eq!(left(folder).len(), 1, "beside the page: {:?}", left(folder));
        let capture = start(folder, &["-w", path]);
        until("packets in the file", || std::fs::metadata(&file).is_ok_and(|facts| facts.len() > 50_000));
        flooding.0.kill().unwrap();
        flooding.0.wait().unwrap();
        let output = ended(capture);
        assert_code(&output, 0);
        let (packets, dropped) = read(&file);
        assert!(packets.len() > 10 && dropped.is_some());
        assert_eq!(summary(&file)["packets"], packets.len());
        assert!(stat(folder).is_empty());
        assert_eq!(left(folder), [] as [PathBuf; 0]);
    });
}
