//! One map as a picture: cells, overflow rows, the lane of lost messages, quantiles as lines, the worst messages marked,
//! events above, the marginal distribution at the right, and the legend.

use super::look::{Area, Common, Look, facts, label, latency_axis, legend, length, lost_lane, time_axis, words};
use super::ticks::{is_tick, ticks};
use super::{Layout, Map, Place};
use crate::figure::{Figure, Hold, Ink, Paint, Style, Text, ink};
use crate::svg::xy;
use crate::units::{commas, counted, span};

/// What a map's picture is drawn with.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 108.0;
/// Pixels that cells should fill.
const WIDE: usize = 1000;
const HIGH: usize = 400;
/// Least width of what is not cells.
pub(crate) const LEAST: usize = 560;
/// Outliers that get a number.
const MARKED: usize = 10;
/// Top of the pictures of 2011, and width of their rows.
pub(crate) const TOP_2011_NS: u64 = 2_000_000;
pub(crate) const ROW_2011_NS: u64 = 10_000;
/// Colours of 2011.
const SHADES: u64 = 25;

/// The title lines; returns where the map may begin.
fn head(figure: &mut Figure, map: &Map, lines: &[String], ink: &Ink) -> f64 {
    let title = format!("{} · {}", label(map), map.quantity());
    let title = Text { bold: true, ..words(14.0, 25.0, Hold::Start, 15.0, ink.ink, title) };
    let mut y = figure.lines(&title, 20.0);
    for line in lines {
        y = figure.lines(&words(14.0, y, Hold::Start, 12.0, ink.soft, line.as_str()), 17.0);
    }
    y + 4.0
}

/// What the numbers of a map add up to, in words.
fn sums(map: &Map) -> String {
    let lost = if map.lost == 0 { "none lost".to_owned() } else { format!("{} lost", commas(map.lost)) };
    format!("{} messages, {lost} · run {}", commas(map.total()), map.run)
}

/// One map on rows and colours that it may share with others.
pub(crate) fn figure(map: &Map, common: &Common, look: &Look) -> Figure {
    let ink = ink(look.theme);
    let grid = map.whole.grid(common.rows.layout);
    let outside = grid.outside(&common.rows);
    let above: u64 = outside.iter().map(|(_, above)| above).sum();
    let below: u64 = outside.iter().map(|(below, _)| below).sum();
    let columns = grid.columns.len().max(1);
    // A picture has the least width anyway, so that few columns are as wide as that.
    let wide = (WIDE / columns).clamp(1, (LEAST / columns).max(16));
    let high = (HIGH / common.rows.count.max(1) as usize).clamp(1, 8);
    let rows_words = match common.rows.layout {
        Layout::Log => "rows of 1/32 octave".to_owned(),
        Layout::Linear { step_ns } => format!("rows of {}", length(step_ns)),
    };
    let mut second = vec![format!("each cell: all messages of {}, {rows_words}", length(map.whole.column_ns))];
    if above > 0 {
        second.push(format!("{} above {}", commas(above), span(common.rows.high_ns() as f64)));
    }
    if below > 0 {
        second.push(format!("{} below {}", commas(below), span(common.rows.low_ns() as f64)));
    }
    if map.whole.lost() == 0 && map.lost > 0 {
        second.push("when messages were lost is not known".to_owned());
    }
    let hidden = map.hidden_2011();
    if hidden > 0 && map.tag != "lateness" {
        second.push(format!("a scale that ends at 2,000 µs would hide {}", commas(hidden)));
    }
    let area_width = (columns * wide) as f64;
    let mut figure = Figure::new(
        LEFT + area_width.max(LEAST as f64) + RIGHT,
        0.0,
        format!("{}, {}", map.quantity(), label(map)),
        describe(map),
        look.theme,
    );
    let mut top = head(&mut figure, map, &[sums(map), second.join(" · ")], &ink);
    top = events(&mut figure, map, top, area_width, &ink);
    top = protocol(&mut figure, map, top, area_width, &ink);
    if above > 0 {
        let lane = common.lane(outside.iter().map(|(_, above)| *above).collect::<Vec<_>>().into_iter(), wide, 9);
        top = band(&mut figure, top, lane, "above", &ink) + 7.0;
    }
    let area = Area { left: LEFT, top, width: area_width, height: (common.rows.count as usize * high) as f64 };
    figure.image(area.left, area.top, common.pixels(grid, wide, high));
    frame(&mut figure, area, &ink);
    latency_axis(&mut figure, area, &common.rows, &ink, true);
    lines(&mut figure, map, area, common, look, wide);
    marks(&mut figure, map, area, common, &ink);
    marginal(&mut figure, map, area, common, &ink, high);
    let mut bottom = area.bottom() + 7.0;
    if below > 0 {
        let lane = common.lane(outside.iter().map(|(below, _)| *below).collect::<Vec<_>>().into_iter(), wide, 9);
        bottom = band(&mut figure, bottom, lane, "below", &ink) + 5.0;
    }
    let lost: Vec<u64> = map.whole.columns.iter().map(|column| column.lost).collect();
    let lane = Area { top: bottom, height: 12.0, ..area };
    band(&mut figure, bottom, lost_lane(lost.into_iter(), look.theme, wide, 12), "lost", &ink);
    let note = if map.lost == 0 { "none".to_owned() } else { commas(map.lost) };
    figure.text(words(lane.right() + 8.0, lane.bottom() - 2.0, Hold::Start, 11.5, ink.soft, note));
    time_axis(&mut figure, lane, map.whole.start_ns, map.whole.length_ns(), &ink, true, true);
    let foot = lane.bottom() + 34.0;
    figure.text(words(LEFT, foot, Hold::Start, 11.5, ink.soft, "messages in a cell"));
    legend(&mut figure, LEFT, foot + 8.0, 300, common, &ink);
    key(&mut figure, map, LEFT + 370.0, foot, look, &ink);
    figure.height = foot + 48.0;
    figure.facts = facts(map, scale_words(common));
    figure
}

