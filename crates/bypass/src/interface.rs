//! The network interface of a stack in the program's process.

use user_stack::{Engine, EngineError};
use xsk::Backend;

/// An interface that can be used, and how its frames get past the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// The back-end that was asked for; none: the interface decides when the program opens it.
    pub backend: Option<Backend>,
    /// The back-end that was opened here.
    pub opened: Backend,
}

impl Interface {
    /// Opens it as the program will, and closes it again. Errors: what would keep the program from it.
    pub fn try_out(name: Option<&str>, backend: Option<Backend>) -> Result<Self, EngineError> {
        let engine = Engine::open(name, backend)?;
        Ok(Self { name: engine.interface().name.clone(), backend, opened: engine.backend() })
    }
}

/// Number of a back-end for the library: from 1 on.
pub(crate) fn number_of(backend: Backend) -> u32 {
    let at = Backend::ALL.iter().position(|one| *one == backend).unwrap_or(0);
    u32::try_from(at + 1).unwrap_or(0)
}
