//! What a command line asks of a task's scheduling.

use crate::cli::launch::Run;
use crate::output::Failure;
use anyhow::{Context as _, anyhow};
use model::{CpuList, Policy};
use std::time::Duration;
use task::{Attributes, Class};

/// The scheduling asked for; what is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) class: Option<Class>,
    pub(crate) nice: Option<i32>,
    /// Slice of the ordinary classes.
    pub(crate) slice: Option<Duration>,
    pub(crate) cpus: Option<CpuList>,
}

impl Wanted {
    pub(crate) fn of(arguments: &Run) -> Result<Self, Failure> {
        let (nice, slice) = quantum(arguments.quantum.as_deref())?;
        let class = class(arguments)?;
        if class.is_some_and(|class| Attributes::new(class).is_real_time()) && slice.is_some() {
            refuse!(
                "--quantum: the slice of rr is one for the whole machine; set it with `windhover tune` \
                 (sysctl.kernel.sched_rr_timeslice_ms), and fifo and deadline have none"
            );
        }
        let machine = host::knob::Machine::running();
        let cpus = arguments.cpus.as_deref().map(|list| prepare::shield::cpus(list, &machine)).transpose();
        let cpus = cpus.map_err(Failure::usage)?;
        if let Some(cpus) = &cpus {
            task::require_online(cpus).map_err(Failure::usage)?;
        }
        Ok(Self { class, nice, slice, cpus })
    }

    pub(crate) fn changes_scheduling(&self) -> bool {
        self.class.is_some() || self.nice.is_some() || self.slice.is_some()
    }

    /// The attributes that a task with these ones gets.
    pub(crate) fn over(&self, now: Option<Attributes>, reset_on_fork: bool) -> Attributes {
        let mut next = match (self.class, now) {
            (None, Some(now)) => now,
            (Some(class), Some(now)) => Attributes { class, ..now },
            (class, None) => Attributes::new(class.unwrap_or(Class::Plain(Policy::Other))),
        };
        // The slice that the kernel returns is also its own choice: only one that was asked for is set again.
        next.slice = self.slice;
        next.nice = self.nice.unwrap_or(next.nice);
        next.reset_on_fork = reset_on_fork && next.is_real_time();
        next
    }
}

fn class(arguments: &Run) -> Result<Option<Class>, Failure> {
    let word = arguments.policy.as_deref().map(str::to_ascii_lowercase);
    let deadline = matches!(word.as_deref(), Some("deadline" | "sched_deadline"));
    match (&arguments.deadline, deadline) {
        (Some(times), true) => return deadline_of(times).map(Some),
        (Some(times), false) if word.is_none() => return deadline_of(times).map(Some),
        (Some(_), false) => {
            refuse!("--deadline goes with --policy deadline, not with another policy");
        }
        (None, true) => {
            refuse!("policy deadline needs its times: --deadline RUNTIME:DEADLINE:PERIOD in microseconds");
        }
        (None, false) => {}
    }
    let policy = match (word, arguments.priority) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            refuse!("--priority goes with --policy fifo or rr");
        }
        (Some(word), None) => word.parse::<Policy>().map_err(Failure::usage)?,
        (Some(word), Some(priority)) => {
            let plain: Policy = word.parse().map_err(Failure::usage)?;
            match (plain, priority) {
                (_, priority) if plain.is_real_time() => {
                    let name = word.split(':').next().unwrap_or_default();
                    format!("{name}:{priority}").parse().map_err(Failure::usage)?
                }
                (_, 0) => plain,
                _ => {
                    refuse!("policy {plain} has no priority but 0: use --quantum for its nice value");
                }
            }
        }
    };
    if matches!(policy, Policy::Fifo(99) | Policy::Rr(99)) && !arguments.force {
        refuse!("priority 99 competes with the kernel's own threads (migration, watchdog): use 98 or less, or --force");
    }
    Ok(Some(Class::Plain(policy)))
}