/// The scale in words, for the file.
pub(crate) fn scale_words(common: &Common) -> String {
    format!(
        "{} ns to {} ns, colour {:?}, saturated at {} messages",
        common.rows.low_ns(),
        common.rows.high_ns(),
        common.scale.mode,
        common.scale.saturation
    )
}

fn describe(map: &Map) -> String {
    let worst = map.outliers.first().map_or_else(String::new, |worst| {
        format!(" The worst: {} at {}.", span(worst.value_ns as f64), span(worst.at_ns as f64))
    });
    format!("{} by time and latency: {}.{worst}", map.quantity(), sums(map))
}

pub(crate) fn frame(figure: &mut Figure, area: Area, ink: &Ink) {
    figure.rect(Style::stroke(ink.faint, 1.0), area.left - 0.5, area.top - 0.5, area.width + 1.0, area.height + 1.0);
}

/// A lane over the whole time; returns where it ends.
fn band(figure: &mut Figure, top: f64, lane: crate::figure::Pixels, name: &str, ink: &Ink) -> f64 {
    let area = Area { left: LEFT, top, width: lane.width as f64, height: lane.height as f64 };
    figure.image(area.left, area.top, lane);
    frame(figure, area, ink);
    figure.text(words(LEFT - 8.0, area.bottom() - 1.0, Hold::End, 11.5, ink.soft, name));
    area.bottom()
}

/// Ticks of what happened; returns where the map begins.
fn events(figure: &mut Figure, map: &Map, top: f64, width: f64, ink: &Ink) -> f64 {
    let length = map.whole.length_ns().max(1) as f64;
    let mut places: Vec<f64> = map
        .events
        .iter()
        .filter(|event| event.kind != "loss" && !is_tick(event))
        .filter_map(|event| event.at_ns)
        .map(|at| (at as f64 / length * width).floor())
        .filter(|x| (0.0..=width).contains(x))
        .collect();
    if places.is_empty() {
        return top;
    }
    let count = places.len();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for x in places {
        figure.line(Style::stroke(ink.series[4], 1.5), LEFT + x, top, LEFT + x, top + 10.0);
    }
    figure.text(words(LEFT - 8.0, top + 9.0, Hold::End, 11.5, ink.soft, counted(count, "event")));
    top + 17.0
}

