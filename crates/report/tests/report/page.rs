//! What the HTML page holds of a run directory, without a browser: the maps' data, the cells' sections.

use crate::sample::paced::{Cell, Measured, write};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use windhover_report::{Options, Report, heat};

const CELL: Cell = Cell { policy: "other", rate: 10_000, repetition: 1, seconds: 2 };

fn html(paths: &[&Path]) -> String {
    let runs: Vec<store::Run> = paths.iter().map(|path| store::Run::load(path).unwrap()).collect();
    Report::from_runs(runs, &Options::default()).page().unwrap().html
}

/// The data of the viewer, as its script reads them.
fn viewer_data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"heat-data\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn titles(data: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    data["maps"].as_array().unwrap().iter().map(|map| (text(&map["id"]), text(&map["title"]))).collect()
}

fn run(folder: &Path, name: &str, cells: &[Cell]) -> PathBuf {
    write(folder, name, cells, |_, _| ())
}

#[test]
fn the_data_hold_every_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = run(folder.path(), "heat-map", &[CELL, Cell { rate: 40_000, ..CELL }]);
    let html = html(&[&path]);
    let data = viewer_data(&html);
    let maps = heat::of_run(&store::Run::load(&path).unwrap(), &heat::Options::default()).maps;
    for map in &maps {
        let id = format!("{:04}", map.index);
        let stored = data["maps"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
        let plane = &stored["planes"][&map.tag];
        assert_eq!(plane["count"], map.total(), "{id} {}", map.tag);
        assert_eq!(plane["columns"], map.whole.columns.len());
        let lost: u64 = stored["lost"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum();
        assert_eq!(lost, map.lost, "{id}");
    }
    assert_eq!(maps.len(), 6);
    for ramp in ["light", "dark"] {
        assert_eq!(data["ramps"][ramp].as_str().unwrap().len(), 256 * 6);
    }
    // Still pictures for readers without scripts, of every map and of all together.
    assert_eq!(html.matches("data:image/svg+xml;base64,").count(), 7);
    assert!(html.contains("<noscript>"));
}

#[test]
fn repetitions_and_runs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let again = Cell { repetition: 2, ..CELL };
    let one = run(folder.path(), "one", &[CELL, again]);
    let found = titles(&viewer_data(&html(&[&one])));
    assert_eq!(
        found,
        [("0001", "10,000/s · repetition 1"), ("0002", "10,000/s · repetition 2")].map(|(a, b)| (a.into(), b.into()))
    );
    let two = run(folder.path(), "two", &[CELL]);
    let both = html(&[&one, &two]);
    let ids: Vec<String> = titles(&viewer_data(&both)).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["1-0001", "1-0002", "2-0001"]);
    for id in ids {
        assert!(both.contains(&format!("#heat={id}")), "{id}");
    }
}

/// One initiator with two reflectors: each has maps of its own beside those of all.
#[test]
fn reflectors_have_maps_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "several", &[CELL], |_, measured: &mut Measured| {
        let own: String = measured
            .hlog
            .lines()
            .filter_map(|line| {
                let (tag, rest) = line.strip_prefix("Tag=")?.split_once(',')?;
                Some(format!("Tag={tag}@b,{rest}\n"))
            })
            .collect();
        measured.hlog.push_str(&own);
        let one =
            |host: &str| json!({ "host": host, "latency": null, "messages": { "sent": 1, "received": 1, "lost": 0 } });
        measured.result.reflectors = serde_json::from_value(json!([one("b"), one("c")])).unwrap();
        for (outlier, host) in measured.outliers.iter_mut().zip(["b", "c"].into_iter().cycle()) {
            outlier.host = Some(host.to_owned());
        }
    });
    let html = html(&[&path]);
    let data = viewer_data(&html);
    let found = titles(&data);
    assert_eq!(found.len(), 2, "c has no lines of its own: {found:?}");
    assert_eq!(found[1], ("0001-r1".to_owned(), "10,000/s · reflector b".to_owned()));
    let map = &data["maps"][1];
    assert!(map["planes"]["rtt"]["count"].as_u64().unwrap() > 0 && map["planes"]["lateness"].is_null());
    assert!(map["outliers"].as_array().unwrap().iter().all(|outlier| outlier["host"] == "b"), "{}", map["outliers"]);
    assert!(html.contains("<td class=\"word\">b</td>") && html.contains("#heat=0001-r1"));
}

#[test]
fn a_cell_says_all_that_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = run(folder.path(), "heat-map", &[CELL]);
    let html = html(&[&path]);
    let (_, page) = html.split_once("id=\"cell-0\"").unwrap();
    for words in [
        "RTT actual",
        "RTT intended",
        "lateness",
        "asked",
        "at once",
        "Worst messages",
        "&amp;pick=",
        "machine busy",
        "cells&#x2f;0001.*",
        "achieved 1&#x2f;s",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!html.contains("id=\"table\"") && !html.contains("netperf"), "what was not measured is not there");
}

#[test]
fn damaged_logs_cost_themselves_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "damaged", &[CELL], |_, measured| {
        measured.hlog = measured.hlog.replacen("Tag=rtt,0.300,0.100", "Tag=rtt,x.300,0.100", 1);
    });
    let html = html(&[&path]);
    assert!(html.contains("0001.hlog") && html.contains("is damaged"), "it is said");
    let count = viewer_data(&html)["maps"][0]["planes"]["rtt"]["count"].as_u64().unwrap();
    assert_eq!(count, 19_000, "one interval of 1000 is missing");
    std::fs::remove_file(path.join("cells/0001.hlog")).unwrap();
    std::fs::remove_file(path.join("cells/0001.outliers.jsonl")).unwrap();
    let without = self::html(&[&path]);
    assert!(!without.contains("heat-data\">") && !without.contains("id=\"heat\"") && without.contains("id=\"cell-0\""));
}
