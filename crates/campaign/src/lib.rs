//! Plan, order, run, resume; trying knobs one by one.
//!
//! A plan's cells are put in a seeded random order ([`plan_order`]), measured on the hosts of a lab ([`run`]) and written to a
//! run directory that a kill at any moment leaves usable ([`resume`]). This crate starts no process and opens no socket: it
//! commands agents through [`Hosts`]. It prints nothing: what happens goes to an [`Observer`].
#![expect(missing_docs, reason = "what has no comment is what its name says")]

mod attach;
mod boot;
mod cell;
mod error;
mod estimate;
mod facts;
mod hosts;
mod key;
mod observer;
mod options;
mod order;
mod participants;
mod prepare;
mod question;
mod real;
mod runner;
mod stopped;
mod summary;
mod trial;

pub use boot::{Boot, Entered};
pub use error::CampaignError;
pub use estimate::{cell_ns, plan_ns};
pub use hosts::{HostError, Hosts, WorkerId};
pub use observer::{Observer, Progress, Silent};
pub use options::{Options, RESUME_LINK};
pub use order::{PlannedCell, plan_order};
pub use prepare::Preparation;
pub use question::{QuestionCells, TooShort, Unanswerable, asked, too_short, unanswerable};
pub use runner::{resume, resume_on, run, run_on};
pub use summary::{Outcome, Summary};
pub use trial::{DECIDING, Rule, Trial, TrialVerdict, deciding, judge, rounds_needed, trial_plan};
