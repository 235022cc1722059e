//! `cargo xtask test`: runs every test and names those that could not run.

pub(crate) mod guest;
mod parallel;
mod windows;

use crate::{packages, process};
use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Tools of boot loaders, which tests run on folders.
const BOOT_TOOLS: [&str; 3] = ["grub-common", "grub2-common", "systemd-boot"];
/// What `--interop` starts: others that speak PGM, and what loses packets between them and us.
const INTEROP: [&str; 8] =
    ["iproute2", "gcc", "libc6-dev", "tshark", "libpgm-dev", "libzmq3-dev", "pkg-config", "nftables"];
/// What the tests start beside these and the code under test.
const PACKAGES: [&str; 5] = ["sockperf", "chromium", "tcpdump", "zsh", "fish"];
/// What `--bypass` runs behind the preload library, beside CPython's own tests.
const PROGRAMS: &str = "gcc libc6-dev sockperf iperf3 redis-server redis-tools nginx-light curl apache2-utils netcat-openbsd \
    socat python3 default-jdk-headless nodejs iperf memcached haproxy wrk openssh-server postgresql \
    tcpdump tshark";
/// What a test of that prints for the table begins with this.
const ROW: &str = "INTEROP ";
const BYPASS_ROW: &str = "BYPASS ";

/// No test is silent and no crate compiles for so long: it hangs, and is named before a person gives up.
const SILENCE: Duration = Duration::from_secs(600);

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Instead of the tests on this machine: those of what its kernel may not have, in a guest with a Debian kernel.
    #[arg(long)]
    guest: bool,
    /// Instead of the tests on this machine: all of PGM against OpenPGM, ZeroMQ and tshark, in some minutes, with a table of
    /// what was seen. A short cut of it is among the tests on this machine.
    #[arg(long, conflicts_with = "guest")]
    interop: bool,
    /// Instead of the tests on this machine: programs of others behind `windhover bypass run`, in some minutes, with a table of
    /// what was seen. A few of them are among the tests on this machine.
    #[arg(long, conflicts_with_all = ["guest", "interop"])]
    bypass: bool,
    /// Instead of the tests on this machine: winpoint, built for Windows and run under Wine against windhover, both ways.
    #[arg(long, conflicts_with_all = ["guest", "interop", "bypass"])]
    windows: bool,
    /// With --bypass: how many programs are killed at any moment, to see what they leave; among the normal tests it is ten.
    #[arg(long, value_name = "N", requires = "bypass")]
    kills: Option<u32>,
    /// Passed on to `cargo test` before `--`, such as `-p windhover-net`; with --guest, tests to run, such as `nic` or
    /// `nic::rings`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

impl Arguments {
    pub(crate) fn in_a_guest() -> Self {
        Self { guest: true, ..Self::default() }
    }
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    skipped: Vec<String>,
    partly: Vec<String>,
    retried: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        for skipped in other.skipped {
            once(&mut self.skipped, &skipped);
        }
        for partly in other.partly {
            once(&mut self.partly, &partly);
        }
        self.retried.extend(other.retried);
    }

    /// Notes a test's own `SKIPPED name: …`, `PARTLY name: …` or `RETRIED what: …`. Whether the line is one.
    fn note(&mut self, line: &str) -> bool {
        if let Some(test) = line.strip_prefix("SKIPPED ") {
            once(&mut self.skipped, test);
        } else if let Some(test) = line.strip_prefix("PARTLY ") {
            once(&mut self.partly, test);
        } else if let Some(what) = line.strip_prefix("RETRIED ") {
            self.retried.push(what.to_owned());
        } else {
            return false;
        }
        true
    }
}

