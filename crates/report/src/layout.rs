//! Aligned plain text: columns, bands above them, words wrapped, equal neighbours merged downwards.

use model::text::visible_line;

#[derive(Debug, Clone)]
pub struct Column {
    /// Its heading, one line each, the last one nearest to the figures.
    pub heading: Vec<String>,
    /// Figures stand to the right, words to the left.
    pub right: bool,
    /// Words are wrapped to this width.
    pub max: Option<usize>,
}

impl Column {
    pub fn words(title: &str) -> Self {
        Self { heading: vec![title.to_owned()], right: false, max: None }
    }

    /// Figures under a heading and a unit, which may be empty.
    pub fn figures(title: &str, unit: &str) -> Self {
        Self { heading: vec![title.to_owned(), unit.to_owned()], right: true, max: None }
    }
}

/// A word over several columns: first and last column, text.
pub type Band = (usize, usize, String);

#[derive(Debug, Clone, Default)]
pub struct Grid {
    /// From left to right.
    pub columns: Vec<Column>,
    /// Lines of bands, from the top.
    pub bands: Vec<Vec<Band>>,
    /// One text a column; what is missing is empty.
    pub rows: Vec<Vec<String>>,
    /// So many leading columns are merged downwards where they repeat.
    pub merged: usize,
    /// Leading columns, with those merged and words behind them, that are repeated where the table is continued below.
    pub keys: usize,
    /// Columns without a value in any row stay.
    pub keeps_empty: bool,
}

type Read<'a, R> = Box<dyn Fn(&R) -> String + 'a>;

/// The columns of a table, each with what it has in a row: a column is written once.
pub struct Columns<'a, R>(Vec<(Column, Read<'a, R>)>);

impl<'a, R> Columns<'a, R> {
    pub fn none() -> Self {
        Self(Vec::new())
    }

    #[must_use]
    pub fn column(mut self, column: Column, read: impl Fn(&R) -> String + 'a) -> Self {
        self.0.push((column, Box::new(read)));
        self
    }

    #[must_use]
    pub fn words(self, title: &str, read: impl Fn(&R) -> String + 'a) -> Self {
        self.column(Column::words(title), read)
    }

    #[must_use]
    pub fn figures(self, title: &str, unit: &str, read: impl Fn(&R) -> String + 'a) -> Self {
        self.column(Column::figures(title, unit), read)
    }

    /// More of them, under a condition.
    #[must_use]
    pub fn when(self, is: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if is { more(self) } else { self }
    }

    #[must_use]
    pub fn each<T>(self, all: impl IntoIterator<Item = T>, more: impl FnMut(Self, T) -> Self) -> Self {
        all.into_iter().fold(self, more)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub fn grid(self, rows: impl IntoIterator<Item = R>) -> Grid {
        let rows = rows.into_iter().map(|row| self.0.iter().map(|(_, read)| read(&row)).collect()).collect();
        Grid { rows, columns: self.0.into_iter().map(|(column, _)| column).collect(), ..Grid::default() }
    }
}

/// Characters as wide as they count: enough for Latin text, digits and the few signs used here.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

const GAP: &str = "  ";

/// No column of words becomes narrower than this, unless its longest line is.
const NARROWEST: usize = 10;

/// The same where a table is still too wide. Headings of figures are cut then, too.
const TIGHTEST: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    /// Lines are broken between words.
    Between,
    /// Words are cut.
    Within,
    /// Words of headings above figures, too, and into shorter pieces.
    Anywhere,
}

/// One merged cell: rows `first..last` of a column.
pub(crate) struct Span {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) lines: Vec<String>,
}

impl Grid {
    /// The table as text no wider than `total` columns, where its key columns and the widest other one fit: without empty columns,
    /// words wrapped between, then within them, and continued below with its key columns where it is still too wide.
    pub fn text(&self, total: usize) -> String {
        let mut whole = self.clone();
        whole.drop_empty();
        // Before anything is measured: what is made visible is wider.
        whole.texts().for_each(|text| *text = visible_line(text));
        let mut out = String::new();
        for (number, mut part) in whole.parts(total).into_iter().enumerate() {
            if number > 0 {
                out.push('\n');
            }
            if part.total(&part.floors(Breaks::Anywhere)) > total {
                part = part.unbanded();
            }
            part.fit(total);
            for line in part.lines() {
                out.push_str(&line);
                out.push('\n');
            }
        }
        out
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let headings = self.columns.iter_mut().flat_map(|column| &mut column.heading);
        let bands = self.bands.iter_mut().flatten().map(|(_, _, text)| text);
        headings.chain(bands).chain(self.rows.iter_mut().flatten())
    }

