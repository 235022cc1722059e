//! Kernels as an axis, on hosts that only say that they boot: what is entered when, what is written before and after, and what
//! becomes of kernels that do not come up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{Fake, options, plan};
use model::{JournalLine, KernelChoice};
use std::collections::{BTreeMap, BTreeSet};
use store::Run;
use windhover_campaign::{CampaignError, HostError, Outcome, Progress, Silent, Summary, resume_on, run_on};

/// Three kernels of two cells, three visits each.
const PLAN: &str = "name = \"t\"\nrepetitions = 3\nseed = 3\n[hosts.a]\nagent_command = [\"x\"]\n[hosts.b]\n\
    agent_command = [\"x\"]\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[kernels]\nattempts = 2\n[[grid]]\n\
    kernel = [\"kexec:/boot/one\", \"kexec:/boot/two threadirqs\", \"current\"]\nsize = [1, 2]\n";

fn lost() -> HostError {
    HostError::Lost { host: "b".to_owned(), why: "its pipe closed".to_owned() }
}

fn run(fake: &mut Fake, text: &str) -> (tempfile::TempDir, Result<Summary, CampaignError>) {
    let folder = tempfile::tempdir().unwrap();
    let ended = run_on(&plan(text), fake, &options(folder.path(), text), &mut Silent);
    (folder, ended)
}

fn entered(fake: &Fake) -> Vec<&str> {
    fake.log.iter().filter_map(|line| line.strip_prefix("enter ")).collect()
}

#[test]
fn each_visit_is_a_boot_and_each_result_says_which() {
    let mut fake = Fake::new();
    let (_folder, ended) = run(&mut fake, PLAN);
    let summary = ended.unwrap();
    assert_eq!((summary.outcome, summary.done, summary.exit_code()), (Outcome::Done, 18, 0));
    let entered = entered(&fake);
    let visits: Vec<&str> = entered.iter().take(9).copied().collect();
    for kernel in ["kexec:/boot/one on a b", "kexec:/boot/two threadirqs on a b", "current on a b"] {
        assert_eq!(visits.iter().filter(|line| **line == kernel).count(), 3, "{visits:?}");
    }
    let ends_home = visits.last() == Some(&"current on a b");
    assert_eq!(entered.len(), if ends_home { 9 } else { 10 }, "hosts end in their default kernel: {entered:?}");
    assert_eq!(entered.last(), Some(&"current on a b"));
    let run = Run::load(&summary.path).unwrap();
    let mut boots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (step, result) in &run.results {
        let boot = result.boot.as_ref().unwrap();
        assert_eq!(boot.visit, step.repetition);
        assert_eq!(boot.ids["a"], boot.ids["b"]);
        assert!(run.run.machines.contains_key(&boot.ids["a"]), "run.json has each boot's machine");
        let kernel = result.factors["kernel"].as_str().unwrap().to_owned();
        let machine = &run.run.machines[&boot.ids["a"]];
        let what = kernel.parse::<KernelChoice>().unwrap().what;
        assert!(what.is_empty() || machine.kernel_release.as_ref() == Some(&what), "{kernel}: {machine:?}");
        boots.entry(kernel).or_default().insert(boot.ids["a"].clone());
    }
    assert!(boots.len() == 3 && boots.values().all(|own| own.len() == 3), "{boots:?}");
    // Nothing is entered without an intent on disk before it, and each is followed by what came of it.
    let lines: Vec<&JournalLine> = run
        .journal
        .iter()
        .filter(|line| matches!(line, JournalLine::Intent { .. } | JournalLine::Booted { .. }))
        .collect();
    assert_eq!(lines.len(), 18);
    for pair in lines.chunks(2) {
        let [
            JournalLine::Intent { visit, attempt, before, images, .. },
            JournalLine::Booted { visit: there, boots, .. },
        ] = pair
        else {
            panic!("{pair:?}")
        };
        assert_eq!((visit, *attempt), (there, 1));
        assert!(before["a"] != boots["a"] && images.contains_key("b"), "{pair:?}");
    }
}

