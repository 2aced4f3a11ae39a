//! The place of one column of a batch in a slot.

use std::ops::Range;

use crate::schema::{Rows, Slots};
use crate::{BatchHeader, ColumnKey, Element};

/// The place of a column, and its shape in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace {
    /// Its name.
    pub key: ColumnKey,
    /// The type of its values.
    pub element: Element,
    /// Values in a row; `None` if the column has one dimension.
    pub width: Option<usize>,
    /// The rows of the column: those of its description, except that with sums `x` has only the rows of the outermost
    /// destinations. `None` if the column is absent.
    pub counted: Option<Rows>,
    /// The rows of the column in a batch that is marked as summed. They differ only if the producer chooses batch by
    /// batch whether it sums.
    pub counted_if_summed: Option<Rows>,
    /// The maximum number of rows.
    pub capacity: usize,
    /// The offset of its first byte in the slot.
    pub at: usize,
}

impl ColumnPlace {
    /// Bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.width.unwrap_or(1) * self.element.bytes()
    }

    /// Whether the batch of this header has the column.
    #[must_use]
    pub fn is_in(&self, header: &BatchHeader) -> bool {
        self.counted_in(header).is_some()
    }

    /// Rows of the column in the batch of this header.
    #[must_use]
    pub fn rows(&self, header: &BatchHeader) -> usize {
        self.counted_in(header).map_or(0, |rows| header.rows(rows, self.key))
    }

    fn counted_in(&self, header: &BatchHeader) -> Option<Rows> {
        if header.is_summed() { self.counted_if_summed } else { self.counted }
    }

    /// The bytes that the batch of this header uses in the column.
    #[must_use]
    pub fn used(&self, header: &BatchHeader) -> Range<usize> {
        self.at..self.at + self.rows(header) * self.row_bytes()
    }

    /// The bytes reserved for the column.
    #[must_use]
    pub fn room(&self) -> Range<usize> {
        self.at..self.at + self.capacity * self.row_bytes()
    }

    /// Whether the producer copies the column from slot to slot.
    pub(crate) fn is_copied(&self) -> bool {
        let spec = self.key.column.spec();
        spec.lives_in == Slots::Both && spec.first_of.is_none()
    }
}
