//! Where in a plan an error comes from: file, line, key, and what is allowed there.
//!
//! Errors of the parser have a place. Errors of the checks behind it do not, and most of them are about cells, which are
//! made of several keys. Their keys are found by leaving out one after the other: the error comes from those without which
//! it does not occur. A plan may have very many cells, so first its lists are cut short as far as the error stays.

use super::{Plan, reference};
use crate::ModelError;
use crate::words::nearest;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys that are tried at most, so that a plan of any size is answered at once.
const MOST_TRIED: usize = 300;

/// Plans that are checked at most to cut lists short.
const MOST_CUTS: usize = 300;

const MOST_NAMED: usize = 3;

/// One level of a path: what is in a table, or in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathPart {
    Key(String),
    Item(usize),
}

/// Something in the text: a key with its value, or an item of a list.
#[derive(Debug)]
struct Entry {
    path: Vec<PathPart>,
    /// Where it begins, in bytes.
    start: usize,
    key: Range<usize>,
    value: Range<usize>,
    /// No table and no list of tables.
    plain: bool,
}

impl Entry {
    /// `grid.policy`: which of several grids it is, the line tells.
    fn name(&self) -> String {
        self.names().join(".")
    }

    fn names(&self) -> Vec<&str> {
        self.path
            .iter()
            .filter_map(|part| if let PathPart::Key(key) = part { Some(key.as_str()) } else { None })
            .collect()
    }

    /// `grid.policy = "fifo:100"`, or the key alone for what is no single value.
    fn shown(&self, text: &str) -> String {
        match text.get(self.value.clone()) {
            Some(value) if self.plain && value.len() <= 60 && !value.contains('\n') => {
                format!("{} = {value}", self.name())
            }
            _ => self.name(),
        }
    }
}

fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

/// Everything in the text, parents before their children.
fn entries(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    if let Ok(root) = DeTable::parse(text) {
        table(root.get_ref(), &[], &mut found);
    }
    found
}

fn table(values: &DeTable<'_>, path: &[PathPart], found: &mut Vec<Entry>) {
    for (key, value) in values {
        let mut path = path.to_vec();
        path.push(PathPart::Key(key.get_ref().to_string()));
        add(key.span(), value, &path, found);
    }
}

fn add(key: Range<usize>, value: &Spanned<DeValue<'_>>, path: &[PathPart], found: &mut Vec<Entry>) {
    let tables = value.get_ref().as_array().is_some_and(|items| items.iter().any(|item| item.get_ref().is_table()));
    found.push(Entry {
        path: path.to_vec(),
        start: key.start,
        key,
        value: value.span(),
        plain: !tables && !value.get_ref().is_table(),
    });
    match value.get_ref() {
        DeValue::Table(values) => table(values, path, found),
        DeValue::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                let mut path = path.to_vec();
                path.push(PathPart::Item(place));
                add(item.span(), item, &path, found);
            }
        }
        _ => {}
    }
}

fn document(what: &str, why: &str) -> ModelError {
    ModelError::Document { what: format!("plan {what}"), why: why.replace('\n', " ") }
}

/// What the parser refused.
pub(super) fn parsing(what: &str, text: &str, error: &toml::de::Error) -> ModelError {
    let message = error.message();
    let Some(span) = error.span() else { return document(what, &reworded(&[], message).unwrap_or(message.to_owned())) };
    let found = entries(text);
    let inside = |range: &Range<usize>| range.contains(&span.start) && span.end <= range.end.max(range.start + 1);
    // What is missing is missing in a table, whose place is its heading.
    let missing = message.starts_with("missing field");
    let holds = |entry: &&Entry| match missing {
        true => !entry.plain && entry.value == span,
        false => inside(&entry.key) || inside(&entry.value),
    };
    let entry = found.iter().filter(holds).max_by_key(|entry| entry.path.len());
    let why = match entry {
        Some(entry) => {
            let mut why = reworded(&entry.names(), message);
            if matches!(entry.path.last(), Some(PathPart::Item(_))) {
                // It is in a list already.
                why = why.map(|why| why.replacen("use a list of ", "use ", 1));
            }
            let place = if missing { entry.name() } else { entry.shown(text) };
            match why {
                Some(why) => format!("line {}: {place}: {why}", line(text, entry.start)),
                None => format!("line {}: {place}: {message}", line(text, span.start)),
            }
        }
        // The root has no line of its own.
        None if missing => reworded(&[], message).unwrap_or(message.to_owned()),
        None => format!("line {}: {message}", line(text, span.start)),
    };
    document(what, &why)
}

