//! The CSV export, read back by a reader written from RFC 4180.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at what it did not expect")]

#[allow(dead_code, reason = "each test file uses a part of it")]
mod common;

use common::{make_run, result};
use model::EndUsage;
use model::Role;
use proptest::prelude::*;
use std::collections::BTreeSet;
use store::{CsvRow, Run, csv};
use windhover_store as store;

/// Rows of fields. Rows end in CR LF; a quoted field may hold anything, quotes doubled.
fn read(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if field.is_empty() => loop {
                match chars.next().expect("a quoted field ends") {
                    '"' if chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
                    '"' => {
                        assert!(matches!(chars.peek(), Some(',' | '\r')), "text after a quoted field");
                        break;
                    }
                    other => field.push(other),
                }
            },
            ',' => row.push(std::mem::take(&mut field)),
            '\r' => {
                assert_eq!(chars.next(), Some('\n'), "a bare CR");
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            '\n' | '"' => panic!("a bare {c:?}"),
            other => field.push(other),
        }
    }
    assert!(row.is_empty() && field.is_empty(), "the last row ends");
    rows
}

fn column<'a>(rows: &'a [Vec<String>], name: &str) -> &'a str {
    let place = rows[0].iter().position(|head| head == name).unwrap_or_else(|| panic!("no column {name}"));
    &rows[1][place]
}

#[test]
fn figures_stand_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let dir = make_run(folder.path(), 2, 2);
    let run = Run::load(dir.path()).unwrap();
    let rows = read(&csv(run.rows()).unwrap());
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    for (name, value) in [
        ("run", "t-20261121T214304Z"),
        ("step", "1"),
        ("cell", "size=1"),
        ("substrate", "netns"),
        ("label_nic", "X520, \"blue\""),
        ("protocol", "udp"),
        ("size_bytes", "1"),
        ("initiator_host", "a"),
        ("latency_kind", "rtt_half"),
        ("mean_ns", "10500.25"),
        ("p50_ns", "10000"),
        ("p99_ns", ""),
        ("p50_ci95_high_ns", "10010"),
        ("lost", "1"),
        ("reordered", ""),
        ("transactions_per_s", ""),
        ("trusted", "true"),
        ("disturbed", "loss"),
    ] {
        assert_eq!(column(&rows, name), value, "{name}");
    }
}

#[test]
fn every_column_is_specified() {
    let source = include_str!("../src/csv.rs");
    let specified: BTreeSet<String> = source
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "))
        .filter_map(|line| line.split(" |").next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .chain(model::quantity::all().iter().map(|quantity| quantity.csv.clone()).filter(|name| !name.is_empty()))
        .collect();
    let head = read(&csv([]).unwrap()).remove(0);
    for name in &head {
        assert!(specified.contains(name), "column {name} is not specified");
    }
    for name in specified.iter().filter(|name| !name.contains('*') && *name != "column") {
        assert!(head.contains(name), "specified column {name} is not written");
    }
}

#[test]
fn an_end_that_told_nothing_has_empty_fields() {
    let mut echo = result(1);
    let columns = ["machine_percent", "service_demand_us", "involuntary_switches", "migrations", "faults"];
    let usage = EndUsage { elapsed_ns: 5, cpus: 2, ..EndUsage::default() };
    echo.ends.of_mut(Role::Initiator).for_each(|end| end.usage = usage.clone());
    let rows = read(&csv([CsvRow::of(&echo)]).unwrap());
    for name in columns {
        assert_eq!(column(&rows, &format!("reflector_{name}")), "", "{name}");
    }
    // Measured and nothing found is 0.
    assert_eq!(column(&rows, "initiator_migrations"), "0");
}

#[test]
fn a_figure_that_is_no_number_is_refused() {
    let mut bad = result(1);
    bad.mdev_ns = Some(f64::INFINITY);
    assert!(csv([CsvRow::of(&bad)]).unwrap_err().to_string().contains("mdev_ns"));
}

/// Catches: a quantity whose group no list of columns names.
#[test]
fn every_quantity_with_a_column_is_in_the_file() {
    let text = csv([]).unwrap();
    let heads: Vec<&str> = text.trim_end().split(',').collect();
    for quantity in model::quantity::all().iter().filter(|one| !one.csv.is_empty()) {
        assert_eq!(heads.iter().filter(|head| **head == quantity.csv).count(), 1, "{}", quantity.csv);
    }
}

proptest! {
    #[test]
    fn any_text_survives(cell in ".*", name in "[a-z]{1,8}", value in "[,\"\r\n;a ]{0,12}") {
        let mut odd = result(1);
        odd.cell = Some(cell.clone());
        odd.factors.insert(format!("x{name}"), value.clone().into());
        let rows = read(&csv([CsvRow::of(&odd)]).unwrap());
        prop_assert_eq!(rows.len(), 2);
        prop_assert_eq!(rows[0].len(), rows[1].len());
        // What would steer a terminal is written as JSON does.
        prop_assert_eq!(column(&rows, "cell"), model::text::visible(&cell));
        prop_assert_eq!(column(&rows, &format!("factor_x{name}")), model::text::visible(&value));
    }
}
