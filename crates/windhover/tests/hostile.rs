//! What comes from others and is meant to harm: text that steers a terminal, files that are not what they are called.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;
#[path = "../../report/tests/synthetic/mod.rs"]
mod synthetic;

use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use support::{Folder, assert_code, assert_refused, is_root, run as tried, stderr, stdout, windhover};
use synthetic::{Cell, Message, about, files};

/// Sets a title, clears a screen with C1, turns the direction, ends a line.
const EVIL: &str = "x\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}txt\u{2066}\u{200f}\u{61c}\u{2028}\u{8}\u{7f}y";

/// The characters that must reach nobody.
fn acts(letter: char) -> bool {
    let format = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&letter)
        || ('\u{2028}'..='\u{202e}').contains(&letter)
        || ('\u{2066}'..='\u{2069}').contains(&letter);
    format || (letter.is_control() && !['\n', '\t'].contains(&letter))
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    // Rows of CSV end in CR LF; colours are ours, and change nothing but how letters look.
    let mut text = text.replace("\r\n", "\n");
    for colour in ["0", "1", "31", "33"] {
        text = text.replace(&format!("\u{1b}[{colour}m"), "");
    }
    let found = text.lines().find(|line| line.contains(acts));
    assert!(found.is_none(), "{what}: {:?}", found.unwrap_or_default());
}

fn change(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut document = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    change(&mut document);
    fs::write(file, document.to_string()).unwrap();
}

/// A run of two cells with times of a rule.
fn made(folder: &Folder, name: &str) -> PathBuf {
    let rule = |seq: u64, _: u64| Message { lateness_ns: about(4_000, seq), rtt_ns: Some(about(12_000, seq + 1)) };
    let cells = ["other", "fifo:50"]
        .map(|policy| files(&Cell { policy, rate: 1_000, seconds: 1, events: Vec::new(), rule: &rule }));
    synthetic::run(folder.0.as_path(), name, &cells)
}

/// A run whose texts are all [`EVIL`], and which is damaged, so that there are warnings.
fn evil(folder: &Folder) -> PathBuf {
    let run = made(folder, "evil");
    change(&run.join("run.json"), |document| {
        document["title"] = json!(EVIL);
        document["labels"] = json!({ EVIL: EVIL });
        document["machines"]["boot-1"]["kernel_release"] = json!(EVIL);
        document["hosts"]["a"]["role"] = json!(EVIL);
        document["order"][0]["cell"] = json!(format!("policy={EVIL},rate=1000,size=1000"));
        document["order"][0]["factors"]["policy"] = json!(EVIL);
    });
    change(&run.join("cells/0001.json"), |document| {
        document["cell"] = json!(format!("policy={EVIL},rate=1000,size=1000"));
        document["factors"]["policy"] = json!(EVIL);
        document["factors"][EVIL] = json!(EVIL);
        document["ends"]["initiator"]["host"] = json!(EVIL);
        document["verdict"]["disturbed"] = json!([{ "id": "loss", "detail": EVIL, "end": EVIL }]);
    });
    change(&run.join("cells/0002.json"), |document| document["cell"] = json!(EVIL));
    run
}