/// The word between the first two back quotes.
fn quoted(message: &str) -> Option<&str> {
    message.split('`').nth(1)
}

/// The parser's words with what is allowed at a place; `None` where they say it all.
fn reworded(path: &[&str], message: &str) -> Option<String> {
    if message.starts_with("missing field") {
        let key = quoted(message)?;
        let whole: Vec<&str> = path.iter().copied().chain([key]).collect();
        return Some(match reference::find(&whole) {
            Some(key) if !key.example.is_empty() => {
                format!("the key {} is missing: write {}", key.name, key.example)
            }
            _ if key == "grid" => "[[grid]] is missing: add one with at least one axis".to_owned(),
            _ if key == "roles" => {
                "[roles] is missing: say which hosts take part, such as [roles] initiator = \"a\", reflectors = [\"b\"]"
                    .to_owned()
            }
            _ => format!("[{}] is missing: add it", whole.join(".")),
        });
    }
    if message.starts_with("unknown field") {
        let (given, parent) = path.split_last()?;
        let known = reference::names(parent);
        return Some(match nearest(given, known.iter().map(String::as_str)) {
            Some(name) => format!("unknown key: did you mean {name}?"),
            None => format!("unknown key: use {}", known.join(", ")),
        });
    }
    if message.starts_with("invalid type")
        || message.starts_with("invalid value")
        || message.starts_with("unknown variant")
    {
        let key = reference::find(path)?;
        let such = if key.example.is_empty() { String::new() } else { format!(", such as {}", key.example) };
        return Some(format!("use {}{such}", key.accepts.replace('`', "")));
    }
    None
}

/// What a check refused: names the keys that it comes from.
pub(super) fn checking(what: &str, text: &str, error: &ModelError) -> ModelError {
    checking_by(what, text, error, &check)
}

/// What is wrong with a key of one of the questions: the value that the error names, else the key, else the question.
pub(super) fn asking(what: &str, text: &str, question: usize, key: &str, error: &ModelError) -> ModelError {
    let found = entries(text);
    let table = [PathPart::Key("ask".to_owned()), PathPart::Item(question)];
    let of_key = [&table[..], &[PathPart::Key(key.to_owned())]].concat();
    let words = error.to_string();
    let is_named = |entry: &&Entry| {
        let value = text.get(entry.value.clone()).unwrap_or_default();
        entry.plain && words.contains(&format!("'{}'", value.trim_matches(['"', '\''])))
    };
    let within = |path: &[PathPart]| found.iter().filter(|entry| entry.path.starts_with(path)).collect::<Vec<_>>();
    let (keys, all) = (within(&of_key), within(&table));
    let named = keys.iter().copied().rfind(is_named);
    match named.or(keys.first().copied()).or(all.first().copied()) {
        Some(entry) => document(what, &format!("line {}: {}: {error}", line(text, entry.start), entry.shown(text))),
        None => document(what, &words),
    }
}

/// Whether a plan is refused, and why; `None` for what is no plan.
type Check<'a> = &'a dyn Fn(&toml::Value) -> Option<Result<(), ModelError>>;

