//! Every key of a plan with type, default and example: made from the schema, for people and for error messages.
//!
//! Types, defaults and words come from the types themselves; a default that is none of a field's own is written at the end
//! of its comment as `(default X)`. Examples come from whole plans, which tests read.

use super::Plan;
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::LazyLock;
use toml::de::DeTable;

/// Plans that hold every key between them.
pub const EXAMPLES: [&str; 4] = [
    include_str!("examples/lab.toml"),
    include_str!("examples/hosts.toml"),
    include_str!("examples/pgm.toml"),
    include_str!("examples/guest.toml"),
];

/// A component of a path where the plan has a name of its own choice.
const NAME: &str = "NAME";

/// One table of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// `[measure]`, `[[grid]]`, `[hosts.NAME]`; empty for keys before any table.
    pub heading: String,
    path: Vec<String>,
    /// What it is for.
    pub about: String,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// One key of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// `seconds`
    pub name: String,
    /// What its value may be: "a number".
    pub accepts: String,
    /// Its default, or "required", or nothing.
    pub default: String,
    /// `seconds = 2.5`
    pub example: String,
    /// Whether an example plan has it just here. Each factor is a key of `[measure]` and of `[[grid]]`.
    is_usual_here: bool,
    /// What it does.
    pub about: String,
}

/// All tables of a plan.
pub fn sections() -> &'static [Section] {
    static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
        let schema = schemars::schema_for!(Plan).to_value();
        let mut sections = Vec::new();
        Walk { schema: &schema, sections: &mut sections }.section(&schema, &[], String::new(), "");
        sections
    });
    &SECTIONS
}

struct Walk<'a> {
    schema: &'a Value,
    sections: &'a mut Vec<Section>,
}

impl Walk<'_> {
    /// A schema without its reference and without the `null` of an optional value.
    fn resolve<'b>(&'b self, schema: &'b Value) -> &'b Value {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.resolve(&self.schema["$defs"][name]);
        }
        let choices = schema["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        match choices {
            [one, null] if null["type"] == "null" => self.resolve(one),
            _ => schema,
        }
    }

    fn section(&mut self, schema: &Value, path: &[String], heading: String, about: &str) {
        let at = self.sections.len();
        let about = line(about);
        self.sections.push(Section { heading, path: path.to_vec(), about, keys: Vec::new() });
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let resolved = self.resolve(property).clone();
            let about = property["description"].as_str().or(resolved["description"].as_str()).unwrap_or_default();
            let below: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
            let named = self.resolve(&resolved["additionalProperties"]).clone();
            let items = self.resolve(&resolved["items"]).clone();
            // A stack's reflector is a stack again.
            let again = named_like(&resolved, schema);
            if resolved["properties"].is_object() && !again {
                self.section(&resolved, &below, format!("[{}]", below.join(".")), about);
            } else if named["properties"].is_object() {
                let below: Vec<String> = below.into_iter().chain([NAME.to_owned()]).collect();
                self.section(&named, &below, format!("[{}]", below.join(".")), about);
            } else if items["properties"].is_object() {
                self.section(&items, &below, format!("[[{}]]", below.join(".")), about);
            } else {
                let (about, told) = told_default(&line(about));
                let default = match &property["default"] {
                    Value::Null => told,
                    Value::Object(map) if map.is_empty() => told,
                    Value::Array(list) if list.is_empty() => told,
                    value => format!("`{value}`"),
                };
                let default = if required.iter().any(|key| key == name) { "required".to_owned() } else { default };
                let accepts =
                    if again { "a table of the same keys".to_owned() } else { self.accepts(&resolved, false) };
                let own = example(&below);
                let is_usual_here = own.is_some();
                let example = own.or_else(|| borrowed(&below)).unwrap_or_default();
                let key = Key { name: name.clone(), accepts, default, example, is_usual_here, about };
                self.sections[at].keys.push(key);
            }
        }
    }

    /// What a value may be, in words; in the plural for the items of a list.
    fn accepts(&self, schema: &Value, many: bool) -> String {
        let schema = self.resolve(schema);
        let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        if let Some(choices) = choices {
            let words: Vec<String> = choices
                .iter()
                .map(|choice| match choice["const"].as_str() {
                    Some(word) => format!("`{word}`"),
                    None => self.accepts(choice, many),
                })
                .collect();
            return crate::text::listed(&words, "or");
        }
        let word = match &schema["type"] {
            Value::Array(words) => words.iter().find(|word| *word != "null").and_then(Value::as_str),
            word => word.as_str(),
        };
        let texts = ["an IP address", "IP addresses", "a text", "texts"];
        let [one, all] = match word.unwrap_or_default() {
            "boolean" => ["`true` or `false`", "`true` or `false`"],
            "integer" => ["a whole number from 0", "whole numbers from 0"],
            "number" => ["a number", "numbers"],
            "string" if schema["format"] == "ip" => [texts[0], texts[1]],
            "string" => [texts[2], texts[3]],
            "array" => return format!("a list of {}", self.accepts(&schema["items"], true)),
            _ => return "a table of texts".to_owned(),
        };
        if many { all } else { one }.to_owned()
    }
}

