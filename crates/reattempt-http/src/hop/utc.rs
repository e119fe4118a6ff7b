//! Instants in the format of the AWS SDKs: `20260131T120000Z`, whole seconds of UTC.

use std::time::{Duration, SystemTime};

use crate::calendar::{days, number, second_of_day};

const DAY: u64 = 24 * 60 * 60;

/// The Gregorian date this many days after 1970-01-01.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Parses `20260131T120000Z` and `2026-01-31T12:00:00Z`; fractions of a second are dropped.
pub(super) fn read(text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix('Z')?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let has = |(at, mark): &(usize, u8)| whole.as_bytes().get(*at) == Some(mark);
    let plain = if whole.len() == 19 && marks.iter().all(has) {
        whole.replace(['-', ':'], "")
    } else {
        whole.to_owned()
    };
    let (date, time) = plain.as_bytes().split_at_checked(8)?;
    let [b'T', h1, h2, m1, m2, s1, s2] = *time else {
        return None;
    };
    let days = days(
        number(&date[..4])?,
        number(&date[4..6])?,
        number(&date[6..])?,
    )?;
    let second = second_of_day(number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?)?;
    let seconds = u64::try_from(days).ok()? * DAY + u64::try_from(second).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Formats as `20260131T120000Z`. Fractions of a second are rounded up, so that a future instant
/// never appears as passed.
pub(super) fn write(at: SystemTime) -> String {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
    // The last second with a four-digit year.
    let seconds = seconds.min(253_402_300_799);
    let (year, month, day) = date(seconds / DAY);
    let of_day = seconds % DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn known_instants_are_read_and_written() {
        for (text, seconds) in [
            ("19700101T000000Z", 0),
            ("19941106T084937Z", 784_111_777),
            ("20000229T235959Z", 951_868_799),
            ("20190706T000000Z", 1_562_371_200),
            ("99991231T235959Z", 253_402_300_799),
        ] {
            assert_eq!(read(text), Some(at(seconds)), "{text}");
            assert_eq!(write(at(seconds)), text);
        }
        let dashed = [
            "1994-11-06T08:49:37Z",
            "1994-11-06T08:49:37.25Z",
            "19941106T084937.999Z",
        ];
        for text in dashed {
            assert_eq!(read(text), Some(at(784_111_777)), "{text}");
        }
        assert_eq!(write(at(1) + Duration::from_nanos(1)), "19700101T000002Z");
        assert_eq!(
            write(SystemTime::UNIX_EPOCH - Duration::from_secs(9)),
            "19700101T000000Z"
        );
    }

    #[test]
    fn junk_is_no_instant() {
        for junk in [
            "",
            "Z",
            "TZ",
            "19941106",
            "19941106T084937",
            "19941306T084937Z",
            "19940230T084937Z",
            "19940006T084937Z",
            "19941100T084937Z",
            "19941106T244937Z",
            "1994-11-06T08-49-37Z",
            "1994x11x06T08:49:37Z",
            "00000101T000000Z",
            "+9941106T084937Z",
            "1994-11-06T08:49:37.Z",
            "19941106T084937.-5Z",
            "1994-11-06T08:49:37.1.2Z",
            "19941106T08:49:37Z",
            "1994-11-06T084937Z",
            "é9941106T084937Z",
            "1994é106T084937Z",
        ] {
            assert_eq!(read(junk), None, "{junk:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seconds in 0_u64..253_402_300_800) {
            prop_assert_eq!(read(&write(at(seconds))), Some(at(seconds)));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}", date in "[0-9é:T.-]{0,20}") {
            let _ = read(&text);
            let _ = read(&format!("{date}Z"));
        }
    }
}
