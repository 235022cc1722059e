//! What can be varied, where it takes effect, and what it costs to change: the table behind the order of a run.

use std::fmt;

/// Where an axis takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the spec of the measurement.
    Spec,
    /// On one host.
    Host,
    /// On a whole machine.
    Machine,
    /// In the load beside the measurement.
    Load,
    /// In how the workers are started.
    Stack,
    /// At boot.
    Boot,
    /// In what a person does or writes down.
    Label,
}

/// What it costs to change an axis from one cell to the next, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing: each cell starts anew anyway.
    Cheap,
    /// Seconds, or something that has to settle.
    Slow,
    /// A boot.
    Reboot,
    /// A person's hands.
    ByHand,
}

impl Cost {
    /// Whether cells that share a value stay together as a plot.
    #[must_use]
    pub fn is_dear(self) -> bool {
        self > Self::Cheap
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cheap => "cheap",
            Self::Slow => "slow",
            Self::Reboot => "reboot",
            Self::ByHand => "by hand",
        })
    }
}

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Its name in plans and factors.
    pub name: &'static str,
    /// Where it takes effect.
    pub scope: Scope,
    /// What it costs to change.
    pub cost: Cost,
}

/// All axes. The load is cheap because it is restarted for each cell whatever came before; a stack is slow because a
/// user-space stack may take over the port and settle, and a shield or a knob because it changes the whole machine.
#[must_use]
pub fn axes() -> &'static [Axis] {
    const fn axis(name: &'static str, scope: Scope, cost: Cost) -> Axis {
        Axis { name, scope, cost }
    }
    const AXES: [Axis; 11] = [
        axis("probe", Scope::Spec, Cost::Cheap),
        axis("protocol", Scope::Spec, Cost::Cheap),
        axis("size", Scope::Spec, Cost::Cheap),
        axis("rate", Scope::Spec, Cost::Cheap),
        axis("receive", Scope::Spec, Cost::Cheap),
        axis("policy", Scope::Spec, Cost::Cheap),
        axis("cpu", Scope::Spec, Cost::Cheap),
        axis("load", Scope::Load, Cost::Cheap),
        axis("stack", Scope::Stack, Cost::Slow),
        axis("shield", Scope::Machine, Cost::Slow),
        axis("knob", Scope::Machine, Cost::Slow),
    ];
    &AXES
}

/// The cost of an axis by name; what is not in the table is taken as cheap.
pub(crate) fn cost(name: &str) -> Cost {
    axes().iter().find(|axis| axis.name == name).map_or(Cost::Cheap, |axis| axis.cost)
}
