//! Numbers formatted for people.

use std::fmt;

/// `4012345` as `4,012,345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Seconds with the significant digits: `0.004 s`, `3.21 s`, `42.0 s`, `12 min 05 s`, `3 h 07 min`.
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".to_owned();
    }
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 1.0 => format!("{s:.3} s"),
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        _ if whole < 3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Estimated seconds, as a clock shows them: `0:42`, `3:05`, `3:07:12`.
pub fn clock(seconds: f64) -> String {
    // The conversion saturates.
    let whole = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole % 3600 / 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// A share from 0 to 1 as `81.5 %`.
pub fn percent(share: f64) -> impl fmt::Display {
    format!("{:.1} %", 100.0 * share)
}

/// A loss or an error of regression, whose scale is that of the targets, with four significant digits.
pub fn error(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-3..1e5).contains(&size) => {
            let digits = if size >= 1.0 { 3 - size.log10().floor().min(3.0) as usize } else { 4 };
            format!("{value:.digits$}")
        }
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_comma_every_three_digits() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(4_012_345), "4,012,345");
        assert_eq!(count(123_456), "123,456");
    }

    #[test]
    fn errors_keep_four_digits_at_any_scale() {
        for (value, text) in [
            (0.0, "0.0000"),
            (0.12345, "0.1235"),
            (1.5, "1.500"),
            (12.345, "12.35"),
            (99_999.4, "99999"),
            (1.5e-4, "1.500e-4"),
            (2e7, "2.000e7"),
        ] {
            assert_eq!(error(value), text);
        }
    }

    #[test]
    fn seconds_keep_the_digits_that_matter() {
        assert_eq!(seconds(0.0042), "0.004 s");
        assert_eq!(seconds(3.207), "3.21 s");
        assert_eq!(seconds(42.0), "42.0 s");
        assert_eq!(seconds(99.96), "1 min 40 s");
        assert_eq!(seconds(725.0), "12 min 05 s");
        assert_eq!(seconds(11_220.0), "3 h 07 min");
        assert_eq!(seconds(f64::NAN), "–");
    }

    #[test]
    fn a_clock_shows_minutes_and_seconds_and_hours_if_any() {
        for (seconds, text) in
            [(0.2, "0:00"), (41.6, "0:42"), (185.0, "3:05"), (11_232.0, "3:07:12"), (-1.0, "0:00")]
        {
            assert_eq!(clock(seconds), text);
        }
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(percent(0.815).to_string(), "81.5 %");
        assert_eq!(percent(1.0).to_string(), "100.0 %");
    }
}
