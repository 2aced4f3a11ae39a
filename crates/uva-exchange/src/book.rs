//! The partition of rows among ranks.

use std::ops::Range;

/// A partition of the rows `0..rows` into one range per rank, in rank order. A range may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    /// One more than there are parts: part `k` is `bounds[k]..bounds[k + 1]`. Ascending from 0.
    bounds: Vec<u64>,
}

/// Why boundaries are not a partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// Fewer than two boundaries.
    #[error("{0} boundaries bound no part: a partition into K parts has K + 1 of them")]
    TooFew(usize),
    /// The first boundary is not 0.
    #[error("the first boundary is {0} instead of 0")]
    First(u64),
    /// A boundary is smaller than the previous one.
    #[error("boundary {index} is {value}, below the {before} before it")]
    Descending {
        /// The index of the boundary, from 0.
        index: usize,
        /// Its value.
        value: u64,
        /// The previous boundary.
        before: u64,
    },
    /// There are more rows than int64 ids allow.
    #[error("the last boundary is {0}, but an id is at most {max}", max = i64::MAX)]
    TooManyRows(u64),
}

impl Book {
    /// Creates the partition with these boundaries: 0, the end of each part except the last, and the number of rows.
    ///
    /// # Errors
    /// [`BookError`] unless there are at least two, ascending from 0 to at most `i64::MAX`.
    pub fn new(bounds: &[u64]) -> Result<Self, BookError> {
        let (Some(&first), Some(&last)) = (bounds.first(), bounds.last()) else {
            return Err(BookError::TooFew(bounds.len()));
        };
        if bounds.len() < 2 {
            return Err(BookError::TooFew(bounds.len()));
        }
        if first != 0 {
            return Err(BookError::First(first));
        }
        for (index, pair) in bounds.windows(2).enumerate() {
            if pair[1] < pair[0] {
                return Err(BookError::Descending { index: index + 1, value: pair[1], before: pair[0] });
            }
        }
        if i64::try_from(last).is_err() {
            return Err(BookError::TooManyRows(last));
        }
        Ok(Self { bounds: bounds.to_vec() })
    }

    /// Divides `rows` rows into `parts` ranges whose lengths differ by at most one, the longer ones first.
    ///
    /// # Errors
    /// [`BookError::TooFew`] if `parts` is 0, [`BookError::TooManyRows`].
    pub fn even(rows: u64, parts: usize) -> Result<Self, BookError> {
        let count = parts as u64;
        let (each, longer) = (rows.checked_div(count).unwrap_or(0), rows.checked_rem(count).unwrap_or(0));
        let bounds: Vec<u64> = (0..=count).map(|part| part * each + part.min(longer)).collect();
        Self::new(&bounds)
    }

    /// The number of parts, at least one.
    pub fn parts(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The total number of rows.
    pub fn rows(&self) -> u64 {
        self.bounds[self.parts()]
    }

    /// The boundaries, one more than there are parts.
    pub fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// The rows of a part.
    ///
    /// # Panics
    /// If there is not such a part.
    pub fn range(&self, part: usize) -> Range<u64> {
        self.bounds[part]..self.bounds[part + 1]
    }

    /// The part that owns this row; `None` if the row is out of range.
    pub fn owner(&self, row: u64) -> Option<usize> {
        // The first boundary above the row ends its part. Empty parts before it end at the row or below.
        let behind = self.bounds.partition_point(|&bound| bound <= row);
        (behind <= self.parts()).then(|| behind - 1)
    }
}
