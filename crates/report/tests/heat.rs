//! Heat maps from synthetic runs: exact sums, pictures looked at pixel by pixel, and what happens to damaged logs. The
//! pictures are kept in `target/heat-golden/`, to be looked at.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places of pixels")]

mod synthetic;

use model::result::SeriesQuantity;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use synthetic::{Cell, Files, Message, about, chance, files};
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

/// A spinner that is stopped for 50 ms of each second, and catches up.
fn throttled(seq: u64, intended: u64) -> Message {
    let within = intended % 1_000_000_000;
    let stall = 700_000_000..750_000_000;
    if stall.contains(&within) {
        let rtt_ns = Some(about(9_000, seq) + chance(seq) % 40_000);
        return Message { lateness_ns: stall.end - within, rtt_ns };
    }
    Message { lateness_ns: about(100, seq * 2), rtt_ns: Some(about(8_000, seq * 2 + 1)) }
}

#[test]
fn the_comb_of_a_throttled_spinner_shows_in_lateness_only() {
    let events = (0..10)
        .map(|second| model::Event {
            kind: "throttled".into(),
            at_ns: Some(second * 1_000_000_000 + 700_000_000),
            realtime_ns: None,
            host: None,
            seq: None,
            detail: String::new(),
        })
        .collect();
    let made = made("comb", &[files(&Cell { events, ..cell(10_000, 10, &throttled) })]);
    let heat = made.maps(&Options::default());
    let tag = |tag: &str| heat.maps.iter().find(|map| map.tag == tag).unwrap();
    let teeth = |map: &Map| -> Vec<usize> {
        let late = |at: &(usize, &heat::Column)| at.1.max_ns.is_some_and(|ns| ns > 40_000_000);
        map.whole.columns.iter().enumerate().filter(late).map(|(at, _)| at).collect()
    };
    let expected: Vec<usize> = (0..10).map(|second| second * 10 + 7).collect();
    assert_eq!(teeth(tag("lateness")), expected);
    assert_eq!(teeth(tag("rtt_intended")), expected);
    assert_eq!(teeth(tag("rtt")), Vec::<usize>::new(), "the actual send time hides it");
    let drawing = made.draw(ChartKind::Lateness, Wanted::default()).remove(0);
    let image = keep("comb-lateness", &drawing);
    let area = images(&drawing.svg(1.0))[0];
    let map = tag("lateness");
    let rows = heat::Look::default().rows(&[map]).unwrap();
    let background = Theme::Light.background();
    for column in [5_u64, 7, 17, 18, 97] {
        let seen = (20_000_000..45_000_000).step_by(1_000_000).any(|ns| {
            let (x, y) = middle(area, map, &rows, column * synthetic::INTERVAL_NS, ns);
            image.at(x, y) != background
        });
        assert_eq!(seen, column % 10 == 7, "column {column}");
    }
    insta::assert_snapshot!("comb", hash(&image, area));
    let intended = Wanted { tag: Some("rtt_intended".into()), ..Wanted::default() };
    keep("comb-intended", &made.draw(ChartKind::Heat, intended)[0]);
    keep("comb-rtt", &made.draw(ChartKind::Heat, Wanted::default())[0]);
}

#[test]
fn what_a_protocol_did_about_losses_is_ticks_in_lanes() {
    let event = |kind: &str, at_ms: u64| model::Event {
        kind: kind.into(),
        at_ns: Some(at_ms * 1_000_000),
        realtime_ns: None,
        host: None,
        seq: None,
        detail: String::new(),
    };
    // Two a second, each asked for twice, and one that was given up; a mark of its own is no tick.
    let mut events: Vec<model::Event> = (0..20)
        .flat_map(|half| [("nak", 500 * half), ("nak", 500 * half + 3), ("repair", 500 * half + 5)])
        .map(|(kind, at_ms)| event(kind, at_ms))
        .collect();
    events.extend([event("lost", 9_990), event("throttled", 5_000)]);
    let made = made("lanes", &[files(&Cell { events, ..cell(1_000, 10, &throttled) })]);
    let drawing = made.draw(ChartKind::Heat, Wanted::default()).remove(0);
    let svg = drawing.svg(1.0);
    for (name, count) in [("NAK", "40"), ("repair", "20"), ("given up", "1")] {
        assert!(svg.contains(&format!(">{name}<")) && svg.contains(&format!(">{count}<")), "{name} {count}");
    }
    assert!(!svg.contains(">NCF<"), "what did not happen has no lane");
    assert!(svg.contains(">1 event<"), "the mark stays by itself");
    // The lanes push the map down, and nothing else.
    let image = keep("lanes", &drawing);
    let top = images(&svg)[0][1] as usize;
    let is_amber = |x: usize, y: usize| {
        image.at(x as f64, y as f64).iter().zip([0xc9, 0x85, 0x00]).all(|(is, amber)| is.abs_diff(amber) < 70)
    };
    let in_row = |y: usize| (1..image.width).filter(|x| is_amber(*x, y) && !is_amber(x - 1, y)).count();
    assert_eq!((0..top).map(in_row).max(), Some(20), "two that are 3 ms apart are one tick of a picture of 10 s");
}

