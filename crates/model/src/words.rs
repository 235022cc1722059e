//! Enums whose variants have a word each: one list of them for flags, plans, documents and schemas.

use crate::ModelError;
use crate::text::listed;

/// Defines an enum from its variants and their words: `ALL`, `word`, `Display` and JSON come from this one list. With the
/// name of the thing before it (`"pacer";`) it is read from text too, and an unknown word is answered with the known ones.
/// Variants may have further words that are read but never written: `UnixDgram = "unix-dgram" | "unix-datagram"`.
#[macro_export]
macro_rules! words {
    (
        $what:literal;
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$of_variant:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+ }
    ) => {
        $crate::words! { $(#[$about])* $vis enum $name { $($(#[$of_variant])* $variant = $word,)+ } }

        impl std::str::FromStr for $name {
            type Err = $crate::ModelError;

            fn from_str(text: &str) -> Result<Self, $crate::ModelError> {
                match text {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err($crate::words::unknown($what, text, &[$($word),+])),
                }
            }
        }
    };
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        $(#[$about])*
        $vis enum $name { $($(#[$of_variant])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them, in the order that help texts and tables have.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in flags, plans and documents.
            $vis const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

/// Functions that give the values of absent fields, as serde wants them.
macro_rules! defaults {
    ($($name:ident: $of:ty = $value:expr;)+) => { $(fn $name() -> $of { $value })+ };
}

/// A type that documents hold as the text that it is written as and read from, with the schema of that text.
macro_rules! text {
    ($name:ident $schema:tt) => {
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::ModelError;

            fn try_from(text: String) -> Result<Self, $crate::ModelError> {
                text.parse()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

/// Reads the items of a list whose words are known; words of newer versions are left out.
pub(crate) fn known<'de, D, T>(list: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let read = |item| match serde_json::from_value(item) {
        Err(error) if error.to_string().starts_with("unknown variant") => None,
        read => Some(read.map_err(serde::de::Error::custom)),
    };
    <Vec<serde_json::Value> as serde::Deserialize>::deserialize(list)?.into_iter().filter_map(read).collect()
}

/// The answer to an unknown word: `use a, b or c`.
pub fn unknown(what: &'static str, given: &str, known: &[&str]) -> ModelError {
    ModelError::UnknownWord { what, given: given.to_owned(), accepted: listed(known, "or") }
}

/// The known word nearest to a wrong one, if any: few letters differ, or its end is missing (`recv` for `recv-us`).
pub fn nearest<W: AsRef<str> + Ord>(given: &str, known: impl IntoIterator<Item = W>) -> Option<W> {
    let distance = |word: W| (strsim::damerau_levenshtein(given, word.as_ref()), word);
    let (changes, word) = known.into_iter().map(distance).min()?;
    let is_begun = given.len() > 3 && word.as_ref().starts_with(given);
    (is_begun || changes <= 1 + word.as_ref().len().min(given.len()) / 4).then_some(word)
}

/// What to use instead of a wrong word: the nearest one, or one of all.
pub(crate) fn instead<'a>(given: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(word) => format!("did you mean {word}?"),
        None => format!("use {}", listed(&known.into_iter().collect::<Vec<_>>(), "or")),
    }
}

#[cfg(test)]
mod tests {
    words! {
        "test word";
        /// Of the test alone.
        #[derive(Default)]
        enum Test {
            /// First.
            #[default]
            First = "the-first" | "first",
            /// Second.
            Second = "second",
        }
    }

    #[test]
    fn one_list_for_text_and_json() {
        assert_eq!(Test::ALL, [Test::default(), Test::Second]);
        for test in Test::ALL {
            assert_eq!(test.to_string().parse::<Test>().unwrap(), test);
            assert_eq!(serde_json::to_value(test).unwrap(), test.word());
            assert_eq!(serde_json::from_value::<Test>(test.word().into()).unwrap(), test);
        }
        assert_eq!("first".parse::<Test>().unwrap(), Test::First);
        let error = "third".parse::<Test>().unwrap_err().to_string();
        assert_eq!(error, "test word 'third' is not known: use the-first or second");
        assert!(serde_json::from_str::<Test>("\"first\"").is_err(), "documents have the one word");
    }

    #[test]
    fn words_of_a_newer_version_do_not_lose_the_result() {
        use crate::{Fate, OneWayMethod, ResultDocument, result::SeriesQuantity};
        use serde_json::json;

        let series =
            |quantity: &str| json!({ "quantity": quantity, "host": "b", "interval_ns": 9, "values": [2.0, null] });
        let fate = |fate: &str| json!({ "fate": fate, "messages": 3 });
        let mut document = serde_json::to_value(ResultDocument::default()).unwrap();
        document["series"] = json!([series("tomorrow"), series("lost")]);
        document["pgm"] = json!({ "carrier": "udp", "group": "", "reply_group": "", "ends": [],
            "fates": [fate("tomorrow"), fate("held")], "steps": [{ "way": "tomorrow" }, { "way": "back" }] });
        document["stream"] = json!({ "flows": [{ "direction": "tomorrow" }, { "direction": "down" }] });
        let read: ResultDocument = serde_json::from_value(document.clone()).unwrap();
        let [one] = read.series.as_slice() else { panic!("{:?}", read.series) };
        assert_eq!((one.quantity, one.values.as_slice()), (SeriesQuantity::Lost, &[Some(2.0), None][..]));
        let pgm = read.pgm.unwrap();
        assert_eq!((pgm.fates.len(), pgm.steps.len(), pgm.fate(Fate::Held).unwrap().messages), (1, 1, 3));
        assert_eq!(read.stream.unwrap().flows.len(), 1);
        assert_eq!(serde_json::from_value::<OneWayMethod>(json!("tomorrow")).unwrap(), OneWayMethod::Other);
        // What is damaged is no new word.
        document["series"] = json!([{ "quantity": "lost" }]);
        assert!(serde_json::from_value::<ResultDocument>(document).unwrap_err().to_string().contains("missing field"));
    }
}