#[test]
fn only_the_hosts_of_the_plan_change_their_kernel() {
    let mut fake = Fake::new();
    fake.hosts.insert("b".to_owned(), ("boot-b".to_owned(), "6.1".to_owned()));
    let text = PLAN.replace("attempts = 2", "hosts = [\"b\"]");
    let (_folder, ended) = run(&mut fake, &text);
    let run = Run::load(&ended.unwrap().path).unwrap();
    assert!(entered(&fake).iter().all(|line| line.ends_with(" on b")), "{:?}", fake.log);
    assert!(run.results.iter().all(|(_, result)| result.boot.as_ref().unwrap().ids["a"] == "boot-1"));
}

#[test]
fn a_plan_of_settings_boots_nothing() {
    let text = PLAN.replace("kexec:/boot/one", "preempt:none").replace("kexec:/boot/two threadirqs", "preempt:full");
    let mut fake = Fake::new();
    let (_folder, ended) = run(&mut fake, &text);
    let run = Run::load(&ended.unwrap().path).unwrap();
    assert_eq!(run.results.len(), 18);
    assert!(entered(&fake).is_empty(), "{:?}", fake.log);
    let prepared =
        fake.log.iter().filter(|line| line.starts_with("prepare@") && line.contains("sched.preempt=")).count();
    assert_eq!(prepared, 6, "each model three times: {:?}", fake.log);
    assert!(run.results.iter().all(|(step, result)| result.boot.as_ref().unwrap().visit == step.repetition));
}

#[test]
fn another_kernel_than_wanted_is_an_attempt() {
    let mut fake = Fake::new();
    let mut twos = 0;
    fake.boots = Box::new(move |kernel, _| {
        twos += u32::from(kernel.what == "/boot/two");
        // The first boot of it falls back to the default kernel, once.
        Ok(if kernel.what == "/boot/two" && twos == 1 { "6.1".to_owned() } else { kernel.what.clone() })
    });
    let (_folder, ended) = run(&mut fake, PLAN);
    let summary = ended.unwrap();
    assert_eq!((summary.done, summary.failed), (18, 0));
    let run = Run::load(&summary.path).unwrap();
    let attempts: Vec<u32> = run
        .journal
        .iter()
        .filter_map(|line| if let JournalLine::Intent { attempt, .. } = line { Some(*attempt) } else { None })
        .collect();
    assert_eq!(attempts.iter().filter(|attempt| **attempt == 2).count(), 1, "{attempts:?}");
}

#[test]
fn a_kernel_that_does_not_come_up_is_marked_and_the_run_goes_on() {
    type Cause = fn() -> Result<String, HostError>;
    let causes: [(Cause, &str); 3] = [
        (|| Ok("6.1".to_owned()), "the kernel that runs is '6.1', wanted is '/boot/two'"),
        (
            || {
                Err(HostError::TimedOut {
                    host: "b".to_owned(),
                    what: "its boot",
                    limit: std::time::Duration::from_secs(9),
                })
            },
            "its boot took longer than 9 s",
        ),
        (|| Err(lost()), "its pipe closed"),
    ];
    for (cause, says) in causes {
        let mut fake = Fake::new();
        fake.boots =
            Box::new(move |kernel, _| if kernel.what == "/boot/two" { cause() } else { Ok(kernel.what.clone()) });
        let mut told = Vec::new();
        let folder = tempfile::tempdir().unwrap();
        let mut watch = |progress: &Progress<'_>| {
            if let Progress::CellFailed { why, .. } = progress {
                told.push((*why).to_owned());
            }
        };
        let summary = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut watch).unwrap();
        assert_eq!((summary.outcome, summary.done, summary.failed, summary.exit_code()), (Outcome::Done, 12, 6, 1));
        assert_eq!(entered(&fake).iter().filter(|line| line.contains("/boot/two")).count(), 6, "two attempts a visit");
        let run = Run::load(&summary.path).unwrap();
        let marked = run.journal.iter().filter(|line| matches!(line, JournalLine::Failed { could_not_boot: true, .. }));
        assert_eq!(marked.count(), 6);
        assert!(
            told.len() == 6 && told.iter().all(|why| why.starts_with("could not boot: ") && why.contains(says)),
            "{told:?}"
        );
        // A person who resumes the run has it tried again.
        fake.boots = Box::new(|kernel, _| Ok(kernel.what.clone()));
        let again = resume_on(&summary.path, &mut fake, &options(folder.path(), ""), &mut Silent).unwrap();
        assert_eq!((again.done, again.failed), (18, 0));
    }
}

