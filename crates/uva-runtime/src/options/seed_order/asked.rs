//! The order of the training seeds, as requested.

use std::fmt;
use std::str::FromStr;

/// The most sequences that an order has.
pub const MOST_SEQUENCES: u32 = 1024;

/// The order in which epochs visit the training seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedOrder {
    /// Each epoch shuffles them again.
    #[default]
    Shuffle,
    /// Seeds that are near in the graph follow one another, over this number of sequences; `None`: as few as the labels
    /// of batches allow.
    Proximity(Option<u32>),
    /// Segments of this number of seeds that are near in the graph, shuffled each epoch.
    Segments(u32),
}

impl FromStr for AskedOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
        match (name, number) {
            ("shuffle", None) => Ok(Self::Shuffle),
            ("proximity", None | Some("auto")) => Ok(Self::Proximity(None)),
            ("proximity", Some(number)) => match number.parse() {
                Ok(count @ 1..=MOST_SEQUENCES) => Ok(Self::Proximity(Some(count))),
                _ => Err(format!(
                    "invalid number of sequences '{number}': expected 1 to {MOST_SEQUENCES}, or auto"
                )),
            },
            ("segments", Some(number)) => match number.parse() {
                Ok(length @ 1..) => Ok(Self::Segments(length)),
                _ => {
                    Err(format!("invalid number of seeds per segment '{number}': expected 1 to {}", u32::MAX))
                }
            },
            ("segments", None) => Err("give the number of seeds per segment, as in segments:256".to_owned()),
            _ => {
                Err(format!("invalid value '{text}': expected shuffle, proximity, proximity:K or segments:G"))
            }
        }
    }
}

impl fmt::Display for AskedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shuffle => f.write_str("shuffle"),
            Self::Proximity(None) => f.write_str("proximity"),
            Self::Proximity(Some(count)) => write!(f, "proximity:{count}"),
            Self::Segments(length) => write!(f, "segments:{length}"),
        }
    }
}

uva_options::text_values!(AskedOrder);

#[cfg(test)]
mod tests {
    use uva_options::OptionValue;

    use super::*;

    #[test]
    fn an_order_is_read_as_it_is_written_and_what_is_none_is_refused() {
        use AskedOrder::{Proximity, Segments, Shuffle};
        let orders =
            [Shuffle, Proximity(None), Proximity(Some(1)), Proximity(Some(1024)), Segments(1), Segments(900)];
        for order in orders {
            assert_eq!(order.text().parse(), Ok(order));
        }
        assert_eq!("proximity:auto".parse(), Ok(Proximity(None)));
        for (text, part) in [
            ("proximity:0", "1 to 1024"),
            ("proximity:1025", "1 to 1024"),
            ("proximity:-1", "1 to 1024"),
            ("segments:0", "1 to 4294967295"),
            ("segments", "segments:256"),
            ("shuffle:3", "proximity:K"),
            ("", "shuffle, proximity"),
        ] {
            let refused = text.parse::<AskedOrder>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
