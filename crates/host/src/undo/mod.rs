//! The undo log: what was changed, written and synced before each change, so that whoever comes after a crash can put
//! everything back.
//!
//! One directory (by default /run/windhover) holds one folder a boot (`<boot id>/`), one file a change set in it
//! (`0001.jsonl`: a header, then a line a step), a lock, and what a shield tells others (`shield.json`). Folders of
//! another boot are removed unread: all settings that Windhover changes die with the boot.

mod error;
mod journal;
mod state;

pub use error::UndoError;
pub use journal::{Change, Changes, Done};
pub use state::{Conflict, Lock, SetHeader, SetId, StateDir, UndoReport};