fn checking_by(what: &str, text: &str, error: &ModelError, check: Check<'_>) -> ModelError {
    let found = entries(text);
    let Ok(plan) = toml::from_str::<toml::Table>(text) else { return document(what, &error.to_string()) };
    let plan = toml::Value::Table(plan);
    let mut guilty = culprits(&found, text, &plan, error, check);
    if guilty.is_empty() {
        let words = error.to_string();
        guilty = found.iter().filter(|entry| is_named(entry, text, &words)).collect();
    }
    guilty.sort_by_key(|entry| entry.start);
    let mut places: Vec<String> = Vec::new();
    for entry in guilty {
        let place = format!("line {}: {}", line(text, entry.start), entry.shown(text));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    match places.len() {
        0 => document(what, &error.to_string()),
        1..=MOST_NAMED => document(what, &format!("{}: {error}", places.join(", "))),
        _ => document(what, &format!("{} and others: {error}", places[..MOST_NAMED].join(", "))),
    }
}

fn is_named(entry: &Entry, text: &str, words: &str) -> bool {
    let value = text.get(entry.value.clone()).unwrap_or_default();
    entry.plain && value.starts_with(['"', '\'']) && words.contains(&format!("'{}'", value.trim_matches(['"', '\''])))
}

/// The entries without which the error does not occur, or is another that can be removed in the same way: the innermost ones.
fn culprits<'a>(
    found: &'a [Entry],
    text: &str,
    plan: &toml::Value,
    error: &ModelError,
    check: Check<'_>,
) -> Vec<&'a Entry> {
    let words = error.to_string();
    let cut = cut_short(found, plan, error, check);
    let mut tried: Vec<&Entry> =
        found.iter().filter(|entry| !cut.iter().any(|cut| entry.path.starts_with(&cut.path))).collect();
    let mut frequency = std::collections::BTreeMap::new();
    for entry in found {
        *frequency.entry(text.get(entry.value.clone())).or_insert(0_usize) += 1;
    }
    tried.sort_by_key(|entry| (!shares_a_word(entry, text, &words), frequency.get(&text.get(entry.value.clone()))));
    tried.truncate(MOST_TRIED);
    let without = |more: &[&Entry]| without(plan, &[&cut, more].concat()).and_then(|rest| check(&rest));
    let without_each: Vec<_> = tried.iter().map(|entry| (*entry, without(&[entry]))).collect();
    let mends = |checked: &Option<Result<(), ModelError>>| matches!(checked, Some(Ok(())));
    let mending: Vec<&Entry> =
        without_each.iter().filter(|(_, checked)| mends(checked)).map(|(entry, _)| *entry).collect();
    let mut guilty: Vec<&Entry> = mending.iter().copied().filter(|entry| entry.plain).collect();
    if guilty.is_empty() {
        // A plan with two errors: without the first comes the second, and one more left out mends that.
        let mut left = MOST_TRIED;
        let mut is_first = |first: &Entry| {
            let plain = tried.iter().filter(|entry| entry.plain && entry.path != first.path);
            plain.take_while(|_| count_down(&mut left)).any(|entry| mends(&without(&[first, entry])))
        };
        let uncovered = without_each.iter().filter_map(|(entry, checked)| match checked {
            Some(Err(next)) if next != error && entry.plain => Some(*entry),
            _ => None,
        });
        guilty = uncovered.filter(|entry| is_first(entry)).take(1).collect();
    }
    if guilty.is_empty() {
        guilty = mending;
    }
    let inner = guilty.iter().filter(|entry| {
        !guilty.iter().any(|other| other.path.len() > entry.path.len() && other.path.starts_with(&entry.path))
    });
    inner.copied().collect()
}

/// Items of lists that can be left out together while the error stays; two of each list are left.
fn cut_short<'a>(found: &'a [Entry], plan: &toml::Value, error: &ModelError, check: Check<'_>) -> Vec<&'a Entry> {
    let mut cut: Vec<&Entry> = Vec::new();
    let mut left = MOST_CUTS;
    // Outer lists come before those in them.
    for list in found {
        let is_item = |entry: &&Entry| {
            entry.path.len() == list.path.len() + 1
                && entry.path.starts_with(&list.path)
                && matches!(entry.path.last(), Some(PathPart::Item(_)))
        };
        if cut.iter().any(|cut| list.path.starts_with(&cut.path)) {
            continue;
        }
        let mut items: Vec<&Entry> = found.iter().filter(is_item).collect();
        let mut chunk = items.len() / 2;
        while chunk > 0 && items.len() > 2 {
            let mut at = 0;
            while at < items.len() && items.len() > 2 && count_down(&mut left) {
                let end = (at + chunk.min(items.len() - 2)).min(items.len());
                let more = [&cut, &items[at..end]].concat();
                let stays = without(plan, &more)
                    .and_then(|rest| check(&rest))
                    .is_some_and(|checked| checked.as_ref() == Err(error));
                if stays {
                    cut = more;
                    items.drain(at..end);
                } else {
                    at = end;
                }
            }
            chunk /= 2;
        }
    }
    cut
}

