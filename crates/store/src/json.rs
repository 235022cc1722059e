//! Results as one JSON array.

use crate::StoreError;
use model::ResultDocument;

/// An array of result documents, one a line, so that both JSON readers and line tools can use it. The fields and their
/// units are those of [`ResultDocument`]; [`crate::schemas`] has the schema.
///
/// # Errors
/// [`StoreError::Encode`].
pub fn json<'a>(results: impl IntoIterator<Item = &'a ResultDocument>) -> Result<String, StoreError> {
    let document =
        |result| serde_json::to_string(result).map_err(|error| StoreError::encoding("result document", &error));
    let documents = results.into_iter().map(document).collect::<Result<Vec<_>, _>>()?;
    let separator = if documents.is_empty() { "" } else { "\n" };
    Ok(format!("[{separator}{}\n]\n", documents.join(",\n")))
}
