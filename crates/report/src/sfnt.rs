//! sfnt.
use model::ResultDocument;
/// Facts for the header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SfntFacts {
    /// Lines of the header: name and value.
    pub lines: Vec<(String, String)>,
}
/// Text.
#[must_use]
pub fn sfnt_text(_results: &[ResultDocument], _facts: &SfntFacts) -> String {
    String::new()
}
