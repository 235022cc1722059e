//! Profiles: named values of the settings, as TOML, and what a program gets of them.
//!
//! ```toml
//! summary = "What it is for"
//! extends = "latency"          # a built-in profile, or a file beside this one
//! recv-us = 20000
//!
//! [program.redis-server]       # only for a program of this name
//! epoll-us = 1000
//! ```

use crate::BypassError;
use crate::interface::{Interface, number_of};
use bypass_abi::{Key, SETTINGS, Setting, Start, VARIABLE, Values};
use host::layers::{self, Layer, stem};
use std::collections::BTreeMap;
use toml::Value;

/// The built-in profiles, in the order in which they are listed; the first is the default.
const BUILT_IN: [(&str, &str); 3] = [
    ("latency", include_str!("../profiles/latency.toml")),
    ("latency-best", include_str!("../profiles/latency-best.toml")),
    ("safe", include_str!("../profiles/safe.toml")),
];

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Effective {
    pub name: &'static str,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    pub value: u64,
    pub what: &'static str,
    /// `default`, `profile NAME`, `profile NAME, program NAME` or the name of a variable.
    pub from: String,
}

/// A profile with its layers laid over each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Its name: of a file without `.toml`.
    pub name: String,
    /// What it is for: one line.
    pub summary: String,
    /// By name of the setting: the value and where it comes from.
    values: BTreeMap<&'static str, (u64, String)>,
    /// The same for each program that has a section.
    programs: BTreeMap<String, BTreeMap<&'static str, (u64, String)>>,
}

/// The built-in profiles. Errors: never in a build that passed its tests.
pub fn profiles() -> Result<Vec<Profile>, BypassError> {
    BUILT_IN.iter().map(|(name, _)| Profile::load(name)).collect()
}

impl Profile {
    /// A built-in profile by name, or a file's. Errors: [`BypassError`]: unknown, unreadable, or with keys or values that cannot be.
    pub fn load(name: &str) -> Result<Self, BypassError> {
        let mut profile = Self::default();
        for layer in layers::load(name, &BUILT_IN)? {
            profile.lay(&layer)?;
        }
        profile.name = stem(name);
        Ok(profile)
    }

    /// Lays a layer over those before it.
    fn lay(&mut self, layer: &Layer) -> Result<(), BypassError> {
        let wrong = |why: String| BypassError::Profile { profile: layer.name.clone(), why };
        let origin = format!("profile {}", stem(&layer.name));
        for (key, value) in &layer.table {
            match (key.as_str(), value) {
                ("summary", Value::String(text)) => self.summary.clone_from(text),
                ("summary", _) => return Err(wrong("summary is a text".to_owned())),
                ("program", Value::Table(programs)) => {
                    for (program, section) in programs {
                        let section = section
                            .as_table()
                            .ok_or_else(|| wrong(format!("program.{program} is a section of settings")))?;
                        let values = self.programs.entry(program.clone()).or_default();
                        for (key, value) in section {
                            let (setting, value) = entry(key, value).map_err(wrong)?;
                            values.insert(setting.name, (value, format!("{origin}, program {program}")));
                        }
                    }
                }
                _ => {
                    let (setting, value) = entry(key, value).map_err(wrong)?;
                    self.values.insert(setting.name, (value, origin.clone()));
                }
            }
        }
        Ok(())
    }

    /// What a program gets: the defaults, the profile, its section for the program, then the variables. Errors:
    /// [`BypassError::Variable`].
    pub fn settings(
        &self,
        program: &str,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Settings, BypassError> {
        let overrides = overrides(variables)?;
        let section = self.programs.get(program);
        let settings = SETTINGS.iter().map(|setting| {
            let own = section.and_then(|section| section.get(setting.name)).or_else(|| self.values.get(setting.name));
            let (value, from) = match (overrides.get(setting.name), own) {
                (Some(value), _) => (*value, setting.variable()),
                (None, Some((value, from))) => (*value, from.clone()),
                (None, None) => (setting.default, "default".to_owned()),
            };
            Effective { name: setting.name, unit: setting.unit, value, what: setting.what, from }
        });
        Ok(Settings(settings.collect()))
    }
}

/// What a program gets, one entry for each setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Settings(Vec<Effective>);

impl Settings {
    /// Each setting with its value and origin.
    pub fn effective(&self) -> &[Effective] {
        &self.0
    }

    /// What the library is handed, with whether a socket that cannot be accelerated ends the program, and whether the library says so.
    pub fn start<'a>(&self, (require, verbose): (bool, bool), stack: Option<&'a Interface>) -> Start<'a> {
        let mut values: Values = Start::default().values;
        for (slot, effective) in values.iter_mut().zip(&self.0) {
            *slot = effective.value;
        }
        let interface = stack.map_or(&b""[..], |stack| stack.name.as_bytes());
        let backend = stack.and_then(|stack| stack.backend).map_or(0, number_of);
        Start { values, require, verbose, stack: stack.is_some(), interface, backend, ..Start::default() }
    }

    /// What forbids the stack in the process, where something does.
    pub fn without_stack(&self) -> Option<&Effective> {
        self.0.get(Key::Xdp as usize).filter(|effective| effective.value == 0)
    }
}

