//! A preloaded library sees every data call of the binary, so user-space stacks can interpose.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use std::process::Command;
use support::{Folder, Server, assert_code};

/// Counts calls of the datapath and writes them to the file named by COUNTS when the process ends.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
static unsigned long sends, receives;
ssize_t send(int fd, const void *data, size_t size, int flags) {
    static ssize_t (*next)(int, const void *, size_t, int);
    if (!next) next = dlsym(RTLD_NEXT, "send");
    __atomic_add_fetch(&sends, 1, __ATOMIC_RELAXED);
    return next(fd, data, size, flags);
}
ssize_t recv(int fd, void *data, size_t size, int flags) {
    static ssize_t (*next)(int, void *, size_t, int);
    if (!next) next = dlsym(RTLD_NEXT, "recv");
    __atomic_add_fetch(&receives, 1, __ATOMIC_RELAXED);
    return next(fd, data, size, flags);
}
__attribute__((constructor)) static void greet(void) { puts("a preloaded library that talks on stdout"); fflush(stdout); }
__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) { fprintf(file, "%lu %lu\n", sends, receives); fclose(file); }
}
"#;

fn shim(folder: &Folder, test: &str) -> Option<String> {
    let source = folder.file("shim.c", SHIM);
    let library = folder.0.join("shim.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).args(["-ldl"]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {test}: no C compiler");
        return None;
    }
    Some(library.to_str().unwrap().to_owned())
}

#[test]
fn every_message_goes_through_the_shim() {
    let folder = Folder::new("preload");
    let Some(library) = shim(&folder, "every_message_goes_through_the_shim") else { return };
    let server = Server::start(&[]);
    let counts = folder.0.join("counts");
    let output = support::windhover(&[
        "pingpong",
        "udp",
        &server.address,
        "--count",
        "500",
        "--warmup",
        "0",
        "--warmup-count",
        "0",
        "--format",
        "json",
    ])
    .env("LD_PRELOAD", &library)
    .env("COUNTS", &counts)
    .output()
    .unwrap();
    assert_code(&output, 0);
    let text = std::fs::read_to_string(&counts).unwrap();
    let counts: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
    assert!(counts[0] >= 500 && counts[1] >= 500, "sends and receives seen: {text}");
    let last = support::stdout(&output).lines().last().unwrap().to_owned();
    let document: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(document["ends"]["initiator"]["stack_environment"]["LD_PRELOAD"], library.as_str());
    assert_eq!(document["ends"]["initiator"]["preloads"][0]["loaded"], true, "{document}");
}

/// What was found to be not as claimed: the end and the words, in order.
fn not_as_claimed(document: &serde_json::Value) -> Vec<(String, String)> {
    let invalid = document["verdict"]["invalid"].as_array().unwrap();
    let found = invalid.iter().filter(|found| found["id"] == "path-not-as-claimed");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    found.map(|found| (text(&found["end"]), text(&found["detail"]))).collect()
}

#[test]
fn a_library_that_was_not_loaded_makes_the_figure_invalid() {
    let folder = Folder::new("preload-missing");
    let missing = folder.0.join("no-such-stack.so").to_str().unwrap().to_owned();
    let measure = |preload: Option<&str>, address: &str| {
        let mut command = support::windhover(&["pingpong", "udp", address, "--seconds", "0.1", "--format", "json"]);
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let output = command.output().unwrap();
        assert_code(&output, 4);
        let document = support::documents(&output).remove(0);
        let found = not_as_claimed(&document);
        assert_eq!(found.len(), 1, "{document}");
        assert!(found[0].1.contains(&missing) && found[0].1.contains("correct the path"), "{}", found[0].1);
        found[0].0.clone()
    };
    let plain = Server::start(&[]);
    assert_eq!(measure(Some(&missing), &plain.address), "initiator");
    // The far end tells of its own environment, typed by whoever started it there.
    let preloaded = Server::start_with(&[], &[("LD_PRELOAD", &missing)]);
    assert_eq!(measure(None, &preloaded.address), "reflector");
}

#[test]
fn a_campaign_with_a_preloaded_stack_reads_results_past_its_chatter() {
    let folder = Folder::new("preload-campaign");
    let Some(library) = shim(&folder, "a_campaign_with_a_preloaded_stack_reads_results_past_its_chatter") else {
        return;
    };
    let plan = folder.file(
        "plan.toml",
        &format!(
            "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
             [measure]\nseconds = 0.1\n[stacks.shim]\nprefix = [\"env\", \"SHIM=1\"]\n[stacks.shim.environment]\nLD_PRELOAD = \"{library}\"\n\
             [[grid]]\nstack = [\"kernel\", \"shim\"]\n"
        ),
    );
    let output = support::run(&["campaign", "run", &plan, "--output", folder.path()]);
    assert_code(&output, 0);
    let run_dir =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let text = support::stdout(&support::run(&["report", run_dir.to_str().unwrap(), "--format", "json"]));
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    for document in all.as_array().unwrap() {
        let preloaded = &document["ends"]["initiator"]["stack_environment"]["LD_PRELOAD"];
        assert_eq!(preloaded.is_string(), document["factors"]["stack"] == "shim", "{document}");
        let loaded = &document["ends"]["reflector"]["preloads"][0]["loaded"];
        assert_eq!(loaded == true, document["factors"]["stack"] == "shim", "{document}");
    }
}

/// A stack whose library is missing, and one whose prefix loses the variable: neither measured what its name says.
#[test]
fn a_campaign_whose_stacks_are_not_loaded_ends_with_4() {
    let folder = Folder::new("preload-campaign-missing");
    let missing = "/nonexistent/stack.so";
    let plan = folder.file(
        "plan.toml",
        &format!(
            "name = \"t\"\nrepetitions = 1\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
             [measure]\nseconds = 0.1\n[stacks.missing.environment]\nLD_PRELOAD = \"{missing}\"\n[stacks.missing.reflector]\n\
             [stacks.lost]\nprefix = [\"env\", \"-u\", \"LD_PRELOAD\"]\n[stacks.lost.environment]\nLD_PRELOAD = \"{missing}\"\n\
             [[grid]]\nstack = [\"kernel\", \"missing\", \"lost\"]\n"
        ),
    );
    let output = support::run(&["campaign", "run", &plan, "--output", folder.path()]);
    assert_code(&output, 4);
    let run_dir =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let text = support::stdout(&support::run(&["report", run_dir.to_str().unwrap(), "--format", "json"]));
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    for document in all.as_array().unwrap() {
        let found = not_as_claimed(document);
        let ends: Vec<&str> = found.iter().map(|(end, _)| end.as_str()).collect();
        let (wanted, word): (&[&str], _) = match document["factors"]["stack"].as_str().unwrap() {
            "missing" => (&["initiator"], "did not load"),
            "lost" => (&["initiator", "reflector"], "did not reach"),
            _ => (&[], ""),
        };
        assert_eq!(ends, wanted, "{document}");
        assert!(found.iter().all(|(_, detail)| detail.contains(missing) && detail.contains(word)), "{found:?}");
    }
}
