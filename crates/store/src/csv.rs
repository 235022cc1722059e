//! stub
use crate::StoreError;
use model::ResultDocument;
use model::run::RunStep;

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct CsvRow<'a> {
    /// Its run, where it is of one.
    pub run: Option<&'a crate::Run>,
    /// Its step, where it is of a run.
    pub step: Option<&'a RunStep>,
    /// The result.
    pub result: &'a ResultDocument,
}
impl<'a> CsvRow<'a> {
    /// A result that is of no run.
    #[must_use]
    pub fn of(result: &'a ResultDocument) -> Self {
        Self { run: None, step: None, result }
    }
}
/// csv
/// # Errors
/// [`StoreError::Encode`].
pub fn csv<'a>(_rows: impl IntoIterator<Item = CsvRow<'a>>) -> Result<String, StoreError> {
    Ok(String::new())
}
