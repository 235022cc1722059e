//! A text for a terminal or in Markdown: what both have is written once.

use crate::layout::{Grid, paragraph};
use crate::markdown::{filled_table, quote};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// No line is longer than so many columns where the figures allow it.
    Terminal(usize),
    Markdown,
}

pub(crate) struct Sheet {
    form: Form,
    out: String,
}

/// What stands around a sentence of its own in Markdown.
pub(crate) const SENTENCE: [&str; 2] = ["", "\n\n"];

impl Sheet {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, out: String::new() }
    }

    /// Words behind a lead in a terminal, and between two marks in Markdown.
    pub(crate) fn put(&mut self, lead: &str, [before, behind]: [&str; 2], words: &str) {
        match self.form {
            Form::Terminal(width) => self.out.push_str(&paragraph(lead, words, width)),
            Form::Markdown => self.out.extend([before, &quote(words), behind]),
        }
    }

    /// What only one of the two has, or has as it is.
    pub(crate) fn plain(&mut self, in_terminal: &str, in_markdown: &str) {
        self.out.push_str(if self.is_terminal() { in_terminal } else { in_markdown });
    }

    /// A table, so many columns from the edge of a terminal.
    pub(crate) fn table(&mut self, grid: &Grid, indent: usize) {
        match self.form {
            Form::Terminal(width) => {
                let text = grid.text(width.saturating_sub(indent));
                self.out.extend(text.lines().map(|line| format!("{}{line}\n", " ".repeat(indent))));
            }
            Form::Markdown => self.out.push_str(&filled_table(grid)),
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.form, Form::Terminal(_))
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }
}
