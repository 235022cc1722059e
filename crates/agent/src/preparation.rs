//! What this agent changed on its machine, and its restoration.
//!
//! All changes go through the undo log, owned by this process; a keeper restores them if the agent vanishes. The shield
//! comes first and goes last, so that sets are undone in reverse order.

use crate::LineSink;
use host::undo::{BUSY_WAIT, LOCK_WAIT, SetId, StateDir, UndoError, UndoReport};
use model::{Setting, ShieldReport, ShieldSpec};
use prepare::Kernel;
use prepare::keeper::{self, Keeper};
use prepare::shield::{self, ActiveShield, Drift, Guard};
use prepare::tune::{self, Profile, TuneError, TuneReport};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a shield is looked at.
const GUARD: Duration = Duration::from_secs(2);
/// What the settings of cells are called among profiles (`windhover tune undo campaign`).
const PROFILE: &str = "campaign";
const COMMAND: &str = "windhover agent";

pub(crate) type Refusal = (u8, String);

#[derive(Debug, Clone, Default)]
pub(crate) struct PreparedState {
    pub(crate) shield: Option<ShieldReport>,
    pub(crate) changed: u32,
    pub(crate) notes: Vec<String>,
}

pub(crate) struct Preparation {
    kernel: Kernel,
    state: StateDir,
    /// For settings: another network namespace has other devices and sysctls, so its sets are kept apart.
    own: StateDir,
    lines: LineSink,
    shield: Option<Shield>,
    settings: Option<Settings>,
}

struct Shield {
    spec: ShieldSpec,
    made: ActiveShield,
    _guard: Option<Watch>,
}

struct Settings {
    wanted: Vec<Setting>,
    device: Option<String>,
    report: TuneReport,
    keeper: Option<Keeper>,
}

