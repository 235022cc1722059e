//! All tests, two binaries at a time: most of what they do is waiting. Those that change the whole machine run alone.

use crate::process;
use crate::tests::{self, Counts};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

/// Binaries at a time. Each has a thread for each CPU by itself.
const AT_ONCE: usize = 2;

/// Sources of tests that take CPUs away from others, look at all tasks, or have both ends of a measurement in threads of their own.
const ALONE: [&str; 6] = [
    "crates/windhover/tests/shield/",
    "crates/windhover/tests/prepared.rs",
    "crates/windhover/tests/tune.rs",
    "crates/windhover/tests/undo.rs",
    "crates/probe/",
    "crates/endpoint/",
];

struct Binary {
    executable: PathBuf,
    /// The folder of its package, in which its tests run.
    folder: PathBuf,
    source: String,
}

impl Binary {
    /// Of a line of `cargo test --message-format json`; none where it tells of something else.
    fn read(line: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let source = Path::new(message["target"]["src_path"].as_str()?);
        Some(Self {
            executable: message["executable"].as_str()?.into(),
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
            source: source.strip_prefix(process::root()).unwrap_or(source).display().to_string(),
        })
    }

    /// Runs its tests; what they printed comes in one piece.
    fn run(&self, told: Option<&(&str, String)>) -> Result<Counts> {
        println!("     Running {} ({})", self.source, self.executable.display());
        let mut text = format!("     Of {}:\n", self.source);
        let mut command = process::command(&self.executable.display().to_string(), &["--show-output"]);
        command.current_dir(&self.folder).env("CARGO", process::cargo()).env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(told.map(|(name, value)| (name, value)));
        let counts = tests::counted(&mut command, &self.source, &mut |line| {
            if line.is_shown {
                text.push_str(&line.text);
                text.push('\n');
            }
        });
        print!("{text}");
        counts
    }

    fn runs_alone(&self) -> bool {
        ALONE.iter().any(|start| self.source.starts_with(start))
    }
}

fn build() -> Result<Vec<Binary>> {
    let arguments = ["test", "--workspace", "--locked", "--no-run", "--message-format", "json-render-diagnostics"];
    let cargo = process::cargo();
    eprintln!("$ {cargo} {}", arguments.join(" "));
    let built = process::command(&cargo, &arguments).stderr(Stdio::inherit()).output();
    let built = built.with_context(|| format!("cannot start {cargo}"))?;
    if !built.status.success() {
        bail!("the tests do not build: cargo ended with {}", built.status);
    }
    let binaries: Vec<Binary> = String::from_utf8_lossy(&built.stdout).lines().filter_map(Binary::read).collect();
    if binaries.is_empty() {
        bail!("cargo built no tests");
    }
    Ok(binaries)
}

/// Runs the tests of all binaries, then those of documentation. They may be given a variable.
pub(crate) fn run(told: Option<(&str, String)>) -> Result<Counts> {
    let (alone, mut beside): (Vec<Binary>, Vec<Binary>) = build()?.into_iter().partition(Binary::runs_alone);
    // The longest first, so that none of them is the last alone.
    beside.sort_by_key(|binary| !binary.source.starts_with("crates/windhover/"));
    let done = Mutex::new((Counts::default(), Vec::new()));
    let take = |binary: &Binary| {
        let counts = binary.run(told.as_ref());
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        match counts {
            Ok(counts) => done.0.add(counts),
            // The others go on.
            Err(error) => done.1.push(format!("{error:#}")),
        }
    };
    let queue = Mutex::new(beside.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| std::iter::from_fn(next).for_each(take));
        }
    });
    alone.iter().for_each(take);
    let (mut counts, errors) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let documents = ["--workspace", "--doc"].map(str::to_owned);
    counts.add(tests::cargo_test(&documents, &[], told, &mut |_| ())?);
    for error in &errors {
        println!("FAILED {error}");
    }
    counts.failed += u64::try_from(errors.len()).unwrap_or(u64::MAX);
    Ok(counts)
}

#[cfg(test)]
mod unit {
    #[test]
    fn only_binaries_with_tests_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{{"src_path":"/w/a/tests/b.rs"}},
                   "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let binary = super::Binary::read(&line(true, r#""/w/target/b-1""#)).expect("a binary");
        assert_eq!((binary.folder.to_str(), binary.source.as_str()), (Some("/w/a"), "/w/a/tests/b.rs"));
        assert!(super::Binary::read(&line(true, "null")).is_none(), "a library");
        assert!(super::Binary::read(&line(false, r#""/w/target/windhover""#)).is_none(), "the program");
        assert!(super::Binary::read(r#"{"reason":"build-finished","success":true}"#).is_none());
    }
}
