//! The partition book: the owner of each id and the location of its row.

use std::ops::Range;

/// The boundaries of the ranges of ids that parts own. Part `p` owns the ids from entry `p` to entry `p + 1`,
/// exclusive. A range may be empty.
///
/// ```
/// use uva_graph::ranges::RangeBook;
///
/// let book = RangeBook::of_sizes(&[3, 0, 2]);
/// assert_eq!(book.boundaries(), [0, 3, 3, 5]);
/// assert_eq!((book.owner(2), book.owner(3)), (0, 2));
/// assert_eq!(book.local_row(4), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeBook {
    /// One entry more than parts; the first is 0, and entries never decrease.
    boundaries: Vec<u64>,
}

/// Why boundaries are invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum BookProblem {
    #[error("has {found} entries, it needs {wanted}: one for each part, and the end")]
    Entries { found: usize, wanted: usize },
    #[error("begins with {0}, it has to begin with 0")]
    Start(u64),
    #[error("has {value} in entry {entry}, less than the {before} before it: ranges cannot overlap")]
    Falls { entry: usize, value: u64, before: u64 },
    #[error("gives part {part} the ids from {first} up to {end}, and \"nodes\" {nodes}")]
    Nodes { part: usize, first: u64, end: u64, nodes: u64 },
}

impl RangeBook {
    /// Creates a book for parts of these sizes, in part order.
    #[must_use]
    pub fn of_sizes(nodes: &[u64]) -> RangeBook {
        let mut boundaries = vec![0];
        let mut end = 0;
        boundaries.extend(nodes.iter().map(|nodes| {
            end += nodes;
            end
        }));
        RangeBook { boundaries }
    }

    /// Creates a book from the boundaries in a file, checked against the size of each part.
    pub(crate) fn checked(boundaries: Vec<u64>, nodes: &[u64]) -> Result<RangeBook, BookProblem> {
        RangeBook::check(&boundaries, nodes)?;
        Ok(RangeBook { boundaries })
    }

    /// Checks the boundaries in a file against the size of each part.
    pub(crate) fn check(boundaries: &[u64], nodes: &[u64]) -> Result<(), BookProblem> {
        let (found, wanted) = (boundaries.len(), nodes.len() + 1);
        if found != wanted {
            return Err(BookProblem::Entries { found, wanted });
        }
        if boundaries[0] != 0 {
            return Err(BookProblem::Start(boundaries[0]));
        }
        for (part, (ends, &nodes)) in boundaries.windows(2).zip(nodes).enumerate() {
            let [first, end] = [ends[0], ends[1]];
            if end < first {
                return Err(BookProblem::Falls { entry: part + 1, value: end, before: first });
            }
            if end - first != nodes {
                return Err(BookProblem::Nodes { part, first, end, nodes });
            }
        }
        Ok(())
    }

    /// The number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.boundaries.len() - 1
    }

    /// The number of ids.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.boundaries[self.parts()]
    }

    /// The first id of each part, followed by the number of ids.
    #[must_use]
    pub fn boundaries(&self) -> &[u64] {
        &self.boundaries
    }

    /// The ids of a part.
    ///
    /// # Panics
    /// If there is not such a part.
    #[must_use]
    pub fn range(&self, part: usize) -> Range<u64> {
        self.boundaries[part]..self.boundaries[part + 1]
    }

    /// The part that owns `id`.
    ///
    /// # Panics
    /// If `id` is not a node.
    #[inline]
    #[must_use]
    pub fn owner(&self, id: i64) -> usize {
        // A negative id becomes larger than any number of nodes. Of the parts that begin at `id`, all but the last are
        // empty.
        let id = id.cast_unsigned();
        assert!(id < self.nodes(), "{id} is not one of {} nodes", self.nodes());
        self.boundaries.partition_point(|first| *first <= id) - 1
    }

    /// The row of `id` in the tables of its owner.
    ///
    /// # Panics
    /// If `id` is not a node.
    #[inline]
    #[must_use]
    pub fn local_row(&self, id: i64) -> usize {
        (id.cast_unsigned() - self.boundaries[self.owner(id)]) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn every_id_has_the_owner_whose_range_contains_it_and_a_row_there() {
        let sizes = [0, 3, 1, 0, 0, 4, 0];
        let book = RangeBook::of_sizes(&sizes);
        assert_eq!((book.parts(), book.nodes()), (7, 8));
        let expected =
            sizes.iter().enumerate().flat_map(|(part, rows)| (0..*rows).map(move |row| (part, row)));
        for (id, (part, row)) in (0..).zip(expected) {
            assert_eq!((book.owner(id), book.local_row(id) as u64), (part, row), "{id}");
            assert!(book.range(part).contains(&id.cast_unsigned()));
        }
        for wrong in [-1, 8, i64::MAX, i64::MIN] {
            assert!(catch_unwind(|| book.owner(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn boundaries_that_are_those_of_no_ranges_are_refused() {
        let checked = |boundaries: &[u64]| RangeBook::checked(boundaries.to_vec(), &[3, 0, 2]);
        assert_eq!(checked(&[0, 3, 3, 5]), Ok(RangeBook::of_sizes(&[3, 0, 2])));
        assert_eq!(checked(&[0, 3, 5]), Err(BookProblem::Entries { found: 3, wanted: 4 }));
        assert_eq!(checked(&[]), Err(BookProblem::Entries { found: 0, wanted: 4 }));
        assert_eq!(checked(&[1, 3, 3, 5]), Err(BookProblem::Start(1)));
        assert_eq!(checked(&[0, 3, 2, 5]), Err(BookProblem::Falls { entry: 2, value: 2, before: 3 }));
        assert_eq!(checked(&[0, 3, 4, 5]), Err(BookProblem::Nodes { part: 1, first: 3, end: 4, nodes: 0 }));
        assert_eq!(checked(&[0, 3, 3, 6]), Err(BookProblem::Nodes { part: 2, first: 3, end: 6, nodes: 2 }));
    }
}
