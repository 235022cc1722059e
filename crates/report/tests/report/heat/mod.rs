//! Heat maps from synthetic runs: exact sums, pictures looked at pixel by pixel, and what happens to damaged logs. The
//! pictures are kept in `target/heat-golden/`, to be looked at.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places of pixels")]

mod logs;
mod patterns;

use crate::synthetic;
use crate::synthetic::{Cell, Files, Message, about, chance, files};
use model::result::SeriesQuantity;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use windhover_report::charts::{self, ChartKind, Drawing, Wanted};
use windhover_report::heat::{self, Bin, Heat, Layout, Map, Options, Rows, Theme};

fn quiet(seq: u64) -> Message {
    Message { lateness_ns: about(4_000, seq * 2), rtt_ns: Some(about(10_000, seq * 2 + 1)) }
}

fn cell<'a>(rate: u64, seconds: u64, rule: &'a dyn Fn(u64, u64) -> Message) -> Cell<'a> {
    Cell { policy: "fifo:50", rate, seconds, events: Vec::new(), rule }
}

struct Made {
    _folder: tempfile::TempDir,
    run: store::Run,
}

fn made(name: &str, cells: &[Files]) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let path = synthetic::run(folder.path(), name, cells);
    Made { run: store::Run::load(&path).unwrap(), _folder: folder }
}

impl Made {
    fn maps(&self, options: &Options) -> Heat {
        heat::of_run(&self.run, options)
    }

    fn draw(&self, kind: ChartKind, wanted: Wanted) -> Vec<Drawing> {
        let wanted = Wanted { kinds: vec![kind], ..wanted };
        charts::draw(vec![self.run.clone()], &wanted).unwrap().drawings
    }

    fn hlog(&self, index: u32) -> PathBuf {
        self.run.path.join(format!("cells/{index:04}.hlog"))
    }
}

/// Keeps a picture to be looked at.
fn keep(name: &str, drawing: &Drawing) -> Image {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/heat-golden");
    fs::create_dir_all(&folder).unwrap();
    let png = drawing.png(1.0);
    fs::write(folder.join(format!("{name}.png")), &png).unwrap();
    fs::write(folder.join(format!("{name}.svg")), drawing.svg(1.0)).unwrap();
    Image::read(&png)
}

/// A PNG of red, green and blue whose rows have the filter "up" or none.
struct Image {
    width: usize,
    pixels: Vec<[u8; 3]>,
    text: String,
}

impl Image {
    fn read(png: &[u8]) -> Self {
        let mut rest = &png[8..];
        let (mut width, mut packed, mut text) = (0, Vec::new(), String::new());
        while rest.len() >= 12 {
            let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let (kind, data) = (&rest[4..8], &rest[8..8 + length]);
            match kind {
                b"IHDR" => {
                    width = u32::from_be_bytes(data[..4].try_into().unwrap()) as usize;
                    assert_eq!(data[8..], [8, 2, 0, 0, 0], "eight bits of red, green and blue");
                }
                b"tEXt" | b"iTXt" => text.push_str(&format!("{};", String::from_utf8_lossy(data).replace('\0', "="))),
                b"IDAT" => packed.extend(data),
                _ => {}
            }
            rest = &rest[12 + length..];
        }
        let mut raw = Vec::new();
        flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut raw).unwrap();
        let mut above = vec![0_u8; width * 3];
        let mut pixels = Vec::new();
        for row in raw.chunks(width * 3 + 1) {
            assert_eq!(row[0], 2);
            for (place, value) in row[1..].iter().enumerate() {
                above[place] = above[place].wrapping_add(*value);
            }
            pixels.extend(above.chunks(3).map(|pixel| <[u8; 3]>::try_from(pixel).unwrap()));
        }
        Self { width, pixels, text }
    }

    fn at(&self, x: f64, y: f64) -> [u8; 3] {
        self.pixels[y as usize * self.width + x as usize]
    }
}

