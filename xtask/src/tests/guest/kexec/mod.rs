//! `cargo xtask test --guest kexec`: a campaign of four kernels on the machine that it boots, with `kill -9`, resets and power cuts at
//! random moments. `systemd`: a smaller one that our unit goes on with, under systemd, over each boot and one kill.
//!
//! One guest is the machine. Its default kernel is that of `windhover lab boot`; the campaign starts all four by kexec. What survives
//! is a disk, of which a reset loses what was not flushed. A kill ends the campaign's process; a reset is the guest's own, a power cut
//! ends QEMU, and both are followed by a boot of the default kernel. The second serial port carries orders in and reports out.

mod machine;
mod seen;

use crate::packages;
use crate::tests::Counts;
use anyhow::{Context as _, Result, ensure};
use machine::Machine;
use random::SplitMix64;
use seen::CampaignState;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A campaign on the machine that it boots.
pub(super) struct Campaign {
    /// What asks for it, and the folder of its files.
    pub(super) name: &'static str,
    kernels: &'static [(&'static str, &'static str)],
    repetitions: usize,
    /// Kills, resets and power cuts together.
    kills: u32,
    /// Whether systemd is what goes on with it; else a script does, which reports.
    by_systemd: bool,
}

/// They take so long that only their names ask for them.
pub(super) const CAMPAIGNS: [Campaign; 2] = [
    Campaign {
        name: "kexec",
        kernels: &[
            ("debian-6.1", ""),
            ("debian-6.1-rt", " threadirqs"),
            ("debian-6.12", " preempt=full"),
            ("debian-6.12-rt", ""),
        ],
        repetitions: 2,
        kills: 25,
        by_systemd: false,
    },
    Campaign {
        name: "systemd",
        kernels: &[("debian-6.12", " preempt=full"), ("debian-6.12-rt", "")],
        repetitions: 2,
        kills: 0,
        by_systemd: true,
    },
];

const PACKAGES: [&str; 2] = ["e2fsprogs", "systemd"];
/// Sizes of each kernel's cells.
const SIZES: [u32; 3] = [32, 64, 128];
/// Most reports and, after them, ms between two kills. A visit of a kernel has about 8 reports, so the moments are anywhere
/// and the campaign gets on, however slow the guest is. Kills are also spread over the cells.
const REPORTS: u64 = 5;
const WITHIN_MS: u64 = 6000;
/// Cells at the end that no kill is kept for.
const ENDING: usize = 4;
/// Longest that the whole may take.
const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// Variable with the seed of an earlier run.
const SEED: &str = "WINDHOVER_TEST_SEED";

pub(super) fn run(campaign: &Campaign) -> Result<Counts> {
    packages::ensure(&[&super::PACKAGES[..], &PACKAGES].concat(), "for the campaign in a guest")?;
    let machine = Machine::make(campaign)?;
    let mut counts = Counts::default();
    match campaign.run(&machine) {
        Ok(told) => {
            println!("test {} ... ok: {told}", campaign.name);
            counts.passed += 1;
        }
        Err(error) => {
            let last = super::tail(&machine.text("log"), 40);
            println!("test {} ... FAILED\n{error:#}\nlast reports:\n{last}", campaign.name);
            counts.failed += 1;
        }
    }
    Ok(counts)
}

fn seed() -> Result<u64> {
    match std::env::var(SEED) {
        Ok(seed) => seed.parse().context(SEED),
        Err(_) => Ok(std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs()),
    }
}

/// How a campaign is disturbed; most are kills, which cost no boot.
const WAYS: [&str; 5] = ["kill", "kill", "kill", "reset", "cut"];

impl Campaign {
    fn plan(&self, kernels: &[String]) -> String {
        format!(
            "name = {:?}\nrepetitions = {}\nseed = 7\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
             [kernels]\nattempts = {}\n[measure]\nseconds = 0.1\nwarmup_ms = 0\n[[grid]]\nsize = {SIZES:?}\nkernel = {kernels:?}\n",
            self.name,
            self.repetitions,
            self.kills + 3
        )
    }