fn entry(key: &str, value: &Value) -> Result<(&'static Setting, u64), String> {
    let setting = SETTINGS.iter().find(|setting| setting.name == key).ok_or_else(|| unknown(key))?;
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    let number = number.ok_or_else(|| format!("{key} is a whole number from 0 to {}", setting.max))?;
    Ok((setting, checked(setting, number)?))
}

fn checked(setting: &Setting, value: u64) -> Result<u64, String> {
    if value > setting.max {
        return Err(format!("{} is at most {}, and not {value}", setting.name, setting.max));
    }
    Ok(value)
}

fn unknown(key: &str) -> String {
    let names = SETTINGS.map(|setting| setting.name);
    match model::words::nearest(key, names) {
        Some(name) => format!("unknown setting '{key}': did you mean '{name}'?"),
        None => format!("unknown setting '{key}': use {}, summary, extends or program", names.join(", ")),
    }
}

/// Values of the variables that begin with [`VARIABLE`] and `_`, by name of the setting.
fn overrides(variables: impl Iterator<Item = (String, String)>) -> Result<BTreeMap<&'static str, u64>, BypassError> {
    let mut values = BTreeMap::new();
    for (variable, text) in variables {
        let Some(rest) = variable.strip_prefix(VARIABLE).and_then(|rest| rest.strip_prefix('_')) else { continue };
        let wrong = |why: String| BypassError::Variable { variable: variable.clone(), why };
        let name = rest.to_lowercase().replace('_', "-");
        let setting = SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| wrong(unknown(&name)))?;
        let number =
            text.parse().map_err(|_| wrong(format!("'{text}' is no whole number from 0 to {}", setting.max)))?;
        values.insert(setting.name, checked(setting, number).map_err(wrong)?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(settings: &Settings, name: &str) -> (u64, String) {
        let found = settings.effective().iter().find(|effective| effective.name == name).unwrap();
        (found.value, found.from.clone())
    }

    fn variables(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        pairs.into_iter()
    }

    #[test]
    fn the_built_in_profiles_name_every_setting() {
        for profile in profiles().unwrap() {
            assert!(!profile.summary.is_empty(), "{}", profile.name);
            for setting in &SETTINGS {
                assert!(profile.values.contains_key(setting.name), "{} of {}", setting.name, profile.name);
            }
        }
    }

    #[test]
    fn layers_sections_and_variables_go_over_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        file("base.toml", "extends = 'safe'\nrecv-us = 11\npoll-us = 12\n");
        let own = file(
            "own.toml",
            "extends = ['latency', 'base.toml']\npoll-us = 13\n[program.redis-server]\nepoll-us = 14\n",
        );
        let profile = Profile::load(&own).unwrap();
        let of = |program: &str, name: &str, set: &[(&str, &str)]| {
            value(&profile.settings(program, variables(set)).unwrap(), name)
        };
        assert_eq!(of("x", "yield-us", &[]), (10, "profile safe".to_owned()));
        assert_eq!(of("x", "recv-us", &[]), (11, "profile base".to_owned()));
        assert_eq!(of("x", "poll-us", &[]), (13, "profile own".to_owned()));
        assert_eq!(of("x", "epoll-us", &[]), (50, "profile safe".to_owned()));
        assert_eq!(of("redis-server", "epoll-us", &[]), (14, "profile own, program redis-server".to_owned()));
        let set = [("WINDHOVER_BYPASS_EPOLL_US", "15"), ("WINDHOVER_BYPASS", "recv-us=1"), ("HOME", "/")];
        assert_eq!(of("redis-server", "epoll-us", &set), (15, "WINDHOVER_BYPASS_EPOLL_US".to_owned()));
        let start = profile.settings("redis-server", variables(&set)).unwrap().start((true, false), None);
        assert_eq!((start.values[bypass_abi::Key::Epoll as usize], start.require), (15, true));
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        for (text, words) in [
            ("recv_us = 3", "did you mean 'recv-us'"),
            ("nonsense = 3", "use recv-us, "),
            ("recv-us = -1", "recv-us is a whole number from 0 to 10000000"),
            ("recv-us = 'x'", "recv-us is a whole number"),
            ("recv-us = 10000001", "at most 10000000"),
            ("[program.x]\npol-us = 1", "did you mean 'poll-us'"),
            ("program = 3", "unknown setting 'program'"),
            ("extends = 'wrong.toml'", "extends itself"),
            ("extends = 'other'", "no profile 'other': the built-in ones are latency, latency-best, safe;"),
            ("extends = 3", "extends is the name of a profile"),
            ("recv-us = ", "profile "),
        ] {
            let path = folder.path().join("wrong.toml");
            std::fs::write(&path, text).unwrap();
            let error = Profile::load(path.to_str().unwrap()).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
        let latency = Profile::load("latency").unwrap();
        for (name, text, words) in [
            ("WINDHOVER_BYPASS_RECV", "3", "did you mean 'recv-us'"),
            ("WINDHOVER_BYPASS_RECV_US", "-3", "no whole number"),
            ("WINDHOVER_BYPASS_RECV_US", "99999999", "at most"),
        ] {
            let error = latency.settings("x", variables(&[(name, text)])).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(name), "{error}");
        }
        assert!(Profile::load("nosuch.toml").unwrap_err().to_string().contains("nosuch.toml"));
    }
}
