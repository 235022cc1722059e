//! All knobs of the running system: files and devices through `host`, tasks and services through `task`.

use host::knob::{Knob, KnobError, Machine, Settings};

/// The running system, or a tree of files for tests.
#[derive(Debug, Clone)]
pub struct Kernel {
    machine: Machine,
}

impl Kernel {
    /// The running system.
    #[must_use]
    pub fn running() -> Self {
        Self { machine: Machine::running() }
    }

    /// Knobs below a root; tasks and services are those of the running system only when the root is `/`.
    #[must_use]
    pub fn at(machine: Machine) -> Self {
        Self { machine }
    }

    /// The part that is files.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Settings for Kernel {
    fn read(&self, knob: &Knob) -> Result<String, KnobError> {
        self.machine.read(knob)
    }

    fn write(&self, knob: &Knob, value: &str) -> Result<(), KnobError> {
        self.machine.write(knob, value)
    }
}