    /// Bands become the first line of the headings below them: Markdown has none.
    pub(crate) fn unbanded(mut self) -> Self {
        for (first, last, text) in self.bands.drain(..).rev().flatten() {
            for column in self.columns.get_mut(first..=last).into_iter().flatten() {
                column.heading.insert(0, text.clone());
            }
        }
        self
    }

    /// Leaves out columns without a value in any row, unless these are kept.
    pub(crate) fn drop_empty(&mut self) {
        if self.keeps_empty {
            return;
        }
        let empty =
            |column: usize| (0..self.rows.len()).all(|row| matches!(self.cell(row, column).trim(), "" | "–" | "-"));
        let kept: Vec<bool> = (0..self.columns.len()).map(|column| self.rows.is_empty() || !empty(column)).collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        let stays = |index: usize| kept.get(index).copied().unwrap_or(true);
        let now = |index: usize| (0..index).filter(|before| stays(*before)).count();
        for bands in &mut self.bands {
            let moved = bands.drain(..).filter_map(|(first, last, text)| {
                let columns = now(last + 1) - now(first);
                (columns > 0).then(|| (now(first), now(first) + columns - 1, text))
            });
            *bands = moved.collect();
        }
        (self.merged, self.keys) = (now(self.merged), now(self.keys));
        self.columns = keep(std::mem::take(&mut self.columns), stays);
        for row in &mut self.rows {
            *row = keep(std::mem::take(row), stays);
        }
    }

    fn keys(&self) -> usize {
        let least = self.merged.max(self.keys);
        let words = self.columns.iter().skip(least).take_while(|column| !column.right).count();
        (least + words).clamp(1, self.columns.len().max(1))
    }

    /// The table in parts that each can become as narrow as `total`, where any can.
    fn parts(self, total: usize) -> Vec<Self> {
        let (keys, count) = (self.keys(), self.columns.len());
        let fits = |from: usize, to: usize| {
            let part = self.part(from, to);
            part.total(&part.floors(Breaks::Within)) <= total
        };
        if count <= keys || fits(keys, count) {
            return vec![self];
        }
        // Columns under one band stay together where they can.
        let held = |at: usize| self.bands.iter().flatten().any(|(first, last, _)| (first + 1..=*last).contains(&at));
        let mut parts = Vec::new();
        let mut from = keys;
        while from < count {
            let most = (from + 1..=count).take_while(|to| fits(from, *to)).last().unwrap_or(from + 1);
            let whole = (from + 1..=most).rev().find(|to| *to == count || !held(*to));
            let to = whole.unwrap_or(most);
            parts.push(self.part(from, to));
            from = to;
        }
        parts
    }

    fn part(&self, from: usize, to: usize) -> Self {
        let keys = self.keys().min(from);
        let stays = |index: usize| index < keys || (from..to).contains(&index);
        let cut = |(first, last, text): &Band| -> Option<Band> {
            let inside: Vec<usize> = (*first..=*last).filter(|column| stays(*column)).collect();
            let place = |column: usize| if column < keys { column } else { column - from + keys };
            Some((place(*inside.first()?), place(*inside.last()?), text.clone()))
        };
        Self {
            columns: keep(self.columns.clone(), stays),
            bands: self.bands.iter().map(|bands| bands.iter().filter_map(cut).collect()).collect(),
            rows: self.rows.iter().map(|row| keep(row.clone(), stays)).collect(),
            merged: self.merged.min(keys),
            keys: self.keys.min(keys),
            keeps_empty: self.keeps_empty,
        }
    }

    /// Wraps the widest columns until the table fits or nothing can be narrower.
    fn fit(&mut self, total: usize) {
        let mut limits = self.widths();
        for breaks in [Breaks::Between, Breaks::Within, Breaks::Anywhere] {
            let floors = self.floors(breaks);
            // Each round takes one from a width that is above its floor, so this ends.
            while self.total(&limits) > total {
                let above = limits.iter().zip(&floors).enumerate().filter(|(_, (limit, floor))| limit > floor);
                let Some((widest, _)) = above.max_by_key(|(_, (limit, _))| **limit) else { break };
                if let Some(limit) = limits.get_mut(widest) {
                    *limit -= 1;
                }
            }
        }
        for (column, limit) in self.columns.iter_mut().zip(limits) {
            column.max = Some(limit);
        }
    }

