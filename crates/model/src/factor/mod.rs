//! The factors of a measurement: what a plan and the command line may set or vary.
//!
//! One table. Plans (reading, JSON schema, reference, errors, expansion into cells), the flags of the measuring commands,
//! the order of a campaign and the titles of reports are loops over it. A new factor is one entry here, beside the field
//! of the specification that it sets.

#[macro_use]
mod rows;

mod ends;
mod flag;
mod kind;
mod rounds;
mod schedule;
mod setup;
mod stream;

pub use flag::{Flag, Gives, HEADINGS};
pub(crate) use kind::{AxisSeed, ValueSeed};
pub use kind::{AxisValues, ValueType, scaled};
pub use serde_json::Value;

use crate::{
    CycleSpec, EndSpec, ModelError, PaceSpec, Probe, ProbeOptions, ProbeSpec, Protocol, Role, RrSpec, SocketSpec,
    StreamSpec, WakeSpec,
};
use std::net::IpAddr;

pub(crate) const PROBE: &str = "probe";
pub(crate) const PROTOCOL: &str = "protocol";
pub(crate) const KERNEL: &str = "kernel";

/// What has to be made anew when a factor changes from one cell to the next, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Nothing: each cell starts its workers and its load anyway.
    Cell,
    /// The network stack below the workers, which may take over the port and has to settle.
    Stack,
    /// Settings of the whole machine.
    Machine,
    /// The machine's kernel, which may have to be booted.
    Kernel,
}

impl Scope {
    /// Whether a change costs so much that cells with the same value are measured together.
    pub fn is_costly(self) -> bool {
        self > Self::Cell
    }
}

/// Where a value goes.
#[derive(Debug, Clone, Copy)]
pub enum Sets {
    /// Into what the plan makes a cell of: its load, stack, shield, settings, hosts.
    Plan,
    /// Into the specification.
    Spec(fn(&mut ProbeSpec, &Value) -> Result<(), ModelError>),
    /// Into the socket options, where messages are sent.
    Socket(fn(&mut SocketSpec, &Value) -> Result<(), ModelError>),
    /// Into each end; a text `initiator;reflector` has two values.
    Ends(fn(&mut EndSpec, &Value) -> Result<(), ModelError>),
    /// Into the options of `rr`.
    Rr(fn(&mut RrSpec, &Value) -> Result<(), ModelError>),
    /// Into the schedule of those that send by the clock.
    Timing(fn(&mut ProbeSpec, &Value) -> Result<(), ModelError>),
    /// Into the schedule of `pace`.
    Pace(fn(&mut PaceSpec, &Value) -> Result<(), ModelError>),
    /// Into the data of `stream`.
    Stream(fn(&mut StreamSpec, &Value) -> Result<(), ModelError>),
    /// Into the threads of `wake`.
    Wake(fn(&mut WakeSpec, &Value) -> Result<(), ModelError>),
    /// Into the cycles of `cycle`.
    Cycle(fn(&mut CycleSpec, &Value) -> Result<(), ModelError>),
}

/// When a cell names a factor in its key and its results. What a grid varies is always named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// In each cell that it applies to.
    Always,
    /// Once the plan names it anywhere.
    Named,
    /// Where it is not the default.
    Changed,
    /// Only when a grid names it.
    Varied,
    /// Only when a grid lists values of it: how long a cell is measured is no condition. A grid may have one value of it.
    Listed,
}

/// How tables and charts show a factor.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Its title; empty: its name.
    pub title: &'static str,
    /// Whether a value is clear without the name.
    pub is_plain: bool,
    /// Values in the order that people expect; others follow by name.
    pub values: &'static [&'static str],
    /// How many of these, from the first on, are what others are compared with.
    pub baselines: usize,
    /// What labels say instead of a value.
    pub labels: &'static [(&'static str, &'static str)],
}

/// Shown with its name before each value, numbers by size.
const NAMED: Shown = Shown { title: "", is_plain: false, values: &[], baselines: 0, labels: &[] };
/// The same without the name.
const PLAIN: Shown = Shown { is_plain: true, baselines: 1, ..NAMED };

