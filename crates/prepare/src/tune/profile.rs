//! Profiles: named lists of settings, in layers, as TOML.
//!
//! ```toml
//! summary = "What it is for"
//! extends = ["latency"]              # one or several: built-in profiles, or files beside this one; later ones win, this one last
//! notes = ["What it does not do"]
//!
//! [sysctl]
//! net.core.busy_poll = { value = 50, why = "asks the device instead of waiting for its interrupt" }
//! vm.stat_interval = 10              # in a file of one's own the reason may be left out
//!
//! [nic.coalesce]
//! rx-usecs = 0
//!
//! [boot]
//! parameters = [{ value = "skew_tick=1", why = "..." }]   # only for `tune emit`
//! ```

use super::key::QueueSetting;
use super::{Key, TuneError};
use host::knob::EthtoolPart;
use host::layers::{self, Layer, stem};
use model::Setting;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The built-in profiles, in the order in which they are listed.
const BUILT_IN: [(&str, &str); 5] = [
    ("latency", include_str!("../../profiles/latency.toml")),
    ("network-latency", include_str!("../../profiles/network-latency.toml")),
    ("paper-2012", include_str!("../../profiles/paper-2012.toml")),
    ("paper-2019", include_str!("../../profiles/paper-2019.toml")),
    ("throughput", include_str!("../../profiles/throughput.toml")),
];
pub(super) fn is_built_in(key: &Key) -> bool {
    let has = |profile: &Profile| profile.settings.iter().any(|reasoned| reasoned.setting.key == key.to_string());
    profiles().is_ok_and(|profiles| profiles.iter().any(has))
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProfileSetting {
    #[serde(flatten)]
    pub setting: Setting,
    pub why: String,
    pub layer: String,
}

/// A parameter of the kernel's command line; only written out, never set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BootParameter {
    /// As on the command line: `skew_tick=1`.
    pub value: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Profile {
    /// Its name: of a file without `.toml`.
    pub name: String,
    pub summary: String,
    /// Names of its layers, lowest first, itself last.
    pub layers: Vec<String>,
    /// Its settings in the order in which they are made.
    pub settings: Vec<ProfileSetting>,
    pub boot: Vec<BootParameter>,
    pub notes: Vec<String>,
}

/// The built-in profiles; an error in no build that passed its tests.
pub fn profiles() -> Result<Vec<Profile>, TuneError> {
    BUILT_IN.iter().map(|(name, _)| Profile::load(name)).collect()
}

impl Profile {
    /// A built-in profile by name, or a file's (ending in `.toml`).
    pub fn load(name: &str) -> Result<Self, TuneError> {
        Ok(Self { name: stem(name), ..Self::of(&layers::load(name, &BUILT_IN)?)? })
    }

    /// A profile from its text. It extends built-in profiles only.
    pub fn parse(name: &str, text: &str) -> Result<Self, TuneError> {
        Ok(Self { name: name.to_owned(), ..Self::of(&layers::parse(name, text, &BUILT_IN)?)? })
    }

    fn of(layers: &[Layer]) -> Result<Self, TuneError> {
        let mut building = ProfileBuilder::default();
        for layer in layers {
            building.add(layer)?;
        }
        Ok(Self { settings: building.settings.into_values().collect(), ..building.profile })
    }

    /// Lays single settings over it.
    pub fn with(mut self, settings: &[Setting]) -> Result<Self, TuneError> {
        let mut all: BTreeMap<SettingOrder, ProfileSetting> = BTreeMap::new();
        for reasoned in self.settings {
            let key: Key = reasoned.setting.key.parse()?;
            all.insert(order_of(&key, &reasoned.setting), reasoned);
        }
        for setting in settings {
            let (key, setting) = Key::normal(setting)?;
            let why = "asked for with --set".to_owned();
            all.insert(order_of(&key, &setting), ProfileSetting { setting, why, layer: "--set".to_owned() });
        }
        self.settings = all.into_values().collect();
        Ok(self)
    }
}

/// A rank, the key, and the rule of a flow: rules do not replace each other.
type SettingOrder = (u8, Key, String);

/// Order of settings: daemons that interfere first; a CPU's preference before its governor, so that undoing gives the
/// governor back first; what makes queues anew before what is set of them. That of [`Key`], but for ethtool(8).
fn order_of(key: &Key, setting: &Setting) -> SettingOrder {
    let rank = match key {
        Key::Ethtool(EthtoolPart::Channels, _) => 1,
        Key::Ethtool(EthtoolPart::Ring, _) => 2,
        Key::Ethtool(EthtoolPart::Feature, _) => 3,
        Key::Ethtool(..) => 4,
        Key::Napi(_) | Key::Queues(_) => 5,
        _ => 0,
    };
    (rank, key.clone(), if *key == Key::Queues(QueueSetting::Flow) { setting.value.clone() } else { String::new() })
}

#[derive(Default)]
struct ProfileBuilder {
    profile: Profile,
    settings: BTreeMap<SettingOrder, ProfileSetting>,
}

impl ProfileBuilder {
    fn add(&mut self, Layer { name, table }: &Layer) -> Result<(), TuneError> {
        let wrong = |why: String| TuneError::profile(name, why);
        self.profile.summary = table
            .get("summary")
            .and_then(Value::as_str)
            .ok_or_else(|| wrong("it has no summary".to_owned()))?
            .to_owned();
        self.profile.notes.extend(strings(table, "notes").map_err(wrong)?);
        self.profile.layers.retain(|layer| layer != name);
        self.profile.layers.push(name.to_owned());
        for (key, value) in table {
            match key.as_str() {
                "summary" | "notes" => {}
                "boot" => self.boot(value).map_err(wrong)?,
                _ => self.settings(name, key, value)?,
            }
        }
        Ok(())
    }

    fn boot(&mut self, value: &Value) -> Result<(), String> {
        let shape = || "boot holds parameters = [{ value = \"…\", why = \"…\" }]".to_owned();
        let table = value.as_table().filter(|table| table.keys().all(|key| key == "parameters")).ok_or_else(shape)?;
        for parameter in table.get("parameters").and_then(Value::as_array).ok_or_else(shape)? {
            let text = |key: &str| parameter.get(key).and_then(Value::as_str);
            let value = text("value").ok_or_else(shape)?.to_owned();
            let plain = |c: char| c.is_ascii_graphic() && !"\"'`$\\".contains(c);
            if value.is_empty() || !value.chars().all(plain) {
                return Err(format!(
                    "boot parameter '{value}' holds characters that a boot loader would take for its own"
                ));
            }
            self.profile.boot.retain(|known| known.value != value);
            self.profile.boot.push(BootParameter { value, why: text("why").unwrap_or_default().to_owned() });
        }
        Ok(())
    }

    /// Tables are parts of keys, until one has a value.
    fn settings(&mut self, layer: &str, key: &str, value: &Value) -> Result<(), TuneError> {
        let wrong = |why: &str| TuneError::profile(layer, format!("{key}: {why}"));
        let (value, why) = match value {
            Value::Table(table) if !table.contains_key("value") => {
                for (name, value) in table {
                    self.settings(layer, &format!("{key}.{name}"), value)?;
                }
                return Ok(());
            }
            Value::Table(table) => {
                if let Some(other) = table.keys().find(|key| !["value", "why"].contains(&key.as_str())) {
                    return Err(wrong(&format!("'{other}' is neither value nor why")));
                }
                let why = table.get("why").map_or(Ok(""), |why| why.as_str().ok_or_else(|| wrong("why is a text")))?;
                (table.get("value").unwrap_or(value), why.to_owned())
            }
            plain => (plain, String::new()),
        };
        let values = match value {
            Value::Array(several) if key == "nic.flow" => several.iter().collect(),
            one => vec![one],
        };
        for value in values {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Boolean(on) => if *on { "on" } else { "off" }.to_owned(),
                _ => return Err(wrong("a value is a text, a whole number, true or false")),
            };
            let (key, setting) = Key::normal(&Setting { key: key.to_owned(), value })?;
            let why = if why.is_empty() { format!("profile {layer}") } else { why.clone() };
            self.settings.insert(order_of(&key, &setting), ProfileSetting { setting, why, layer: layer.to_owned() });
        }
        Ok(())
    }
}

fn strings(table: &Table, key: &str) -> Result<Vec<String>, String> {
    let Some(value) = table.get(key) else { return Ok(Vec::new()) };
    let texts = value
        .as_array()
        .and_then(|values| values.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
    texts.ok_or_else(|| format!("{key} is a list of texts"))
}
