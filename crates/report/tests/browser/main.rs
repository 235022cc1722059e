//! The page in a real browser, headless, with the network off: it opens without a word on the console, zoom, pointer,
//! keys and links do what they say, and nothing from a run directory runs as script.
//!
//! Events are real DOM events, sent by a script that the test adds to a copy of the page; what it saw comes back in the
//! dumped page. Pages and pictures are kept in `target/browser`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests")]

mod driver;
mod late;
#[path = "../sample/mod.rs"]
mod sample;

use driver::{ask, browse, chromium, folder, skipped, url};
use model::Role;
use sample::paced::Cell;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use windhover_report::{Options, Report, heat};

struct Sample {
    _folder: tempfile::TempDir,
    run: store::Run,
    html: String,
}

/// Two policies at two rates, 6 s each.
fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let parent = tempfile::tempdir().unwrap();
        let cell = |policy, rate| Cell { policy, rate, repetition: 1, seconds: 6 };
        let cells = [cell("other", 10_000), cell("other", 40_000), cell("fifo:50", 10_000), cell("fifo:50", 40_000)];
        let path = sample::paced::write(parent.path(), "heat-map", &cells, |_, _| ());
        let run = store::Run::load(&path).unwrap();
        let html = Report::from_runs([run.clone()], &Options::default()).page().unwrap().html;
        Sample { _folder: parent, run, html }
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).replace('\u{202f}', "")
}