/// Times that grow from 20 µs to 2 ms within two seconds, again and again.
fn sawtooth(seq: u64, intended: u64) -> Message {
    let within = intended % 2_000_000_000;
    Message { rtt_ns: Some(20_000 + within / 1000 + chance(seq) % 2_000), lateness_ns: about(4_000, seq) }
}

#[test]
fn a_saw_tooth_rises_and_falls() {
    let made = made("saw-tooth", &[files(&cell(10_000, 12, &sawtooth))]);
    let map = &made.maps(&Options::default()).maps[0];
    let drawing = made.draw(ChartKind::Heat, Wanted::default()).remove(0);
    let image = keep("saw-tooth", &drawing);
    let area = images(&drawing.svg(1.0))[0];
    let rows = heat::Look::default().rows(&[map]).unwrap();
    let background = Theme::Light.background();
    let seen = |at_s: f64, ns: u64| {
        let (x, y) = middle(area, map, &rows, (at_s * 1e9) as u64, ns);
        image.at(x, y) != background
    };
    for tooth in 0..6 {
        let start = f64::from(tooth) * 2.0;
        assert!(seen(start + 0.55, 570_000) && !seen(start + 0.55, 1_500_000), "tooth {tooth}");
        assert!(seen(start + 1.95, 1_980_000) && !seen(start + 1.95, 570_000), "tooth {tooth}");
    }
    insta::assert_snapshot!("saw-tooth", hash(&image, area));
    let old = made.draw(ChartKind::Heat2011, Wanted::default()).remove(0);
    keep("saw-tooth-2011", &old);
    // Both pictures, and the cells of the linear grid, say the same number.
    let linear = &made.maps(&Options { linear_ns: Some(10_000), ..Options::default() }).maps[0];
    let cells = linear.whole.linear.as_ref().unwrap().columns.iter().flatten();
    let above: u64 = cells.filter(|(row, _)| *row >= 200).map(|(_, count)| count).sum();
    assert!(above > 500 && above == linear.hidden_2011(), "{above}");
    let above = windhover_commas(above);
    assert!(old.svg(1.0).contains(&format!("It hides {above} messages above 2,000 µs")), "{above}");
    assert!(drawing.svg(1.0).contains(&format!("a scale that ends at 2,000 µs would hide {above}")), "{above}");
}

fn windhover_commas(count: u64) -> String {
    if count < 1000 { count.to_string() } else { format!("{},{:03}", count / 1000, count % 1000) }
}

