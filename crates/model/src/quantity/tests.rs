use super::*;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Numeric fields of a result that no quantity reads, and why.
const NO_QUANTITY: &[(&str, &str)] = &[
    (
        "explanation",
        "of a pass of its own, whose figures the recorder changes; `windhover explain` and reports have its table",
    ),
    ("format", "of the document"),
    ("repetition", "which one it is"),
    ("started_ns", "a time of day"),
    ("series/interval_ns", "figures over time are drawn, each is in the whole too"),
    ("series/values", "figures over time are drawn, each is in the whole too"),
    ("clock", "how ticks become time"),
    ("prepared", "what was changed for it"),
    ("boot", "which one it is"),
    ("load/spec", "what was asked for"),
    ("ends/initiator", "what it was told"),
    ("ends/initiator/usage/cpu", "where it ran"),
    ("ends/reflector/usage/cpu", "where it ran"),
    ("ends/reflector", "what it was told"),
    ("ends/initiator/carried", "what carried it"),
    ("ends/reflector/carried", "what carried it"),
    ("ends/initiator/idle", "what it was told"),
    ("ends/reflector/idle", "what it was told"),
    ("pgm/fec", "what was asked for"),
    ("one_way/clocks/error_ns", "in the error of one-way times"),
    ("reflectors/one_way/clocks/error_ns", "in the error of one-way times"),
    ("ladder/percent", "which one it is"),
    ("ladder/ns", "those of usual tables are in the latency"),
    ("latency_corrected/interval_ns", "what the correction assumes"),
    ("source", "how fine the source is, beside the figures in words"),
    ("wake/threads", "each thread by itself; all together are the result's own figures"),
];

/// Numeric fields within any distribution that no quantity reads, and why.
const NO_STATISTIC: [(&str, &str); 3] = [
    ("count", "the messages of a distribution stand beside its statistics"),
    ("p50_ci95_ns", "an interval, of the latency alone told apart from its figure"),
    ("mean_ci95_ns", "an interval, of the latency alone told apart from its figure"),
];

/// Words that documents hold where the schema says no more than text.
fn word(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name {
        "name" => json!("send"),
        "policy" => json!("other"),
        "bind" => json!("127.0.0.1"),
        "cpus" | "processes" | "interrupts" => json!("1"),
        "host" if path == "pgm/fates/host" || path == "pgm/steps/host" => Value::Null,
        "host" if path == "pgm/ends/host" => json!("initiator"),
        _ => json!("a"),
    }
}

/// A document in which every field of the schema is set, and the paths of its numbers.
fn filled(schema: &Value, defs: &Value, path: &str, leaves: &mut Vec<String>) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|text| text.rsplit('/').next()) {
        return filled(&defs[name], defs, path, leaves);
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(all) = schema[several].as_array() {
            let some = all.iter().find(|one| one["type"] != "null").unwrap();
            return filled(some, defs, path, leaves);
        }
    }
    if let Some(value) = schema["enum"].as_array().and_then(|all| all.first()).or(schema.get("const")) {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap().as_str().unwrap(),
        kind => kind.as_str().unwrap_or("object"),
    };
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    match kind {
        "integer" | "number" => {
            leaves.push(path.to_owned());
            json!(1)
        }
        "boolean" => json!(true),
        "string" => word(path),
        "array" => {
            let one = filled(&schema["items"], defs, path, leaves);
            let length = schema["minItems"].as_u64().unwrap_or(1);
            Value::Array((0..length).map(|_| one.clone()).collect())
        }
        _ => {
            let mut out = Map::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                out.insert(name.clone(), filled(field, defs, &below(name), leaves));
            }
            Value::Object(out)
        }
    }
}

/// Sets the number at a path, in all entries of lists on the way.
fn set(value: &mut Value, path: &[&str], number: &Value) {
    match (value, path) {
        (Value::Array(all), path) => all.iter_mut().for_each(|one| set(one, path, number)),
        (Value::Object(fields), [first, rest @ ..]) => set(fields.get_mut(*first).unwrap(), rest, number),
        (value, _) => *value = number.clone(),
    }
}

/// What the whole catalogue reads, of the whole and of the one reflector.
fn read(document: &Value) -> BTreeMap<(String, bool), [f64; 2]> {
    let result: ResultDocument = serde_json::from_value(document.clone()).unwrap();
    let host = result.reflectors.first().map(|one| one.host.clone()).unwrap();
    let of = |quantity: &Quantity, host: Option<&str>| {
        Some(((quantity.id.clone(), host.is_some()), quantity.parts(&result, host)?))
    };
    all().iter().flat_map(|quantity| [of(quantity, None), of(quantity, Some(&host))]).flatten().collect()
}

#[test]
fn every_number_of_a_result_is_a_quantity_or_has_a_reason() {
    let schema = serde_json::to_value(schemars::schema_for!(ResultDocument)).unwrap();
    let mut leaves = Vec::new();
    let mut document = filled(&schema, &schema["$defs"], "", &mut leaves);
    document["probe"] = json!("pace");
    document["pgm"]["fates"][0]["fate"] = json!("repaired");
    leaves.sort();
    leaves.dedup();
    assert!(leaves.len() > 200, "{leaves:?}");
    let before = read(&document);
    let mut unread = BTreeSet::new();
    for leaf in &leaves {
        let mut changed = document.clone();
        set(&mut changed, &leaf.split('/').collect::<Vec<_>>(), &json!(3));
        if read(&changed) == before {
            unread.insert(leaf.as_str());
        }
    }
    let reason = |leaf: &str| {
        let (within, name) = leaf.rsplit_once('/').unwrap_or(("", leaf));
        let whole = NO_QUANTITY.iter().position(|(path, _)| *path == leaf || *path == within);
        let above = || {
            NO_QUANTITY.iter().position(|(path, _)| leaf.starts_with(&format!("{path}/")) && !path.starts_with("ends"))
        };
        let statistic =
            || NO_STATISTIC.iter().position(|(field, _)| *field == name).map(|place| place + NO_QUANTITY.len());
        whole.or_else(above).or_else(statistic)
    };
    let forgotten: Vec<&&str> = unread.iter().filter(|leaf| reason(leaf).is_none()).collect();
    assert!(forgotten.is_empty(), "no quantity reads {forgotten:?}: add rows to the catalogue, or a reason here");
    let used: BTreeSet<usize> = unread.iter().filter_map(|leaf| reason(leaf)).collect();
    let stale: Vec<&str> =
        NO_QUANTITY.iter().enumerate().filter(|(place, _)| !used.contains(place)).map(|(_, (path, _))| *path).collect();
    assert!(stale.is_empty(), "quantities read {stale:?}, or they are gone: their reasons are stale");
}

#[test]
fn a_quantity_has_one_name() {
    let mut ids = BTreeSet::new();
    let (mut columns, mut of_cells) = (BTreeSet::new(), BTreeSet::new());
    for quantity in all() {
        assert!(ids.insert(&quantity.id), "{} twice", quantity.id);
        assert!(quantity.csv.is_empty() || columns.insert(&quantity.csv), "{} twice", quantity.csv);
        assert!(quantity.csv_cells.is_empty() || of_cells.insert(&quantity.csv_cells), "{} twice", quantity.csv_cells);
        assert!(quantity.definition.ends_with('.') && !quantity.title.is_empty(), "{quantity:?}");
        assert!(Group::ALL.contains(&quantity.group), "{quantity:?}");
    }
}