fn deadline_of(times: &str) -> Result<Class, Failure> {
    let parsed: Option<Vec<u64>> = times.split(':').map(|time| time.parse().ok()).collect();
    match parsed.as_deref() {
        Some(&[runtime, deadline, period]) if 0 < runtime && runtime <= deadline && deadline <= period => {
            let us = Duration::from_micros;
            Ok(Class::Deadline { runtime: us(runtime), deadline: us(deadline), period: us(period) })
        }
        _ => Err(Failure::usage(anyhow!(
            "--deadline '{times}': write RUNTIME:DEADLINE:PERIOD in whole microseconds, each no longer than the next"
        ))),
    }
}

/// A nice value, or a time such as `3ms` or `0.5ms`.
fn quantum(text: Option<&str>) -> Result<(Option<i32>, Option<Duration>), Failure> {
    let Some(text) = text else { return Ok((None, None)) };
    let wrong = || anyhow!("--quantum '{text}': write a nice value of -20 to 19, or a slice of 0.1ms to 100ms");
    if let Some(ms) = text.strip_suffix("ms") {
        let ms: f64 = ms.trim().parse().context(wrong()).map_err(Failure::usage)?;
        if !(0.1..=100.0).contains(&ms) {
            return Err(Failure::usage(wrong()));
        }
        return Ok((None, Some(Duration::from_secs_f64(ms / 1000.0))));
    }
    match text.parse::<i32>() {
        Ok(nice) if (-20..=19).contains(&nice) => Ok((Some(nice), None)),
        _ => Err(Failure::usage(wrong())),
    }
}

/// The limit on CPU time without sleep; `None` for none.
pub(crate) fn rt_limit(text: &str) -> Result<Option<Duration>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
        _ => Err(Failure::usage(anyhow!("--rt-limit '{text}': write seconds from 0.01 to 86400, or none"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn wanted(line: &str) -> Result<Wanted, String> {
        let words = ["windhover", "run"].into_iter().chain(line.split_ascii_whitespace()).chain(["true"]);
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Run(run) => Wanted::of(&run).map_err(|failure| format!("{:#}", failure.error)),
            _ => Err("not run".to_owned()),
        }
    }

    #[test]
    fn redhawks_letters() {
        let fifo = wanted("-s fifo -P 10 -b 0").unwrap();
        assert_eq!(fifo.class, Some(Class::Plain(Policy::Fifo(10))));
        assert_eq!(fifo.cpus, Some("0".parse().unwrap()));
        assert_eq!(wanted("--policy=SCHED_RR -P 3").unwrap().class, Some(Class::Plain(Policy::Rr(3))));
        assert_eq!(wanted("-s fifo").unwrap().class, Some(Class::Plain(Policy::Fifo(1))));
        assert_eq!(wanted("-s other -P 0 -q -5").unwrap().nice, Some(-5));
        assert_eq!(wanted("-q 3ms").unwrap().slice, Some(Duration::from_millis(3)));
        let deadline = wanted("-s deadline --deadline 100:1000:2000").unwrap();
        assert!(matches!(deadline.class, Some(Class::Deadline { period, .. }) if period == Duration::from_millis(2)));
    }

    #[test]
    fn what_is_refused_says_why() {
        for (line, word) in [
            ("-P 5", "--policy"),
            ("-s other -P 5", "no priority"),
            ("-s fifo -P 100", "100"),
            ("-s fifo -P 99", "--force"),
            ("-s deadline", "--deadline"),
            ("-s fifo --deadline 1:2:3", "policy deadline"),
            ("--deadline 3:2:1", "no longer"),
            ("-q 50", "-20 to 19"),
            ("-q 500ms", "100ms"),
            ("-s rr -q 3ms", "sched_rr_timeslice_ms"),
            ("-b 8000", "8000"),
            ("-b x", "x"),
            ("-s rt", "rt"),
        ] {
            let error = wanted(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
        assert!(wanted("-s fifo -P 99 --force").is_ok());
    }

    #[test]
    fn what_is_not_asked_for_stays() {
        let now = Attributes { class: Class::Plain(Policy::Fifo(7)), nice: 3, slice: None, reset_on_fork: false };
        let none = Wanted { class: None, nice: None, slice: None, cpus: None };
        assert_eq!(none.over(Some(now), false), now);
        let other = Wanted { class: Some(Class::Plain(Policy::Other)), ..none };
        let next = other.over(Some(now), true);
        assert_eq!((next.class, next.nice, next.reset_on_fork), (Class::Plain(Policy::Other), 3, false));
    }
}
