//! Wall-clock times as text. Reads no clock.

use crate::StoreError;

/// A time since 1970 as people and directory names write it: `20261121T214304Z` (ISO 8601 basic form, UTC, to the
/// second).
///
/// # Errors
/// [`StoreError::Time`] for a time after the year 9999.
pub fn utc_text(ns: u64) -> Result<String, StoreError> {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).map_err(|_| StoreError::Time(ns))?;
    Ok(time.strftime("%Y%m%dT%H%M%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(utc_text(0).unwrap(), "19700101T000000Z");
        assert_eq!(utc_text(951_827_696_000_000_000).unwrap(), "20000229T123456Z");
        assert_eq!(utc_text(1_795_297_384_999_999_999).unwrap(), "20261121T214304Z");
    }
}
