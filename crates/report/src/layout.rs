//! Aligned plain text: columns, bands above them, words wrapped, equal neighbours merged downwards.

/// One column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Its heading, one line each, the last one nearest to the figures.
    pub(crate) heading: Vec<String>,
    /// Figures stand to the right, words to the left.
    pub(crate) right: bool,
    /// Words are wrapped to this width.
    pub(crate) max: Option<usize>,
}

impl Column {
    pub(crate) fn words(title: &str) -> Self {
        Self { heading: vec![title.to_owned()], right: false, max: None }
    }

    pub(crate) fn figures(title: &str, unit: &str) -> Self {
        Self { heading: vec![title.to_owned(), unit.to_owned()], right: true, max: None }
    }
}

/// A word over several columns: first and last column, text.
pub(crate) type Band = (usize, usize, String);

/// A table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grid {
    pub(crate) columns: Vec<Column>,
    /// Lines of bands, from the top.
    pub(crate) bands: Vec<Vec<Band>>,
    pub(crate) rows: Vec<Vec<String>>,
    /// So many leading columns are merged downwards where they repeat.
    pub(crate) merged: usize,
}

/// Characters as wide as they count: enough for Latin text, digits and the few signs used here.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

const GAP: &str = "  ";

/// One merged cell: rows `first..last` of a column.
struct Span {
    first: usize,
    last: usize,
    lines: Vec<String>,
}

impl Grid {
    /// Wraps the widest wrappable columns until the table fits: first between words, then also within them.
    pub(crate) fn fit(&mut self, total: usize, wrappable: &[usize]) {
        const NARROWEST: usize = 10;
        let words: Vec<usize> = (0..self.columns.len()).map(|column| self.longest_word(column)).collect();
        for within in [false, true] {
            loop {
                let widths = self.widths();
                if widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1) <= total {
                    return;
                }
                let least = |column: usize| if within { NARROWEST } else { words.get(column).copied().unwrap_or(0) };
                let widest = wrappable
                    .iter()
                    .copied()
                    .filter_map(|column| Some((*widths.get(column)?, column)))
                    .filter(|(now, column)| *now > least(*column).max(NARROWEST))
                    .max();
                let Some((now, column)) = widest else { break };
                if let Some(column) = self.columns.get_mut(column) {
                    column.max = Some(now - 1);
                }
            }
        }
    }

    fn longest_word(&self, column: usize) -> usize {
        (0..self.rows.len()).flat_map(|row| self.cell(row, column).split_whitespace()).map(width).max().unwrap_or(0)
    }

    fn cell(&self, row: usize, column: usize) -> &str {
        self.rows.get(row).and_then(|cells| cells.get(column)).map_or("", String::as_str)
    }

    fn widths(&self) -> Vec<usize> {
        self.columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let heading = column.heading.iter().map(|line| width(line)).max().unwrap_or(0);
                let body = (0..self.rows.len())
                    .flat_map(|row| wrap(self.cell(row, index), column.max))
                    .map(|line| width(&line))
                    .max()
                    .unwrap_or(0);
                heading.max(body)
            })
            .collect()
    }

    fn spans(&self, column: usize) -> Vec<Span> {
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

    /// The table as lines without trailing blanks.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let mut out = Vec::new();
        for bands in &self.bands {
            out.push(band_line(bands, &widths));
        }
        let depth = self.columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
        for level in 0..depth {
            let cells = self.columns.iter().map(|column| {
                // Words have one line and stand at the bottom of the quantity line, units below figures.
                column.heading.get(level).cloned().unwrap_or_default()
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

/// Breaks text between words so that no line is wider than `max`; longer words are cut.
pub(crate) fn wrap(text: &str, max: Option<usize>) -> Vec<String> {
    let Some(max) = max.filter(|max| *max > 0 && width(text) > *max) else { return vec![text.to_owned()] };
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        if !current.is_empty() && width(&current) + 1 + width(&word) > max {
            lines.push(std::mem::take(&mut current));
        }
        while width(&word) > max {
            lines.push(word.chars().take(max).collect());
            word = word.chars().skip(max).collect();
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

/// Wraps a paragraph with a hanging indent.
pub(crate) fn paragraph(lead: &str, text: &str, total: usize) -> String {
    let indent = " ".repeat(width(lead));
    let lines = wrap(text, Some(total.saturating_sub(width(lead)).max(20)));
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        out.push_str(if index == 0 { lead } else { &indent });
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_words_flow_down_beside_the_rows() {
        let mut grid = Grid {
            columns: vec![Column::words("NIC"), Column::words("Load"), Column::figures("RTT/2", "µs")],
            bands: vec![vec![(2, 2, "TCP".to_owned())]],
            rows: vec![
                vec!["a long name".into(), "no".into(), "5.125".into()],
                vec!["a long name".into(), "yes".into(), "116.250".into()],
            ],
            merged: 2,
        };
        grid.columns[0].max = Some(6);
        assert_eq!(
            grid.lines(),
            [
                "              TCP",
                "NIC     Load    RTT/2",
                "                   µs",
                "------  ----  -------",
                "a long  no      5.125",
                "name    yes   116.250"
            ]
            .map(|line| line.replace("              TCP", "              - TCP -"))
            .to_vec()
        );
    }

    #[test]
    fn words_wrap_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", Some(7)), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", Some(3)), ["abc", "def", "gh"]);
        assert_eq!(wrap("", Some(3)), [""]);
        assert_eq!(paragraph("* ", "aaaa bbbb cccc dddd eeee ffff", 22), "* aaaa bbbb cccc dddd\n  eeee ffff\n");
    }
}
