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
    }
}
