//! Tuning: settings by key, profiles, planned changes of this machine, their application, verification and undo.
//!
//! A [`model::Setting`] is a key and a value in this module's grammar ([`Key`]). [`plan`] turns settings into changes
//! of knobs; [`apply`] makes exactly these. Missing settings are skipped and reported; a refusal undoes all.

mod apply;
mod boot;
mod emit;
mod error;
pub(crate) mod hold;
mod key;
mod nic;
mod plan;
mod profile;
mod recommend;
mod resolve;
mod settings;
mod sysctls;

pub use apply::{
    ActiveProfile, AppliedChange, Deviation, TuneReport, UndoneSet, active, applied, apply, apply_kept, undo, verify,
};
pub use boot::{BOOT_UNIT, BootProfile, BootState};
pub use emit::{Form, emit};
pub use error::TuneError;
pub use hold::open as hold_cpu_latency;
pub use key::Key;
pub use plan::{PlannedChange, SkippedSetting, TunePlan, knob_of, plan, plan_profile};
pub use profile::{BootParameter, Profile, ProfileSetting, profiles};
pub use recommend::{HostKind, Recommendation};