impl Preparation {
    pub(crate) fn new(lines: LineSink) -> Self {
        let state = StateDir::usual();
        let own = state.of_this_namespace();
        Self { kernel: Kernel::running(), state, own, lines, shield: None, settings: None }
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Applies what is asked for, restores the rest; a refusal restores all. `shielded`: another agent has a shield up.
    pub(crate) fn prepare(
        &mut self,
        shield: Option<ShieldSpec>,
        settings: Vec<Setting>,
        device: Option<String>,
        shielded: bool,
    ) -> Result<PreparedState, Refusal> {
        // The shield of the machine's agent is another's here, and meant to be up.
        let fit = if shielded { Ok(()) } else { self.no_other() };
        let made = fit.and_then(|()| self.change(shield, settings, device));
        if made.is_err() {
            for problem in self.restore() {
                (self.lines)(&problem);
            }
        }
        made
    }

    fn change(
        &mut self,
        shield: Option<ShieldSpec>,
        settings: Vec<Setting>,
        device: Option<String>,
    ) -> Result<PreparedState, Refusal> {
        let shield_stays = self.shield.as_ref().map(|shield| &shield.spec) == shield.as_ref();
        let settings_stay = match &self.settings {
            Some(now) => shield_stays && now.wanted == settings && now.device == device,
            None => settings.is_empty(),
        };
        let mut problems = Vec::new();
        if !settings_stay {
            problems.extend(self.drop_settings());
        }
        if !shield_stays {
            problems.extend(self.drop_shield());
        }
        if let Some(problem) = problems.first() {
            return Err((1, format!("what was in force could not be put back: {problem}")));
        }
        if shield_stays && !self.is_shield_up() {
            return Err((1, "another has taken the shield down".to_owned()));
        }
        if let Some(spec) = shield.filter(|_| !shield_stays) {
            self.put_up(spec)?;
        }
        if !settings_stay {
            self.set(settings, device)?;
        }
        let mut made = PreparedState::default();
        if let Some(shield) = &self.shield {
            made.changed += shield.made.report.changed;
            made.shield = Some(shield.made.report.clone());
        }
        if let Some(settings) = &self.settings {
            let report = &settings.report;
            made.changed += u32::try_from(report.changed.len()).unwrap_or(u32::MAX);
            made.notes.extend(report.skipped.iter().map(|skipped| format!("{}: {}", skipped.setting, skipped.why)));
            made.notes.extend(report.warnings.iter().cloned());
        }
        Ok(made)
    }

    /// Whether the shield that this agent has made is still the one in force; so, too, where it made none.
    fn is_shield_up(&self) -> bool {
        let ours = self.shield.as_ref().filter(|shield| shield.made.made).and_then(|shield| shield.made.set.as_ref());
        ours.is_none_or(|ours| host::shield::current(&self.state).is_some_and(|current| current.set == *ours))
    }

    /// Refuses a foreign shield: it would be up in cells that are to be measured without one.
    fn no_other(&self) -> Result<(), Refusal> {
        let Some(current) = host::shield::current(&self.state) else { return Ok(()) };
        let ours = self.shield.as_ref().and_then(|shield| shield.made.set.as_ref());
        if ours == Some(&current.set) {
            return Ok(());
        }
        let cpus = &current.spec.processes;
        Err((
            2,
            format!(
                "a shield of CPU {cpus} is up already, which is not the campaign's: take it down with `windhover shield --reset`"
            ),
        ))
    }

    fn put_up(&mut self, spec: ShieldSpec) -> Result<(), Refusal> {
        let refused = |error: shield::ShieldError| (error.exit_code(), error.to_string());
        let plan = shield::plan(&spec, &self.kernel, &self.state).map_err(refused)?;
        let made = shield::apply(&plan, &self.kernel, &self.state, keeper::this_process(), COMMAND).map_err(refused)?;
        let guard = Guard::new(self.kernel.clone(), self.state.clone(), spec.clone());
        let guard = Watch::start(guard, self.lines.clone());
        let failed = guard.as_ref().err().map(|error| (1, format!("a thread: {error}")));
        self.shield = Some(Shield { spec, made, _guard: guard.ok() });
        failed.map_or(Ok(()), Err)
    }

    fn set(&mut self, wanted: Vec<Setting>, device: Option<String>) -> Result<(), Refusal> {
        if wanted.is_empty() {
            return Ok(());
        }
        let refused = |error: TuneError| (error.exit_code(), error.to_string());
        let profile = Profile { name: PROFILE.to_owned(), ..Profile::default() }.with(&wanted).map_err(refused)?;
        let plan = tune::plan_profile(&profile, device.as_deref(), &self.kernel).map_err(refused)?;
        let (report, keeper) = tune::apply_kept(&plan, &self.kernel, &self.own, COMMAND).map_err(refused)?;
        self.settings = Some(Settings { wanted, device, report, keeper });
        Ok(())
    }

    /// Puts everything back; gives back what it could not, one line each.
    pub(crate) fn restore(&mut self) -> Vec<String> {
        let mut problems = self.drop_settings();
        problems.extend(self.drop_shield());
        problems
    }

    fn drop_settings(&mut self) -> Vec<String> {
        let Some(settings) = self.settings.take() else { return Vec::new() };
        self.undo(&self.own, settings.report.set.as_ref(), settings.keeper, "the settings were put back")
    }

    fn drop_shield(&mut self) -> Vec<String> {
        let Some(Shield { made, _guard: guard, .. }) = self.shield.take() else { return Vec::new() };
        // It must not repair what is being undone.
        drop(guard);
        if made.made {
            self.undo(&self.state, made.set.as_ref(), made.keeper, "the shield was taken down")
        } else {
            Vec::new()
        }
    }

    fn undo(&self, state: &StateDir, set: Option<&SetId>, keeper: Option<Keeper>, what: &str) -> Vec<String> {
        let problems = match set {
            None => Vec::new(),
            Some(set) => match self.undo_set(state, set) {
                Ok(report) => report.not_put_back(),
                Err(UndoError::NoSuchSet { .. }) => {
                    vec![format!("{what} by another before, so cells were measured without")]
                }
                Err(error) => vec![error.to_string()],
            },
        };
        if let Some(keeper) = keeper {
            // It finds nothing left to do, or tries once more what resisted.
            let _ = keeper.release();
        }
        problems
    }

    fn undo_set(&self, state: &StateDir, set: &SetId) -> Result<UndoReport, UndoError> {
        let lock = state.lock(LOCK_WAIT)?;
        state.undo(&lock, &self.kernel, set, false, BUSY_WAIT)
    }
}

/// A thread that keeps a shield true. Dropping it ends the thread.
struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(guard: Guard, lines: LineSink) -> std::io::Result<Self> {
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("guard".to_owned()).spawn(move || {
            while matches!(ended.recv_timeout(GUARD), Err(RecvTimeoutError::Timeout)) {
                match guard.round() {
                    Ok(drifts) => {
                        for drift in &drifts {
                            // New tasks are what a guard is for.
                            if !matches!(drift, Drift::Tasks { .. }) {
                                lines(&format!("shield: {drift}"));
                            }
                        }
                        if drifts.contains(&Drift::Gone) {
                            return;
                        }
                    }
                    Err(error) => {
                        lines(&format!("shield: {error}"));
                        return;
                    }
                }
            }
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
