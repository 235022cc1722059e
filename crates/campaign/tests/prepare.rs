//! Shields and knobs of a campaign, on hosts that change nothing: what is asked of which agent when, what is written down,
//! what a refusal and a value that cannot be put back lead to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{Fake, options, plan};
use model::JournalLine;
use store::Run;
use windhover_campaign::{HostError, Outcome, Progress, Silent, resume_on, run_on};

const HEAD: &str = "name = \"t\"\nrepetitions = 2\nseed = 3\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\n\
                    reflectors = [\"b\"]\n[measure]\nseconds = 0.01\ncpu = \"1\"\n";

fn text(rest: &str) -> String {
    format!("{HEAD}{rest}")
}

/// Hosts of machines with four CPUs.
fn four_cpus() -> Fake {
    let mut fake = Fake::new();
    fake.cpus = fake.hosts.keys().map(|host| (host.clone(), "0-3".to_owned())).collect();
    fake
}

fn asked<'a>(fake: &'a Fake, words: &[&str]) -> Vec<&'a str> {
    fake.log.iter().map(String::as_str).filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
}

#[test]
fn a_shield_is_put_up_once_a_plot_by_the_machines_agent() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"off\", \"v1\"]\nload = [\"none\", \"cpu\"]\nsize = [1, 2]\n");
    let mut fake = four_cpus();
    let mut told = Vec::new();
    let mut watch = |progress: &Progress<'_>| match progress {
        Progress::Prepared { prepared } => told.push(format!("up {}", prepared.shield.as_ref().unwrap().backend)),
        Progress::Restored { agent } => told.push(format!("down {agent}")),
        _ => {}
    };
    let summary = run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut watch).unwrap();
    assert_eq!((summary.done, summary.exit_code()), (16, 0));
    let up_and_down = ["prepare@machine v1 1", "restore@machine"];
    assert_eq!(asked(&fake, &["prepare", "restore"]), [up_and_down, up_and_down].concat(), "twice, not for 8 cells");
    assert_eq!(told, ["up v1", "down machine", "up v1", "down machine"]);
    // With the shield the load runs beside it, without it on all CPUs.
    let (mut beside, mut everywhere) = (0, 0);
    let mut shielded = false;
    for line in &fake.log {
        match line.as_str() {
            "prepare@machine v1 1" => shielded = true,
            "restore@machine" => shielded = false,
            "start cpu@a on 0,2-3" => {
                assert!(shielded);
                beside += 1;
            }
            "start cpu@a on 0-3" => {
                assert!(!shielded);
                everywhere += 1;
            }
            other => assert!(!other.starts_with("start cpu"), "{other}"),
        }
    }
    assert_eq!((beside, everywhere), (4, 4));
    let run = Run::load(&summary.path).unwrap();
    for (step, result) in &run.results {
        let shield = result.prepared.iter().find_map(|prepared| prepared.shield.as_ref());
        assert_eq!(shield.is_some(), step.factors["shield"] == "v1");
        assert_eq!(shield.is_some(), result.prepared.iter().any(|prepared| prepared.host == "machine"));
    }
    let (mut ups, mut downs) = (0, 0);
    for line in &run.journal {
        match line {
            JournalLine::Prepared { prepared, .. } => {
                assert_eq!((prepared.host.as_str(), prepared.changed), ("machine", 3));
                ups += 1;
            }
            JournalLine::Restored { problems, .. } => {
                assert!(problems.is_empty());
                downs += 1;
            }
            _ => {}
        }
    }
    assert_eq!((ups, downs), (2, 2));
}

#[test]
fn another_cpu_is_another_shield() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"auto\"]\ncpu = [\"1\", \"2;3\"]\nsize = [1, 2, 3]\n");
    let mut fake = four_cpus();
    run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut Silent).unwrap();
    let all = asked(&fake, &["prepare", "restore"]);
    assert_eq!(all.len(), 5, "a plot of each placement in both repetitions, one end: {all:?}");
    assert!(all.contains(&"prepare@machine auto 1") && all.contains(&"prepare@machine auto 2-3"), "{all:?}");
}

