//! One map as a picture: cells, overflow rows, the lane of lost messages, quantiles as lines, the worst messages marked,
//! events above, the marginal distribution at the right, and the legend.

use super::look::{Common, Look, cell_words, facts, framed, head, latency_axis, legend, length, lost_lane, time_axis};
use super::ticks::{is_tick, ticks};
use super::{Bin, Layout, Map, Rows, Theme, Titles, marginal};
use crate::draw::chart::Area;
use crate::draw::figure::{Anchor, Colour, Figure, Pixels, Polyline, Style, Text, words};
use crate::draw::palette::{between, rgb};
use crate::units::{commas, counted, span};

const LEFT: f64 = 84.0;
const RIGHT: f64 = 108.0;
const WIDE: usize = 1000;
const HIGH: usize = 400;
pub(crate) const LEAST: usize = 560;
/// Stalls that get a ring with a number, and of them those that are told below.
const MARKED: usize = 10;
const NAMED: usize = 3;
pub(crate) const TOP_2011_NS: u64 = 2_000_000;
pub(crate) const ROW_2011_NS: u64 = 10_000;
const SHADES: u32 = 25;

/// The title with what tells the cell from others, below it what it shares with them.
fn headed(figure: &mut Figure, map: &Map, titles: &Titles, lines: &[String]) -> f64 {
    let shared = Some(titles.shared(map)).filter(|words| !words.is_empty());
    let lines: Vec<String> = shared.into_iter().chain(lines.iter().cloned()).collect();
    head(figure, figure.title.clone(), &lines) + 4.0
}

fn soft(figure: &mut Figure, x: f64, y: f64, anchor: Anchor, size: f64, text: impl Into<String>) {
    figure.text(words(x, y, anchor, size, Colour::SOFT, text));
}

fn sums(map: &Map) -> String {
    let lost = if map.lost == 0 { "none lost".to_owned() } else { format!("{} lost", commas(map.lost)) };
    format!("{} messages, {lost} · run {}", commas(map.total()), map.run)
}

/// One map on rows and colours that it may share with others.
pub(crate) fn figure(map: &Map, common: &Common, look: &Look, titles: &Titles) -> Figure {
    let rows = &common.rows;
    let grid = map.whole.grid(rows.layout);
    let (below, above): (Vec<u64>, Vec<u64>) = grid.outside(rows).into_iter().unzip();
    let columns = grid.columns.len().max(1);
    // A picture has the least width anyway, so that few columns are as wide as that.
    let wide = (WIDE / columns).clamp(1, (LEAST / columns).max(16));
    let high = (HIGH / rows.count.max(1) as usize).clamp(1, 8);
    let width = (columns * wide) as f64;
    let title = format!("{} · {}", titles.own(map), map.quantity());
    let mut figure = Figure::new(LEFT + width.max(LEAST as f64) + RIGHT, 0.0, title, describe(map));
    figure.theme = look.theme;
    let (sum_below, sum_above) = (below.iter().sum(), above.iter().sum());
    let mut top = headed(&mut figure, map, titles, &[sums(map), shown(map, rows, sum_below, sum_above)]);
    top = events(&mut figure, map, top, width);
    top = protocol(&mut figure, map, top, width);
    if sum_above > 0 {
        top = lane(&mut figure, top, common.lane(&above, wide, 9), "above").bottom() + 7.0;
    }
    let area = framed(&mut figure, LEFT, top, common.pixels(grid, 1, wide, high));
    latency_axis(&mut figure, &area, rows, true);
    lines(&mut figure, map, &area, common, look, wide);
    marks(&mut figure, map, &area, common);
    bars(&mut figure, map, &area, common, high as f64);
    let mut bottom = area.bottom() + 7.0;
    if sum_below > 0 {
        bottom = lane(&mut figure, bottom, common.lane(&below, wide, 9), "below").bottom() + 5.0;
    }
    let lost: Vec<u64> = map.whole.columns.iter().map(|column| column.lost).collect();
    let lane = lane(&mut figure, bottom, lost_lane(&lost, look.theme, wide, 12), "lost");
    let note = if map.lost == 0 { "none".to_owned() } else { commas(map.lost) };
    soft(&mut figure, lane.right() + 8.0, lane.bottom() - 2.0, Anchor::Start, 11.5, note);
    time_axis(&mut figure, &lane, [map.whole.start_ns, map.whole.length_ns()], true, true);
    let foot = lane.bottom() + 34.0;
    soft(&mut figure, LEFT, foot, Anchor::Start, 11.5, "messages in a cell");
    legend(&mut figure, LEFT, foot + 8.0, 300, common);
    let end = key(&mut figure, map, LEFT + 370.0, foot, look);
    figure.height = end.max(foot + 48.0);
    figure.facts = facts(map, scale_words(common));
    figure
}

