//! What values of factors may be: in JSON and TOML, on a command line, in a schema, in words.

use super::{Factor, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde_json::json;
use std::fmt;
use std::net::IpAddr;

/// The type of a factor's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `true` or `false`.
    Switch,
    /// A whole number of 32 bits.
    Whole,
    /// A whole number of 64 bits.
    Long,
    /// A number.
    Number,
    /// A number, or a text with k, M or G.
    Scaled,
    /// A text.
    Text,
    /// An IP address.
    Address,
    /// A message size; an axis may be one text, a size list.
    Sizes,
    /// A rate, or a rate list; an axis may be one text.
    Rates,
}

/// A number with k, M or G. Errors: what to write instead, for what is no number above 0.
pub fn scaled(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().map_err(|_| "use a number, or one with k, M or G".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number * factor) } else { Err("use a number above 0".to_owned()) }
}

impl ValueType {
    /// Whether a value is of this type.
    pub(super) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Switch, Value::Bool(_)) | (Self::Number | Self::Scaled | Self::Rates, Value::Number(_)) => true,
            (Self::Text | Self::Sizes | Self::Rates, Value::String(_)) => true,
            (Self::Whole | Self::Sizes, Value::Number(number)) => {
                number.as_u64().is_some_and(|number| u32::try_from(number).is_ok())
            }
            (Self::Long, Value::Number(number)) => number.is_u64(),
            (Self::Address, Value::String(text)) => text.parse::<IpAddr>().is_ok(),
            (Self::Scaled, Value::String(text)) => scaled(text).is_ok(),
            _ => false,
        }
    }

    /// The value of a text on a command line; `None` for what is none.
    pub(super) fn read(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Switch => Value::from(text.parse::<bool>().ok()?),
            Self::Whole | Self::Long => Value::from(text.parse::<u64>().ok()?),
            Self::Number => Value::from(text.parse::<f64>().ok().filter(|number| number.is_finite())?),
            Self::Scaled => crate::schedule::rate_value(scaled(text).ok()?),
            Self::Text | Self::Address | Self::Sizes | Self::Rates => Value::from(text),
        };
        self.takes(&value).then_some(value)
    }

    /// What is allowed, in words.
    pub(super) fn accepts(self, two_ended: bool) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Whole | Self::Long if two_ended => "a whole number from 0, or a text INITIATOR;REFLECTOR",
            Self::Whole | Self::Long => "a whole number from 0",
            Self::Number => "a number",
            Self::Scaled => "a number above 0, or a text with k, M or G",
            Self::Text => "a text",
            Self::Address if two_ended => "an IP address, or a text INITIATOR;REFLECTOR",
            Self::Address => "an IP address",
            Self::Sizes => "a whole number from 0, or a size list such as \"1-65536x2\"",
            Self::Rates => "a number, or a rate list such as \"10k-40k+10k\"",
        }
    }

    /// The schema of one value in `[measure]`, or of an item of an axis.
    fn item_schema(self, two_ended: bool, item: bool) -> Value {
        let text = || json!({ "type": "string" });
        let either = |one: Value| json!({ "anyOf": [one, text()] });
        let whole = json!({ "type": "integer", "format": "uint32", "minimum": 0 });
        match self {
            Self::Switch => json!({ "type": "boolean" }),
            Self::Whole | Self::Long if two_ended => either(whole),
            Self::Sizes if !item => either(whole),
            Self::Whole | Self::Sizes => whole,
            Self::Long => json!({ "type": "integer", "format": "uint64", "minimum": 0 }),
            Self::Number => json!({ "type": "number" }),
            Self::Scaled | Self::Rates => either(json!({ "type": "number" })),
            Self::Address if !two_ended => json!({ "type": "string", "format": "ip" }),
            Self::Address | Self::Text => text(),
        }
    }
}