#[test]
fn opens_and_draws_every_map() {
    let script = r##"
      await settled();
      saw.hash = location.hash;
      saw.panels = [...document.querySelectorAll(".hm-mini canvas")].map((canvas) => colours(canvas).size);
      saw.map = colours().size;
      saw.title = room.querySelector("figcaption").textContent;
      saw.first = document.querySelector("main section").id;
      saw.tables = document.querySelectorAll("#table").length;
      saw.wide = document.documentElement.scrollWidth <= innerWidth;
    "##;
    let Some(saw) = ask("opens", &sample().html, "", script) else { return skipped("opens_and_draws_every_map") };
    assert_eq!(saw["hash"], "", "a page that nobody has touched keeps its address");
    let panels = saw["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 4, "{saw}");
    assert!(panels.iter().all(|colours| number(colours) > 20.0) && number(&saw["map"]) > 20.0, "{saw}");
    assert_eq!((&saw["first"], &saw["tables"]), (&Value::from("heat"), &Value::from(0)), "maps first, no empty table");
    assert_eq!(saw["wide"], true, "nothing sticks out");
}

#[test]
fn zooms_in_both_axes_and_back() {
    let script = r##"
      await settled();
      saw.before = colours().size;
      send("pointerdown", at(0.25, 0.3));
      send("pointermove", at(0.4, 0.5));
      saw.box = !room.querySelector(".hm-box").hidden;
      send("pointermove", at(0.5, 0.9));
      send("pointerup", at(0.5, 0.9));
      await settled();
      saw.t = pair("t"); saw.y = pair("y");
      send("dblclick", at(0.5, 0.5));
      await settled();
      saw.back = [pair("t"), pair("y")];
      send("pointerdown", at(0.25, 0.5));
      send("pointermove", at(0.75, 0.51));
      send("pointerup", at(0.75, 0.51));
      await settled();
      saw.flat = [pair("t"), pair("y")];
      key("Escape");
      await settled();
      saw.escaped = [pair("t"), pair("y")];
      send("wheel", at(0.5, 0.5), { deltaY: -240 });
      await settled();
      saw.wheel = pair("t");
      send("wheel", at(0.5, 0.5), { deltaY: -240 });
      await settled();
      saw.closer = pair("t");
      for (let turn = 0; turn < 8; turn += 1) { send("wheel", at(0.5, 0.5), { deltaY: 300 }); await settled(); }
      saw.out = pair("t");
      const beyond = new WheelEvent("wheel", { ...at(0.5, 0.5), deltaY: 300, bubbles: true, cancelable: true });
      stage().dispatchEvent(beyond);
      saw.page_scrolls = !beyond.defaultPrevented;
      key("+"); await settled();
      saw.plus = pair("t");
      key("ArrowRight", { shiftKey: true }); await settled();
      saw.shifted = pair("t");
      key("0"); await settled();
      saw.whole = [pair("t"), pair("y")];
      await press("linear");
      saw.axis = words().get("axis");
    "##;
    let Some(saw) = ask("zooms", &sample().html, "", script) else { return skipped("zooms_in_both_axes_and_back") };
    let near = |value: &Value, wanted: f64| (number(value) - wanted).abs() < 0.05;
    assert_eq!(saw["box"], true);
    assert!(near(&saw["t"][0], 1.5) && near(&saw["t"][1], 3.0), "a quarter to a half of 6 s: {saw:#}");
    assert!(number(&saw["y"][0]) > 0.0 && number(&saw["y"][1]) > number(&saw["y"][0]), "{saw:#}");
    assert_eq!(saw["back"], serde_json::json!([null, null]), "{saw:#}");
    assert!(near(&saw["flat"][0][0], 1.5) && near(&saw["flat"][0][1], 4.5) && saw["flat"][1].is_null(), "{saw:#}");
    assert_eq!(saw["escaped"], serde_json::json!([null, null]));
    let length = |value: &Value| number(&value[1]) - number(&value[0]);
    let (one, two) = (length(&saw["wheel"]), length(&saw["closer"]));
    assert!(one < 6.0 && two < one && one > 2.0, "{saw:#}");
    let middle = |value: &Value| f64::midpoint(number(&value[0]), number(&value[1]));
    assert!((middle(&saw["wheel"]) - 3.0).abs() < 0.05, "what is under the pointer stays there: {saw:#}");
    assert!(saw["out"].is_null() && saw["page_scrolls"] == true, "{saw:#}");
    assert!((length(&saw["plus"]) - 3.0).abs() < 0.01 && middle(&saw["shifted"]) > middle(&saw["plus"]), "{saw:#}");
    assert_eq!((&saw["whole"], &saw["axis"]), (&serde_json::json!([null, null]), &Value::from("linear")));
}

#[test]
fn the_pointer_reads_exact_counts() {
    let script = r##"
      await settled();
      // The fullest rows of some columns: each column has 1000 messages at 10,000 a second.
      saw.tips = [];
      for (const x of [0.111, 0.47, 0.83]) {
        let best = null, most = -1;
        for (let y = 0.005; y < 1; y += 0.0015) {
          send("pointermove", at(x, y));
          const found = tip()?.replaceAll("\u202f", "").match(/^(.*)\n(.*)\n(\d+) messages?, (.*) of the column's (\d+)\n(.*)/);
          if (found && Number(found[3]) > most) { most = Number(found[3]); best = found.slice(1); }
        }
        saw.tips.push(best);
      }
      send("pointermove", at(0.5, 1.04));
      saw.lost = tip();
      key("ArrowRight"); key("ArrowUp"); key("ArrowDown");
      saw.spoken = room.querySelector(".hm-spoken").textContent;
      send("pointerleave", at(2, 2));
    "##;
    let Some(saw) = ask("pointer", &sample().html, "", script) else {
        return skipped("the_pointer_reads_exact_counts");
    };
    let maps = heat::of_run(&sample().run, &heat::Options::default()).maps;
    let map = maps.iter().find(|map| map.index == 1 && map.tag == "rtt").unwrap();
    for tip in saw["tips"].as_array().unwrap() {
        let from: f64 = text(&tip[0]).split(' ').next().unwrap().parse().unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a column of 60")]
        let column = (from * 10.0).round() as usize;
        let cells = &map.whole.log.columns[column];
        let total: u64 = cells.iter().map(|(_, count)| count).sum();
        let most = cells.iter().map(|(_, count)| *count).max().unwrap();
        assert_eq!(text(&tip[4]), total.to_string(), "{saw:#}");
        assert_eq!(text(&tip[2]), most.to_string(), "the fullest cell of column {column}: {saw:#}");
        let share: f64 = text(&tip[3]).trim_end_matches(" %").parse().unwrap();
        assert!((share - 100.0 * most as f64 / total as f64).abs() < 0.1, "{saw:#}");
        assert!(text(&tip[5]).starts_with('p'), "{saw:#}");
    }
    assert!(text(&saw["lost"]).contains("0 lost"), "{saw:#}");
    assert!(text(&saw["spoken"]).contains("of the column's"), "keys read out the same: {saw:#}");
}

#[test]
fn a_worst_message_leads_to_its_place() {
    let script = r##"
      await settled();
      await press("RTT from intended send");
      const first = room.querySelector(".hm-go");
      saw.seq = first.textContent;
      first.click();
      await settled();
      saw.t = pair("t"); saw.pick = words().get("pick");
      saw.detail = room.querySelector(".hm-detail").innerText || room.querySelector(".hm-detail").textContent;
      saw.rings = room.querySelectorAll(".hm-picked").length;
      key("o"); await settled();
      saw.next = words().get("pick");
      // And from the cell's own table.
      const link = document.querySelector("#cell-0 a[href*='pick=']");
      link.click();
      await wait(() => location.hash === link.getAttribute("href"), "hash");
      await settled();
      saw.linked = words().get("pick");
      saw.visible = Math.abs(room.getBoundingClientRect().top) < innerHeight;
      document.querySelector("#cells a[href='#cell-1']").click();
      await wait(() => document.getElementById("cell-1").open, "the cell is unfolded");
      saw.unfolded = true;
    "##;
    let Some(saw) = ask("worst", &sample().html, "", script) else {
        return skipped("a_worst_message_leads_to_its_place");
    };
    let mut outliers = store::outliers(&sample().run.path, 1).unwrap();
    outliers.retain(|outlier| !outlier.lost);
    outliers.sort_by_key(|outlier| (std::cmp::Reverse(outlier.rtt_ns + outlier.lateness_ns), outlier.seq));
    let worst = &outliers[0];
    assert_eq!(text(&saw["seq"]), worst.seq.to_string());
    assert_eq!(saw["pick"], worst.seq.to_string());
    let at = (worst.at_ns - worst.lateness_ns) as f64 / 1e9;
    assert!(number(&saw["t"][0]) <= at && at <= number(&saw["t"][1]), "{saw:#}");
    assert!(number(&saw["t"][1]) - number(&saw["t"][0]) <= 2.5, "{saw:#}");
    let detail = text(&saw["detail"]);
    let sent = format!("{:.6} s", worst.at_ns as f64 / 1e9);
    let received = format!("{:.6} s", (worst.at_ns + worst.rtt_ns) as f64 / 1e9);
    assert!(detail.contains(&sent) && detail.contains(&received) && detail.contains("part: out"), "{saw:#}");
    assert_eq!(saw["rings"], 1);
    assert_eq!(saw["next"], outliers[1].seq.to_string());
    assert!(saw["visible"] == true && saw["unfolded"] == true && !saw["linked"].is_null(), "{saw:#}");
}

#[test]
fn switches_say_what_they_show_and_hide() {
    let script = r##"
      await settled();
      const legend = () => room.querySelector(".hm-legend").textContent;
      const says = () => room.querySelector(".hm-says").textContent;
      document.querySelector("[data-heat-panel='0002']").click();
      await wait(() => words().get("heat") === "0002", "hash");
      await settled();
      saw.title = room.querySelector("figcaption").textContent;
      saw.lost = says();
      await press("lateness");
      saw.lateness = room.querySelector("figcaption").textContent;
      await press("2011 style");
      saw.old = says();
      saw.palette = [...colours().keys()].length;
      saw.no_lanes = room.querySelectorAll(".hm-stage .hm-lost").length;
      await press("2011 style");
      await press("rank");
      saw.scale = words().get("colour");
      const other = room.querySelector("select[aria-label='compare with']");
      other.value = "0004";
      other.dispatchEvent(new Event("change"));
      await settled();
      saw.versus = [room.querySelector("figcaption").textContent, legend()];
      for (let y = 0.01; y < 1 && !(saw.both || "").includes("times the share"); y += 0.01) { send("pointermove", at(0.5, y)); saw.both = tip(); }
    "##;
    let Some(saw) = ask("switches", &sample().html, "", script) else {
        return skipped("switches_say_what_they_show_and_hide");
    };
    assert!(text(&saw["title"]).contains("policy other · 40,000/s"), "{saw:#}");
    let options = heat::Options { linear_ns: Some(10_000), ..heat::Options::default() };
    let maps = heat::of_run(&sample().run, &options).maps;
    let map = maps.iter().find(|map| map.index == 2 && map.tag == "rtt").unwrap();
    assert!(map.lost > 0 && text(&saw["lost"]).contains(&format!("{} messages lost", map.lost)), "{saw:#}");
    assert!(text(&saw["lateness"]).ends_with("lateness"));
    let layout = heat::Layout::Linear { step_ns: 10_000 };
    let above = |(row, _): &&(u32, u64)| *row > layout.row(2_000_000);
    let hidden: u64 = map.whole.grid(layout).columns.iter().flatten().filter(above).map(|(_, count)| count).sum();
    assert!(hidden > 0, "the sample has messages above 2 ms");
    let old = text(&saw["old"]);
    assert!(old.contains(&format!("hides {hidden} messages above 2 ms")), "{hidden}: {old}");
    assert!(old.contains(&format!("{} lost messages", map.lost)), "{old}");
    assert!(number(&saw["palette"]) <= 26.0 && saw["no_lanes"] == 0, "{saw:#}");
    assert_eq!(saw["scale"], "rank");
    assert!(text(&saw["versus"][0]).starts_with("A: policy other · 40,000/s · B: fifo:50 · 40,000/s"), "{saw:#}");
    assert!(text(&saw["versus"][1]).contains("A 32×") && text(&saw["both"]).contains("times the share"), "{saw:#}");
}

#[test]
fn the_last_colour_may_begin_before_the_fullest_cell() {
    let script = r##"
      await settled();
      const ramps = JSON.parse(document.getElementById("heat-data").textContent).ramps;
      const name = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
      const last = ramps[name].slice(-6).match(/../g).map((hex) => parseInt(hex, 16)).join() + ",255";
      const legend = () => room.querySelector(".hm-legend").textContent.replaceAll("\u202f", "");
      const button = (word) => [...room.querySelectorAll("button")].find((one) => one.textContent === word);
      const look = () => ({ last: colours().get(last) || 0, legend: legend(), full: words().get("full"),
        small: Math.max(...[...document.querySelectorAll(".hm-mini canvas")].map((one) => colours(one).get(last) || 0)) });
      saw.opened = { ...look(), pressed: button("p99.5").getAttribute("aria-pressed") };
      await press("fullest");
      saw.fullest = look();
      await press("p99.5");
      saw.again = look();
      await press("linear colour");
      saw.linear = look();
      await press("rank");
      saw.rank = { disabled: button("p99.5").disabled, ...look() };
      await press("2011 style");
      saw.old = { disabled: button("p99.5").disabled, ...look() };
    "##
    .replace("await press(\"linear colour\");", "button(\"rank\").previousSibling.click(); await settled();");
    let Some(saw) = ask("last-colour", &sample().html, "#heat=0004&q=rtt&full=p99.5", &script) else {
        return skipped("the_last_colour_may_begin_before_the_fullest_cell");
    };
    let (opened, fullest) = (&saw["opened"], &saw["fullest"]);
    assert_eq!((&opened["pressed"], &opened["full"]), (&"true".into(), &"p99.5".into()), "{saw:#}");
    assert!(fullest["full"].is_null(), "{saw:#}");
    assert_eq!(opened["legend"], saw["again"]["legend"]);
    // More cells have the last colour, in the map and in the small ones, and the legend says from where on.
    for what in ["last", "small"] {
        assert!(number(&opened[what]) > number(&fullest[what]), "{saw:#}");
    }
    let words = text(&opened["legend"]);
    let begin =
        words.split("the last colour begins at ").nth(1).unwrap().split(',').next().unwrap().parse::<f64>().unwrap();
    let most = words.split("the fullest holds ").nth(1).unwrap();
    let most: f64 = most.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert!(begin < most && words.contains('≥'), "{words}");
    assert!(!text(&fullest["legend"]).contains('≥') && !text(&fullest["legend"]).contains("begins at"), "{saw:#}");
    assert!(text(&saw["linear"]["legend"]).contains("the last colour begins at"), "{saw:#}");
    assert!(saw["rank"]["disabled"] == true && !text(&saw["rank"]["legend"]).contains("begins at"), "{saw:#}");
    assert!(saw["old"]["disabled"] == true, "{saw:#}");
}

#[test]
fn the_address_keeps_the_view() {
    let fragment = "#heat=0003&q=rtt_intended&t=1.5,3.25&y=10000,200000&colour=rank";
    let script = r##"
      await settled();
      saw.hash = location.hash;
      saw.title = room.querySelector("figcaption").textContent;
      saw.ticks = [...room.querySelectorAll(".hm-stage text.tick")].map((one) => one.textContent);
      location.hash = "#heat=0001&q=nonsense&t=9,x&y=,&vs=0001&pick=no";
      await wait(() => room.querySelector("figcaption").textContent.startsWith("policy other · 10,000/s"), "the other map");
      await settled();
      saw.sane = location.hash;
    "##;
    let Some(saw) = ask("address", &sample().html, fragment, script) else {
        return skipped("the_address_keeps_the_view");
    };
    assert_eq!(saw["hash"], fragment, "{saw:#}");
    assert!(text(&saw["title"]).starts_with("fifo:50 · 10,000/s · RTT from intended"), "{saw:#}");
    let ticks: Vec<String> = saw["ticks"].as_array().unwrap().iter().map(text).collect();
    assert!(ticks.contains(&"2 s".to_owned()) && !ticks.contains(&"5 s".to_owned()), "{ticks:?}");
    assert!(ticks.contains(&"50 µs".to_owned()) && !ticks.contains(&"1 ms".to_owned()), "{ticks:?}");
}

/// A run directory is somebody else's: nothing in it may become markup or script, and no map may stop the page.
#[test]
fn a_hostile_run_directory_runs_nothing() {
    let evil = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"'&<!--";
    let parent = tempfile::tempdir().unwrap();
    let cells = [Cell { policy: "other", rate: 10_000, repetition: 1, seconds: 2 }];
    let path = sample::paced::write(parent.path(), "hostile", &cells, |run, measured| {
        run.title = Some(evil.to_owned());
        run.labels.insert("nic".to_owned(), evil.to_owned());
        run.labels.insert(evil.to_owned(), evil.to_owned());
        let result = &mut measured.result;
        result.factors.insert("load".to_owned(), evil.into());
        result.ends.of_mut(Role::Initiator).for_each(|end| end.host = Some(evil.to_owned()));
        result.verdict.add(model::Finding::at(model::FindingId::Loss, evil, evil));
        for outlier in &mut measured.outliers {
            outlier.host = Some(evil.to_owned());
            outlier.parts_ns.insert(evil.to_owned(), 5);
        }
        for event in &mut measured.events {
            event.kind = evil.to_owned();
            event.detail = evil.to_owned();
            event.host = Some(evil.to_owned());
        }
        for series in &mut result.series {
            series.host = evil.to_owned();
        }
        measured.hlog.push_str(&format!("Tag={},0.0,0.1,1,HISTFAAA\n", evil.replace(',', "")));
        measured.hlog.push_str("Tag=rtt,0.0,0.1,1,!!!not base64\n");
    });
    let html = Report::from_runs([store::Run::load(&path).unwrap()], &Options::default()).page().unwrap().html;
    let script = r##"
      await settled();
      saw.hacked = window.hacked ?? null;
      saw.scripts = document.scripts.length;
      saw.images = [...document.images].filter((image) => !image.src.startsWith("data:")).length;
      room.querySelector(".hm-go").click();
      await settled();
      saw.detail = room.querySelector(".hm-detail").textContent;
      for (let x = 0; x < 1; x += 0.01) { send("pointermove", at(x, -0.06)); saw.event = tip() || saw.event; }
      saw.after = window.hacked ?? null;
      saw.summary = document.querySelector("#heat").textContent.length;
    "##;
    let Some(saw) = ask("hostile", &html, "", script) else { return skipped("a_hostile_run_directory_runs_nothing") };
    assert!(saw["hacked"].is_null() && saw["after"].is_null(), "{saw:#}");
    // The page's own two, the data, and the test's.
    assert_eq!((&saw["scripts"], &saw["images"]), (&Value::from(4), &Value::from(0)), "{saw:#}");
    assert!(text(&saw["detail"]).contains("window.hacked"), "it is shown as text: {saw:#}");
}

/// Charts, the viewer's map and still maps: each is a file by the same two buttons.
#[test]
fn every_figure_can_be_saved_and_printed() {
    let script = r##"
      await settled();
      const files = [];
      HTMLAnchorElement.prototype.click = function () { files.push(fetched(this)); };
      const fetched = async (link) => ({ name: link.download, text: kept.has(link.href) ? await kept.get(link.href).text() : atob(link.href.split(",")[1]) });
      const kept = new Map(), make = URL.createObjectURL.bind(URL);
      URL.createObjectURL = (blob) => { const url = make(blob); kept.set(url, blob); return url; };
      let printed = 0;
      // The map's colours with their numbers, in print as in the file.
      const scaled = (picture) => picture.querySelectorAll("g[shape-rendering] rect").length > 32 && picture.textContent.includes("messages in a cell of");
      saw.scaled_in_print = 0;
      window.print = () => { saw.scaled_in_print += scaled(document.querySelector("body.one > .sheet")); printed += document.querySelectorAll("body.one > .sheet svg, body.one > .sheet img").length; dispatchEvent(new Event("afterprint")); };
      const figures = [...document.querySelectorAll("figure")];
      saw.figures = figures.length;
      saw.bare = figures.filter((figure) => figure.querySelectorAll(":scope > .take button").length !== 2).length;
      saw.kinds = ["#heat-viewer figure", "figure.still", "#tails figure", "#rates figure"].map((kind) => document.querySelectorAll(kind).length > 0);
      for (const figure of figures) figure.querySelectorAll(":scope > .take button").forEach((button) => button.click());
      const all = await Promise.all(files);
      saw.saved = all.filter(({ name, text }) => name.length > 8 && name.endsWith(".svg") && !new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")).length;
      saw.scaled = all.filter(({ text }) => scaled(new DOMParser().parseFromString(text, "image/svg+xml").documentElement)).length;
      saw.cells = all.filter(({ text }) => text.includes("data:image/png;base64,")).length;
      saw.printed = printed;
      saw.left = document.querySelectorAll(".sheet").length;
    "##;
    let Some(saw) = ask("figures", &sample().html, "#heat=0002", script) else {
        return skipped("every_figure_can_be_saved_and_printed");
    };
    assert!(saw["kinds"].as_array().unwrap().iter().all(|kind| kind == true), "{saw:#}");
    assert_eq!((&saw["bare"], &saw["left"]), (&Value::from(0), &Value::from(0)), "{saw:#}");
    assert_eq!((&saw["saved"], &saw["printed"]), (&saw["figures"], &saw["figures"]), "{saw:#}");
    assert!(saw["cells"].as_u64() >= Some(2), "a map has its cells: {saw:#}");
    assert_eq!((&saw["scaled"], &saw["scaled_in_print"]), (&Value::from(1), &Value::from(1)), "{saw:#}");
}

/// Two runs of the papers' table, compared: the longest labels that a report has.
fn two_runs() -> String {
    let run = |name: &'static str| {
        sample::run(&sample::Recipe {
            name,
            substrate: model::Substrate::Netns,
            protocols: &["tcp", "udp"],
            loads: &["none", "build"],
            policies: &["other", "fifo:1"],
            sizes: &[32, 1024],
            repetitions: 2,
            messages: 2_000,
            rr: true,
            ping: true,
        })
    };
    let runs = [run("white-paper-20261121T214304Z"), run("white-paper-20261122T101112Z")];
    Report::from_inputs(runs.into(), &Options::default()).page().unwrap().html
}

#[test]
fn nothing_is_wider_than_its_container() {
    let script = r#"
      if (room) await settled();
      document.querySelectorAll("details").forEach((part) => { part.open = true; });
      const name = (node) => `${node.closest("section")?.id}: ${node.nodeName} ${node.getAttribute("class") || ""}: ${node.textContent.trim().slice(0, 60)}`;
      // A flex or grid container that is no box of text is measured as well: all that a reader would have to scroll to.
      const boxes = [...document.querySelectorAll("body, body *:not(svg *):not(script, style, pre)")].filter((box) => box.clientWidth > 1 && !box.closest(".hm-spoken, .hm-scroll"));
      saw.boxes = boxes.length;
      saw.wide = boxes.filter((box) => box.nodeName.toLowerCase() !== "svg" && box.scrollWidth > box.clientWidth + 1).map((box) => `${name(box)} ${box.scrollWidth} of ${box.clientWidth}`);
      const words = [...document.querySelectorAll("svg text")].filter((text) => text.getBoundingClientRect().width > 0);
      saw.words = words.length;
      saw.cut = words.filter((text) => {
        const own = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
        return own.left < all.left - 2 || own.right > all.right + 2 || own.bottom > all.bottom + 2;
      }).map(name);
      saw.sections = [...document.querySelectorAll("main > section")].map((section) => section.id);
    "#;
    for (page, html, sections) in
        [("width-runs", two_runs(), ["compared", "cells"]), ("width-paced", sample().html.clone(), ["heat", "cells"])]
    {
        let Some(saw) = ask(page, &html, "", script) else { return skipped("nothing_is_wider_than_its_container") };
        let found = saw["sections"].as_array().unwrap();
        assert!(sections.iter().all(|id| found.contains(&Value::from(*id))), "{saw:#}");
        assert!(number(&saw["boxes"]) > 100.0 && number(&saw["words"]) > 50.0, "{saw:#}");
        assert_eq!(
            (&saw["wide"], &saw["cut"]),
            (&Value::from(Vec::<Value>::new()), &Value::from(Vec::<Value>::new())),
            "{page}: {saw:#}"
        );
    }
}

/// Pictures for people: kept, and checked only for being there.
#[test]
fn pictures_are_kept() {
    let Some(browser) = chromium() else { return skipped("pictures_are_kept") };
    let file = folder().join("pictures.html");
    // The browser's own pictures of a page that has scrolled are empty.
    let still = "<script>Element.prototype.scrollIntoView = () => {};</script></head>";
    std::fs::write(&file, sample().html.replace("</head>", still)).unwrap();
    let zoomed = "#heat=0002&q=rtt_intended&t=2,4";
    for (name, fragment, flags) in [
        ("light", "", &["--window-size=1400,2600"][..]),
        ("dark", "", &["--window-size=1400,2600", "--force-dark-mode"][..]),
        ("narrow", "", &["--window-size=500,2600"][..]),
        ("zoomed", zoomed, &["--window-size=1400,2000"][..]),
        ("difference", "#heat=0002&vs=0004", &["--window-size=1400,2000"][..]),
        ("style-of-2011", "#heat=0002&old=1", &["--window-size=1400,2000"][..]),
    ] {
        let picture = folder().join(format!("{name}.png"));
        let _ = std::fs::remove_file(&picture);
        let shot = format!("--screenshot={}", picture.display());
        let flags: Vec<&str> = flags.iter().copied().chain([shot.as_str()]).collect();
        let (_, console) = browse(&browser, &url(&file, fragment), &flags);
        assert_eq!(console, Vec::<String>::new(), "{name}");
        let size = std::fs::metadata(&picture).unwrap().len();
        assert!(size > 20_000, "{name}: {size} bytes");
    }
    let printed = folder().join("print.pdf");
    let _ = std::fs::remove_file(&printed);
    let (_, console) = browse(
        &browser,
        &url(&file, ""),
        &[&format!("--print-to-pdf={}", printed.display()), "--no-pdf-header-footer"],
    );
    assert_eq!(console, Vec::<String>::new(), "print");
    assert!(std::fs::metadata(&printed).unwrap().len() > 20_000);
}
