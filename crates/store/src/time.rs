//! Wall-clock times as text. Reads no clock.

const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A time since 1970 as `20261121T214304Z` (ISO 8601 basic form, UTC). The last one that fits into 64 bits is in 2554.
pub fn utc_text(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut month) = (1970_u64, 0_usize);
    loop {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = DAYS[month] + u64::from(month == 1 && leap);
        if days < length {
            break;
        }
        days -= length;
        month = (month + 1) % 12;
        year += u64::from(month == 0);
    }
    let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60];
    format!("{year}{:02}{:02}T{hour:02}{minute:02}{second:02}Z", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU date prints for these seconds: the ends of months and years, leap years and those that are none.
    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_827_696, "20000229T123456Z"),
            (951_868_800, "20000301T000000Z"),
            (978_307_199, "20001231T235959Z"),
            (1_709_164_800, "20240229T000000Z"),
            (1_795_297_384, "20261121T214304Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc_text(seconds * 1_000_000_000 + 999_999_999), text, "{seconds}");
        }
        assert_eq!(utc_text(u64::MAX), "25540721T233433Z");
    }
}
