//! What `bypass run --audit` says of programs whose calls escape the library.

use crate::{bypass, support};
use std::process::Command;
use support::{Folder, assert_code, stderr};

/// Compiles `direct.c`.
fn direct(folder: &Folder, test: &str, flags: &[&str]) -> Option<String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bypass/direct.c");
    let program = folder.0.join("direct").to_str().unwrap().to_owned();
    let built = Command::new("cc").args(["-O1", "-o", &program, source]).args(flags).output();
    if !built.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: no C compiler, or none for {flags:?}");
        return None;
    }
    Some(program)
}

/// What the audit says of a program, which ends with 7. Nothing where such filters are not permitted.
fn audited(folder: &Folder, test: &str, line: &[&str]) -> Option<Vec<String>> {
    let output = bypass(folder, &[&["run", "--audit", "--"], line].concat()).output().unwrap();
    let said = stderr(&output);
    if said.contains("system calls cannot be counted") {
        eprintln!("SKIPPED {test}: {said}");
        return None;
    }
    assert_code(&output, 7);
    Some(said.lines().filter(|line| line.contains("audit: ")).map(str::to_owned).collect())
}

#[test]
fn direct_calls_are_counted_and_those_of_the_library_are_not() {
    let test = "direct_calls_are_counted_and_those_of_the_library_are_not";
    let folder = Folder::new("bypass-audit");
    let Some(program) = direct(&folder, test, &[]) else { return };
    for (how, words) in [
        ("library", "all by way of the library"),
        ("syscall", "not accelerated, because 5 of "),
        ("direct", "not accelerated, because 5 of "),
        // Its five direct calls and its ring.
        ("ring", "(io_uring_setup 1, recvfrom 5)"),
    ] {
        let Some(lines) = audited(&folder, test, &[&program, how]) else { return };
        assert!(lines.len() == 1 && lines[0].contains(words), "{how}: {lines:?}");
        assert_eq!(
            lines[0].contains("past the C library (recvfrom 5)"),
            how == "syscall" || how == "direct",
            "{lines:?}"
        );
    }
    // What it starts is told apart, also behind an exec.
    let shell = format!("{program} library; {program} direct; exec {program} syscall");
    let Some(lines) = audited(&folder, test, &["sh", "-c", &shell]) else { return };
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((lines.len(), count("all by way of the library"), count("5 of ")), (3, 1, 2), "{lines:?}");
}

#[test]
fn a_static_program_is_named_with_its_calls() {
    let test = "a_static_program_is_named_with_its_calls";
    let folder = Folder::new("bypass-audit-static");
    let Some(program) = direct(&folder, test, &["-static"]) else { return };
    // As the program itself, and as one that another starts.
    for line in [vec![program.as_str(), "library"], vec!["sh", "-c", "$0 library", program.as_str()]] {
        let Some(lines) = audited(&folder, test, &line) else { return };
        let wanted = format!("not accelerated, because {program} is statically linked");
        assert!(lines.len() == 1 && lines[0].contains(&wanted), "{lines:?}");
        assert!(lines[0].contains("11 network calls (recvfrom 5, sendto 5, socket 1)"), "{lines:?}");
    }
}

#[test]
#[ignore = "cargo xtask test --bypass"]
fn a_go_program_is_named_with_its_calls() {
    const SOURCE: &str = "package main\nimport (\"net\"; \"os\")\nfunc main() {\n\
        one, _ := net.ListenPacket(\"udp4\", \"127.0.0.1:0\")\nfor round := 0; round < 5; round++ {\n\
        one.WriteTo([]byte(\"internet\"), one.LocalAddr())\none.ReadFrom(make([]byte, 16))\n}\nos.Exit(7)\n}\n";
    let test = "audit::a_go_program_is_named_with_its_calls";
    let folder = Folder::new("bypass-audit-go");
    let (source, program) = (folder.file("main.go", SOURCE), folder.0.join("go-program"));
    let mut go = Command::new("go");
    go.args(["build", "-o"])
        .arg(&program)
        .arg(&source)
        .env("GOCACHE", folder.0.join("cache"))
        .env("GOFLAGS", "-mod=mod");
    if !go.current_dir(&folder.0).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: no Go compiler");
        return;
    }
    let program = program.to_str().unwrap();
    let Some(lines) = audited(&folder, test, &[program]) else { return };
    assert!(lines.len() == 1 && lines[0].contains("is a Go program"), "{lines:?}");
    assert!(lines[0].contains("sendto 5"), "{lines:?}");
    println!("\nBYPASS go: {}", lines[0]);
}
