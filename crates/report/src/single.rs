//! The results of one measurement.
use model::ResultDocument;
/// Text.
#[must_use]
pub fn single_text(_results: &[ResultDocument]) -> String {
    String::new()
}
/// Markdown.
#[must_use]
pub fn single_markdown(_results: &[ResultDocument]) -> String {
    String::new()
}
/// CSV.
///
/// # Errors
/// x
pub fn single_csv(results: &[ResultDocument]) -> Result<String, store::StoreError> {
    store::csv(results.iter().map(store::CsvRow::of))
}
