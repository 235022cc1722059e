//! What can go wrong while writing a report. Reading runs fails in `store`, not here.

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the HTML report cannot be rendered: {why}: this is a defect of windhover, please report it")]
    Template { why: String },
    #[error("no cell '{cell}' has a result: `windhover plot --list` prints all {known} by number and key")]
    NoCell { cell: String, known: usize },
    #[error("'{cell}' is in the keys of {count} cells: give more of the key, or a number of `windhover plot --list`")]
    SeveralCells { cell: String, count: usize },
    #[error("figure '{figure}' cannot be drawn: it {why}")]
    NoFigure { figure: &'static str, why: String },
    #[error("the report cannot be written as JSON: {why}: this is a defect of windhover, please report it")]
    Json { why: String },
}

/// Pretty-printed JSON with a newline at its end.
pub(crate) fn json_text(value: &impl serde::Serialize) -> Result<String, ReportError> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

impl From<minijinja::Error> for ReportError {
    fn from(error: minijinja::Error) -> Self {
        Self::Template { why: format!("{error:#}").replace('\n', " ") }
    }
}

impl From<serde_json::Error> for ReportError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json { why: error.to_string().replace('\n', " ") }
    }
}
