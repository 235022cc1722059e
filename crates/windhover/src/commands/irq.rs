//! `windhover irq`: interrupts and softirqs by CPU, live.

use super::{live, signals};
use crate::cli::irq::Irq as Arguments;
use crate::output::{Failure, Output, width};
use anyhow::Context as _;
use host::irqs::{Counts, InterruptCount, Irq, Thread};
use host::knob::Machine;
use model::CpuList;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use report::{Column, Grid, commas, paragraph};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<u8, Failure> {
    let machine = Machine::at(arguments.system.root());
    let asked = arguments.cpu.as_deref().map(|list| super::doctor::named_cpus(list, &machine)).transpose()?;
    let shield = host::shield::current(&arguments.system.state()).map(|shield| shield.spec);
    let shielded = shield.map(|spec| spec.processes.union(&spec.interrupts)).unwrap_or_default();
    let view = View { machine, asked, shielded, all: arguments.all };
    let as_json = arguments.form.is_json();
    let is_live = !as_json && std::io::stdout().is_terminal() && output.shows_progress();
    let text = |span: &Span| if as_json { json(span) } else { Ok(span.text(width())) };

    let stop = signals::stop_flag()?;
    let keys = is_live.then(Keys::listen).flatten();
    let bar = live::bar(is_live, "{msg}");
    let first = Look::take(&view.machine)?;
    let (mut last, mut done) = (first.clone(), 0);
    let mut ended = false;
    while !ended && arguments.count.or((!is_live).then_some(1)).is_none_or(|count| done < count) {
        ended = waited(last.at + arguments.interval, keys.as_ref(), &stop);
        let now = Look::take(&view.machine)?;
        let span = view.span(&last, &now)?;
        if is_live {
            bar.set_message(on_screen(&span.text(width())));
        } else {
            let gap = if done > 0 && !as_json { "\n" } else { "" };
            ended |= !output.part(&format!("{gap}{}", text(&span)?))?;
        }
        (last, done) = (now, done + 1);
    }
    bar.finish_and_clear();
    drop(keys);
    if is_live {
        output.result(&text(&view.span(&first, &last)?)?)?;
    }
    let is_bounded = arguments.count.is_some() || !is_live;
    Ok(if is_bounded && stop.load(Ordering::Relaxed) { 130 } else { 0 })
}

fn json(span: &Span) -> Result<String, Failure> {
    Ok(format!("{}\n", serde_json::to_string(span)?))
}

/// As many lines as the terminal shows above the cursor.
fn on_screen(text: &str) -> String {
    let height = terminal_size::terminal_size_of(std::io::stdout()).map_or(24, |(_, height)| usize::from(height.0));
    text.lines().take(height.saturating_sub(1)).collect::<Vec<_>>().join("\n")
}

/// Waits until a moment; whether a person asks to end: by q, by a signal, or by closing the terminal.
fn waited(until: Instant, keys: Option<&Keys>, stop: &AtomicBool) -> bool {
    /// A signal between the look at its flag and the wait is seen this much later.
    const LOOK_MS: u16 = 200;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let timeout = PollTimeout::from(u16::try_from(left.as_millis() + 1).unwrap_or(LOOK_MS).min(LOOK_MS));
        let stdin = std::io::stdin();
        let mut keyboard = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let read = poll(if keys.is_some() { &mut keyboard } else { &mut [] }, timeout);
        let mut typed = [0_u8; 16];
        if read.is_ok_and(|ready| ready > 0) {
            match nix::unistd::read(&stdin, &mut typed) {
                Ok(0) => return true,
                Ok(bytes) if typed[..bytes].contains(&b'q') => return true,
                _ => {}
            }
        }
    }
    true
}

/// A terminal that gives keys at once and does not show them; as it was before when this is dropped.
struct Keys(Termios);