/// Catches: text of a run that reaches a terminal or a file as it is: names of cells in warnings, fields of CSV, C1 and
/// direction characters anywhere.
#[test]
fn texts_of_a_run_steer_nothing() {
    let folder = Folder::new("hostile-texts");
    let run = evil(&folder);
    let path = run.to_str().unwrap();
    let file = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let written: Vec<String> = ["a.csv", "a.json", "a.md", "a.html"].map(file).to_vec();
    let mut commands = vec![
        vec!["show", path, "--cells"],
        vec!["compare", path, path],
        vec!["compare", path, path, "--format", "json"],
        vec!["plot", path, "--list", "--all"],
        vec!["plot", path, "--format", "svg", "--all"],
        vec!["report", path],
    ];
    let formats = ["table", "csv", "csv-cells", "json", "markdown"];
    commands.extend(formats.map(|format| vec!["report", path, "--format", format]));
    commands.extend(written.iter().map(|file| vec!["report", path, "--output", file]));
    for command in &commands {
        let output = windhover(&[&["--color", "always"], command.as_slice()].concat()).output().unwrap();
        let name = command.join(" ");
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert_harmless(&name, &stdout(&output));
        assert_harmless(&name, &stderr(&output));
        assert!(
            stderr(&output).contains("warning") && stderr(&output).contains("\\u202e"),
            "{name}: {}",
            stderr(&output)
        );
    }
    let drawn = fs::read_dir(run.join("plots")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = written.iter().map(PathBuf::from).chain(drawn).chain([run.join("report.html")]).collect();
    assert!(pages.len() > 6);
    for page in &pages {
        assert_harmless(&page.display().to_string(), &fs::read_to_string(page).unwrap());
    }
    // What is JSON still has the same text.
    let results: Value = serde_json::from_str(&fs::read_to_string(&written[1]).unwrap()).unwrap();
    assert_eq!(results[0]["factors"]["policy"], EVIL);
}

/// Catches: the first frame of an endpoint, before it has proved anything, as the text of an error.
#[test]
fn an_endpoint_that_is_none_steers_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let endpoint = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let frame = json!({ "type": EVIL }).to_string();
        client.write_all(&u32::try_from(frame.len()).unwrap().to_be_bytes()).unwrap();
        client.write_all(frame.as_bytes()).unwrap();
        // Until the client hangs up.
        let _ = client.read_to_end(&mut Vec::new());
    });
    let arguments = ["--color", "always", "pingpong", "udp", &address, "--count", "10"];
    let output = windhover(&arguments).output().unwrap();
    endpoint.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_harmless("pingpong", &stderr(&output));
    assert!(stderr(&output).contains("\\u001b]0;owned\\u0007"), "{}", stderr(&output));
}

/// Catches: root's report that overwrites any file, by a link that the owner of the run put into it.
#[test]
fn reports_and_plots_stay_in_the_run() {
    let folder = Folder::new("hostile-links");
    let run = made(&folder, "links");
    let path = run.to_str().unwrap();
    let theirs = folder.file("theirs", "theirs");
    fs::create_dir(folder.0.join("other")).unwrap();
    for link in ["report.html", "report.html.part", "report.html.tmp"] {
        std::os::unix::fs::symlink(&theirs, run.join(link)).unwrap();
    }
    std::os::unix::fs::symlink(folder.0.join("other"), run.join("plots")).unwrap();
    assert_code(&tried(&["report", path]), 0);
    assert!(fs::read_to_string(run.join("report.html")).unwrap().contains("<html"));
    assert!(!run.join("report.html").is_symlink());
    assert_refused(&["plot", path], 1, &["plots is a symbolic link"]);
    assert_eq!(fs::read_dir(folder.0.join("other")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
}

/// Catches: a run or a key that is waited for, or read without end, because it is no file.
#[test]
fn what_is_no_file_is_not_read() {
    let folder = Folder::new("hostile-files");
    let pipe = folder.0.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).unwrap();
    for (name, file) in [("piped", pipe.as_path()), ("endless", Path::new("/dev/zero"))] {
        for part in ["run.json", "journal.jsonl"] {
            let run = made(&folder, &format!("{name}-{}", &part[..3]));
            fs::remove_file(run.join(part)).unwrap();
            std::os::unix::fs::symlink(file, run.join(part)).unwrap();
            assert_refused(&["show", run.to_str().unwrap()], 2, &[part, "no regular file"]);
            assert_code(&tried(&["campaign", "list", folder.path()]), 0);
        }
        assert_refused(&["serve", "--key-file", file.to_str().unwrap()], 2, &["no regular file"]);
    }
}

/// Catches: root that uses a key which another user can change.
#[test]
fn a_key_of_another_user_is_refused() {
    if !is_root() {
        eprintln!("SKIPPED a_key_of_another_user_is_refused: only root can give files away");
        return;
    }
    let folder = Folder::new("hostile-key");
    let key = folder.secret("key", &stdout(&tried(&["key"])));
    std::os::unix::fs::chown(&key, Some(65_534), None).unwrap();
    assert_refused(&["serve", "--key-file", &key], 2, &["belongs to user 65534", "chown root"]);
}
