//! Sizes in human-readable form: `512MiB`, `6GiB`, `1.5GB`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A number of bytes, as the value of an option.
///
/// Binary units (`KiB`, `MiB`, `GiB`, `TiB`) count in 1024s, decimal ones (`kB`, `MB`, `GB`, `TB`) in 1000s. A number
/// alone, or one with `B`, is bytes. Letter case does not matter. A bare `M` or `G` is refused, because half of all
/// tools mean 1000s by it and the other half 1024s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size of this many bytes.
    pub const fn from_bytes(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// The reason why a size is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct SizeError(String);

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SizeError {}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<ByteSize, SizeError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim_start());
        let unit_bytes = unit_bytes(number, unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let no_number =
            || SizeError(format!("'{text}' is not a size: expected a value such as 512MiB, 6GiB or 1.5GB"));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(no_number());
        }
        // Integers throughout: a size near 2^53 must not lose its last bytes to a float.
        let too_large = || SizeError(format!("'{text}' is too large: a size must fit in 64 bits"));
        let digits =
            |s: &str| if s.is_empty() { Ok(0u128) } else { s.parse::<u128>().map_err(|_| too_large()) };
        if fraction.len() > 18 {
            return Err(SizeError(format!("'{text}' has more than 18 digits after the decimal point")));
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let bytes = digits(whole)?
            .checked_mul(unit_bytes)
            .and_then(|b| b.checked_add(digits(fraction).ok()? * unit_bytes / scale))
            .ok_or_else(too_large)?;
        u64::try_from(bytes).map(ByteSize).map_err(|_| too_large())
    }
}

fn unit_bytes(number: &str, unit: &str) -> Result<u128, SizeError> {
    Ok(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "m" | "g" | "t" => {
            let letter = unit.to_ascii_uppercase();
            return Err(SizeError(format!(
                "'{number}{unit}' is ambiguous: write {number}{letter}iB (powers of 1024) or {number}{letter}B (powers of 1000)"
            )));
        }
        _ => {
            return Err(SizeError(format!(
                "'{number}{unit}' is not a size: expected a value such as 512MiB, 6GiB or 1.5GB"
            )));
        }
    })
}

impl ByteSize {
    /// As an option's value: `64MiB`, and the number of bytes where no unit fits.
    #[must_use]
    pub fn value(self) -> String {
        let unit = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = unit.into_iter().find(|(_, bits)| self.0 > 0 && self.0.is_multiple_of(1 << bits));
        whole.map_or_else(|| self.0.to_string(), |(name, bits)| format!("{}{name}", self.0 >> bits))
    }
}

impl fmt::Display for ByteSize {
    /// Uses the largest binary unit that gives at least 1, with one digit after the point unless the number is whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        for (name, unit) in UNITS {
            if self.0 >= unit {
                return if self.0.is_multiple_of(unit) {
                    write!(f, "{} {name}", self.0 / unit)
                } else {
                    write!(f, "{:.1} {name}", self.0 as f64 / unit as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> u64 {
        text.parse::<ByteSize>().unwrap().bytes()
    }

    fn refusal(text: &str) -> String {
        text.parse::<ByteSize>().unwrap_err().to_string()
    }

    #[test]
    fn an_options_value_is_read_as_it_is_written() {
        for (size, text) in
            [(64 << 20, "64MiB"), (3 << 10, "3KiB"), (5 << 40, "5TiB"), (1000, "1000"), (0, "0")]
        {
            assert_eq!(ByteSize::from_bytes(size).value(), text);
            assert_eq!(bytes(text), size);
        }
    }

    #[test]
    fn binary_units_count_in_1024s() {
        assert_eq!(bytes("512MiB"), 512 << 20);
        assert_eq!(bytes("6GiB"), 6 << 30);
        assert_eq!(bytes("1KiB"), 1024);
        assert_eq!(bytes("2TiB"), 2 << 40);
    }

    #[test]
    fn decimal_units_count_in_1000s() {
        assert_eq!(bytes("1.5GB"), 1_500_000_000);
        assert_eq!(bytes("20kB"), 20_000);
        assert_eq!(bytes("0.25MB"), 250_000);
    }

    #[test]
    fn a_number_alone_is_bytes() {
        assert_eq!(bytes("4096"), 4096);
        assert_eq!(bytes("4096B"), 4096);
        assert_eq!(bytes("0"), 0);
    }

    #[test]
    fn case_and_one_space_do_not_matter() {
        assert_eq!(bytes("6 gib"), 6 << 30);
        assert_eq!(bytes("6GIB"), 6 << 30);
    }

    #[test]
    fn large_sizes_keep_their_last_byte() {
        assert_eq!(bytes("9007199254740993"), 9_007_199_254_740_993);
        assert_eq!(bytes("18446744073709551615"), u64::MAX);
    }

    #[test]
    fn a_bare_letter_is_refused_and_says_what_to_write() {
        let message = refusal("512M");
        assert!(message.contains("512MiB") && message.contains("512MB"), "{message}");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "GiB", ".", "1.2.3GB", "-1MiB", "1e9", "12 parsecs", "1.0000000000000000001GB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn more_than_64_bits_is_refused() {
        for text in ["18446744073709551616", "16777216TiB", "99999999999999999999999999999999999999999TB"] {
            assert!(refusal(text).contains("64 bits"), "{}", refusal(text));
        }
    }

    #[test]
    fn sizes_print_in_the_unit_that_fits() {
        assert_eq!(ByteSize::from_bytes(512 << 20).to_string(), "512 MiB");
        assert_eq!(ByteSize::from_bytes(1_500_000_000).to_string(), "1.4 GiB");
        assert_eq!(ByteSize::from_bytes(17).to_string(), "17 B");
    }
}