    /// How narrow each column can be: its longest word, or less where words are cut. Figures are not broken.
    fn floors(&self, breaks: Breaks) -> Vec<usize> {
        let floor = |(index, column): (usize, &Column)| {
            let body = (0..self.rows.len()).map(|row| self.cell(row, index));
            let longest = |text: &str| text.split_whitespace().map(width).max().unwrap_or(0);
            let heading = column.heading.iter().map(|line| longest(line)).max().unwrap_or(0);
            let least = match breaks {
                Breaks::Between => usize::MAX,
                Breaks::Within => NARROWEST,
                Breaks::Anywhere => TIGHTEST,
            };
            if column.right {
                let heading = if breaks == Breaks::Anywhere { heading.min(least) } else { heading };
                return body.map(width).max().unwrap_or(0).max(heading);
            }
            body.map(longest).max().unwrap_or(0).max(heading).min(least)
        };
        self.columns.iter().enumerate().map(floor).collect()
    }

    fn total(&self, widths: &[usize]) -> usize {
        let widths = self.under_bands(widths.to_vec());
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    fn cell(&self, row: usize, column: usize) -> &str {
        self.rows.get(row).and_then(|cells| cells.get(column)).map_or("", String::as_str)
    }

    fn heading(&self, column: &Column) -> Vec<String> {
        column.heading.iter().flat_map(|line| wrap(line, column.max)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let of = |(index, column): (usize, &Column)| {
            let body = (0..self.rows.len()).flat_map(|row| wrap(self.cell(row, index), column.max));
            body.chain(self.heading(column)).map(|line| width(&line)).max().unwrap_or(0)
        };
        self.under_bands(self.columns.iter().enumerate().map(of).collect())
    }

    /// Widens the last column under a band that is longer than its columns.
    fn under_bands(&self, mut widths: Vec<usize>) -> Vec<usize> {
        for (first, last, text) in self.bands.iter().flatten() {
            let Some(columns) = widths.get_mut(*first..=*last) else { continue };
            let wide = columns.iter().sum::<usize>() + GAP.len() * columns.len().saturating_sub(1);
            if let Some(last) = columns.last_mut() {
                *last += width(text).saturating_sub(wide);
            }
        }
        widths
    }

    /// The merged cells of a column: a value repeats as long as all before it do; one that all rows share spans them all.
    pub(crate) fn spans(&self, column: usize) -> Vec<Span> {
        let max = self.columns.get(column).and_then(|column| column.max);
        let constant = (1..self.rows.len()).all(|row| self.cell(row, column) == self.cell(0, column));
        let joins = |row: usize| {
            column < self.merged
                && (constant || (0..=column).all(|before| self.cell(row, before) == self.cell(row - 1, before)))
        };
        let mut spans: Vec<Span> = Vec::new();
        for row in 0..self.rows.len() {
            match spans.last_mut() {
                Some(span) if joins(row) => span.last = row + 1,
                _ => spans.push(Span { first: row, last: row + 1, lines: wrap(self.cell(row, column), max) }),
            }
        }
        spans
    }

    /// The table as lines without trailing blanks, as wide as its columns' `max` lets it be.
    fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let mut out = Vec::new();
        for bands in self.bands.iter().filter(|bands| !bands.is_empty()) {
            out.push(band_line(bands, &widths));
        }
        // Headings have their last line nearest to the figures.
        let headings: Vec<Vec<String>> = self.columns.iter().map(|column| self.heading(column)).collect();
        let units = self.columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
        let depth = headings.iter().map(Vec::len).max().unwrap_or(0);
        for level in 0..depth {
            let cells = self.columns.iter().zip(&headings).map(|(column, heading)| {
                // A heading without a unit stands on the line of the others' names.
                let below = units - column.heading.len().min(units);
                let above = depth - (heading.len() + below).min(depth);
                level.checked_sub(above).and_then(|line| heading.get(line)).cloned().unwrap_or_default()
            });
            out.push(line(cells, &widths, &self.columns));
        }
        let rules = widths.iter().zip(&self.columns).map(|(width, column)| {
            let bare = column.heading.iter().all(String::is_empty);
            if bare { " ".repeat(*width) } else { "-".repeat(*width) }
        });
        out.push(rules.collect::<Vec<_>>().join(GAP).trim_end().to_owned());
        let spans: Vec<Vec<Span>> = (0..self.columns.len()).map(|column| self.spans(column)).collect();
        let mut heights = vec![1usize; self.rows.len()];
        // Short spans first, so that long ones make use of the room that these need anyway.
        let mut all: Vec<&Span> = spans.iter().flatten().collect();
        all.sort_by_key(|span| (span.last - span.first, span.first));
        for span in all {
            let room: usize = heights.get(span.first..span.last).map_or(0, |heights| heights.iter().sum());
            if let Some(last) = heights.get_mut(span.last - 1) {
                *last += span.lines.len().saturating_sub(room);
            }
        }
        let starts: Vec<usize> = heights
            .iter()
            .scan(0, |at, height| {
                let start = *at;
                *at += height;
                Some(start)
            })
            .collect();
        for (row, height) in heights.iter().enumerate() {
            for offset in 0..*height {
                let at = starts.get(row).copied().unwrap_or(0) + offset;
                let cells = spans.iter().map(|spans| {
                    let span = spans.iter().find(|span| (span.first..span.last).contains(&row));
                    span.and_then(|span| span.lines.get(at - starts.get(span.first).copied().unwrap_or(at)))
                        .cloned()
                        .unwrap_or_default()
                });
                out.push(line(cells, &widths, &self.columns));
            }
        }
        out
    }
}

fn keep<T>(all: Vec<T>, stays: impl Fn(usize) -> bool) -> Vec<T> {
    all.into_iter().enumerate().filter(|(index, _)| stays(*index)).map(|(_, one)| one).collect()
}

fn line(cells: impl Iterator<Item = String>, widths: &[usize], columns: &[Column]) -> String {
    let padded: Vec<String> = cells
        .zip(widths)
        .zip(columns)
        .map(|((text, wide), column)| {
            let blanks = " ".repeat(wide.saturating_sub(width(&text)));
            if column.right { format!("{blanks}{text}") } else { format!("{text}{blanks}") }
        })
        .collect();
    padded.join(GAP).trim_end().to_owned()
}

fn band_line(bands: &[Band], widths: &[usize]) -> String {
    let start = |column: usize| widths.iter().take(column).map(|width| width + GAP.len()).sum::<usize>();
    let mut out = String::new();
    for (first, last, text) in bands {
        let from = start(*first);
        let wide = (start(*last) + widths.get(*last).copied().unwrap_or(0)).saturating_sub(from);
        let rest = wide.saturating_sub(width(text) + 2);
        out.push_str(&" ".repeat(from.saturating_sub(width(&out))));
        if rest < 2 {
            out.push_str(text);
        } else {
            out.push_str(&format!("{} {text} {}", "-".repeat(rest / 2), "-".repeat(rest - rest / 2)));
        }
    }
    out
}

const NO_BREAK: &str = "\u{a0}";
/// What stays on the line of its number.
const UNITS: [&str; 12] = ["%", "ns", "µs", "ms", "s", "min", "B", "KiB", "MiB", "GiB", "Mbit/s", "Gbit/s"];

pub(crate) fn with_bound_units(text: &str) -> String {
    let mut bound = String::with_capacity(text.len());
    let mut after_number = false;
    for (at, word) in text.split(' ').enumerate() {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')']));
        if at > 0 {
            bound.push_str(if after_number && is_unit { NO_BREAK } else { " " });
        }
        bound.push_str(word);
        after_number = word.ends_with(|last: char| last.is_ascii_digit());
    }
    bound
}

