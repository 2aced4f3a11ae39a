//! A parser of whole numbers within bounds. Its message has both ends, where clap's says `0..128` for 0 to 127.

use std::ops::{Bound, RangeBounds};

use uva_runtime::spec::{WholeRange, whole};

/// A parser of whole numbers in this range, for `value_parser`.
pub fn within<T>(
    range: impl RangeBounds<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64>,
{
    let least = match range.start_bound() {
        Bound::Included(least) => *least,
        Bound::Excluded(below) => below.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let most = match range.end_bound() {
        Bound::Included(most) => Some(*most),
        Bound::Excluded(above) => Some(above.saturating_sub(1)),
        Bound::Unbounded => None,
    };
    let bounds = WholeRange { least, most, type_most: u64::MAX };
    move |text| {
        let number = whole(text, bounds)?;
        T::try_from(number).map_err(|_| format!("{number} is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_belong_to_it_as_its_text_says() {
        let parse = within::<u32>(1..=64);
        assert_eq!((parse("1"), parse("64")), (Ok(1), Ok(64)));
        for text in ["0", "65", "-3"] {
            assert_eq!(parse(text), Err(format!("{text} is not from 1 to 64")));
        }
        assert_eq!(parse("6x"), Err("'6x' is not a whole number".to_owned()));
        // The message for a half-open range names its last number.
        assert_eq!(within::<u64>(0..128)("128"), Err("128 is not from 0 to 127".to_owned()));
    }

    #[test]
    fn a_range_without_an_end_ends_with_its_type() {
        let parse = within::<u32>(1..);
        assert_eq!(parse("4294967295"), Ok(u32::MAX));
        assert_eq!(parse("4294967296"), Err("4294967296 is too large".to_owned()));
        assert_eq!(parse("0"), Err("0 is not 1 or more".to_owned()));
    }
}
