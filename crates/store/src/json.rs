//! Results as one JSON array.

use crate::{CsvRow, StoreError};
use model::{ResultDocument, Substrate};
use serde::Serialize;

/// A result with what its run says of it.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    substrate: Option<Substrate>,
    #[serde(flatten)]
    result: &'a ResultDocument,
}

/// An array of result documents, one a line, so that both JSON readers and line tools can use it. The fields and their
/// units are those of [`ResultDocument`]; [`crate::schemas`] has the schema. Before them stand the name of the run and its
/// `substrate`, a word of [`Substrate`], where the result is of a run. Errors: [`StoreError::Encode`].
pub fn json<'a>(rows: impl IntoIterator<Item = CsvRow<'a>>) -> Result<String, StoreError> {
    let document = |row: CsvRow<'a>| {
        let run = row.run.map(|(run, _)| run);
        let row =
            Row { run: run.map(|run| run.name()), substrate: run.map(|run| run.run.substrate), result: row.result };
        serde_json::to_string(&row).map_err(|error| StoreError::encoding("result document", &error))
    };
    let documents = rows.into_iter().map(document).collect::<Result<Vec<_>, _>>()?;
    let separator = if documents.is_empty() { "" } else { "\n" };
    Ok(format!("[{separator}{}\n]\n", documents.join(",\n")))
}