/// A test that reports the same more than once is listed once.
fn once(all: &mut Vec<String>, test: &str) {
    if !all.iter().any(|known| known == test) {
        all.push(test.to_owned());
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Counts> {
    let counts = if arguments.guest {
        guest::run(&arguments.cargo)?
    } else if arguments.windows {
        windows::run()?
    } else if arguments.interop {
        packages::ensure(&INTEROP, "for the tests with others that speak PGM")?;
        with_others("interop", ROW, "PGM with others", &arguments.cargo, None)?
    } else if arguments.bypass {
        let why = "for the programs behind the preload library";
        packages::ensure(&PROGRAMS.split(' ').collect::<Vec<_>>(), why)?;
        packages::ensure(&[&python_tests()?], why)?;
        // Alone, the kills are what is wanted.
        let only_kills = ["a_killed_program_leaves_nothing".to_owned()];
        let filters = match arguments.kills {
            Some(_) if arguments.cargo.is_empty() => &only_kills[..],
            _ => &arguments.cargo,
        };
        let kills = arguments.kills.map(|kills| ("WINDHOVER_TEST_KILLS", kills.to_string()));
        with_others("bypass", BYPASS_ROW, "Programs behind the preload library", filters, kills)?
    } else {
        packages::ensure(&[&INTEROP[..], &PACKAGES].concat(), "for the tests")?;
        let tools = packages::unpacked(&BOOT_TOOLS, "boot-tools")?.display().to_string();
        let told = Some(("WINDHOVER_TEST_BOOT_TOOLS", tools));
        if arguments.cargo.is_empty() {
            parallel::run(told)?
        } else {
            cargo_test(&arguments.cargo, &["--show-output".to_owned()], told, &mut |_| ())?
        }
    };
    println!();
    for skipped in &counts.skipped {
        println!("SKIPPED {skipped}");
    }
    for partly in &counts.partly {
        println!("PARTLY {partly}");
    }
    for retried in &counts.retried {
        println!("RETRIED {retried}");
    }
    let skipped = u64::try_from(counts.skipped.len()).unwrap_or(u64::MAX);
    println!(
        "{} passed ({} in part), {} failed, {skipped} skipped, {} retried",
        counts.passed.saturating_sub(skipped),
        counts.partly.len(),
        counts.failed,
        counts.retried.len()
    );
    if counts.failed > 0 || counts.passed == 0 {
        bail!("{} tests failed", counts.failed);
    }
    Ok(counts)
}

/// Reads what Rust's test harness prints, and counts.
#[derive(Default)]
pub(crate) struct Harness {
    pub(crate) counts: Counts,
    pub(crate) finished: bool,
    quiet: bool,
}

impl Harness {
    /// Whether a person wants to see the line.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        self.counts.note(line);
        // What passing tests printed is between these two headings.
        if line == "successes:" {
            self.quiet = true;
        } else if line == "failures:" || line.starts_with("test result:") {
            self.quiet = false;
        }
        if let Some(result) = line.strip_prefix("test result:") {
            self.counts.passed += count(result, "passed");
            self.counts.failed += count(result, "failed");
            self.finished = true;
        }
        !(self.quiet || line.is_empty() || (line.starts_with("test ") && line.ends_with("... ok")))
    }
}

/// The package of CPython's own tests, of the version that the system has: `libpython3.11-testsuite`.
fn python_tests() -> Result<String> {
    let version = process::output("/usr/bin/python3", &["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])?;
    Ok(format!("libpython{}-testsuite", version.trim()))
}

/// Runs all tests of a file with others' programs, one by one, and prints each case. A variable may be passed.
fn with_others(
    file: &str,
    mark: &str,
    title: &str,
    filters: &[String],
    told: Option<(&str, String)>,
) -> Result<Counts> {
    let cargo = ["--package", "windhover", "--test", file].map(str::to_owned);
    // What a test starts as its other end is not a test.
    let harness =
        ["--include-ignored", "--skip=stack::the_other_end", "--nocapture", "--test-threads=1"].map(str::to_owned);
    let mut rows = Vec::new();
    let began = Instant::now();
    let counts = cargo_test(&cargo, &[&harness, filters].concat(), told, &mut |line| {
        // The harness may have begun the line.
        if let Some((_, row)) = line.split_once(mark) {
            rows.push(row.to_owned());
        }
    })?;
    println!("\n{title}, {} cases in {:.0} s:", rows.len(), began.elapsed().as_secs_f64());
    rows.iter().for_each(|row| println!("  {row}"));
    Ok(counts)
}

/// Runs `cargo test` and reads its output. A test that cannot run prints `SKIPPED name: reason` and returns, which the
/// test harness counts as passed; here it is taken out again. One that tries again prints `RETRIED what: reason`.
pub(crate) fn cargo_test(
    extra: &[String],
    to_tests: &[String],
    told: Option<(&str, String)>,
    each: &mut dyn FnMut(&str),
) -> Result<Counts> {
    let mut arguments = vec!["test", "--locked", "--no-fail-fast"];
    arguments.extend(extra.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(to_tests.iter().map(String::as_str));
    let cargo = process::cargo();
    eprintln!("$ {cargo} {}", arguments.join(" "));
    counted(process::command(&cargo, &arguments).envs(told), "cargo test", &mut |line| {
        if line.is_output {
            each(&line.text);
        }
        match (line.is_shown, line.is_output) {
            (true, true) => println!("{}", line.text),
            (true, false) => eprintln!("{}", line.text),
            (false, _) => {}
        }
    })
}

pub(crate) struct Line {
    pub(crate) text: String,
    /// On standard output, not on standard error: a test may write there past the harness.
    pub(crate) is_output: bool,
    pub(crate) is_shown: bool,
}

/// Runs a command that runs tests, counts them, and hands on each line.
pub(crate) fn counted(command: &mut Command, name: &str, each: &mut dyn FnMut(&Line)) -> Result<Counts> {
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot start {name}"))?;
    let (say, heard) = mpsc::channel();
    follow(child.stdout.take().with_context(|| format!("{name} has no output"))?, say.clone(), true);
    follow(child.stderr.take().with_context(|| format!("{name} has no errors"))?, say, false);
    let mut harness = Harness::default();
    let mut last = String::new();
    loop {
        match heard.recv_timeout(SILENCE) {
            Ok((is_output, text)) => {
                let is_shown = if is_output { harness.line(&text) } else { !harness.counts.note(&text) };
                let line = Line { text, is_output, is_shown };
                each(&line);
                if is_output {
                    last = line.text;
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let running = process::end_all_below(child.id());
                bail!(
                    "{name} said nothing for {} s, last: {last}\nwhat ran then, and was ended:\n{}",
                    SILENCE.as_secs(),
                    running.join("\n")
                );
            }
        }
    }
    let status = child.wait().with_context(|| format!("waiting for {name}"))?;
    let counts = harness.counts;
    if !status.success() && counts.failed == 0 {
        bail!("{name} ended with {status}");
    }
    Ok(counts)
}

/// Passes the lines of one of a child's outputs on, with whether it is standard output.
fn follow(from: impl Read + Send + 'static, to: mpsc::Sender<(bool, String)>, is_output: bool) {
    std::thread::spawn(move || {
        // A line that is no text ends nothing: the rest is read on, or the child would wait for its reader.
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if to.send((is_output, String::from_utf8_lossy(&line).into_owned())).is_err() {
                break;
            }
        }
    });
}

fn count(result: &str, word: &str) -> u64 {
    let mut before = "0";
    for token in result.split([' ', ';']) {
        if token == word {
            return before.parse().unwrap_or(0);
        }
        if !token.is_empty() {
            before = token;
        }
    }
    0
}

#[cfg(test)]
mod unit {
    #[test]
    fn what_tests_say_of_themselves_is_counted() {
        let mut harness = super::Harness::default();
        let lines = "successes:\nRETRIED b: noise\nSKIPPED a: no root\nSKIPPED a: no root\nPARTLY c: no tshark\nPARTLY c: no tshark\n\
                     RETRIED b: noise\nsuccesses:";
        lines.lines().for_each(|line| _ = harness.line(line));
        let counts = harness.counts;
        assert_eq!((counts.skipped, counts.partly), (vec!["a: no root".to_owned()], vec!["c: no tshark".to_owned()]));
        assert_eq!(counts.retried.len(), 2);
    }

    #[test]
    fn counts_are_read_from_the_result_line() {
        let line = " ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!((super::count(line, "passed"), super::count(line, "failed")), (12, 3));
    }
}
