//! Durations and times as the command line writes them.
//!
//! The system's clock is read for "so long ago" only; what a store does follows the store's own.
//! Times are UTC in the proleptic Gregorian calendar, to the millisecond; a store's clock has no
//! finer grain.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long ids are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    For(Duration),
    Forever,
}

/// A point in time given as an argument.
pub(crate) type Time = SystemTime;

const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 7 * 86_400_000),
];

/// `7d`, `1h30m`, `250ms` or `forever`.
pub(crate) fn parse_retention(text: &str) -> Result<Retention, String> {
    if text == "forever" {
        return Ok(Retention::Forever);
    }
    match parse_ms(text)? {
        0 => Err("the time must be 1 ms or more".to_string()),
        ms => Ok(Retention::For(Duration::from_millis(ms))),
    }
}

/// `7d`, `1h30m` or `250ms`, above 0.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    match parse_retention(text)? {
        Retention::For(time) => Ok(time),
        Retention::Forever => Err("write a time such as 7d".to_string()),
    }
}

/// `1h30m`, also `0s`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err(DURATION_FORM.to_string());
    }
    parse_ms(text).map(Duration::from_millis)
}

/// A time within a row: never "so long ago".
pub(crate) fn parse_moment(text: &str) -> Option<Time> {
    let ms = match text.strip_prefix('@') {
        Some(seconds) => parse_seconds(seconds)?,
        None => parse_civil(text)?,
    };
    UNIX_EPOCH.checked_add(Duration::from_millis(ms))
}

/// `1h30m` in milliseconds.
fn parse_ms(text: &str) -> Result<u64, String> {
    let mut ms: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        let number: u64 = number.parse().map_err(|_| DURATION_FORM)?;
        let &(_, unit_ms) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or(DURATION_FORM)?;
        let part = number.checked_mul(unit_ms).ok_or("the time is too long")?;
        ms = ms.checked_add(part).ok_or("the time is too long")?;
        rest = after;
    }
    Ok(ms)
}

const DURATION_FORM: &str = "write numbers with a unit (ms, s, m, h, d, w) such as 7d, or forever";
const TIME_FORM: &str =
    "write 2024-11-30, 2024-11-30T12:00:00Z, @ and seconds since 1970, or 2h for two hours ago";

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// `2024-11-30`, `2024-11-30T12:00:00[.123]Z`, `@1732968000[.123]`, or `2h` for two hours ago.
pub(crate) fn parse_time(text: &str) -> Result<Time, String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a person's \"ago\" is the system's time"
    )]
    let now = SystemTime::now();
    parse_time_at(text, now).ok_or_else(|| TIME_FORM.to_string())
}

fn parse_time_at(text: &str, now: SystemTime) -> Option<Time> {
    let ms = match text.strip_prefix('@') {
        Some(seconds) => parse_seconds(seconds),
        None => parse_civil(text),
    };
    match ms {
        Some(ms) => UNIX_EPOCH.checked_add(Duration::from_millis(ms)),
        None if text.is_empty() => None,
        None => now.checked_sub(Duration::from_millis(parse_ms(text).ok()?)),
    }
}

/// Seconds with up to three decimals, in milliseconds.
fn parse_seconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if decimals.len() > 3 || decimals.is_empty() {
        return None;
    }
    let ms = digits(decimals)? * [0, 100, 10, 1][decimals.len()];
    digits(whole)?.checked_mul(1_000)?.checked_add(ms)
}

fn parse_civil(text: &str) -> Option<u64> {
    let (date, clock) = match text.split_once('T') {
        Some((date, clock)) => (date, clock.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let mut date = date.split('-');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    if date.next().is_some() || year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return None;
    }
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let days = days_from_civil(year, month, day);
    if year < 1970 || civil_from_days(days) != (year, month, day) {
        return None;
    }
    let mut clock = clock.splitn(3, ':');
    let (hour, minute, second) = (clock.next()?, clock.next()?, clock.next()?);
    let (hour, minute, second_ms) = (digits(hour)?, digits(minute)?, parse_seconds(second)?);
    if hour > 23 || minute > 59 || second_ms > 59_999 {
        return None;
    }
    Some(days * 86_400_000 + hour * 3_600_000 + minute * 60_000 + second_ms)
}

fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Days from 1970-01-01 to a date from 1970 on. Years are counted from March, so that the odd
/// day of a leap year comes last.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 {
        year.saturating_sub(1)
    } else {
        year
    };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day.saturating_sub(1);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).saturating_sub(719_468)
}

/// The date `days` after 1970-01-01.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A time as `2024-11-30T12:00:00.000Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let ms = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retentions_have_units() {
        let ms = |text| match parse_retention(text).unwrap() {
            Retention::For(d) => d.as_millis(),
            Retention::Forever => panic!("{text}"),
        };
        assert_eq!(ms("7d"), 604_800_000);
        assert_eq!(ms("1h30m"), 5_400_000);
        assert_eq!(ms("250ms"), 250);
        assert_eq!(ms("2w1s"), 1_209_601_000);
        assert_eq!(parse_retention("forever"), Ok(Retention::Forever));
        for wrong in [
            "",
            "7",
            "d",
            "7x",
            "0d",
            "-1d",
            "1.5h",
            "99999999999999999w",
            "7 d",
        ] {
            assert!(parse_retention(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_go_there_and_back() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T23:59:59.000Z", 951_868_799),
            ("2010-12-01T08:26:00.000Z", 1_291_191_960),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(rfc3339(time), text);
            assert_eq!(parse_time(text), Ok(time));
        }
        let time = UNIX_EPOCH + Duration::from_millis(1_291_161_600_000);
        assert_eq!(parse_time("2010-12-01"), Ok(time));
        assert_eq!(
            parse_time("@1291161600.5"),
            Ok(time + Duration::from_millis(500))
        );
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for wrong in [
            "",
            "2010-13-01",
            "2010-02-29",
            "2010-1-1",
            "1969-12-31",
            "2010-12-01T08:26",
            "2010-12-01T08:26:00",
            "2010-12-01T24:00:00Z",
            "@",
            "@1.2345",
            "@-1",
            "@1.",
            "0000-00-00",
        ] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
