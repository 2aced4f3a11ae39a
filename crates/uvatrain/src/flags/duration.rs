//! Durations as people write them: `90s`, `5m`, `1.5h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration given on the command line, in whole milliseconds.
///
/// `ms`, `s`, `m` or `min`, `h`, `d`; a number alone is seconds. Several may follow each other, as in `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds {
    milliseconds: u64,
}

const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Seconds {
    /// A duration of whole seconds.
    pub const fn new(seconds: u64) -> Seconds {
        Seconds { milliseconds: seconds * 1000 }
    }

    /// A duration of whole milliseconds.
    pub const fn from_milliseconds(milliseconds: u64) -> Seconds {
        Seconds { milliseconds }
    }

    /// The duration as the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.milliseconds)
    }

    /// A parser of durations from `least` to `most`.
    pub fn within(
        least: Seconds,
        most: Seconds,
    ) -> impl Fn(&str) -> Result<Seconds, String> + Clone + Send + Sync {
        move |text| match text.parse()? {
            found if (least..=most).contains(&found) => Ok(found),
            _ => Err(format!("'{text}' is not from {least} to {most}")),
        }
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seconds, String> {
        let refuse = || format!("'{text}' is not a duration: expected a value such as 90s, 5m or 1h30m");
        let mut rest = text.trim();
        let mut milliseconds = 0_f64;
        if rest.is_empty() {
            return Err(refuse());
        }
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
            let (unit, behind) = behind.split_at(end);
            let number: f64 = number.parse().map_err(|_| refuse())?;
            let unit = match unit {
                // Only for a number alone: `1h30` could mean minutes or seconds.
                "" if behind.is_empty() && milliseconds == 0.0 => 1000,
                _ => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refuse)?.1,
            };
            milliseconds += number * unit as f64;
            rest = behind.trim_start();
        }
        if milliseconds > (1_u64 << 53) as f64 {
            return Err(format!("'{text}' is too long"));
        }
        Ok(Seconds { milliseconds: milliseconds.round() as u64 })
    }
}

impl fmt::Display for Seconds {
    /// Written in the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
        match units.iter().find(|(_, unit)| self.milliseconds > 0 && self.milliseconds.is_multiple_of(*unit))
        {
            Some((name, unit)) => write!(f, "{}{name}", self.milliseconds / unit),
            None => write!(f, "{}ms", self.milliseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(text: &str) -> u64 {
        text.parse::<Seconds>().unwrap_or_else(|error| panic!("{error}")).milliseconds
    }

    #[test]
    fn units_add_up_and_a_number_alone_is_seconds() {
        assert_eq!(milliseconds("90s"), 90_000);
        assert_eq!(milliseconds("5m"), 300_000);
        assert_eq!(milliseconds("5min"), 300_000);
        assert_eq!(milliseconds("1h30m"), 5_400_000);
        assert_eq!(milliseconds("1h 30m"), 5_400_000);
        assert_eq!(milliseconds("1.5h"), 5_400_000);
        assert_eq!(milliseconds("250ms"), 250);
        assert_eq!(milliseconds("10"), 10_000);
        assert_eq!(milliseconds("0"), 0);
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        for text in ["", "s", "5 parsecs", "-5s", "1h30", "5S", "1e3s", "..s", "nan", "9e99s"] {
            let error = text.parse::<Seconds>().unwrap_err();
            assert!(error.contains("90s"), "{text}: {error}");
        }
        assert!("999999999999999d".parse::<Seconds>().is_err());
        assert!(
            Seconds::within(Seconds::new(1), Seconds::new(600))("11m")
                .unwrap_err()
                .contains("from 1s to 10m")
        );
    }

    #[test]
    fn durations_print_as_they_are_written() {
        for text in ["90s", "5m", "3h", "2d", "250ms", "0ms"] {
            assert_eq!(text.parse::<Seconds>().unwrap().to_string(), text);
        }
    }
}