impl Factor {
    /// The schema of its key in `[measure]`.
    pub(crate) fn value_schema(&self) -> Value {
        let mut schema = self.kind.item_schema(self.is_two_ended(), false);
        schema["description"] = Value::from(self.description());
        // A list that is one value is shown as that.
        let default = self.default.and_then(|text| self.kind.read(text));
        if let Some(default) = default {
            let number = default.as_str().filter(|_| matches!(self.kind, ValueType::Sizes | ValueType::Rates));
            schema["default"] = number.and_then(|text| text.parse::<u64>().ok()).map_or(default, Value::from);
        }
        schema
    }

    /// The schema of its key in `[[grid]]`.
    pub(crate) fn axis_schema(&self) -> Value {
        let list = json!({ "type": "array", "items": self.kind.item_schema(self.is_two_ended(), true) });
        let mut schema = match self.kind {
            ValueType::Sizes | ValueType::Rates => json!({ "anyOf": [list, { "type": "string" }] }),
            _ if self.may_be_single() => {
                json!({ "anyOf": [self.kind.item_schema(self.is_two_ended(), false), list] })
            }
            _ => list,
        };
        schema["description"] = Value::from(self.description());
        schema
    }
}

/// Methods of a [`Visitor`] that pass a value on, with what an error calls it.
macro_rules! visits {
    ($read:ident -> $result:ty: $($visit:ident($given:ty) $kind:ident),+) => {
        $(fn $visit<E: Error>(self, value: $given) -> Result<$result, E> {
            self.$read(Value::from(value), Unexpected::$kind(value))
        })+
    };
}

/// Reads one value of a factor. An error names what is wrong at its place.
pub(crate) struct ValueSeed {
    pub(crate) factor: &'static Factor,
    /// An item of a list, not a value by itself.
    pub(crate) is_item: bool,
}

impl ValueSeed {
    fn checked<E: Error>(self, value: Value, given: Unexpected<'_>) -> Result<Value, E> {
        let is_list = self.is_item && self.factor.kind == ValueType::Sizes && value.is_string();
        if self.factor.takes(&value) && !is_list { Ok(value) } else { Err(E::invalid_type(given, &self)) }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for ValueSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.factor.kind.accepts(self.factor.is_two_ended()))
    }

    visits!(checked -> Value: visit_bool(bool) Bool, visit_i64(i64) Signed, visit_u64(u64) Unsigned);
    visits!(checked -> Value: visit_f64(f64) Float, visit_str(&str) Str);
}

/// The values of a factor in a grid: a list, one text that stands for several sizes or rates, or one value.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum AxisValues {
    /// Values one by one.
    List(Vec<Value>),
    /// A size list or a rate list.
    Text(String),
    /// One value that its cells share without naming it, see [`Factor::may_be_single`].
    One(Value),
}

pub(crate) struct AxisSeed(pub(crate) &'static Factor);

impl AxisSeed {
    fn single<E: Error>(self, value: Value, given: Unexpected<'_>) -> Result<AxisValues, E> {
        if self.0.may_be_single() && self.0.takes(&value) {
            Ok(AxisValues::One(value))
        } else {
            Err(E::invalid_type(given, &self))
        }
    }
}

impl<'de> DeserializeSeed<'de> for AxisSeed {
    type Value = AxisValues;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<AxisValues, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AxisSeed {
    type Value = AxisValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of values, each {}", self.0.kind.accepts(self.0.is_two_ended()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AxisValues, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(ValueSeed { factor: self.0, is_item: true })? {
            values.push(value);
        }
        Ok(AxisValues::List(values))
    }

    visits!(single -> AxisValues: visit_i64(i64) Signed, visit_u64(u64) Unsigned, visit_f64(f64) Float);

    fn visit_str<E: Error>(self, text: &str) -> Result<AxisValues, E> {
        match self.0.kind {
            ValueType::Sizes | ValueType::Rates => Ok(AxisValues::Text(text.to_owned())),
            _ => Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
    }
}
