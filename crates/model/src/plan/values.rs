//! The values of factors in a plan: `[measure]` and `[[grid]]`, read and described by the table of factors.

use crate::factor::{self, AxisSeed, AxisValues, Factor, Value, ValueSeed};
use crate::{ModelError, PgmSpec, Protocol, RateList, SizeList};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// What every cell shares: one value for each factor that is named, and two keys that are no factors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measure {
    values: BTreeMap<&'static str, Value>,
    /// Groups, windows and timers of PGM.
    pub pgm: Option<PgmSpec>,
    /// Whether settings may make ends busy-poll that share a CPU.
    pub allow_starving: bool,
}

/// A product of axes: the values of each factor that is named. An absent one has the value of `[measure]` or its default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    axes: BTreeMap<&'static str, AxisValues>,
    /// How often each of its cells is measured, instead of the plan's `repetitions`.
    pub repetitions: Option<u32>,
}

const PGM: &str = "pgm";
const REPETITIONS: &str = "repetitions";
const ALLOW_STARVING: &str = "allow_starving";

const ABOUT_MEASURE: &str = "What every cell shares: one value of any axis. A grid overrides it. Values of both ends are \
                             `initiator;reflector`.";
const ABOUT_GRID: &str = "A product of axes. Every key of `[measure]` but `pgm` and `allow_starving` is one: a list of \
                          values. An absent axis has the one value that `[measure]` or the default gives. Keys that say how \
                          long a cell is measured may have a single value, which is no axis.";
const ABOUT_REPETITIONS: &str = "How often each cell of this grid is measured; fewer rounds than others are spread over the \
                                 run (default: the plan's `repetitions`).";
const ABOUT_PGM: &str = "Groups, windows and timers of PGM: `[measure.pgm]` with `group = \"239.192.0.1\"` at least, for \
                         `protocol = [\"pgm\"]`.";
const ABOUT_STARVING: &str = "Whether settings may make ends busy-poll that share a CPU, to measure what that costs.";

fn known(name: &str) -> Option<&'static str> {
    factor::find(name).map(|factor| factor.name)
}

impl Measure {
    /// The shared value of a factor.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Sets a shared value; a name that is no factor is ignored.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(name) = known(name) {
            self.values.insert(name, value.into());
        }
    }
}

impl Grid {
    /// The values of an axis.
    pub fn get(&self, name: &str) -> Option<&AxisValues> {
        self.axes.get(name)
    }

    /// The axes: what has a list of values.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.axes.iter().filter(|(_, values)| !matches!(values, AxisValues::One(_))).map(|(name, _)| *name)
    }

    /// Sets the values of an axis; a name that is no factor is ignored.
    pub fn set<V: Into<Value>>(&mut self, name: &str, values: impl IntoIterator<Item = V>) {
        if let Some(name) = known(name) {
            self.axes.insert(name, AxisValues::List(values.into_iter().map(Into::into).collect()));
        }
    }
}

/// The values of an axis one by one: lists of sizes and rates are taken apart.
pub(super) fn expanded(
    factor: &Factor,
    given: &AxisValues,
    protocol: Option<Protocol>,
) -> Result<Vec<Value>, ModelError> {
    match given {
        AxisValues::List(values) => {
            let each = values.iter().map(|value| single(factor, value, protocol));
            each.collect::<Result<Vec<_>, _>>().map(|values| values.concat())
        }
        AxisValues::Text(text) => single(factor, &Value::from(text.as_str()), protocol),
        AxisValues::One(value) => single(factor, value, protocol),
    }
}

pub(super) fn single(factor: &Factor, value: &Value, protocol: Option<Protocol>) -> Result<Vec<Value>, ModelError> {
    let rates = |rates: &[f64]| rates.iter().copied().map(crate::schedule::rate_value).collect();
    Ok(match (factor.kind, value) {
        (factor::ValueType::Sizes, Value::String(text)) => {
            let list = if text == "default" { SizeList::default_for(protocol) } else { text.parse::<SizeList>()? };
            list.iter().map(Value::from).collect()
        }
        (factor::ValueType::Rates, Value::String(text)) => rates(text.parse::<RateList>()?.rates()),
        (factor::ValueType::Rates, value) => rates(&[value.as_f64().unwrap_or_default()]),
        (_, value) => vec![value.clone()],
    })
}

