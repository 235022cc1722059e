//! `windhover irq`: what a run on this machine shows, on a terminal and without one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use serde_json::Value;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;
use support::{Folder, assert_code, assert_refused, ended, run, stdout, until, windhover};

/// Catches: counts since boot, CPUs left out, rates that are no counts by time, escape codes without a terminal.
#[test]
fn one_interval_without_a_terminal() {
    let output = run(&["irq", "--interval", "0.3", "--all", "--json"]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let seconds = document["elapsed_ns"].as_f64().unwrap() / 1e9;
    assert!(seconds >= 0.3, "{seconds}");
    let rows = document["interrupts"].as_array().unwrap();
    let kinds: Vec<&str> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"softirq") && kinds.iter().any(|kind| *kind != "softirq"), "{text}");
    let mut last = u64::MAX;
    for row in rows {
        let counts = row["counts"].as_object().unwrap();
        let sum: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
        assert!(sum <= last, "the busiest come first: {text}");
        last = sum;
        for (cpu, count) in counts {
            let hz = row["rates_hz"][cpu].as_f64().unwrap();
            assert!((hz * seconds - count.as_f64().unwrap()).abs() < 1e-6 * (1.0 + hz), "CPU {cpu}: {row}");
        }
    }
    let output = run(&["irq", "--interval", "0.05", "--count", "2"]);
    assert_code(&output, 0);
    let text = stdout(&output);
    assert!(!text.contains('\x1b') && text.matches("softirqs a second").count() == 2, "{text}");
}

/// A machine of four CPUs with a shield on two of them.
fn machine(folder: &Folder) -> [String; 2] {
    for (path, text) in [
        (
            "proc/interrupts",
            "           CPU0       CPU1       CPU2       CPU3\n 24:          1          0          0          7  PCI-MSIX-0000:00:05.0   0-edge      eth0-rx-0\nLOC:          1          2          3          4  Local timer interrupts\n",
        ),
        (
            "proc/softirqs",
            "                    CPU0       CPU1       CPU2       CPU3\n      NET_RX:          5          0          0          0\n",
        ),
        ("proc/irq/24/smp_affinity_list", "2-3\n"),
        ("proc/irq/24/effective_affinity_list", "3\n"),
        ("proc/77/comm", "irq/24-eth0-rx-0\n"),
        (
            "proc/77/stat",
            "77 (irq/24-eth0-rx-0) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 42 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 50 1 0 0 0\n",
        ),
        ("sys/kernel/irq/24/actions", "eth0-rx-0\n"),
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
    ] {
        let file = folder.0.join("root").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let state = host::undo::StateDir::at(folder.0.join("state"));
    std::fs::create_dir_all(state.folder().unwrap()).unwrap();
    let shield = host::shield::ShieldState {
        format: 1,
        set: host::undo::SetId("0001".to_owned()),
        spec: model::ShieldSpec { processes: "2-3".parse().unwrap(), ..Default::default() },
        backend: model::ShieldBackend::V1,
        group: None,
        by_thread: true,
    };
    host::shield::announce(&state, &shield).unwrap();
    ["root", "state"].map(|name| folder.0.join(name).to_string_lossy().into_owned())
}

/// Catches: CPUs of a shield without a mark, the interrupt's CPUs or its thread left out, silent rows shown unasked, a narrow
/// terminal that hides shielded CPUs rather than others.
#[test]
fn where_an_interrupt_goes_and_who_handles_it() {
    let folder = Folder::new("irq");
    let [root, state] = machine(&folder);
    let shown = |arguments: &[&str], columns: &str| {
        let all = [&["irq", "--interval", "0.01", "--root", &root, "--state-dir", &state], arguments].concat();
        let output = windhover(&all).env("COLUMNS", columns).output().unwrap();
        assert_code(&output, 0);
        stdout(&output)
    };
    assert!(shown(&[], "120").contains("none"), "{}", shown(&[], "120"));
    let text = shown(&["--all"], "120");
    for words in ["CPU 2-3 is behind a shield", "CPU 2*", "CPU 3*", "PCI-MSIX", "eth0-rx-0"] {
        assert!(text.contains(words), "'{words}': {text}");
    }
    let row: Vec<&str> = text.lines().find(|line| line.starts_with("24 ")).unwrap().split_whitespace().collect();
    assert_eq!(row[row.len() - 3..], ["2-3", "3", "fifo:50"], "{text}");
    let narrow = shown(&["--all"], "80");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("CPU 2*") && !narrow.contains("CPU 0 ") && narrow.contains("use --cpu"), "{narrow}");
    let one = shown(&["--all", "--cpu", "3"], "120");
    assert!(one.contains("CPU 3*") && !one.contains("CPU 2*"), "{one}");
    assert_refused(&["irq", "--root", &root, "--cpu", "9"], 2, &["CPU 9", "0-3"]);
}

/// Catches: a terminal that is left without echo, `q` that waits for Enter or the interval, no table that stays.
#[test]
fn live_until_q() {
    let pair = nix::pty::openpty(None, None).unwrap();
    let before = nix::sys::termios::tcgetattr(&pair.slave).unwrap();
    let slave = File::from(pair.slave);
    let own = || Stdio::from(slave.try_clone().unwrap());
    let mut command = windhover(&["irq", "--interval", "60"]);
    let child = command.env("TERM", "xterm").stdin(own()).stdout(own()).stderr(own()).spawn().unwrap();
    let mut keyboard = File::from(pair.master.try_clone().unwrap());
    let mut screen = File::from(pair.master);
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        let mut some = [0; 4096];
        while let Ok(read @ 1..) = screen.read(&mut some) {
            seen.extend_from_slice(&some[..read]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    until("it listens to keys", || {
        let now = nix::sys::termios::tcgetattr(&slave).unwrap();
        !now.local_flags.contains(nix::sys::termios::LocalFlags::ICANON)
    });
    keyboard.write_all(b"q").unwrap();
    let output = ended(child, Duration::from_secs(50));
    assert_code(&output, 0);
    let after = nix::sys::termios::tcgetattr(&slave).unwrap();
    assert_eq!(after.local_flags, before.local_flags);
    drop((slave, command));
    let seen = reader.join().unwrap();
    assert!(seen.contains("softirqs a second"), "{seen}");
}
