//! Values of a plan that are a list or a text.

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::fmt;

/// Sizes as a list of numbers or as one text (`"1-65536x2"`, or `"default"` for the protocol's own list).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Sizes {
    /// Numbers.
    List(Vec<u32>),
    /// A text in the grammar of size lists.
    Text(String),
}

/// Rates as a list, or as one text.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Rates {
    /// Rates one by one.
    List(Vec<RateItem>),
    /// A text in the grammar of rate lists.
    Text(String),
}

/// A rate, or several in one text.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum RateItem {
    /// A number of messages a second.
    Number(f64),
    /// A text in the grammar of rate lists.
    Text(String),
}

/// A list or a text. Unlike serde's own reading of untagged enums, an error names the item that is wrong.
struct ListOrText<T, L, S> {
    expecting: &'static str,
    list: L,
    text: S,
    made: std::marker::PhantomData<T>,
}

impl<'de, T, I, L, S> Visitor<'de> for ListOrText<(T, I), L, S>
where
    I: Deserialize<'de>,
    L: FnOnce(Vec<I>) -> T,
    S: FnOnce(String) -> T,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<T, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(self.list)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Ok((self.text)(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListOrText {
            expecting: "a list of sizes in bytes, or a text",
            list: Self::List,
            text: Self::Text,
            made: std::marker::PhantomData::<(Self, u32)>,
        })
    }
}

impl<'de> Deserialize<'de> for Rates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListOrText {
            expecting: "a list of rates, or a text",
            list: Self::List,
            text: Self::Text,
            made: std::marker::PhantomData::<(Self, RateItem)>,
        })
    }
}

impl<'de> Deserialize<'de> for RateItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Item;
        impl Visitor<'_> for Item {
            type Value = RateItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of messages a second, or a text")
            }

            fn visit_f64<E: serde::de::Error>(self, rate: f64) -> Result<RateItem, E> {
                Ok(RateItem::Number(rate))
            }

            #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
            fn visit_i64<E: serde::de::Error>(self, rate: i64) -> Result<RateItem, E> {
                Ok(RateItem::Number(rate as f64))
            }

            #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
            fn visit_u64<E: serde::de::Error>(self, rate: u64) -> Result<RateItem, E> {
                Ok(RateItem::Number(rate as f64))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RateItem, E> {
                Ok(RateItem::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Item)
    }
}