/// One factor.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "a field without a line is what its name says")]
pub struct Factor {
    /// The key in `[measure]` and `[[grid]]`.
    pub name: &'static str,
    /// The name in cells and results.
    pub recorded_as: &'static str,
    pub kind: ValueType,
    pub sets: Sets,
    /// What it does, for the reference of plans; empty: the help of the first flag.
    text: &'static str,
    /// The value that it has unless another is given, where that is a value.
    pub default: Option<&'static str>,
    pub scope: Scope,
    /// The probes that it applies to; others ignore it.
    pub probes: &'static [Probe],
    /// The protocols that it applies to; empty: all.
    pub protocols: &'static [Protocol],
    /// Probes one of which a plan must have that names it; empty: any.
    pub needs: &'static [Probe],
    pub record: Record,
    pub flags: &'static [Flag],
    pub shown: Shown,
}

impl Factor {
    const fn new(name: &'static str, kind: ValueType, sets: Sets) -> Self {
        let own: &[Probe] = match sets {
            Sets::Pace(_) => &[Probe::Pace],
            Sets::Stream(_) => &[Probe::Stream],
            Sets::Cycle(_) => &[Probe::Cycle],
            _ => &[],
        };
        Self {
            name,
            recorded_as: name,
            kind,
            sets,
            text: "",
            default: None,
            scope: Scope::Cell,
            probes: if own.is_empty() { &Probe::ALL } else { own },
            protocols: &[],
            needs: own,
            record: Record::Varied,
            flags: &[],
            shown: NAMED,
        }
    }