/// Height of a lane of ticks, and the distance to the next.
const TICK: f64 = 7.0;
const TICKS: f64 = 10.0;

/// Lanes of what the protocol did about losses; returns where the map begins.
fn protocol(figure: &mut Figure, map: &Map, top: f64, width: f64, ink: &Ink) -> f64 {
    let length = map.whole.length_ns().max(1) as f64;
    // A tick is a pixel and a half wide; closer ones would be one anyway.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time; `as` saturates")]
    let step_ns = (length / width.max(1.0)) as u64;
    let lanes = ticks(map, step_ns.max(1));
    let mut y = top;
    for lane in &lanes {
        let colour = ink.series[match lane.kind {
            "nak" => 4,
            "ncf" => 0,
            "repair" => 2,
            _ => 1,
        }];
        let mut data = String::new();
        for (place, _) in &lane.places {
            let x = LEFT + (*place * step_ns.max(1)) as f64 / length * width;
            data.push_str(&format!("M{} {}v{}", xy(x.min(LEFT + width)), xy(y), xy(TICK)));
        }
        figure.line(Style::stroke(ink.hair, 1.0), LEFT, y + TICK, LEFT + width, y + TICK);
        figure.path(Style::stroke(colour, 1.5), data);
        figure.text(words(LEFT - 8.0, y + TICK, Hold::End, 10.5, ink.soft, lane.name));
        figure.text(words(LEFT + width + 8.0, y + TICK, Hold::Start, 10.5, ink.soft, commas(lane.count)));
        y += TICKS;
    }
    // The name of the bars at the right is above the map.
    if lanes.is_empty() { top } else { y + 14.0 }
}

/// How each line is drawn: colour on a light and on a dark page, width, dashes. The median runs through the fullest
/// cells: it is white with a dark rim on both.
fn line_style(name: &str, look: &Look) -> Style {
    let dark = look.theme == super::Theme::Dark;
    let pick = |light: [u8; 3], on_dark: [u8; 3]| if dark { on_dark } else { light };
    match name {
        "p50" => Style::stroke([0xff, 0xff, 0xff], 1.4),
        "p99" => Style::stroke(pick([0xd5, 0x3e, 0x00], [0xff, 0x9f, 0x40]), 1.4).dashed(5.0, 2.5),
        "p99.9" => Style::stroke(pick([0xc0, 0x00, 0x7a], [0xff, 0x7a, 0xc8]), 1.5).dashed(1.5, 2.5),
        _ => Style::stroke(Paint { rgb: pick([0x70, 0x70, 0x70], [0xb0, 0xb0, 0xb0]), alpha: 0.7 }, 0.8),
    }
}

/// What lies under a line, so that it stands out from cells.
fn rim(name: &str, look: &Look) -> Option<Style> {
    match name {
        "max" => None,
        "p50" => Some(Style::stroke(Paint { rgb: [0x11, 0x11, 0x11], alpha: 0.9 }, 3.2)),
        _ => Some(Style::stroke(Paint { rgb: look.theme.background(), alpha: 0.6 }, 3.4)),
    }
}

fn lines(figure: &mut Figure, map: &Map, area: Area, common: &Common, look: &Look, wide: usize) {
    for line in map.whole.lines().iter().rev() {
        let mut data = String::new();
        let mut pen = false;
        for (place, value) in line.values.iter().enumerate() {
            let Some(ns) = value else {
                pen = false;
                continue;
            };
            let at = common.rows.at(*ns as f64 + 1.0).clamp(0.0, 1.0);
            let y = area.bottom() - at * area.height;
            let from = area.left + (place * line.every * wide) as f64;
            let to = (area.left + ((place + 1) * line.every * wide) as f64).min(area.right());
            // The largest values are dashes over their columns: they jump too much to be joined.
            if pen && line.name != "max" {
                data.push_str(&format!("V{}H{}", xy(y), xy(to)));
            } else {
                data.push_str(&format!("M{} {}H{}", xy(from), xy(y), xy(to)));
            }
            pen = true;
        }
        if !data.is_empty() {
            if let Some(rim) = rim(line.name, look) {
                figure.path(rim, data.clone());
            }
            figure.path(line_style(line.name, look), data);
        }
    }
}

