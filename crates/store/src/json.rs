//! Results as one JSON array.

use crate::StoreError;
use model::ResultDocument;

/// An array of result documents, one a line, so that both JSON readers and line tools can use it. The fields and their
/// units are those of [`ResultDocument`]; [`crate::schemas`] has the schema.
///
/// # Errors
/// [`StoreError::Encode`].
pub fn json<'a>(results: impl IntoIterator<Item = &'a ResultDocument>) -> Result<String, StoreError> {
    let mut text = String::from("[");
    let mut separator = "\n";
    for result in results {
        let document = serde_json::to_string(result)
            .map_err(|error| StoreError::Encode { what: "result document".to_owned(), why: error.to_string() })?;
        text.push_str(separator);
        text.push_str(&document);
        separator = ",\n";
    }
    text.push_str("\n]\n");
    Ok(text)
}
