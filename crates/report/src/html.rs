//! HTML.
pub(crate) fn report(_: &crate::Report) -> Result<String, crate::ReportError> {
    Ok(String::new())
}