/// Rings around the worst messages, with their rank.
fn marks(figure: &mut Figure, map: &Map, area: Area, common: &Common, ink: &Ink) {
    let length = map.whole.length_ns().max(1) as f64;
    let column = map.whole.column_ns.max(1) as f64;
    let mut named: Vec<(f64, f64)> = Vec::new();
    for (rank, worst) in (1..).zip(map.outliers.iter().take(MARKED)) {
        let row = common.rows.layout.row(worst.value_ns);
        let Place::At(place) = common.rows.place(row) else { continue };
        // The middle of the cell that holds it.
        let at = ((worst.at_ns.saturating_sub(map.whole.start_ns)) as f64 / column).floor() * column + column / 2.0;
        if at > length {
            continue;
        }
        let x = area.left + at / length * area.width;
        let y = area.bottom() - (f64::from(place) + 0.5) / f64::from(common.rows.count.max(1)) * area.height;
        let ring = format!("M{} {}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", xy(x - 4.5), xy(y));
        let rim = Paint { rgb: ink.page, alpha: 0.8 };
        figure.path(Style::stroke(rim, 2.6), ring.clone());
        figure.path(Style::stroke(ink.ink, 1.1), ring);
        // Numbers that would cover each other are left out, the ring stays.
        if named.iter().any(|(other_x, other_y)| (x - other_x).abs() < 20.0 && (y - other_y).abs() < 10.0) {
            continue;
        }
        named.push((x, y));
        let left = x > area.right() - 16.0;
        let (x, hold) = if left { (x - 7.0, Hold::End) } else { (x + 7.0, Hold::Start) };
        let text = words(x, y + 3.5, hold, 9.5, ink.ink, rank.to_string());
        figure.text(Text { halo: Some(ink.page), ..text });
    }
}

/// All times together, as bars on a logarithmic scale.
fn marginal(figure: &mut Figure, map: &Map, area: Area, common: &Common, ink: &Ink, high: usize) {
    let sums = map.whole.grid(common.rows.layout).marginal();
    let most = sums.values().copied().max().unwrap_or(1);
    let (left, width) = (area.right() + 10.0, 72.0);
    let reach = (most as f64 + 1.0).ln();
    let mut data = String::new();
    for (row, count) in &sums {
        if let Place::At(place) = common.rows.place(*row) {
            let y = area.bottom() - f64::from(place + 1) * high as f64;
            let long = ((*count as f64 + 1.0).ln() / reach * width).max(1.0);
            data.push_str(&format!("M{} {}h{}v{high}h-{}z", xy(left), xy(y), xy(long), xy(long)));
        }
    }
    figure.path(Style::fill(Paint { rgb: ink.series[0], alpha: 0.75 }), data);
    figure.line(Style::stroke(ink.faint, 1.0), left - 1.0, area.top, left - 1.0, area.bottom());
    let text = format!("all, log, to {}", commas(most));
    figure.text(words(area.right() + RIGHT - 6.0, area.top - 5.0, Hold::End, 10.5, ink.soft, text));
}