enum Key {
    Factor(&'static Factor),
    Other(&'static str),
}

/// Reads a key: a factor, or one of these names. An unknown one is refused at its place.
struct KeySeed(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        let name = String::deserialize(deserializer)?;
        let other = self.0.iter().find(|other| **other == name).map(|other| Key::Other(other));
        let key = other.or_else(|| factor::find(&name).map(Key::Factor));
        key.ok_or_else(|| D::Error::custom(format!("unknown field `{name}`")))
    }
}

struct MeasureVisitor;

impl<'de> Visitor<'de> for MeasureVisitor {
    type Value = Measure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Measure, A::Error> {
        let mut measure = Measure::default();
        while let Some(key) = map.next_key_seed(KeySeed(&[PGM, ALLOW_STARVING]))? {
            match key {
                Key::Factor(factor) => {
                    let value = map.next_value_seed(ValueSeed { factor, is_item: false })?;
                    measure.values.insert(factor.name, value);
                }
                Key::Other(PGM) => measure.pgm = Some(map.next_value()?),
                Key::Other(_) => measure.allow_starving = map.next_value()?,
            }
        }
        Ok(measure)
    }
}

impl<'de> Deserialize<'de> for Measure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MeasureVisitor)
    }
}

struct GridVisitor;

impl<'de> Visitor<'de> for GridVisitor {
    type Value = Grid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Grid, A::Error> {
        let mut grid = Grid::default();
        while let Some(key) = map.next_key_seed(KeySeed(&[REPETITIONS]))? {
            match key {
                Key::Factor(factor) => {
                    grid.axes.insert(factor.name, map.next_value_seed(AxisSeed(factor))?);
                }
                Key::Other(_) => grid.repetitions = Some(map.next_value()?),
            }
        }
        Ok(grid)
    }
}

impl<'de> Deserialize<'de> for Grid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(GridVisitor)
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.values {
            map.serialize_entry(name, value)?;
        }
        if self.allow_starving {
            map.serialize_entry(ALLOW_STARVING, &true)?;
        }
        // Tables stand behind values in TOML.
        if let Some(pgm) = &self.pgm {
            map.serialize_entry(PGM, pgm)?;
        }
        map.end()
    }
}

impl Serialize for Grid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, values) in &self.axes {
            map.serialize_entry(name, values)?;
        }
        if let Some(repetitions) = self.repetitions {
            map.serialize_entry(REPETITIONS, &repetitions)?;
        }
        map.end()
    }
}

fn table(about: &str, properties: &serde_json::Map<String, Value>) -> Schema {
    let table = json!({
        "type": "object", "description": about, "properties": properties, "additionalProperties": false
    });
    Schema::try_from(table).unwrap_or_default()
}

impl JsonSchema for Measure {
    fn schema_name() -> Cow<'static, str> {
        "Measure".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties: serde_json::Map<String, Value> =
            factor::all().map(|factor| (factor.name.to_owned(), factor.value_schema())).collect();
        let mut pgm = generator.subschema_for::<Option<PgmSpec>>();
        pgm.insert("description".to_owned(), ABOUT_PGM.into());
        properties.insert(PGM.to_owned(), pgm.to_value());
        let starving = json!({ "type": "boolean", "default": false, "description": ABOUT_STARVING });
        properties.insert(ALLOW_STARVING.to_owned(), starving);
        table(ABOUT_MEASURE, &properties)
    }
}

impl JsonSchema for Grid {
    fn schema_name() -> Cow<'static, str> {
        "Grid".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties: serde_json::Map<String, Value> =
            factor::all().map(|factor| (factor.name.to_owned(), factor.axis_schema())).collect();
        let repetitions =
            json!({ "type": "integer", "format": "uint32", "minimum": 1, "description": ABOUT_REPETITIONS });
        properties.insert(REPETITIONS.to_owned(), repetitions);
        table(ABOUT_GRID, &properties)
    }
}