/// Counts one try; false once none is left.
fn count_down(left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
}

/// Whether an error names this value: in long plans such keys are tried first, rare values before frequent ones.
fn shares_a_word(entry: &Entry, text: &str, words: &str) -> bool {
    let value = text.get(entry.value.clone()).unwrap_or_default();
    let parts = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let spoken = parts(words);
    entry.plain && parts(value).iter().any(|part| spoken.contains(part))
}

/// `None` for what is no plan.
fn check(plan: &toml::Value) -> Option<Result<(), ModelError>> {
    plan.clone().try_into::<Plan>().ok().map(|plan| plan.check_cells().map(drop))
}

/// The plan without these; `None` where that takes the last item of a list, which goes with its key.
fn without(plan: &toml::Value, entries: &[&Entry]) -> Option<toml::Value> {
    let mut rest = plan.clone();
    // From behind, so that places in lists stay what they are.
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.start));
    for entry in entries {
        remove(&mut rest, &entry.path)?;
    }
    Some(rest)
}

fn remove(rest: &mut toml::Value, path: &[PathPart]) -> Option<()> {
    let (last, parents) = path.split_last()?;
    let mut at = rest;
    for part in parents {
        at = match part {
            PathPart::Key(key) => at.as_table_mut()?.get_mut(key)?,
            PathPart::Item(place) => at.as_array_mut()?.get_mut(*place)?,
        };
    }
    match last {
        PathPart::Key(key) => {
            at.as_table_mut()?.remove(key)?;
        }
        PathPart::Item(place) => {
            let items = at.as_array_mut()?;
            if items.len() < 2 || *place >= items.len() {
                return None;
            }
            items.remove(*place);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// 27,000 cells, of which one value is wrong: few plans with many cells are checked to tell which.
    #[test]
    fn the_culprit_of_a_large_product_is_found_with_few_large_checks() {
        let list = |what: &str, from: u32| {
            let values: Vec<String> = (from..from + 30).map(|number| what.replace('N', &number.to_string())).collect();
            values.join(", ")
        };
        let text = format!(
            "name = \"t\"\n[lab]\nkind = \"netns\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n[[grid]]\nsize = [{}]\n\
             cpu = [{}]\npolicy = [{}]\n",
            list("N", 16),
            list("\"N\"", 0),
            list("\"fifo:N\"", 71)
        );
        let cells = |plan: &toml::Value| -> usize {
            let grid = plan.get("grid").and_then(|grids| grids.get(0));
            let axis = |name: &str| grid.and_then(|grid| grid.get(name)?.as_array()).map_or(1, Vec::len);
            ["size", "cpu", "policy"].map(axis).iter().product()
        };
        let plan: Plan = toml::from_str(&text).unwrap();
        let error = plan.check().unwrap_err();
        let (large, all) = (Cell::new(0), Cell::new(0));
        let told = checking_by("t", &text, &error, &|plan| {
            large.set(large.get() + usize::from(cells(plan) > 1000));
            all.set(all.get() + 1);
            check(plan)
        });
        let told = told.to_string();
        assert!(told.contains("line 10: grid.policy = \"fifo:100\""), "{told}");
        assert!(large.get() <= 20, "{} of {} checked plans have more than 1,000 cells", large.get(), all.get());
        assert!(all.get() <= 100, "{} plans checked", all.get());
    }
}