#[test]
fn each_machine_shields_its_own_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"v2\"]\ncpu = [\"1;2\"]\nload = [\"cpu\"]\n");
    let mut fake = four_cpus();
    fake.machine_agent = false;
    fake.hosts.insert("b".to_owned(), ("boot-2".to_owned(), "6.1".to_owned()));
    run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut Silent).unwrap();
    let all = asked(&fake, &["prepare", "restore", "start cpu"]);
    let cell = ["start cpu@a on 0,2-3", "start cpu@b on 0-1,3"];
    let expected =
        [&["prepare@a v2 1", "prepare@b v2 2"][..], &cell[..], &cell[..], &["restore@a", "restore@b"][..]].concat();
    assert_eq!(all, expected);
}

#[test]
fn settings_go_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let knob = "nic.coalesce.rx-usecs=0;sysctl.net.ipv4.tcp_autocorking=0;sysctl.net.core.busy_poll=0";
    let text = text(&format!("[[grid]]\nprobe = [\"ping\"]\nknob = [\"{knob}\"]\n"));
    let text =
        text.replace("reflectors = [\"b\"]", "reflectors = [\"a\"]").replace("repetitions = 2", "repetitions = 1");
    let mut fake = four_cpus();
    run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut Silent).unwrap();
    let host = "prepare@a nic.coalesce.rx-usecs=0 sysctl.net.ipv4.tcp_autocorking=0";
    let once = ["prepare@machine sysctl.net.core.busy_poll=0", host, "restore@a", "restore@machine"];
    assert_eq!(asked(&fake, &["prepare", "restore"]), once, "what lies on top goes first");

    // Where one agent speaks for both it is asked once, for everything.
    let mut fake = four_cpus();
    fake.machine_agent = false;
    let other = text.replace("\"t\"", "\"u\"");
    run_on(&plan(&other), &mut fake, &options(folder.path(), &other), &mut Silent).unwrap();
    assert_eq!(asked(&fake, &["prepare"]).len(), 1, "{:?}", fake.log);

    // Host b has no device that nic. could mean.
    let text = text.replace("reflectors = [\"a\"]", "reflectors = [\"b\"]").replace("\"t\"", "\"v\"");
    let mut fake = four_cpus();
    let mut why = String::new();
    let mut watch = |progress: &Progress<'_>| {
        if let Progress::CellFailed { why: told, .. } = progress {
            why = (*told).to_owned();
        }
    };
    let summary = run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut watch).unwrap();
    assert_eq!((summary.failed, summary.exit_code()), (1, 1));
    assert!(why.contains("hosts.b.device"), "{why}");
}

#[test]
fn a_refused_shield_fails_its_cells_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"off\", \"v2\"]\nsize = [1, 2, 3, 4]\n");
    let mut fake = four_cpus();
    fake.refuses = Box::new(|agent, _| {
        Some(HostError::Failed { host: agent.to_owned(), why: "there is no cgroup v2".to_owned() })
    });
    let options = options(folder.path(), &text);
    let summary = run_on(&plan(&text), &mut fake, &options, &mut Silent).unwrap();
    assert_eq!((summary.outcome, summary.done, summary.failed, summary.exit_code()), (Outcome::Done, 8, 8, 1));
    assert_eq!(fake.probes, 8);
    assert!(asked(&fake, &["restore"]).is_empty(), "an agent that failed has put everything back");
    // A system that can do it measures the rest.
    let mut fake = four_cpus();
    let summary = resume_on(&summary.path, &mut fake, &options, &mut Silent).unwrap();
    assert_eq!((summary.done, summary.failed, fake.probes), (16, 0, 8));
    assert_eq!(asked(&fake, &["prepare", "restore"]), ["prepare@machine v2 1", "restore@machine"]);
}

