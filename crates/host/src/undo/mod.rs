//! The undo log: what was changed, written and synced before each change, so that whoever comes after a crash can put
//! everything back.
//!
//! One directory (by default /run/windhover) holds one folder a boot (`<boot id>/`), one file a change set in it
//! (`0001.jsonl`: a header, then a line a step), a lock, and the shield that is up (`shield.json`). Folders of
//! another boot are removed unread: all settings that Windhover changes die with the boot. Folders are 0700 and files 0600,
//! and what another user owns or may write to is not read. Settings of a network namespace have a directory of their own
//! below (`netns-INODE/`), which goes with its last set.
//!
//! **Making a change** ([`Changes::set`]): read, log `before` and sync it, write, read back, log `after`. Whatever step a
//! process dies at, the log holds the old value before the knob can have the new one.
//!
//! **Undoing a set** ([`StateDir::undo`]): in strict reverse order, a knob is written only while it has the value that
//! the set gave it. A value that another program changed is a conflict: it is reported once and left, and the set is gone
//! afterwards, because nothing of it is Windhover's any more. A knob that resists is kept in the log for the next attempt.
//!
//! **Several sets** may hold one knob. When the older one is undone first, the newer keeps its value and inherits the
//! older's `before`; undone in the other order each puts back what it found. A set that found a value in place does
//! not hold the knob: undoing the set that made the value takes it away from both. A knob of two network namespaces is two
//! knobs; those of a removed namespace are forgotten.
//!
//! **Groups.** What a set wrote into the files of a control group that it made itself is not put back one by one with
//! all checks: removing the group undoes it.
//!
//! **No space, damage.** An undo needs no new space: changes are marked as undone in place. Lines have checksums; what
//! cannot be read of a log is named, the rest is undone, and the log is then kept under another name (`0001.damaged`).
//!
//! **Deaths in tests**: see [`fault_point`].

mod error;
mod fault;
mod journal;
mod lock;
mod log;
mod namespaces;
mod rollback;
mod state;

pub use error::UndoError;
pub use fault::{KILL_AT, fault_point};
pub use journal::{Change, ChangeOutcome, Changes};
pub use lock::Lock;
#[doc(hidden)]
pub use log::exercise_log;
pub use namespaces::SetNamespace;
pub use state::{ChangeInForce, Conflict, SetHeader, SetId, StateDir, UndoReport};

use std::time::Duration;

/// How long the change of another windhover is usually waited for.
pub const LOCK_WAIT: Duration = Duration::from_secs(30);
/// How long busy knobs are usually tried when they are put back.
pub const BUSY_WAIT: Duration = Duration::from_secs(10);
