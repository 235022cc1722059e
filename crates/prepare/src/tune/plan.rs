//! What settings would change on this machine. Reads only.

use super::resolve::{SettingRequest, meaning};
use super::{Key, Profile, ProfileSetting, TuneError, nic, sysctls};
use crate::Kernel;
use host::knob::{Knob, KnobError, Settings as _};
use host::undo::Change;
use model::Setting;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PlannedChange {
    pub setting: Setting,
    pub change: Change,
    pub now: String,
}

/// A setting that means nothing on this machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkippedSetting {
    pub setting: Setting,
    pub why: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TunePlan {
    pub changes: Vec<PlannedChange>,
    pub same: Vec<PlannedChange>,
    /// What this machine lacks.
    pub skipped: Vec<SkippedSetting>,
    pub warnings: Vec<String>,
    #[serde(skip)]
    pub profile: Profile,
    /// The network device that `nic.` keys are about.
    #[serde(skip)]
    pub device: Option<String>,
}

/// What settings would change. `device` is the network device that `nic.` keys are about.
pub fn plan(settings: &[Setting], device: Option<&str>, kernel: &Kernel) -> Result<TunePlan, TuneError> {
    plan_profile(&Profile::default().with(settings)?, device, kernel)
}

/// The changes that one setting means, those that change nothing included; none where this machine lacks it.
pub fn knob_of(setting: &Setting, device: Option<&str>, kernel: &Kernel) -> Result<Vec<Change>, TuneError> {
    let plan = plan(std::slice::from_ref(setting), device, kernel)?;
    Ok(plan.changes.into_iter().chain(plan.same).map(|planned| planned.change).collect())
}

pub fn plan_profile(profile: &Profile, device: Option<&str>, kernel: &Kernel) -> Result<TunePlan, TuneError> {
    let mut plan = TunePlan { profile: profile.clone(), device: device.map(str::to_owned), ..TunePlan::default() };
    let device = device.map(|name| nic::Device::of(kernel, name)).transpose()?;
    for ProfileSetting { setting, why, .. } in &profile.settings {
        let key: Key = setting.key.parse()?;
        let skip = |why: String| SkippedSetting { setting: setting.clone(), why };
        let changes = match meaning(&SettingRequest { kernel, value: &setting.value, why }, device.as_ref(), &key) {
            Ok(changes) => changes,
            // Without a device none is asked whether it has such a feature.
            Err(_) if key.is_of_nic() && sysctls::is_nowhere(&key) => {
                return Err(sysctls::unknown(kernel, &key));
            }
            Err(why) => {
                plan.skipped.push(skip(why));
                continue;
            }
        };
        // Of several knobs, such as the parts of `tso`, some may be missing.
        let (before, mut reason) = (plan.changes.len() + plan.same.len(), None);
        for change in changes {
            match kernel.read(&change.knob) {
                Err(KnobError::Absent { .. }) if sysctls::is_nowhere(&key) => {
                    return Err(sysctls::unknown(kernel, &key));
                }
                Ok(now) => {
                    sysctls::check(&key, &now, &change.wanted)?;
                    let planned = PlannedChange { setting: setting.clone(), change, now };
                    let same = planned.change.knob.same(&planned.now, &planned.change.wanted);
                    if same { &mut plan.same } else { &mut plan.changes }.push(planned);
                }
                Err(error) => reason = Some(unavailable(&change.knob, &error)),
            }
        }
        if let (Some(reason), true) = (reason, before == plan.changes.len() + plan.same.len()) {
            plan.skipped.push(skip(reason));
        }
    }
    plan.warnings = warnings(&profile.settings, &plan);
    Ok(plan)
}

fn unavailable(knob: &Knob, error: &KnobError) -> String {
    match (error, knob) {
        (KnobError::Absent { .. }, Knob::Ethtool { device, .. } | Knob::Flow { device, .. }) => {
            format!("the driver of {device} has no such setting")
        }
        (KnobError::Absent { .. }, Knob::Service { unit }) => format!("there is no service {unit}"),
        (KnobError::Absent { .. }, Knob::Napi { device, id, .. }) => {
            format!("this kernel has no such setting of NAPI {id} of {device}")
        }
        (KnobError::Absent { .. }, _) => format!("this system has no {knob}"),
        _ => error.to_string(),
    }
}

fn warnings(settings: &[ProfileSetting], plan: &TunePlan) -> Vec<String> {
    let skipped = |key: &str| plan.skipped.iter().any(|skipped| skipped.setting.key == key);
    let value = |key: &str| {
        let found = settings.iter().find(|reasoned| reasoned.setting.key == key && !skipped(key));
        found.map(|reasoned| reasoned.setting.value.as_str())
    };
    let on = |key: &str| value(key).is_some_and(|value| value != "0" && value != "off");
    let mut found = Vec::new();
    if on("sysctl.net.core.busy_poll") || on("sysctl.net.core.busy_read") {
        found.push(
            "busy polling hurts where both ends run on one CPU (transit times 16 times longer, as measured), and helps \
             where each has its own: `windhover tune try` shows which it is here"
                .to_owned(),
        );
    }
    if on("nic.napi.threaded") {
        found.push(
            "threads of NAPI run at ordinary priority: under load they need a higher one than the application (then apply \
             nic.thread-policy=fifo:60), and the interrupt's CPU"
                .to_owned(),
        );
    }
    let (defer, flush) = ("nic.napi.defer-hard-irqs", "nic.napi.gro-flush-timeout");
    if (value(defer).is_some() || value(flush).is_some()) && on(defer) != on(flush) {
        found.push(format!("{defer} and {flush} work only as a pair: one is set and the other is not"));
    }
    found
}