#[test]
fn what_cannot_be_put_back_is_told_counted_and_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"off\", \"v1\"]\n");
    let mut fake = four_cpus();
    fake.cannot_restore = vec!["/proc/sys/x: 3 now, by another".to_owned()];
    let mut warnings = Vec::new();
    let mut watch = |progress: &Progress<'_>| {
        if let Progress::Warning(text) = progress {
            warnings.push((*text).to_owned());
        }
    };
    let summary = run_on(&plan(&text), &mut fake, &options(folder.path(), &text), &mut watch).unwrap();
    assert_eq!((summary.done, summary.failed, summary.not_restored, summary.exit_code()), (4, 0, 1, 1));
    assert!(warnings.len() == 1 && warnings[0].contains("by another"), "{warnings:?}");
    let run = Run::load(&summary.path).unwrap();
    let written =
        run.journal.iter().filter(|line| matches!(line, JournalLine::Restored { problems, .. } if problems.len() == 1));
    assert_eq!(written.count(), 1);
    // Every later cell says with what it was measured.
    let first_down = run.journal.iter().position(|line| matches!(line, JournalLine::Restored { .. })).unwrap();
    let later = run.journal[first_down..].iter().filter_map(|line| match line {
        JournalLine::Done { index, .. } => Some(*index),
        _ => None,
    });
    for index in later {
        let (_, result) = run.results.iter().find(|(step, _)| step.index == index).unwrap();
        assert!(result.prepared.iter().any(|prepared| prepared.notes.iter().any(|note| note.contains("by another"))));
    }
}

#[test]
fn a_run_of_before_the_axes_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nsize = [1, 2]\n");
    let options = options(folder.path(), &text);
    let mut fake = four_cpus();
    fake.script = Box::new(|_, probe| {
        (probe == 2).then(|| HostError::Failed { host: "a".to_owned(), why: "no route".to_owned() })
    });
    let summary = run_on(&plan(&text), &mut fake, &options, &mut Silent).unwrap();
    let document = std::fs::read_to_string(summary.path.join("run.json")).unwrap();
    assert!(!document.contains("shield") && !document.contains("knob"), "keys are what they were before");
    let mut fake = four_cpus();
    assert_eq!(resume_on(&summary.path, &mut fake, &options, &mut Silent).unwrap().done, 4);
    assert!(asked(&fake, &["prepare", "restore"]).is_empty());
}

/// Catches: cells that another left without their shield, stored and trusted.
#[test]
fn a_cell_whose_shield_another_took_down_fails_and_the_next_has_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"v1\"]\nsize = [1, 2, 3]\n");
    let options = options(folder.path(), &text);
    let mut fake = four_cpus();
    fake.shield_gone_after = Some(2);
    let summary = run_on(&plan(&text), &mut fake, &options, &mut Silent).unwrap();
    assert_eq!((summary.done, summary.failed, fake.probes), (5, 1, 6));
    let asked = asked(&fake, &["prepare", "restore"]);
    assert_eq!(asked, ["prepare@machine v1 1", "prepare@machine v1 1", "restore@machine"]);
    let run = Run::load(&summary.path).unwrap();
    let why = run.journal.iter().find_map(|line| match line {
        JournalLine::Failed { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert!(why.unwrap().contains("another has taken the shield down"));
    // It is measured when the run is resumed.
    let mut fake = four_cpus();
    let summary = resume_on(&summary.path, &mut fake, &options, &mut Silent).unwrap();
    assert_eq!((summary.done, summary.failed, fake.probes), (6, 0, 1));
}

#[test]
fn an_interrupted_run_puts_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let text = text("[[grid]]\nshield = [\"v1\"]\nsize = [1, 2, 3]\n");
    let options = options(folder.path(), &text);
    let mut fake = four_cpus();
    let stop = options.stop.clone();
    fake.script = Box::new(move |_, probe| {
        if probe == 2 {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        None
    });
    let summary = run_on(&plan(&text), &mut fake, &options, &mut Silent).unwrap();
    assert_eq!(summary.outcome, Outcome::Interrupted);
    assert_eq!(asked(&fake, &["prepare", "restore"]), ["prepare@machine v1 1", "restore@machine"]);
    let run = Run::load(&summary.path).unwrap();
    assert!(matches!(run.journal.last(), Some(JournalLine::End { .. })));
}