    setters! {
        about(text: &'static str),
        // Other probes ignore it, and a plan may name it all the same.
        applies_to(probes: &'static [Probe]),
        recorded_as(recorded_as: &'static str),
        needs(needs: &'static [Probe]),
        scope(scope: Scope),
        over(protocols: &'static [Protocol]),
        record(record: Record),
        flags(flags: &'static [Flag]),
        shown(shown: Shown)
    }

    const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }

    const fn of(mut self, probes: &'static [Probe]) -> Self {
        self.probes = probes;
        self.needs = probes;
        self
    }

    /// What it is called above a column.
    pub fn title(&self) -> String {
        if self.shown.title.is_empty() { capitalised(self.recorded_as) } else { self.shown.title.to_owned() }
    }

    /// A value in a short label: `load build`, `no load`, `CPU 1`, `spin`.
    pub fn label(&self, value: &str) -> String {
        let own = self.shown.labels.iter().find(|(known, _)| *known == value);
        match (own, self.shown.title) {
            (Some((_, label)), _) => (*label).to_owned(),
            (None, _) if self.shown.is_plain => value.to_owned(),
            (None, "") => format!("{} {value}", self.recorded_as),
            (None, title) => format!("{title} {value}"),
        }
    }

    /// Whether a value is what others are compared with.
    pub fn is_baseline(&self, value: &str) -> bool {
        self.shown.values.iter().take(self.shown.baselines).any(|known| *known == value)
    }

    /// What it does.
    pub fn description(&self) -> String {
        match self.flags.first() {
            Some(flag) if self.text.is_empty() => format!("{}.", flag.help),
            _ => self.text.to_owned(),
        }
    }

    /// Whether each end has a value of its own.
    pub fn is_two_ended(&self) -> bool {
        matches!(self.sets, Sets::Ends(_))
    }

    /// Whether it applies to cells of a probe over a protocol.
    pub fn applies(&self, probe: Probe, protocol: Option<Protocol>) -> bool {
        let goes = |protocol| self.protocols.contains(&protocol);
        self.probes.contains(&probe) && (self.protocols.is_empty() || protocol.is_some_and(goes))
    }

    /// Whether a value is of the right type.
    pub fn takes(&self, value: &Value) -> bool {
        match value {
            Value::String(text) if self.is_two_ended() => {
                let (initiator, reflector) = two_ends(text);
                self.end(initiator).is_ok() && self.end(reflector).is_ok()
            }
            value => self.kind.takes(value),
        }
    }

    /// Whether a grid may have one value of it, which is no axis.
    pub fn may_be_single(&self) -> bool {
        self.record == Record::Listed
    }

    /// Reads a value as it is written on a command line. Errors: [`ModelError::Grammar`], saying what is allowed.
    pub fn read(&self, text: &str) -> Result<Value, ModelError> {
        let value = if self.is_two_ended() { Some(Value::from(text)) } else { self.kind.read(text) };
        value.filter(|value| self.takes(value)).ok_or_else(|| self.unreadable(text))
    }

    fn unreadable(&self, text: &str) -> ModelError {
        ModelError::grammar(self.name, text, format!("use {}", self.kind.accepts(self.is_two_ended())))
    }

    /// The value of one end; `default` leaves it as the system has it.
    fn end(&self, text: &str) -> Result<Value, ModelError> {
        if text == UNSET {
            return Ok(Value::from(text));
        }
        self.kind.read(text).ok_or_else(|| self.unreadable(text))
    }

    /// Puts a value into a specification. Errors: a value that is of the wrong type, no known word, or out of range.
    pub fn apply(&self, spec: &mut ProbeSpec, value: &Value) -> Result<(), ModelError> {
        if !self.takes(value) {
            return Err(self.unreadable(&word(value)));
        }
        match self.sets {
            Sets::Plan => Ok(()),
            Sets::Spec(set) | Sets::Timing(set) => set(spec, value),
            Sets::Socket(set) => spec.socket.as_mut().map_or(Ok(()), |socket| set(socket, value)),
            Sets::Ends(set) => match value {
                // Another tool's server takes no settings, so one value is this end's.
                value if !spec.peer.is_own() && !matches!(value, Value::String(text) if text.contains(';')) => {
                    let value = if let Value::String(text) = value { &self.end(text.trim())? } else { value };
                    set(&mut spec.initiator, value)
                }
                Value::String(text) => {
                    let (initiator, reflector) = two_ends(text);
                    set(&mut spec.initiator, &self.end(initiator)?)?;
                    set(&mut spec.reflector, &self.end(reflector)?)
                }
                value => Role::ALL.into_iter().try_for_each(|role| set(spec.end_mut(role), value)),
            },
            sets => match (sets, &mut spec.options) {
                (Sets::Rr(set), ProbeOptions::Rr(rr)) => set(rr, value),
                (Sets::Pace(set), ProbeOptions::Pace { pace }) => set(pace, value),
                (Sets::Stream(set), ProbeOptions::Stream { stream }) => set(stream, value),
                (Sets::Wake(set), ProbeOptions::Wake { wake }) => set(wake, value),
                (Sets::Cycle(set), ProbeOptions::Cycle { cycle }) => set(cycle, value),
                // It does not apply to other probes.
                _ => Ok(()),
            },
        }
    }

    /// What a result has of this value, if anything; `varied` where a grid varies it, `named` where the plan names it.
    pub fn recorded(&self, value: Option<&Value>, named: bool, varied: bool) -> Option<Value> {
        let default = || self.default.and_then(|text| self.read(text).ok());
        let shown = match (self.record, value) {
            (Record::Always, _) => true,
            (Record::Named, _) => named,
            (Record::Changed, Some(value)) => varied || Some(value) != default().as_ref(),
            (Record::Changed | Record::Varied | Record::Listed, _) => varied,
        };
        let value = shown.then(|| value.cloned().or_else(default)).flatten()?;
        Some(match value {
            Value::Bool(on) => Value::from(if on { "on" } else { "off" }),
            text @ Value::String(_) if self.kind == ValueType::Scaled => {
                crate::schedule::rate_value(scaled_number(&text).unwrap_or_default())
            }
            value => value,
        })
    }
}

/// The word for an end that is left as the system has it.
const UNSET: &str = "default";

/// Splits `initiator;reflector`; one value is that of both.
fn two_ends(text: &str) -> (&str, &str) {
    match text.split_once(';') {
        Some((initiator, reflector)) => (initiator.trim(), reflector.trim()),
        None => (text.trim(), text.trim()),
    }
}

/// A name as a title.
pub fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let title: String = letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect());
    title.replace('_', " ")
}

/// A value as people write it.
pub fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, crate::schedule::rate_word)
        }
        other => other.to_string(),
    }
}