#[test]
fn a_kernel_that_is_not_there_is_told_before_anything_is_done() {
    let mut fake = Fake::new();
    let text = PLAN.replace("/boot/two", "/boot/missing");
    let (folder, ended) = run(&mut fake, &text);
    let error = ended.unwrap_err();
    let words = error.to_string();
    assert_eq!(error.exit_code(), 2);
    assert!(words.starts_with("kernel 'kexec:/boot/missing threadirqs'") && words.contains("install it"), "{words}");
    assert!(fake.log.is_empty() && std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn a_kernel_that_crashes_in_a_cell_is_booted_again_a_bounded_number_of_times() {
    let mut fake = Fake::new();
    let mut crashes = 0;
    fake.script = Box::new(move |task, _| {
        crashes += u32::from(task.factors["kernel"] == "kexec:/boot/one");
        (task.factors["kernel"] == "kexec:/boot/one" && crashes == 1).then(lost)
    });
    let (_folder, ended) = run(&mut fake, PLAN);
    let summary = ended.unwrap();
    assert_eq!((summary.outcome, summary.done, summary.failed), (Outcome::Done, 17, 1));
    assert_eq!(entered(&fake).iter().filter(|line| line.contains("/boot/one")).count(), 4);
    // One that crashes each time uses up its attempts: the rest of its cells are marked.
    let mut fake = Fake::new();
    fake.script = Box::new(|task, _| (task.factors["kernel"] == "kexec:/boot/one").then(lost));
    let text = PLAN.replace("size = [1, 2]", "size = [1, 2, 3, 4]");
    let (_folder, ended) = run(&mut fake, &text);
    let summary = ended.unwrap();
    assert_eq!((summary.outcome, summary.done, summary.failed), (Outcome::Done, 24, 12));
    assert_eq!(entered(&fake).iter().filter(|line| line.contains("/boot/one")).count(), 6);
}

/// The runner is on the machine that it boots: each boot ends it, and a unit resumes the run.
#[test]
fn a_run_goes_on_over_boots_of_its_own_machine() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.own_machine = true;
    let mut twos = 0;
    fake.boots = Box::new(move |kernel, _| {
        twos += u32::from(kernel.what == "/boot/two");
        // It comes up in its first visit only, and there at the second attempt.
        Ok(if kernel.what == "/boot/two" && twos != 2 { "6.1".to_owned() } else { kernel.what.clone() })
    });
    let mut calls = 0;
    fake.script = Box::new(move |_, _| {
        calls += 1;
        (calls == 3).then(|| HostError::Failed { host: "a".to_owned(), why: "a cell that fails".to_owned() })
    });
    let mut summary = run_on(&plan(PLAN), &mut fake, &options(folder.path(), PLAN), &mut Silent).unwrap();
    let mut parts = 1;
    while summary.outcome == Outcome::Rebooting {
        assert_eq!(summary.exit_code(), 0);
        assert!(parts < 30, "the run ends");
        assert_eq!(Run::load(&summary.path).unwrap().run.outcome, None, "it is not over");
        summary = resume_on(&summary.path, &mut fake, &options(folder.path(), ""), &mut Silent).unwrap();
        parts += 1;
    }
    // 1 of 18 cells fails by itself, and 4 of 6 of kernel two could not boot.
    assert_eq!((summary.outcome, summary.done, summary.failed, summary.exit_code()), (Outcome::Done, 13, 5, 1));
    let run = Run::load(&summary.path).unwrap();
    let mut started: BTreeMap<u32, u32> = BTreeMap::new();
    let mut marked = 0;
    for line in &run.journal {
        match line {
            JournalLine::Start { index, .. } => *started.entry(*index).or_default() += 1,
            JournalLine::Failed { could_not_boot: true, .. } => marked += 1,
            _ => {}
        }
    }
    assert!(started.len() == 14 && started.values().all(|times| *times == 1), "{started:?}");
    assert_eq!(marked, 4);
    for (_, result) in &run.results {
        let kernel: KernelChoice = result.factors["kernel"].as_str().unwrap().parse().unwrap();
        let release = run.run.machines[&result.boot.as_ref().unwrap().ids["a"]].kernel_release.clone().unwrap();
        assert!(kernel.what.is_empty() || kernel.what == release, "{kernel} was measured on {release}");
    }
}

/// The kernel that comes up after a reset is the default one: what was measured stays, and the kernel is entered again.
#[test]
fn a_reset_between_two_parts_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let stop = options(folder.path(), PLAN);
    let raised = stop.stop.clone();
    let mut calls = 0;
    fake.script = Box::new(move |_, _| {
        calls += 1;
        // Killed within the second cell of a visit.
        assert_ne!(calls, 2, "kill -9");
        None
    });
    drop(raised);
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = run_on(&plan(PLAN), &mut fake, &stop, &mut Silent);
    }));
    assert!(killed.is_err());
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    fake.running.clear();
    // Killed alone, it goes on in the boot that it began.
    let before = fake.boot;
    fake.script = Box::new(|_, probes| (probes == 4).then_some(HostError::Interrupted));
    let part = resume_on(&path, &mut fake, &options(folder.path(), ""), &mut Silent).unwrap();
    assert_eq!((part.outcome, part.done), (Outcome::Interrupted, 2));
    assert_eq!(fake.boot, before + 1, "the first visit went on in its boot");
    // Reset within a visit: the default kernel runs, and the visit's kernel is entered again.
    for host in ["a", "b"] {
        fake.hosts.insert(host.to_owned(), ("boot-reset".to_owned(), "6.1".to_owned()));
    }
    fake.script = Box::new(|_, _| None);
    let ended = resume_on(&path, &mut fake, &options(folder.path(), ""), &mut Silent).unwrap();
    assert_eq!((ended.outcome, ended.done), (Outcome::Done, 18));
    let run = Run::load(&path).unwrap();
    assert!(run.results.iter().all(|(_, result)| result.boot.as_ref().unwrap().ids["a"] != "boot-reset"));
}