/// Breaks text between words so that no line is wider than `max`; longer words are cut, behind a hyphen or the like.
pub(crate) fn wrap(text: &str, max: Option<usize>) -> Vec<String> {
    let Some(max) = max.filter(|max| *max > 0 && width(text) > *max) else { return vec![text.to_owned()] };
    let mut lines = Vec::new();
    let mut current = String::new();
    let bound = with_bound_units(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    // Where a column is too narrow for both, number and unit are parted all the same.
    let parts = |word: &'_ str| {
        if width(word) > max { word.split(NO_BREAK).map(str::to_owned).collect() } else { vec![word.to_owned()] }
    };
    for word in bound.split(' ').flat_map(parts) {
        let mut word = word.replace(NO_BREAK, " ");
        if !current.is_empty() && width(&current) + 1 + width(&word) > max {
            lines.push(std::mem::take(&mut current));
        }
        while width(&word) > max {
            let cut = cut(&word, max);
            lines.push(word.chars().take(cut).collect());
            word = word.chars().skip(cut).collect();
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(&word);
    }
    if !current.is_empty() {
        lines.push(current);
    }
    lines
}

/// After how many letters a word too long for a line is cut: behind a sign that parts it, where there is one.
fn cut(word: &str, max: usize) -> usize {
    let parted = |(_, letter): &(usize, char)| "-_/.,:=".contains(*letter);
    let last = word.chars().take(max).enumerate().filter(parted).last();
    last.map(|(at, _)| at + 1).filter(|cut| cut * 3 >= max).unwrap_or(max)
}

/// Wraps a paragraph with a hanging indent.
pub fn paragraph(lead: &str, text: &str, total: usize) -> String {
    let indent = " ".repeat(width(lead));
    let lines = wrap(&visible_line(text), Some(total.saturating_sub(width(lead)).max(20)));
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        out.push_str(if index == 0 { lead } else { &indent });
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