/// Where the images of a picture stand: left, top, width, height.
fn images(svg: &str) -> Vec<[f64; 4]> {
    svg.lines()
        .filter(|line| line.starts_with("<image"))
        .map(|line| {
            ["x", "y", "width", "height"].map(|name| {
                let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            })
        })
        .collect()
}

/// The middle of a cell in a picture whose map stands in `area`.
fn middle(area: [f64; 4], map: &Map, rows: &Rows, at_ns: u64, ns: u64) -> (f64, f64) {
    let columns = map.whole.columns.len() as f64;
    let column = (at_ns / map.whole.column_ns) as f64;
    let Bin::Row(place) = rows.bin(rows.layout.row(ns)) else { panic!("{ns} ns is not shown") };
    let [left, top, width, height] = area;
    let x = left + (column + 0.5) * width / columns;
    let y = top + height - (f64::from(place) + 0.5) * height / f64::from(rows.count);
    (x, y)
}

fn difference(a: [u8; 3], b: [u8; 3]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

/// A number for the pixels of an area (FNV-1a).
fn hash(image: &Image, [left, top, width, height]: [f64; 4]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for y in 0..height as usize {
        for x in 0..width as usize {
            for value in image.at(left + x as f64, top + y as f64) {
                hash = (hash ^ u64::from(value)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    format!("{hash:016x}")
}

#[test]
fn all_cells_add_up_to_all_messages() {
    let rule = |seq: u64, _: u64| Message {
        rtt_ns: (!seq.is_multiple_of(97)).then(|| 1_000 + chance(seq) % 3_000_000),
        lateness_ns: chance(seq + 1) % 100_000,
    };
    let cell = files(&cell(10_000, 30, &rule));
    let received = cell.result.messages.received;
    let made = made("sums", &[cell]);
    for (max_columns, columns) in [(4000, 300), (200, 150), (100, 60), (30, 30), (7, 6), (1, 1)] {
        let options = Options { max_columns, linear_ns: Some(10_000), ..Options::default() };
        let heat = made.maps(&options);
        assert_eq!(heat.problems, Vec::<String>::new());
        assert_eq!(heat.maps.len(), 3);
        for map in &heat.maps {
            let sent = if map.tag == "lateness" { 300_000 } else { received };
            assert_eq!((map.total(), map.whole.columns.len()), (sent, columns), "{} of {max_columns}", map.tag);
            assert_eq!(map.whole.linear.as_ref().unwrap().total(), sent);
            assert_eq!(map.whole.lost(), 300_000 - received);
            let rows = Heat::rows([map], Layout::Log).unwrap();
            let shown = Rows { count: rows.count / 2, ..rows };
            let outside: u64 = map.whole.log.outside(&shown).iter().map(|(below, above)| below + above).sum();
            let inside: u64 = map
                .whole
                .log
                .columns
                .iter()
                .flatten()
                .filter(|(row, _)| matches!(shown.bin(*row), Bin::Row(_)))
                .map(|(_, count)| count)
                .sum();
            assert_eq!(outside + inside, sent, "nothing falls outside unseen");
            for detail in &map.details {
                assert_eq!(detail.column_ns, synthetic::INTERVAL_NS);
            }
        }
    }
}

#[test]
fn one_thread_or_several_see_the_same() {
    let made = made("threads", &[files(&cell(5_000, 10, &|seq, _| quiet(seq)))]);
    let of = |threads| made.maps(&Options { threads, ..Options::default() });
    assert_eq!(of(1), of(3));
}

#[test]
fn one_outlier_in_a_million_is_seen() {
    const WORST: u64 = 7_300_000;
    let rule = |seq: u64, _: u64| match seq {
        612_345 => Message { rtt_ns: Some(WORST), ..quiet(seq) },
        _ => quiet(seq),
    };
    let made = made("million", &[files(&cell(10_000, 100, &rule))]);
    let heat = made.maps(&Options { max_columns: 1200, ..Options::default() });
    let map = &heat.maps[0];
    assert_eq!(map.total(), 1_000_000);
    for theme in [Theme::Light, Theme::Dark] {
        let look = heat::Look { theme, ..heat::Look::default() };
        let drawing = made.draw(ChartKind::Heat, Wanted { look, ..Wanted::default() }).remove(0);
        let image = keep(&format!("million-{theme:?}").to_lowercase(), &drawing);
        let area = images(&drawing.svg(1.0))[0];
        let rows = look.rows(&[map]).unwrap();
        let (x, y) = middle(area, map, &rows, 61_234_500_000, WORST);
        let seen = image.at(x, y);
        assert!(difference(seen, theme.background()) > 150, "{seen:?} on {:?}", theme.background());
        // Nothing else stands around it: the two cells below it are background.
        assert_eq!(image.at(x, y + 2.0 * area[3] / f64::from(rows.count)), theme.background());
        assert!(image.text.contains("Cell=policy=fifo:50,rate=10000,size=1000;") && image.text.contains("Tag=rtt;"));
        if theme == Theme::Light {
            insta::assert_snapshot!("million", hash(&image, area));
        }
    }
    assert_eq!(map.stalls[0].value_ns, WORST);
    assert!(drawing_of(&made).contains("1: 7.30 ms at 61.23 s: 1 message"), "{}", drawing_of(&made));
}

fn drawing_of(made: &Made) -> String {
    made.draw(ChartKind::Heat, Wanted::default()).remove(0).svg(1.0)
}

/// Catches: ten rings around neighbours of one stall while others have none, because all messages that were kept are of the worst.
#[test]
fn a_stall_is_marked_once_and_others_too() {
    let rule = |seq: u64, _: u64| match seq {
        // 25 ms at 3.2 s, 251 messages late by what was left of it; a shorter one at 7 s.
        32_000..=32_250 => Message { rtt_ns: Some(25_100_000 - (seq - 32_000) * 100_000), ..quiet(seq) },
        70_000..=70_080 => Message { rtt_ns: Some(8_100_000 - (seq - 70_000) * 100_000), ..quiet(seq) },
        _ => quiet(seq),
    };
    let made = made("stalls", &[files(&cell(10_000, 10, &rule))]);
    let map = &made.maps(&Options::default()).maps[0];
    let [first, second, third] = &map.stalls[..3] else { panic!("{:?}", map.stalls) };
    assert!(first.messages.is_some_and(|count| count > 10), "{first:?}");
    assert_eq!((first.value_ns, first.at_ns / 1_000_000), (25_100_000, 3_200));
    assert_eq!((second.value_ns, second.at_ns / 100_000_000), (8_100_000, 70));
    assert!(third.value_ns < 1_000_000, "{third:?}");
    let svg = drawing_of(&made);
    assert!(svg.contains(&format!("1: 25.1 ms at 3.20 s: {} messages", first.messages.unwrap())), "{svg}");
    assert!(svg.contains("2: 8.10 ms at 7.00 s"), "{svg}");
}

/// Catches: cells numbered by the random order of measuring or by the alphabet, titles that begin with what all pictures share,
/// a row height that is not said.
#[test]
fn pictures_follow_the_plan_and_say_first_what_differs() {
    const PLAN: &str = "name = \"order\"\n[lab]\nkind = \"loopback\"\n[roles]\ninitiator = \"a\"\nreflectors = [\"b\"]\n\
        [measure]\nseconds = 1.0\n[[grid]]\nprobe = [\"pace\"]\nsize = [1000]\nrate = [2000]\npolicy = [\"other\", \"fifo:50\"]\n";
    let planned = model::Plan::parse("plan.toml", PLAN).unwrap().cells().unwrap();
    // Measured the other way round; by the alphabet, too, fifo comes first.
    let cells: Vec<Files> = planned
        .iter()
        .rev()
        .map(|planned| {
            let mut made = files(&cell(2_000, 1, &|seq, _| quiet(seq)));
            made.key.clone_from(&planned.key);
            made.result.cell = Some(planned.key.clone());
            made
        })
        .collect();
    let mut made = made("order", &cells);
    made.run.plan = PLAN.to_owned();
    let keys: Vec<String> = planned.iter().map(|cell| cell.key.clone()).collect();
    assert_eq!(charts::cells(&[made.run.clone()]).into_iter().map(|(_, key)| key).collect::<Vec<_>>(), keys);
    let drawings = made.draw(ChartKind::Heat, Wanted::default());
    let named: Vec<(&str, &str)> = drawings.iter().map(|one| (one.name.as_str(), one.heading.as_str())).collect();
    let expected = [
        ("heat-0001-rtt", "policy other · RTT from the actual send"),
        ("heat-0002-rtt", "fifo:50 · RTT from the actual send"),
    ];
    assert_eq!(named, expected);
    for kind in [ChartKind::Heat, ChartKind::Cells] {
        let svg = made.draw(kind, Wanted::default()).remove(0).svg(1.0);
        assert_eq!(svg.matches("octave").count(), 1, "{kind:?}: {svg}");
        assert!(svg.contains(">no load · UDP · 1000 B · 2,000/s · "), "{kind:?}: {svg}");
    }
    let difference = made.draw(ChartKind::Difference, Wanted::default()).remove(0);
    assert_eq!(difference.heading, "policy other against fifo:50 · RTT from the actual send");
}

#[test]
fn lost_messages_have_a_lane() {
    let losses = [(20_u64, 1), (50, 40), (80, 300)];
    let rule = |seq: u64, intended: u64| {
        let interval = intended / synthetic::INTERVAL_NS;
        let within = seq % 1000;
        let lost = losses.iter().any(|(at, count)| *at == interval && within < *count);
        if lost { Message { rtt_ns: None, lateness_ns: 4_000 } } else { quiet(seq) }
    };
    let made = made("loss", &[files(&cell(10_000, 10, &rule))]);
    let map = &made.maps(&Options::default()).maps[0];
    assert_eq!((map.lost, map.whole.lost()), (341, 341));
    let lost: Vec<(usize, u64)> = map
        .whole
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.lost > 0)
        .map(|(at, column)| (at, column.lost))
        .collect();
    assert_eq!(lost, [(20, 1), (50, 40), (80, 300)]);
    let drawing = made.draw(ChartKind::Heat, Wanted::default()).remove(0);
    let image = keep("loss", &drawing);
    let areas = images(&drawing.svg(1.0));
    let lane = areas[1];
    let at = |column: f64| image.at(lane[0] + (column + 0.5) * lane[2] / 100.0, lane[1] + lane[3] / 2.0);
    let background = Theme::Light.background();
    for (column, _) in losses {
        assert!(difference(at(column as f64), background) > 200, "{column}: {:?}", at(column as f64));
    }
    assert_eq!([0.0, 19.0, 21.0, 49.0, 99.0].map(at), [background; 5]);
    assert!(at(20.0)[1] > at(80.0)[1], "more losses are darker");
    insta::assert_snapshot!("loss", hash(&image, lane));
}

fn eight(seconds: u64) -> Vec<Files> {
    let mut cells = Vec::new();
    for policy in ["other", "fifo:50"] {
        for rate in [10_000_u64, 20_000, 30_000, 40_000] {
            let rule = move |seq: u64, intended: u64| {
                let seed = seq.wrapping_mul(31).wrapping_add(rate);
                let calm =
                    Message { lateness_ns: about(4_000, seed), rtt_ns: Some(about(10_000 + rate / 20, seed + 1)) };
                if policy == "other" {
                    let busy = chance(intended / 7_000_000) % 100 < rate / 2_500;
                    let rtt = if busy { about(10_000, seed) + chance(seed) % 3_000_000 } else { about(12_000, seed) };
                    Message {
                        rtt_ns: Some(rtt),
                        lateness_ns: if busy { chance(seed + 2) % 3_000_000 } else { about(5_000, seed) },
                    }
                } else if chance(seed).is_multiple_of(9_000) {
                    Message { rtt_ns: Some(200_000 + chance(seed + 9) % 1_500_000), ..calm }
                } else if rate == 40_000 && chance(seed) % 20_011 == 3 {
                    Message { rtt_ns: None, lateness_ns: 4_000 }
                } else {
                    calm
                }
            };
            cells.push(files(&Cell { policy, rate, seconds, events: Vec::new(), rule: &rule }));
        }
    }
    cells
}

#[test]
fn cells_side_by_side_and_their_difference() {
    let made = made("eight", &eight(4));
    for theme in [Theme::Light, Theme::Dark] {
        let look = heat::Look { theme, ..heat::Look::default() };
        let wanted = Wanted { look, ..Wanted::default() };
        let cells = made.draw(ChartKind::Cells, wanted.clone()).remove(0);
        keep(&format!("cells-{theme:?}").to_lowercase(), &cells);
        let svg = cells.svg(1.0);
        for word in ["10,000 messages/s", "40,000 messages/s", "fifo:50", "policy other"] {
            assert!(svg.contains(word), "{word}");
        }
        // Eight maps, eight lanes of lost messages, one legend.
        assert_eq!(images(&svg).len(), 17);
        let pair = Wanted {
            cell: Some("policy=other,rate=40000,size=1000".into()),
            against: Some("policy=fifo:50,rate=40000,size=1000".into()),
            ..wanted
        };
        let drawing = made.draw(ChartKind::Difference, pair).remove(0);
        let image = keep(&format!("difference-{theme:?}").to_lowercase(), &drawing);
        let area = images(&drawing.svg(1.0))[0];
        // Slow messages are those of A (first colour), the bulk near 12 µs is that of B.
        let colours = heat::Diverging::table(theme);
        let blue = |[r, _, b]: [u8; 3]| b > r;
        let rows: Vec<[u8; 3]> =
            (0..area[3] as usize).map(|y| image.at(area[0] + area[2] / 2.0, area[1] + y as f64)).collect();
        let top: Vec<_> = rows.iter().take(rows.len() / 4).filter(|colour| colours.contains(colour)).collect();
        assert!(!top.is_empty() && top.iter().filter(|colour| blue(***colour)).count() * 3 > top.len() * 2, "{top:?}");
        assert!(rows.iter().skip(rows.len() / 2).any(|colour| colours.contains(colour) && !blue(*colour)));
        let csv = drawing.csv();
        let sum = |column: usize| -> u64 {
            csv.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum()
        };
        assert_eq!(sum(4), 160_000);
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let made = made("twice", &eight(1));
    let draw = || -> Vec<(String, String, Vec<u8>, String)> {
        let all = charts::draw(vec![made.run.clone()], &Wanted { all: true, ..Wanted::default() }).unwrap().drawings;
        let first = |place: usize| place == 0 || all[place - 1].kind != all[place].kind;
        // One PNG a kind: the rasteriser of a test is slow.
        let png = |place: usize| if first(place) { all[place].png(1.0) } else { Vec::new() };
        all.iter().enumerate().map(|(place, one)| (one.name.clone(), one.svg(1.0), png(place), one.csv())).collect()
    };
    let (first, second) = (draw(), draw());
    assert_eq!(first.len(), 1 + 8 + 8 + 8 + 8 + 1, "cells, heat of both send times, lateness, 2011, difference");
    assert!(first == second);
    let names: std::collections::BTreeSet<&String> = first.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), first.len(), "{names:?}");
}

#[test]
fn csv_holds_every_message_once() {
    let rule = |seq: u64, _: u64| if seq % 1000 == 7 { Message { rtt_ns: None, lateness_ns: 0 } } else { quiet(seq) };
    let made = made("csv", &[files(&cell(10_000, 3, &rule))]);
    let csv = made.draw(ChartKind::Heat, Wanted::default()).remove(0).csv();
    let mut lines = csv.split("\r\n");
    assert_eq!(lines.next(), Some("at_ns,length_ns,low_ns,high_ns,messages,lost"));
    let (mut messages, mut lost) = (0, 0);
    for line in lines.filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        messages += fields[4].parse::<u64>().unwrap_or(0);
        lost += fields[5].parse::<u64>().unwrap_or(0);
        if !fields[2].is_empty() {
            assert!(fields[2].parse::<u64>().unwrap() <= fields[3].parse::<u64>().unwrap(), "{line}");
        }
    }
    assert_eq!((messages, lost), (29_970, 30));
}

#[test]
fn intervals_around_the_worst_are_kept() {
    let rule = |seq: u64, _: u64| match seq {
        30_000 => Message { rtt_ns: Some(5_000_000), ..quiet(seq) },
        _ => quiet(seq),
    };
    let made = made("details", &[files(&cell(1_000, 60, &rule))]);
    let map = made.maps(&Options { max_columns: 60, details: 1, ..Options::default() }).maps.remove(0);
    assert_eq!((map.whole.column_ns, map.whole.columns.len()), (1_000_000_000, 60));
    assert_eq!(map.details.len(), 1);
    let detail = &map.details[0];
    assert_eq!((detail.start_ns, detail.column_ns, detail.columns.len()), (27_000_000_000, 100_000_000, 61));
    assert_eq!(detail.columns[30].max_ns, Some(5_000_000));
    assert_eq!(detail.total(), 6_100);
}

#[test]
fn long_titles_are_broken_in_pictures_of_few_columns() {
    // A second is ten columns; the cell's name has all that a campaign may vary.
    let others =
        "load=build,receive=epoll-adddel,shield=isolcpus,knob=compaction-proactiveness-0,os=debian-12-realtime";
    let policies = ["fifo:50", "other"].map(|policy| format!("{policy},{others}"));
    let cells: Vec<Files> = policies
        .iter()
        .map(|policy| {
            let rule = |seq: u64, _: u64| {
                if seq == 77 { Message { rtt_ns: Some(3_000_000), ..quiet(seq) } } else { quiet(seq) }
            };
            files(&Cell { policy, rate: 10_000, seconds: 1, events: Vec::new(), rule: &rule })
        })
        .collect();
    let keys: Vec<String> = cells.iter().map(|cell| cell.key.clone()).collect();
    let made = made("a-campaign-that-varies-about-everything-there-is", &cells);
    let pair = Wanted { cell: keys.first().cloned(), against: keys.last().cloned(), ..Wanted::default() };
    for (kind, wanted) in [
        (ChartKind::Heat, Wanted::default()),
        (ChartKind::Heat2011, Wanted::default()),
        (ChartKind::Cells, Wanted::default()),
        (ChartKind::Difference, pair),
    ] {
        let drawing = made.draw(kind, wanted).remove(0);
        let image = keep(&format!("few-columns-{kind:?}").to_lowercase(), &drawing);
        // What is cut off at the right edge reaches it.
        let height = image.pixels.len() / image.width;
        let edge = (0..height).flat_map(|y| (image.width - 4..image.width).map(move |x| (x, y)));
        let paper = image.at(0.0, 0.0);
        for (x, y) in edge {
            assert_eq!(image.at(x as f64, y as f64), paper, "{kind:?} is cut off at {x}, {y}");
        }
        // All of the title is there, one part after the other.
        let svg = drawing.svg(1.0);
        let shown: String = svg.lines().filter(|line| line.starts_with("<text")).collect();
        if kind != ChartKind::Cells {
            for part in ["fifo:50", "load build", "epoll-adddel", "compaction-proactiveness-0", "debian-12-realtime"] {
                assert!(shown.contains(part), "{kind:?} lacks {part}: {shown}");
            }
        }
        // Title lines do not stand in the map.
        let top = images(&svg)[0][1];
        let last = svg
            .lines()
            .filter(|line| ["<text x=\"14\"", "<text x=\"32\""].iter().any(|text| line.starts_with(text)))
            .filter_map(|line| line.split_once(" y=\"")?.1.split('"').next()?.parse::<f64>().ok())
            .fold(0.0, f64::max);
        assert!(last > 25.0 && last < top, "{kind:?}: {last} {top}");
    }
}