impl Keys {
    fn listen() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut now = before.clone();
        now.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(std::io::stdin(), SetArg::TCSANOW, &now).ok()?;
        Some(Self(before))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A closed terminal needs nothing.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

#[derive(Clone)]
struct Look {
    at: Instant,
    counts: Counts,
}

impl Look {
    fn take(machine: &Machine) -> Result<Self, Failure> {
        let counts =
            Counts::read(machine).context("cannot read /proc/interrupts: mount /proc, or run outside the container")?;
        Ok(Self { at: Instant::now(), counts })
    }
}

struct View {
    machine: Machine,
    asked: Option<CpuList>,
    shielded: CpuList,
    all: bool,
}

/// What came in a span of time: the document of `--format json`.
#[derive(serde::Serialize)]
struct Span {
    format: u32,
    elapsed_ns: u64,
    cpus: CpuList,
    shielded: CpuList,
    #[serde(skip)]
    is_chosen: bool,
    interrupts: Vec<Entry>,
}

#[derive(serde::Serialize)]
struct Entry {
    #[serde(flatten)]
    came: InterruptCount,
    rates_hz: BTreeMap<u32, f64>,
    total_hz: f64,
    /// Of a device: what handles it, the CPUs that it may go to and those that it goes to, whether they can be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
}

#[derive(serde::Serialize)]
struct Device {
    actions: Vec<String>,
    may_go_to: CpuList,
    goes_to: Option<CpuList>,
    movable: bool,
    threads: Vec<Thread>,
}

impl View {
    fn span(&self, from: &Look, to: &Look) -> Result<Span, Failure> {
        let elapsed = to.at.duration_since(from.at).max(Duration::from_nanos(1));
        let mut came = to.counts.since(&from.counts);
        let counted: CpuList = came.iter().flat_map(|one| one.counts.keys().copied()).collect();
        let cpus = self.asked.as_ref().map_or_else(|| counted.clone(), |asked| asked.common(&counted));
        if let Some(asked) = self.asked.as_ref().filter(|_| cpus.is_empty()) {
            refuse!("CPU {asked} is offline: nothing is counted for it, only for CPU {counted}");
        }
        let is_silent = |one: &InterruptCount| one.to(&cpus) == 0 && (!one.counts.is_empty() || one.total == 0);
        came.retain(|one| self.all || !is_silent(one));
        came.sort_by_key(|one| Reverse(one.to(&cpus)));
        let mut threads = host::irqs::threads(&self.machine);
        let hz = |count: u64| count as f64 / elapsed.as_secs_f64();
        let entry = |came: InterruptCount| Entry {
            rates_hz: came
                .counts
                .iter()
                .filter(|(cpu, _)| cpus.contains(**cpu))
                .map(|(cpu, n)| (*cpu, hz(*n)))
                .collect(),
            total_hz: hz(came.total),
            device: came.number().and_then(|number| {
                let irq = Irq::of(&self.machine, number);
                let threads = threads.remove(&number).unwrap_or_default();
                let Irq { actions, cpus, effective: goes_to, movable, .. } = irq;
                Some(Device { actions, may_go_to: cpus?, goes_to, movable, threads })
            }),
            came,
        };
        Ok(Span {
            format: 1,
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            interrupts: came.into_iter().map(entry).collect(),
            shielded: self.shielded.common(&cpus),
            is_chosen: self.asked.is_some(),
            cpus,
        })
    }
}

impl Span {
    /// A table of `total` columns. Unrequested CPUs are left out for want of room: idle ones first, shielded ones last.
    fn text(&self, total: usize) -> String {
        let mut shown: Vec<u32> = self.cpus.iter().collect();
        if !self.is_chosen {
            shown = self.fitting(total.saturating_sub(self.width_without_cpus()));
        }
        let hidden = self.cpus.without(&shown.iter().copied().collect());
        let mut words = format!("interrupts and softirqs a second, over {:.2} s", self.elapsed_ns as f64 / 1e9);
        if !self.shielded.is_empty() {
            words += &format!("; *: CPU {} is behind a shield", self.shielded);
        }
        if !hidden.is_empty() {
            words += &format!("; CPU {hidden} has no room here: use --cpu");
        }
        if self.interrupts.is_empty() {
            words += ": none";
            return paragraph("", &words, total);
        }
        paragraph("", &words, total) + &self.grid(&shown).text(total)
    }