/// What the cells are and what they do not show, in words.
fn shown(map: &Map, rows: &Rows, below: u64, above: u64) -> String {
    let mut words = vec![cell_words(map.whole.column_ns, rows)];
    if above > 0 {
        words.push(format!("{} above {}", commas(above), span(rows.high_ns() as f64)));
    }
    if below > 0 {
        words.push(format!("{} below {}", commas(below), span(rows.low_ns() as f64)));
    }
    if map.whole.lost() == 0 && map.lost > 0 {
        words.push("when messages were lost is not known".to_owned());
    }
    let hidden = map.hidden_2011();
    if hidden > 0 && map.tag != "lateness" {
        words.push(format!("a scale that ends at 2,000 µs would hide {}", commas(hidden)));
    }
    words.join(" · ")
}

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
    let worst = map.stalls.first().map_or_else(String::new, |worst| format!(" The worst: {}.", worst.words()));
    format!("{} by time and latency: {}.{worst}", map.quantity(), sums(map))
}

fn lane(figure: &mut Figure, top: f64, pixels: Pixels, name: &str) -> Area {
    let area = framed(figure, LEFT, top, pixels);
    soft(figure, LEFT - 8.0, area.bottom() - 1.0, Anchor::End, 11.5, name);
    area
}

/// Ticks of what happened; returns where the map begins.
fn events(figure: &mut Figure, map: &Map, top: f64, width: f64) -> f64 {
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
    strokes(figure, 4, places.into_iter(), top, 10.0);
    soft(figure, LEFT - 8.0, top + 9.0, Anchor::End, 11.5, counted(count, "event"));
    top + 17.0
}

fn strokes(figure: &mut Figure, series: usize, places: impl Iterator<Item = f64>, top: f64, high: f64) {
    let strokes = places.map(|x| vec![(LEFT + x, top), (LEFT + x, top + high)]);
    figure.path(Style::stroke(Colour::series(series), 1.5), strokes.collect());
}

/// Height of a lane of ticks, and the distance to the next.
const TICK: f64 = 7.0;
const TICKS: f64 = 10.0;

/// Lanes of what the protocol did about losses; returns where the map begins.
fn protocol(figure: &mut Figure, map: &Map, top: f64, width: f64) -> f64 {
    let length = map.whole.length_ns().max(1) as f64;
    // A tick is a pixel and a half wide; closer ones would be one anyway.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time; `as` saturates")]
    let step_ns = ((length / width.max(1.0)) as u64).max(1);
    let lanes = ticks(map, step_ns);
    let mut y = top;
    for lane in &lanes {
        let series = match lane.kind {
            "nak" => 4,
            "ncf" => 0,
            "repair" => 2,
            _ => 1,
        };
        let places = lane.places.iter().map(|(place, _)| ((place * step_ns) as f64 / length * width).min(width));
        figure.line(Style::stroke(Colour::HAIR, 1.0), LEFT, y + TICK, LEFT + width, y + TICK);
        strokes(figure, series, places, y, TICK);
        soft(figure, LEFT - 8.0, y + TICK, Anchor::End, 10.5, lane.name);
        soft(figure, LEFT + width + 8.0, y + TICK, Anchor::Start, 10.5, commas(lane.count));
        y += TICKS;
    }
    // The name of the bars at the right is above the map.
    if lanes.is_empty() { top } else { y + 14.0 }
}