/// What the lines and rings are.
fn key(figure: &mut Figure, map: &Map, left: f64, top: f64, look: &Look, ink: &Ink) {
    let mut x = left;
    let lines = map.whole.lines();
    for line in &lines {
        for style in rim(line.name, look).into_iter().chain([line_style(line.name, look)]) {
            figure.line(style, x, top + 14.0, x + 26.0, top + 14.0);
        }
        let every = map.whole.column_ns.saturating_mul(line.every as u64);
        let text = if line.every > 1 { format!("{} of {}", line.name, length(every)) } else { line.name.to_owned() };
        let wide = text.chars().count() as f64 * 6.4;
        figure.text(words(x + 31.0, top + 18.0, Hold::Start, 11.5, ink.soft, text));
        x += 31.0 + wide + 14.0;
    }
    let marked = map.outliers.len().min(MARKED);
    let worst = map.outliers.first().map_or(0, |worst| worst.value_ns);
    let text = match (marked, map.lost) {
        (0, _) => String::new(),
        (n, _) => format!("rings: the worst {}, up to {}", counted(n, "message"), span(worst as f64)),
    };
    figure.text(words(left, top + 36.0, Hold::Start, 11.5, ink.soft, text));
}

/// The style of 2011: rows of 10 µs up to 2,000 µs, 25 shades of green by share of the largest count, no scale; what
/// lies above is not drawn, which the line below the picture says.
pub(crate) fn figure_2011(map: &Map) -> Option<Figure> {
    let grid = map.whole.linear.as_ref()?;
    let layout = Layout::Linear { step_ns: ROW_2011_NS };
    if grid.layout != layout {
        return None;
    }
    let rows = layout.row(TOP_2011_NS) + 1;
    let most = grid.columns.iter().flatten().filter(|(row, _)| *row < rows).map(|(_, count)| *count).max().unwrap_or(1);
    let light = super::Theme::Light;
    let ink = ink(light);
    let columns = grid.columns.len().max(1);
    let (wide, high) = ((WIDE / columns).clamp(1, (LEAST / columns).max(16)), 2);
    let palette: Vec<[u8; 3]> = (0..=SHADES)
        .map(|shade| {
            let fade =
                |from: u64, to: u64| u8::try_from((from * (SHADES - shade) + to * shade) / SHADES).unwrap_or(255);
            [fade(255, 0), fade(255, 128), fade(255, 0)]
        })
        .collect();
    let mut pixels = crate::figure::Pixels::new(grid.columns.len() * wide, rows as usize * high, palette, 0);
    let mut faint = 0;
    for (column, cells) in grid.columns.iter().enumerate() {
        for (row, count) in cells.iter().filter(|(row, _)| *row < rows) {
            let shade = (SHADES * count).div_ceil(most);
            if shade == 1 {
                faint += count;
            }
            let shade = u8::try_from(shade).unwrap_or(u8::MAX);
            pixels.set(column * wide, *row as usize * high, wide, high, shade);
        }
    }
    let width = (LEFT + pixels.width as f64 + 30.0).max(LEFT + 700.0);
    let mut figure =
        Figure::new(width, 0.0, format!("Style of 2011: {}, {}", map.quantity(), label(map)), describe(map), light);
    let top = head(&mut figure, map, &[sums(map)], &ink);
    let area = Area { left: LEFT, top, width: pixels.width as f64, height: pixels.height as f64 };
    figure.image(area.left, area.top, pixels);
    frame(&mut figure, area, &ink);
    let shown = super::Rows { layout, first: 0, count: rows };
    latency_axis(&mut figure, area, &shown, &ink, true);
    time_axis(&mut figure, area, map.whole.start_ns, map.whole.length_ns(), &ink, true, true);
    let hidden = map.hidden_2011();
    let words_below = [
        format!("The style of 2011: rows of 10 µs, green by share of the largest count ({}), no scale.", commas(most)),
        format!(
            "It hides {} messages above 2,000 µs and {} lost ones, and draws {} in a shade next to white.",
            commas(hidden),
            commas(map.lost),
            commas(faint)
        ),
    ];
    let mut y = area.bottom() + 36.0;
    for text in words_below {
        y = figure.lines(&words(LEFT, y, Hold::Start, 12.0, ink.soft, text), 17.0);
    }
    figure.height = y - 2.0;
    figure.facts = facts(map, format!("0 to {TOP_2011_NS} ns, 25 shades of {most} messages"));
    Some(figure)
}