#[test]
fn what_the_style_of_2011_hides_is_said() {
    let rule = |seq: u64, intended: u64| match seq {
        5_000..5_040 => Message { rtt_ns: Some(9_000_000 + seq), ..quiet(seq) },
        7_000..7_003 => Message { rtt_ns: None, lateness_ns: 0 },
        _ if intended > 0 => quiet(seq),
        _ => quiet(seq),
    };
    let made = made("hidden", &[files(&cell(10_000, 10, &rule))]);
    let svg = made.draw(ChartKind::Heat2011, Wanted::default()).remove(0).svg(1.0);
    assert!(svg.contains("It hides 40 messages above 2,000 µs and 3 lost ones"), "{svg}");
    let corrected = made.draw(ChartKind::Heat, Wanted::default()).remove(0).svg(1.0);
    assert!(corrected.contains("a scale that ends at 2,000 µs would hide 40"), "{corrected}");
    // A picture that ends at 100 µs has an overflow row.
    let look = heat::Look { high_ns: Some(100_000), ..heat::Look::default() };
    let drawing = made.draw(ChartKind::Heat, Wanted { look, ..Wanted::default() }).remove(0);
    let image = keep("overflow", &drawing);
    assert!(drawing.svg(1.0).contains("40 above 100 µs"), "{}", drawing.svg(1.0));
    let [left, top, width, height] = images(&drawing.svg(1.0))[0];
    let at = |column: f64| image.at(left + (column + 0.5) * width / 100.0, top + height / 2.0);
    assert!(difference(at(5.0), Theme::Light.background()) > 150);
    assert_eq!(at(4.0), Theme::Light.background());
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
fn reflectors_are_seen_together_and_one_by_one() {
    let mut made = made("reflectors", &[files(&cell(1_000, 3, &|seq, _| quiet(seq)))]);
    let text = fs::read_to_string(made.hlog(1)).unwrap();
    // As two reflectors' logs: the second has the first two seconds only.
    let mut both = String::new();
    for line in text.lines() {
        let Some((tag, rest)) = line.strip_prefix("Tag=").and_then(|line| line.split_once(',')) else { continue };
        both.push_str(&format!("Tag={tag}@b,{rest}\n"));
        if rest.starts_with("0.") || rest.starts_with("1.") {
            both.push_str(&format!("Tag={tag}@c,{rest}\n"));
        }
    }
    fs::write(made.hlog(1), both).unwrap();
    made.run.results[0].1.reflectors = serde_json::from_value(serde_json::json!([
        { "host": "b", "latency": null, "messages": { "sent": 3000, "received": 3000, "lost": 0, "duplicated": null, "reordered": null } },
        { "host": "c", "latency": null, "messages": { "sent": 2005, "received": 2000, "lost": 5, "duplicated": null, "reordered": null } },
    ]))
    .unwrap();
    let tags = ["rtt", "rtt@b", "rtt@c", "lateness"].map(str::to_owned).to_vec();
    let heat = made.maps(&Options { tags, ..Options::default() });
    let found: Vec<(&str, u64, u64)> =
        heat.maps.iter().map(|map| (map.tag.as_str(), map.total(), map.received)).collect();
    assert_eq!(found, [("rtt", 5000, 3000), ("rtt@b", 3000, 3000), ("rtt@c", 2000, 2000), ("lateness", 5000, 3000)]);
    assert_eq!(heat.maps[2].quantity(), "RTT from the actual send, reflector c");
    assert_eq!((heat.maps[2].lost, heat.maps[2].whole.lost()), (5, 0));
    let wanted = Wanted { tag: Some("rtt@c".into()), ..Wanted::default() };
    let drawing = made.draw(ChartKind::Heat, wanted).remove(0);
    assert_eq!(drawing.name, "heat-0001-rtt-c");
    assert!(drawing.svg(1.0).contains("when messages were lost is not known"), "an older run");
    // What a reflector lost and when, as runs say it by now.
    let lost = |host: &str, count: f64| model::result::Series {
        quantity: SeriesQuantity::Lost,
        host: host.to_owned(),
        interval_ns: 100_000_000,
        values: (0..30).map(|at| Some(if at == 15 { count } else { 0.0 })).collect(),
    };
    let series = &mut made.run.results[0].1.series;
    series.retain(|one| one.quantity != SeriesQuantity::Lost);
    series.extend([lost("initiator", 5.0), lost("b", 0.0), lost("c", 5.0)]);
    let tags = ["rtt", "rtt@b", "rtt@c"].map(str::to_owned).to_vec();
    let heat = made.maps(&Options { tags, ..Options::default() });
    assert_eq!(heat.maps.iter().map(|map| map.whole.lost()).collect::<Vec<_>>(), [5, 0, 5]);
    assert_eq!(heat.maps[2].whole.columns.iter().position(|column| column.lost == 5), Some(15));
    let wanted = Wanted { tag: Some("rtt@c".into()), ..Wanted::default() };
    assert!(!made.draw(ChartKind::Heat, wanted).remove(0).svg(1.0).contains("is not known"));
}

#[test]
fn damage_is_named_and_the_rest_is_drawn() {
    let good = files(&cell(2_000, 3, &|seq, _| quiet(seq)));
    let other = files(&Cell { policy: "other", ..cell(2_000, 3, &|seq, _| quiet(seq)) });
    let made = made("damaged", &[good, other]);
    let path = made.hlog(1);
    let text = fs::read_to_string(&path).unwrap();
    // Cut off in the middle of the last line.
    fs::write(&path, &text[..text.trim_end().rfind("HISTFAAA").unwrap() + 41]).unwrap();
    let heat = made.maps(&Options { tags: vec!["lateness".into()], ..Options::default() });
    assert_eq!(heat.problems.len(), 1, "{:?}", heat.problems);
    let lines = text.lines().count();
    assert!(
        heat.problems[0].contains("0001.hlog") && heat.problems[0].contains(&format!("line {lines} ")),
        "{:?}",
        heat.problems
    );
    assert!(!heat.problems[0].contains('\n'));
    assert_eq!(heat.maps.len(), 2, "both cells are drawn");
    assert_eq!((heat.maps[0].total(), heat.maps[1].total()), (5_800, 6_000));
    // Damaged base64, and bytes that are no text.
    let mut bytes = text.clone().into_bytes();
    let at = text.find("HISTFAAA").unwrap() + 30;
    bytes[at..at + 3].copy_from_slice(&[0xff, b'!', b'!']);
    fs::write(&path, &bytes).unwrap();
    let heat = made.maps(&Options::default());
    assert!(heat.problems.iter().any(|problem| problem.contains("0001.hlog: line 5 ")), "{:?}", heat.problems);
    assert!(
        heat.problems.iter().any(|problem| problem.contains("holds 5,800 of the 6,000 messages")),
        "{:?}",
        heat.problems
    );
    // Nothing that can be read at all: the other cell is still drawn.
    fs::write(&path, "nonsense\n").unwrap();
    let drawings =
        charts::draw(vec![made.run.clone()], &Wanted { kinds: vec![ChartKind::Heat], ..Wanted::default() }).unwrap();
    assert_eq!(drawings.drawings.len(), 1);
    assert!(drawings.problems[0].contains("0001.hlog: line 1 is damaged"), "{:?}", drawings.problems);
    // No log at all.
    fs::remove_file(&path).unwrap();
    fs::remove_file(made.hlog(2)).unwrap();
    let error = charts::draw(vec![made.run], &Wanted { kinds: vec![ChartKind::Heat], ..Wanted::default() });
    assert!(error.unwrap_err().to_string().contains("needs cells with interval logs"));
}

#[test]
fn hostile_logs_take_no_memory() {
    let made = made("hostile", &[files(&cell(1_000, 1, &|seq, _| quiet(seq)))]);
    let path = made.hlog(1);
    let text = fs::read_to_string(&path).unwrap();
    let histogram = &text[text.find("HISTFAAA").unwrap()..].lines().next().unwrap();
    let mut evil = text.clone();
    for start in ["99999999.0", "1e300", "-5", "250000000"] {
        evil.push_str(&format!("Tag=rtt,{start},0.000000001,1e300,{histogram}\n"));
    }
    fs::write(&path, evil).unwrap();
    let heat = made.maps(&Options::default());
    let map = heat.maps.iter().find(|map| map.tag == "rtt").unwrap();
    assert!(map.whole.columns.len() <= 4000);
    assert_eq!(map.total(), 1_200, "the lines that can be placed are there");
    assert!(heat.problems.iter().any(|problem| problem.contains("no time of a measurement")), "{:?}", heat.problems);
}

#[test]
fn a_cell_that_is_not_there_is_named() {
    let made = made("named", &[files(&cell(1_000, 1, &|seq, _| quiet(seq)))]);
    let wanted = Wanted { cell: Some("rate=7".into()), ..Wanted::default() };
    let error = charts::draw(vec![made.run], &wanted).unwrap_err().to_string();
    assert!(error.contains("no cell 'rate=7'") && error.contains("--list"), "{error}");
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
