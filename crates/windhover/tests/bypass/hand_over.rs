//! Connections of `--stack xdp` that other processes get: they become the kernel's, with their data.

use super::stack::{run, with_program};
use super::support::{assert_code, stderr, stdout};
use super::wire::{NEAR, REACHED, has_program};
use super::{Started, assert_same, budget, bypass, stat};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

/// Catches: a byte that is lost, doubled or wrong when a connection moves, an end that does not come, an option, flag, descriptor or
/// member of an epoll instance that does not move with it, and a process that gets no connection: by fork, vfork, posix_spawn,
/// system, popen, exec or in a message; the page of a process that has ended by `_exit`.
#[test]
fn other_processes_go_on_with_connections() {
    with_program("other_processes_go_on_with_connections", "hand_over", |folder, program| {
        for address in REACHED {
            let plain = run(Command::new(program).arg(address));
            assert_code(&plain, 23);
            let plain = stdout(&plain);
            assert!(plain.lines().count() > 40 && !plain.contains("stands still"), "{plain}");
            for backend in ["packet", "generic", "native"] {
                let arguments = ["run", "--stack", "xdp", "--backend", backend, "--", program, address];
                let output = run(budget(&mut bypass(folder, &arguments), 3000));
                let what = format!("by {backend}: {}", stderr(&output));
                assert_same(&plain, &stdout(&output), &what);
                assert_code(&output, 23);
                assert!(!has_program(), "{what}");
                let files = std::fs::read_dir(folder.0.join("state/bypass")).unwrap().flatten();
                let left: Vec<_> = files.map(|file| file.file_name()).collect();
                assert_eq!(left.len(), 1, "the library, and no page of a process that has ended: {left:?}");
            }
        }
    });
}

/// Catches: a ring of io_uring, by which calls pass the stack by (libuv changes epoll instances so), and a refusal that nobody counts.
#[test]
fn a_program_is_told_that_there_is_no_io_uring() {
    with_program("a_program_is_told_that_there_is_no_io_uring", "direct", |folder, program| {
        let (started, _) =
            Started::new(&mut bypass(folder, &["run", "--stack", "xdp", "--", program, "setup"]), "none");
        let page = stat(folder).remove(0);
        // Catches: a program that is not found by its name because its first thread has another (Node 24).
        for name in ["direct", "MainThread"] {
            let found = run(&mut bypass(folder, &["stat", name]));
            assert_code(&found, 0);
            assert!(stdout(&found).contains("direct"), "{}", stdout(&found));
        }
        assert_eq!(page["name"], "direct");
        let reasons = page["fall_backs"].as_array().unwrap();
        let times = reasons.iter().find(|one| one["reason"] == "io-uring").map(|one| &one["times"]);
        assert_eq!(times, Some(&1.into()), "{page}");
        assert_eq!(started.end(), Some(7));
        let (spun, _) = Started::new(&mut bypass(folder, &["run", "--", program, "setup"]), "not refused");
        assert_eq!(spun.end(), Some(7));
    });
}

/// Catches: `--require` that ends a program because it also talks to its own host, over loopback or by its own address.
#[test]
fn packets_that_pass_no_interface_are_no_failure() {
    with_program("packets_that_pass_no_interface_are_no_failure", "flows", |folder, program| {
        for address in ["127.0.0.1", NEAR[0], NEAR[1]] {
            let listener = TcpListener::bind((address, 7004)).unwrap();
            let heard = std::thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                stream.read_to_end(&mut Vec::new()).unwrap();
                stream.write_all(b"heard").unwrap();
            });
            let output =
                run(&mut bypass(folder, &["run", "--stack", "xdp", "--require", "--", program, address, "give"]));
            assert_code(&output, 0);
            assert_eq!(stdout(&output), "heard", "{address}: {}", stderr(&output));
            heard.join().unwrap();
        }
    });
}