    /// How many kills there may be by now: they are spread over the cells, and all of them come before the last ones.
    fn allowed(&self, seen: &CampaignState) -> u32 {
        let share = self.kills as usize * (seen.done() + ENDING) / seen.steps.max(1);
        u32::try_from(share).map_or(self.kills, |share| share.min(self.kills))
    }

    /// Whether systemd started the unit in each boot, and again after each kill.
    fn check_unit(&self, machine: &Machine, boots: u32) -> Result<()> {
        if !self.by_systemd {
            return Ok(());
        }
        let told: String = (1..=boots).map(|number| machine.text(format!("console-{number}"))).collect();
        let times = |words: &str| told.matches(words).count();
        let (started, again) = (times("Started windhover-resume"), times("service: Scheduled restart job"));
        let visits = self.kernels.len() * self.repetitions;
        ensure!(
            (started, again) == (visits, machine::KILLED),
            "systemd started the unit {started} times in {visits} boots, and {again} times after a kill"
        );
        Ok(())
    }

    /// Runs it to its end and looks at what is left; what was seen, in words.
    fn run(&self, machine: &Machine) -> Result<String> {
        let seed = seed()?;
        println!("seed {seed} (repeat with {SEED}={seed})");
        let (mut random, began) = (SplitMix64::new(seed), Instant::now());
        let mut seen = CampaignState::of(self.kernels.len() * self.repetitions * SIZES.len());
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        // Reports before the next one, when it comes then, and what was ordered that is not seen yet.
        let mut reports = random.below(REPORTS);
        let (mut due, mut ordered): (Option<Instant>, Option<&str>) = (None, None);
        let (mut power, mut boots) = (machine.on(1)?, 1);
        loop {
            ensure!(began.elapsed() < LIMIT, "not done in {} s: {} cells, {counts:?}", LIMIT.as_secs(), seen.done());
            let mut hit = None;
            if let Some(line) = power.report() {
                let is_news = seen.take(&line)?;
                if line == "killed" && ordered.take_if(|ordered| *ordered == "kill").is_some() {
                    hit = Some("kill");
                }
                if line.starts_with("start ") {
                    // An order that came to no running kernel is none.
                    ordered = None;
                }
                let kills = counts.values().sum::<u32>();
                if is_news && ordered.is_none() && due.is_none() && kills < self.allowed(&seen) {
                    match reports.checked_sub(1) {
                        Some(left) => reports = left,
                        None => due = Some(Instant::now() + Duration::from_millis(random.below(WITHIN_MS))),
                    }
                }
            } else if let Some(ended) = power.child.try_wait()? {
                if ended.code() == Some(0) {
                    break;
                }
                let said = machine.text("boots");
                let said = said.lines().next_back().unwrap_or_default();
                ensure!(
                    ended.code() == Some(1) && said.contains("the guest ended"),
                    "windhover lab boot: {ended}: {said}"
                );
                hit = ordered.take().filter(|ordered| *ordered == "reset");
                (power, boots) = (machine.on(boots + 1)?, boots + 1);
            }
            if due.is_some_and(|due| Instant::now() >= due) {
                due = None;
                reports = random.below(REPORTS);
                let way = WAYS[usize::try_from(random.below(WAYS.len() as u64))?];
                if way == "cut" {
                    power.cut()?;
                    hit = Some(way);
                    (power, boots) = (machine.on(boots + 1)?, boots + 1);
                } else {
                    power.order(way);
                    ordered = Some(way);
                }
            }
            if let Some(way) = hit {
                *counts.entry(way).or_default() += 1;
                let number: u32 = counts.values().sum();
                let (at, done) = (began.elapsed().as_secs(), seen.done());
                println!("{at:>5} s  {number:>2}. {way:<6} {done:>2} cells done; last: {}", seen.last);
            }
        }
        drop(power);
        seen.has_all()?;
        seen::check(machine, seen.steps)?;
        self.check_unit(machine, boots)?;
        let number: u32 = counts.values().sum();
        ensure!(number >= self.kills, "the campaign ended after {number} of {} kills: make it longer", self.kills);
        let (cells, seconds) = (seen.steps, began.elapsed().as_secs());
        Ok(format!(
            "{cells} cells of {} kernels in {seconds} s and {boots} cold boots, seed {seed}, {counts:?}",
            self.kernels.len()
        ))
    }
}