/// How a statistic is drawn: as a rim, so that it stands out from cells, with a line on it. The median runs through the
/// fullest cells: it is white with a dark rim on both themes.
fn line_styles(name: &str, look: &Look) -> Vec<Style> {
    let pick = |light: u32, dark: u32| rgb(if look.theme == Theme::Dark { dark } else { light });
    let rim = Style::stroke(look.theme.background(), 3.4).faded(0.6);
    match name {
        "p50" => vec![Style::stroke([0x11; 3], 3.2).faded(0.9), Style::stroke([0xff; 3], 1.4)],
        "p99" => vec![rim, Style::stroke(pick(0xd5_3e_00, 0xff_9f_40), 1.4).dashed(5.0, 2.5)],
        "p99.9" => vec![rim, Style::stroke(pick(0xc0_00_7a, 0xff_7a_c8), 1.5).dashed(1.5, 2.5)],
        _ => vec![Style::stroke(pick(0x70_70_70, 0xb0_b0_b0), 0.8).faded(0.7)],
    }
}

fn lines(figure: &mut Figure, map: &Map, area: &Area, common: &Common, look: &Look, wide: usize) {
    for line in map.whole.lines().iter().rev() {
        let mut drawn: Vec<Polyline> = Vec::new();
        let mut joins = false;
        for (place, value) in line.values.iter().enumerate() {
            if let Some(ns) = value {
                let y = area.y(common.rows.at(*ns as f64 + 1.0).clamp(0.0, 1.0));
                let from = area.left + (place * line.every * wide) as f64;
                let to = (area.left + ((place + 1) * line.every * wide) as f64).min(area.right());
                // The largest values are dashes over their columns: they jump too much to be joined.
                match drawn.last_mut().filter(|_| joins && line.name != "max") {
                    Some(before) => before.extend([(from, y), (to, y)]),
                    None => drawn.push(vec![(from, y), (to, y)]),
                }
            }
            joins = value.is_some();
        }
        for style in line_styles(line.name, look) {
            figure.path(style, drawn.clone());
        }
    }
}

/// Rings around the worst of each stall, with their rank.
fn marks(figure: &mut Figure, map: &Map, area: &Area, common: &Common) {
    let length = map.whole.length_ns().max(1) as f64;
    let column = map.whole.column_ns.max(1) as f64;
    let mut named: Vec<(f64, f64)> = Vec::new();
    for (rank, worst) in (1..).zip(map.stalls.iter().take(MARKED)) {
        let Bin::Row(place) = common.rows.bin(common.rows.layout.row(worst.value_ns)) else { continue };
        // The middle of the cell that holds it.
        let at = ((worst.at_ns.saturating_sub(map.whole.start_ns)) as f64 / column).floor() * column + column / 2.0;
        if at > length {
            continue;
        }
        let x = area.x(at / length);
        let y = area.y((f64::from(place) + 0.5) / f64::from(common.rows.count.max(1)));
        figure.circle(Style::stroke(Colour::PAGE, 2.6).faded(0.8), (x, y), 4.5);
        figure.circle(Style::stroke(Colour::INK, 1.1), (x, y), 4.5);
        // Numbers that would cover each other are left out, the ring stays.
        if named.iter().any(|(other_x, other_y)| (x - other_x).abs() < 20.0 && (y - other_y).abs() < 10.0) {
            continue;
        }
        named.push((x, y));
        let (x, anchor) = if x > area.right() - 16.0 { (x - 7.0, Anchor::End) } else { (x + 7.0, Anchor::Start) };
        figure.text(Text { halo: true, ..words(x, y + 3.5, anchor, 9.5, Colour::INK, rank.to_string()) });
    }
}

/// All times together, as bars on a logarithmic scale.
fn bars(figure: &mut Figure, map: &Map, area: &Area, common: &Common, high: f64) {
    let sums = marginal(&map.whole.grid(common.rows.layout).columns);
    let most = sums.values().copied().max().unwrap_or(1);
    let (left, width) = (area.right() + 10.0, 72.0);
    let reach = (most as f64 + 1.0).ln();
    let bar = |(row, count): (&u32, &u64)| {
        let Bin::Row(place) = common.rows.bin(*row) else { return None };
        let y = area.bottom() - f64::from(place + 1) * high;
        let right = left + ((*count as f64 + 1.0).ln() / reach * width).max(1.0);
        Some(vec![(left, y), (right, y), (right, y + high), (left, y + high), (left, y)])
    };
    figure.path(Style::fill(Colour::series(0)).faded(0.75), sums.iter().filter_map(bar).collect());
    figure.line(Style::stroke(Colour::FAINT, 1.0), left - 1.0, area.top, left - 1.0, area.bottom());
    let text = format!("all, log, to {}", commas(most));
    soft(figure, area.right() + RIGHT - 6.0, area.top - 5.0, Anchor::End, 10.5, text);
}