/// Catches: a visit whose controller was killed during three boots of its guest "could not boot", although the kernel is fine. A guest
/// goes with its controller, so nothing can be said of such an attempt.
#[test]
fn boots_that_ended_with_their_controller_are_no_attempts() {
    let text = PLAN.replace("[hosts.a]\nagent_command = [\"x\"]\n[hosts.b]\nagent_command = [\"x\"]\n", "");
    let text = text.replace("[roles]", "[lab]\nkind = \"guest\"\n[roles]").replace(", \"current\"", "");
    let text = text.replace("kexec:/boot/one", "guest:one").replace("kexec:/boot/two", "guest:two");
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let mut boots = 0;
    fake.boots = Box::new(move |kernel, _| {
        boots += 1;
        // Beyond the attempts of a visit.
        assert!(!(2..=6).contains(&boots), "kill -9");
        Ok(kernel.what.clone())
    });
    let first = options(folder.path(), &text);
    let mut ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run_on(&plan(&text), &mut fake, &first, &mut Silent).unwrap()
    }));
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let mut kills = 0;
    while ended.is_err() {
        kills += 1;
        for host in ["a", "b"] {
            fake.hosts.insert(host.to_owned(), (format!("nobody-{kills}"), "none".to_owned()));
        }
        let next = options(folder.path(), "");
        ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            resume_on(&path, &mut fake, &next, &mut Silent).unwrap()
        }));
    }
    let summary = ended.unwrap();
    assert_eq!((kills, summary.outcome, summary.done, summary.failed), (5, Outcome::Done, 12, 0));
    // The machine died by itself: that is one.
    let mut fake = Fake::new();
    fake.boots = Box::new(|_, _| Err(lost()));
    let (_folder, ended) = run(&mut fake, &text);
    assert_eq!(ended.unwrap().failed, 12);
}