/// All factors, in the order in which cells vary them (the first slowest) and put them into specifications.
pub fn all() -> impl Iterator<Item = &'static Factor> {
    let tables: [&'static [Factor]; 6] =
        [setup::FACTORS, ends::FACTORS, rounds::FACTORS, schedule::FACTORS, stream::FACTORS, schedule::SWEPT];
    tables.into_iter().flatten()
}

/// A factor by its key in plans.
pub fn find(name: &str) -> Option<&'static Factor> {
    all().find(|factor| factor.name == name)
}

/// A factor by its name in results.
pub fn recorded(name: &str) -> Option<&'static Factor> {
    all().find(|factor| factor.recorded_as == name)
}

/// What sorts axes by what a reader asks first; `os` and `nic` are labels of runs.
pub fn asked_first(axis: &str) -> usize {
    const FIRST: [&str; 8] = ["load", "os", "shield", "policy", "stack", "receive", "knob", "nic"];
    FIRST.iter().position(|name| *name == axis).unwrap_or(FIRST.len())
}

/// What sorts values of an axis: the baseline first, then in the order that the field has, then numbers by size, then by name.
pub fn rank(axis: &str, value: &str) -> (usize, String) {
    let listed = recorded(axis).map_or(&[][..], |factor| factor.shown.values);
    let place = listed.iter().position(|known| *known == value).unwrap_or_else(|| {
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let by_size = number.map(|number| (number * 1000.0).clamp(0.0, 1e12).round() as usize);
        listed.len().saturating_add(by_size.unwrap_or(usize::MAX))
    });
    (place, value.to_owned())
}

// How values are read. Their types were checked before, by `Factor::takes`.

fn parsed<T: std::str::FromStr<Err = ModelError>>(value: &Value) -> Result<T, ModelError> {
    word(value).parse()
}

fn text(value: &Value) -> Result<String, ModelError> {
    Ok(word(value))
}

fn address(value: &Value) -> Result<IpAddr, ModelError> {
    word(value).parse().map_err(|_| ModelError::grammar("address", word(value), "use an IP address"))
}

fn long(value: &Value) -> Result<u64, ModelError> {
    Ok(value.as_u64().unwrap_or_default())
}

fn whole(value: &Value) -> Result<u32, ModelError> {
    long(value).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn number(value: &Value) -> Result<f64, ModelError> {
    Ok(value.as_f64().unwrap_or_default())
}

/// A number, or a text such as `100M`.
fn scaled_number(value: &Value) -> Result<f64, ModelError> {
    value.as_str().and_then(|text| scaled(text).ok()).map_or_else(|| number(value), Ok)
}

fn on(value: &Value) -> Result<bool, ModelError> {
    Ok(value.as_bool().unwrap_or_default())
}

fn some<T>(read: fn(&Value) -> Result<T, ModelError>) -> impl Fn(&Value) -> Result<Option<T>, ModelError> {
    move |value| read(value).map(Some)
}

/// A value of an end that may be left as the system has it.
fn unless_unset<T>(read: fn(&Value) -> Result<T, ModelError>) -> impl Fn(&Value) -> Result<Option<T>, ModelError> {
    move |value| if value == UNSET { Ok(None) } else { read(value).map(Some) }
}

/// Seconds as a person writes them to whole milliseconds.
fn in_ms(what: &'static str) -> impl Fn(&Value) -> Result<u32, ModelError> {
    move |value| {
        let seconds = number(value)?;
        let ms = (seconds * 1000.0).round();
        if !(1.0..=86_400_000.0).contains(&ms) {
            return Err(ModelError::range(what, seconds, "0.001 to 86400"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(ms as u32)
    }
}

#[cfg(test)]
mod tests;