/// What the lines and rings are; returns where it ends.
fn key(figure: &mut Figure, map: &Map, left: f64, top: f64, look: &Look) -> f64 {
    let mut x = left;
    for line in map.whole.lines() {
        for style in line_styles(line.name, look) {
            figure.line(style, x, top + 14.0, x + 26.0, top + 14.0);
        }
        let every = map.whole.column_ns.saturating_mul(line.every as u64);
        let text = if line.every > 1 { format!("{} of {}", line.name, length(every)) } else { line.name.to_owned() };
        let wide = text.chars().count() as f64 * 6.4;
        soft(figure, x + 31.0, top + 18.0, Anchor::Start, 11.5, text);
        x += 31.0 + wide + 14.0;
    }
    let mut end = top + 36.0;
    if !map.stalls.is_empty() {
        let marked = map.stalls.len().min(MARKED);
        let worst = if marked == 1 { "the worst stall".to_owned() } else { format!("the worst {marked} stalls") };
        let named: Vec<String> = (1..)
            .zip(map.stalls.iter().take(NAMED))
            .map(|(rank, stall)| format!("{rank}: {}", stall.words()))
            .collect();
        let text = format!("rings: {worst} · {}", named.join(" · "));
        end = figure.lines(&words(left, end, Anchor::Start, 11.5, Colour::SOFT, text), 16.0);
    }
    end - 4.0
}

/// White to green by share of the largest count.
pub(crate) fn palette_2011() -> Vec<[u8; 3]> {
    (0..=SHADES).map(|shade| between(&[[255; 3], [0, 128, 0]], shade, SHADES)).collect()
}

/// The style of 2011: rows of 10 µs up to 2,000 µs, 25 shades of green by share of the largest count, no scale; what
/// lies above is not drawn, which the line below the picture says.
pub(crate) fn figure_2011(map: &Map, titles: &Titles) -> Option<Figure> {
    let grid = map.whole.linear.as_ref()?;
    let layout = Layout::Linear { step_ns: ROW_2011_NS };
    if grid.layout != layout {
        return None;
    }
    let rows = Rows::of(layout, 0, layout.row(TOP_2011_NS));
    let shown = grid.columns.iter().flatten().filter(|(row, _)| matches!(rows.bin(*row), Bin::Row(_)));
    let most = shown.map(|(_, count)| *count).max().unwrap_or(1);
    let columns = grid.columns.len().max(1);
    let (wide, high) = ((WIDE / columns).clamp(1, (LEAST / columns).max(16)), 2);
    let mut pixels = Pixels::new(grid.columns.len() * wide, rows.count as usize * high, palette_2011());
    let mut faint = 0;
    for (column, cells) in grid.columns.iter().enumerate() {
        for (row, count) in cells {
            let Bin::Row(place) = rows.bin(*row) else { continue };
            let shade = (u64::from(SHADES) * count).div_ceil(most);
            faint += if shade == 1 { *count } else { 0 };
            pixels.set(column * wide, place as usize * high, wide, high, u8::try_from(shade).unwrap_or(u8::MAX));
        }
    }
    let width = (LEFT + pixels.width as f64 + 30.0).max(LEFT + 700.0);
    let title = format!("{} · {}, style of 2011", titles.own(map), map.quantity());
    let mut figure = Figure::new(width, 0.0, title, describe(map));
    let top = headed(&mut figure, map, titles, &[sums(map)]);
    let area = framed(&mut figure, LEFT, top, pixels);
    latency_axis(&mut figure, &area, &rows, true);
    time_axis(&mut figure, &area, [map.whole.start_ns, map.whole.length_ns()], true, true);
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
        y = figure.lines(&words(LEFT, y, Anchor::Start, 12.0, Colour::SOFT, text), 17.0);
    }
    figure.height = y - 2.0;
    figure.facts = facts(map, format!("0 to {TOP_2011_NS} ns, 25 shades of {most} messages"));
    Some(figure)
}
