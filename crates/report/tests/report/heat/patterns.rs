//! Patterns that a map shows: the comb of throttling, what a protocol did about losses, a saw tooth.

use super::*;

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
