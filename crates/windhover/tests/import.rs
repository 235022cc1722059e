//! Results of other tools as runs: what is reported of them says where it is from, and nothing that was never measured.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests panic, and say what they skip")]

mod support;

use support::{Folder, assert_code, assert_measured, assert_refused, run, stderr, stdout};

fn fixture(name: &str) -> String {
    format!("{}/../../fuzz/corpus/import_file/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Imports into a folder; the run directory.
#[track_caller]
fn import(arguments: &[&str], folder: &Folder) -> String {
    let output = run(&[&["import"], arguments, &["--output", folder.path()]].concat());
    assert_code(&output, 0);
    stdout(&output).trim_end().to_owned()
}

#[track_caller]
fn reported(run_directory: &str, form: &str) -> String {
    let output = run(&["report", run_directory, "--format", form]);
    assert_code(&output, 0);
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn what_is_imported_is_reported_as_such() {
    let folder = Folder::new("import-latmus");
    let of = import(&["latmus", &fixture("latmus-user.txt"), "--label", "os=EVL"], &folder);
    for form in ["table", "markdown", "csv-cells"] {
        let text = reported(&of, form);
        assert!(text.contains("imported from latmus") || text.contains("imported:latmus"), "{form}: {text}");
    }
    let text = reported(&of, "table");
    for words in ["on hosts of which nothing is known", "Not measured by Windhover itself", "bins are 1 µs wide"] {
        assert!(text.replace("\n  ", " ").contains(words), "'{words}' is not in: {text}");
    }
    // Catches: JSON did not say what the figures were measured on.
    let documents: Vec<serde_json::Value> = serde_json::from_str(&reported(&of, "json")).unwrap();
    assert_eq!((documents.len(), documents[0]["substrate"].as_str()), (1, Some("unknown")));
    let csv = reported(&of, "csv");
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let (heads, row) = (lines.next().unwrap(), csv.lines().nth(1).unwrap().to_owned());
    let fields: Vec<&str> = row.rsplit("latmus.txt").next().unwrap().split(',').collect();
    assert!(!fields.is_empty() && heads.contains(&"factor_source".to_owned()), "{csv}");
    for never in ["cpu", "receive", "stack"] {
        let place = heads.iter().position(|head| head == never).unwrap();
        // The cell's key, which is quoted, comes before these columns.
        let after_key = row.split('"').nth(2).unwrap().split(',').collect::<Vec<_>>();
        let before = heads.iter().position(|head| head == "cell").unwrap();
        assert_eq!(after_key[place - before], "", "{never} of an imported result is not known: {row}");
    }
    let page = folder.0.join("page.html").display().to_string();
    assert_code(&run(&["report", &of, "-o", &page]), 0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("imported from latmus"));
    assert_code(&run(&["show", &of, "--cells"]), 0);
    let list = run(&["plot", &of, "--list"]);
    assert_code(&list, 0);
}

#[test]
fn own_sfnt_output_comes_back() {
    let folder = Folder::new("import-sfnt");
    // By count: a busy machine may bring too few messages for a median in any time.
    let arguments = ["pingpong", "unix-stream", "--count", "2000", "--size", "32,1000", "--warmup", "10"];
    let own = run(&[&arguments[..], &["--format", "sfnt"]].concat());
    assert_measured(&own);
    let file = folder.file("own.txt", &stdout(&own));
    let of = import(&["sfnt", &file, "--substrate", "loopback"], &folder);
    let documents: Vec<serde_json::Value> = serde_json::from_str(&reported(&of, "json")).unwrap();
    let rows: Vec<Vec<String>> = stdout(&own)
        .lines()
        .filter(|line| line.starts_with('\t'))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!((rows.len(), documents.len()), (2, 2));
    for (row, document) in rows.iter().zip(&documents) {
        let latency = &document["latency"];
        let read = |field: &str| latency[field].as_f64().unwrap().to_string();
        assert_eq!(read("mean_ns"), row[1], "{document}");
        assert_eq!([&read("min_ns"), &read("p50_ns"), &read("max_ns")], [&row[2], &row[3], &row[4]]);
        assert_eq!((read("count"), latency["kind"].as_str()), (row[7].clone(), Some("rtt_half")));
        assert_eq!(document["factors"]["protocol"], "unix-stream");
    }
}

#[test]
fn repetitions_are_compared_with_the_source_named() {
    let folder = Folder::new("import-compare");
    let hist = fixture("rtla-hist.txt");
    let a = import(&["rtla", &hist, &hist, &hist, "--name", "a"], &folder);
    let b = import(&["rtla", &hist, &hist, &hist, "--name", "b"], &folder);
    let output = run(&["compare", &a, &b]);
    assert_code(&output, 0);
    assert!(stdout(&output).contains("imported from rtla"), "{}", stdout(&output));
    // Nobody knows what the hosts were: not the same as a run of known ones.
    let metal = import(&["rtla", &hist, "--name", "c", "--substrate", "metal"], &folder);
    assert_refused(&["compare", &a, &metal], 2, &["--mix-substrates", "unknown", "metal"]);
}

#[test]
fn bad_files_leave_nothing_behind() {
    let folder = Folder::new("import-bad");
    let broken = folder.file("broken.txt", "# test started on: today\n# context: a moon\n");
    let out = folder.0.join("runs").display().to_string();
    assert_refused(&["import", "latmus", &broken, "--output", &out], 2, &["broken.txt:2: ", "this context"]);
    assert_refused(&["import", "latmus", "/nonexistent", "--output", &out], 2, &["cannot read /nonexistent"]);
    assert_refused(&["import", "latmus", folder.path(), "--output", &out], 2, &["cannot read"]);
    assert_refused(&["import", "sfnt", &fixture("latmus-user.txt"), "--output", &out], 2, &["latmus-user.txt:1: "]);
    assert!(!std::path::Path::new(&out).exists());
    assert_refused(&["import", "latmus", &fixture("latmus-user.txt"), "--name", "a/b", "--output", &out], 2, &["a/b"]);
}

/// Catches: /dev/zero took 23.8 GB, because only regular files had a limit. A pipe is read.
#[test]
fn what_is_read_has_a_limit() {
    let folder = Folder::new("import-limit");
    let out = folder.0.join("runs").display().to_string();
    assert_refused(&["import", "latmus", "/dev/zero", "--output", &out], 2, &["/dev/zero", "MiB"]);
    let text = std::fs::read(fixture("latmus-user.txt")).unwrap();
    let mut program = support::windhover(&["import", "latmus", "/dev/stdin", "--output", &out]);
    let mut child = program.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &text).unwrap();
    assert_code(&child.wait_with_output().unwrap(), 0);
}

/// Catches: of imports in one second all but the first were refused, because a run's folder has the second in its name.
#[test]
fn imports_in_one_second_do_not_collide() {
    let folder = Folder::new("import-second");
    let runs: std::collections::BTreeSet<String> =
        (0..4).map(|_| import(&["latmus", &fixture("latmus-user.txt")], &folder)).collect();
    assert_eq!(runs.len(), 4);
}

/// Which build an agent has, and which one a run was measured by, was nowhere to be seen before the two differed.
#[test]
fn the_build_of_a_run_is_the_one_that_version_names() {
    let folder = Folder::new("import-build");
    let of = import(&["latmus", &fixture("latmus-user.txt"), "--label", "os=EVL"], &folder);
    let text = std::fs::read_to_string(std::path::Path::new(&of).join("run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&text).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let fingerprint = run["build"].as_str().unwrap().strip_prefix(&format!("{version}-")).unwrap();
    let long = run_version("--version");
    assert_eq!(long, format!("windhover {version} (build {fingerprint})\n"));
    assert_eq!(run_version("-V"), format!("windhover {version}\n"));
}

fn run_version(flag: &str) -> String {
    let output = run(&["--quiet", flag]);
    assert_code(&output, 0);
    stdout(&output)
}
