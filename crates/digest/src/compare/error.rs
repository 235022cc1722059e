//! Why nothing can be compared.

use crate::UnknownMetric;
use thiserror::Error;

/// Why nothing can be compared. Each is one line and names the remedy; all but [`CompareError::GateUntrusted`] are usage errors.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompareError {
    #[error(transparent)]
    Metric(#[from] UnknownMetric),
    #[error("gate '{gate}': {why}")]
    Gate { gate: String, why: String },
    #[error("{run} has no factor '{factor}': it has {known}")]
    Factor { factor: String, run: String, known: String },
    #[error("no cell of {run} has {factor}={value}: it has {known}")]
    Value { factor: String, value: String, run: String, known: String },
    #[error("{run} has only one value of {axis} ({value}): there is nothing to compare it with")]
    OneValue { axis: String, value: String, run: String },
    #[error(
        "the sides have no common value of {factor} ({a}; {b}): choose one each with --where {factor}=… --where-b {factor}=…"
    )]
    Apart { factor: String, a: String, b: String },
    #[error(
        "no cell of {a} has one of {b} with the same factors: compare runs of the same plan, or choose with --where and --where-b"
    )]
    Nothing { a: String, b: String },
    #[error("gate '{gate}' judges nothing: {why}")]
    GateIdle { gate: String, why: String },
    #[error("gate '{gate}' judges nothing: no cell that it is about has repetitions on both sides that can be trusted")]
    GateUntrusted { gate: String },
    #[error(
        "--axis compares the values of one factor within one run: leave out the second run and --where-b, or leave out --axis"
    )]
    AxisOfTwo,
    #[error(
        "{run} is named twice: name each run once, the runs of the first side before --with and those of the second after it"
    )]
    Both { run: String },
    #[error("several runs need two sides: put --with between them, as in compare A1 A2 A3 --with B1 B2 B3")]
    NoSecondSide,
    #[error(
        "one run alone needs --axis FACTOR, or --where FACTOR=VALUE and --where-b FACTOR=VALUE; with two runs, name both"
    )]
    OneSide,
}

impl CompareError {
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::GateUntrusted { .. }) { 4 } else { 2 }
    }
}
