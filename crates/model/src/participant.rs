//! Who takes part in a measurement: any number of processes, each with a role.

use crate::result::EndReport;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::collections::BTreeMap;

words! {
    "role";
    /// What a participant does.
    #[derive(Default)]
    pub enum Role {
        /// It starts messages and owns the clock.
        #[default]
        Initiator = "initiator",
        /// It sends them back.
        Reflector = "reflector",
    }
}

impl AsRef<str> for Role {
    fn as_ref(&self) -> &str {
        self.word()
    }
}

/// The participants of a measurement with what each was told and what it cost, the initiator first.
///
/// JSON: an object by role. The second participant of a role has the key `reflector-2`, the third `reflector-3`.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "BTreeMap<String, Option<EndReport>>", into = "BTreeMap<String, EndReport>")]
pub struct Participants(Vec<(Role, EndReport)>);

impl Participants {
    /// One that starts messages, and those that send them back.
    pub fn new(initiator: EndReport, reflectors: impl IntoIterator<Item = EndReport>) -> Self {
        let reflectors = reflectors.into_iter().map(|end| (Role::Reflector, end));
        Self(std::iter::once((Role::Initiator, initiator)).chain(reflectors).collect())
    }

    /// All, the initiator first.
    pub fn iter(&self) -> impl Iterator<Item = (Role, &EndReport)> {
        self.0.iter().map(|(role, end)| (*role, end))
    }

    /// Those of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &EndReport> {
        self.iter().filter(move |(of, _)| *of == role).map(|(_, end)| end)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, role: Role) -> impl Iterator<Item = &mut EndReport> {
        self.0.iter_mut().filter(move |(of, _)| *of == role).map(|(_, end)| end)
    }

    /// The first one of a role.
    pub fn first(&self, role: Role) -> Option<&EndReport> {
        self.of(role).next()
    }

    /// The one on a host, where its role has several.
    pub fn on(&self, role: Role, host: &str) -> Option<&EndReport> {
        self.of(role).find(|end| end.host.as_deref() == Some(host))
    }
}

impl Default for Participants {
    fn default() -> Self {
        Self::new(EndReport::default(), None)
    }
}

/// The key of a participant: which of its role it is counts from 0.
fn key(role: Role, at: usize) -> String {
    if at == 0 { role.to_string() } else { format!("{role}-{}", at + 1) }
}

impl From<Participants> for BTreeMap<String, EndReport> {
    fn from(participants: Participants) -> Self {
        let mut count = BTreeMap::new();
        let keyed = participants.0.into_iter().map(|(role, end)| {
            let at = count.entry(role).or_insert(0);
            *at += 1;
            (key(role, *at - 1), end)
        });
        keyed.collect()
    }
}

impl TryFrom<BTreeMap<String, Option<EndReport>>> for Participants {
    type Error = &'static str;

    /// What a newer version knows of other roles is left out, as it leaves unknown fields.
    fn try_from(mut ends: BTreeMap<String, Option<EndReport>>) -> Result<Self, Self::Error> {
        let most = ends.len();
        let of = |role| (0..most).map(move |at| (role, key(role, at)));
        let named = Role::ALL.into_iter().flat_map(of);
        let all: Vec<_> = named.filter_map(|(role, key)| Some((role, ends.remove(&key)??))).collect();
        let has_first = all.first().is_some_and(|(role, _)| *role == Role::Initiator);
        if has_first { Ok(Self(all)) } else { Err("missing field `initiator`") }
    }
}

impl JsonSchema for Participants {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Participants".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let end = generator.subschema_for::<EndReport>();
        let by_role: serde_json::Map<String, serde_json::Value> =
            Role::ALL.into_iter().map(|role| (role.to_string(), end.clone().into())).collect();
        json_schema!({
            "type": "object",
            "description": "The first of each role; further ones are `reflector-2`, `reflector-3` and so on.",
            "properties": by_role,
            "required": [Role::Initiator],
            "additionalProperties": end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a participant that is lost, or comes in another order, on its way through a file; and files of before, which have
    /// `null` where there is no reflector.
    #[test]
    fn json_has_each_participant_by_its_role() {
        let on = |host: &str| EndReport { host: Some(host.to_owned()), ..EndReport::default() };
        let hosts: Vec<String> = (0..12).map(|at| format!("h{at}")).collect();
        let all = Participants::new(on("a"), hosts.iter().map(|host| on(host)));
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!(json["reflector"]["host"], "h0");
        assert_eq!(json["reflector-12"]["host"], "h11");
        assert_eq!(serde_json::from_value::<Participants>(json).unwrap(), all);

        let before = r#"{"initiator": {"host": "a", "cpu": 1}, "reflector": null, "observer": {}}"#;
        let read: Participants = serde_json::from_str(before).unwrap();
        assert_eq!(read.iter().map(|(role, _)| role).collect::<Vec<_>>(), [Role::Initiator]);
        assert_eq!(read.first(Role::Initiator).unwrap().spec.cpu, Some(1));
        for damaged in ["{}", r#"{"initiator": null}"#, r#"{"reflector": {"host": "b"}}"#] {
            assert!(serde_json::from_str::<Participants>(damaged).is_err(), "{damaged}");
        }
    }
}