    fn grid(&self, cpus: &[u32]) -> Grid {
        let mut columns: Vec<Column> = ["irq", "what", "kind"].map(Column::words).into();
        columns.extend(cpus.iter().map(|cpu| Column::figures(&self.heading(*cpu), "/s")));
        columns.push(Column::figures("all", "/s"));
        columns.extend(["may go to", "goes to", "thread"].map(Column::words));
        let row = |entry: &Entry| {
            let rates = cpus.iter().map(|cpu| entry.rates_hz.get(cpu).map_or_else(String::new, |hz| rate(*hz)));
            let keys = [entry.came.name.clone(), entry.what(), entry.kind().to_owned()];
            keys.into_iter().chain(rates).chain([rate(entry.total_hz)]).chain(entry.places()).collect()
        };
        Grid { columns, rows: self.interrupts.iter().map(row).collect(), ..Grid::default() }
    }

    fn heading(&self, cpu: u32) -> String {
        format!("CPU {cpu}{}", if self.shielded.contains(cpu) { "*" } else { "" })
    }

    /// What the other columns need, with handlers wrapped where their names are long.
    fn width_without_cpus(&self) -> usize {
        const LONG: usize = 20;
        let width = self.grid(&[]).text(usize::MAX).lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let longest = self.interrupts.iter().map(|entry| entry.what().chars().count()).max().unwrap_or(0);
        width - longest.saturating_sub(LONG)
    }

    /// The CPUs whose columns fit into so much room, at least one of them, ascending.
    fn fitting(&self, mut room: usize) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.cpus.iter().collect();
        let sum = |cpu: u32| self.interrupts.iter().filter_map(|entry| entry.came.counts.get(&cpu)).sum::<u64>();
        cpus.sort_by_key(|cpu| (!self.shielded.contains(*cpu), Reverse(sum(*cpu))));
        let mut fitting = Vec::new();
        for cpu in cpus {
            let cells = self.interrupts.iter().filter_map(|entry| entry.rates_hz.get(&cpu)).map(|hz| rate(*hz).len());
            let needed = 2 + cells.chain([self.heading(cpu).len()]).max().unwrap_or(0);
            if needed > room && !fitting.is_empty() {
                break;
            }
            room = room.saturating_sub(needed);
            fitting.push(cpu);
        }
        fitting.sort_unstable();
        fitting
    }
}

impl Entry {
    fn what(&self) -> String {
        let last_word = || self.came.what.split(' ').next_back().unwrap_or_default().to_owned();
        match (&self.device, self.came.number()) {
            (Some(device), _) if !device.actions.is_empty() => device.actions.join(", "),
            (_, Some(_)) => last_word(),
            _ => self.came.what.trim_end_matches(" interrupts").to_owned(),
        }
    }

    fn kind(&self) -> &str {
        self.came.chip().unwrap_or(self.came.kind.word())
    }

    /// Where it may go to, where it goes to, and the policies of its threads, whose names begin with its number.
    fn places(&self) -> [String; 3] {
        let Some(device) = &self.device else { return Default::default() };
        let fixed = if device.movable { "" } else { " (fixed)" };
        [
            format!("{}{fixed}", device.may_go_to),
            device.goes_to.as_ref().map(CpuList::to_string).unwrap_or_default(),
            device.threads.iter().map(|thread| thread.policy.as_str()).collect::<Vec<_>>().join(", "),
        ]
    }
}

/// Events a second in as few digits as matter.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count by a time; `as` saturates")]
fn rate(hz: f64) -> String {
    match hz {
        0.0 => "0".to_owned(),
        ..0.1 => format!("{hz:.2}"),
        ..10.0 => format!("{hz:.1}"),
        _ => commas(hz.round() as u64),
    }
}