fn named_like(a: &Value, b: &Value) -> bool {
    a["description"] == b["description"] && a["properties"] == b["properties"] && a["properties"].is_object()
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits `(default X)` off the end of a comment.
fn told_default(about: &str) -> (String, String) {
    let told = about.trim_end_matches('.').strip_suffix(')').and_then(|text| text.rsplit_once(" (default"));
    match told {
        Some((about, default)) => (format!("{about}."), default.trim_start_matches([':', ' ']).to_owned()),
        None => (about.to_owned(), String::new()),
    }
}

/// `KEY = VALUE` as the first of the example plans has it.
fn example(path: &[String]) -> Option<String> {
    EXAMPLES.iter().find_map(|text| {
        let root = DeTable::parse(text).ok()?;
        Some(format!("{} = {}", path.last()?, text.get(value(root.get_ref(), path)?)?))
    })
}

/// The example of a factor where no plan has it just here: that of `[measure]` as a list, or the first value of an axis.
fn borrowed(path: &[String]) -> Option<String> {
    let [table, name] = path else { return None };
    let other = if table == "grid" { "measure" } else { "grid" };
    let found = example(&[other.to_owned(), name.clone()])?;
    let found: toml::Table = toml::from_str(&found).ok()?;
    Some(match found.get(name)? {
        value if other == "measure" => format!("{name} = [{value}]"),
        toml::Value::Array(items) => format!("{name} = {}", items.first()?),
        value => format!("{name} = {value}"),
    })
}

fn value(table: &DeTable<'_>, path: &[String]) -> Option<std::ops::Range<usize>> {
    let (first, rest) = path.split_first()?;
    let wanted = table.iter().filter(|(key, _)| first == NAME || key.get_ref() == first);
    wanted.into_iter().find_map(|(_, found)| match (rest, found.get_ref()) {
        ([], _) => Some(found.span()),
        (rest, toml::de::DeValue::Table(inner)) => value(inner, rest),
        (rest, toml::de::DeValue::Array(items)) => {
            items.iter().find_map(|item| value(item.get_ref().as_table()?, rest))
        }
        _ => None,
    })
}

fn fits(pattern: &[String], path: &[&str]) -> bool {
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(own, other)| own == NAME || own == other)
}

/// The key at a path such as `["measure", "seconds"]`.
pub fn find(path: &[&str]) -> Option<Key> {
    let (last, parent) = path.split_last()?;
    let section = sections().iter().find(|section| fits(&section.path, parent))?;
    section.keys.iter().find(|key| key.name == *last).cloned()
}

/// The keys and tables that a table may have.
pub fn names(path: &[&str]) -> Vec<String> {
    let sections = sections();
    let own = sections.iter().filter(|section| fits(&section.path, path)).flat_map(|section| &section.keys);
    let below =
        sections.iter().filter(|section| section.path.len() > path.len() && fits(&section.path[..path.len()], path));
    let mut names: Vec<String> = own.map(|key| key.name.clone()).collect();
    names.extend(below.map(|section| section.path[path.len()].clone()));
    names.sort();
    names.dedup();
    names
}

/// The reference as a Markdown document.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Plan reference\n\nMade by `cargo xtask generate` from the types that read plans. A plan is a TOML file for \
         `windhover campaign`; unknown keys are rejected. The same as a JSON schema: \
         [plan.schema.json](schemas/plan.schema.json). Complete plans are in [campaigns/](../../campaigns).\n\nA value of \
         two ends is written `initiator;reflector`; one value stands for both, and `default` leaves an end as the system has \
         it. Each list in `[[grid]]` is an axis: every combination of their values is a cell, and several grids add up. A \
         key of one of the two stands in the other too: as one value in `[measure]`, as a list in `[[grid]]`.\n",
    );
    for section in sections() {
        let heading =
            if section.heading.is_empty() { "Before any table".to_owned() } else { format!("`{}`", section.heading) };
        let _ = write!(text, "\n## {heading}\n\n");
        if !section.about.is_empty() {
            let _ = writeln!(text, "{}\n", section.about);
        }
        text.push_str("| key | value | default | example | meaning |\n|---|---|---|---|---|\n");
        for key in section.keys.iter().filter(|key| key.is_usual_here) {
            let cells = [&key.accepts, &key.default, &format!("`{}`", key.example), &key.about];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(text, "| `{}` | {} |", key.name, cells.join(" | "));
        }
    }
    text.push_str("\n## Examples: all keys in four plans\n");
    for example in EXAMPLES {
        let _ = write!(text, "\n```toml\n{example}```\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_an_example_that_is_read() {
        for text in EXAMPLES {
            Plan::parse("example", text).unwrap();
        }
        let without: Vec<String> = sections()
            .iter()
            .flat_map(|section| section.keys.iter().map(move |key| (section, key)))
            .filter(|(_, key)| key.example.is_empty())
            .map(|(section, key)| format!("{} {}", section.heading, key.name))
            .collect();
        assert!(without.is_empty(), "no example plan has {without:?}");
    }

    /// A plan that says its defaults has the cells of one that does not.
    #[test]
    fn told_defaults_are_the_real_ones() {
        let head = "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n";
        let mut told = 0;
        for key in &sections().iter().find(|section| section.heading == "[measure]").unwrap().keys {
            let value = key.default.trim_matches('`');
            let words = format!("[measure]\n{} = {value}\n", key.name);
            if key.default.is_empty() || toml::from_str::<toml::Table>(&words).is_err() {
                continue;
            }
            told += 1;
            let tried = crate::Probe::ALL.into_iter().filter_map(|probe| {
                let grid = format!("[[grid]]\nprobe = [\"{probe}\"]\n");
                let plain = Plan::parse("t", &format!("{head}{grid}")).unwrap().cells().unwrap();
                let told = Plan::parse("t", &format!("{head}{words}{grid}")).ok()?.cells().unwrap();
                // An axis that is named is a factor.
                Some(plain.iter().map(|cell| &cell.spec).eq(told.iter().map(|cell| &cell.spec)))
            });
            let tried: Vec<bool> = tried.collect();
            assert!(!tried.is_empty() && tried.iter().any(|same| *same), "{} = {value} is not its default", key.name);
        }
        assert!(told >= 15, "only {told} defaults of [measure] are told as values");
    }
}
