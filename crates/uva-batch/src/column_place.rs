//! Where one column of a batch lies in a slot.

use std::ops::Range;

use crate::schema::{Rows, Slots};
use crate::{BatchHeader, Column, Element};

/// Where a column lies, and its shape in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace {
    /// The column.
    pub column: Column,
    /// The layer; 0 where the column is none of layers. Of feature rows the number of the table.
    pub layer: usize,
    /// The type of its values.
    pub element: Element,
    /// Values in a row; `None`: one, and the column has one dimension.
    pub width: Option<usize>,
    /// Which rows it has: those of its description, except that beside sums `x` has the outermost destinations' alone.
    /// `None`: none.
    pub counted: Option<Rows>,
    /// The same of a batch whose header says that it is summed. It differs only where the producer chooses batch by
    /// batch whether it sums.
    pub counted_if_summed: Option<Rows>,
    /// The most rows that it can have.
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

    /// Rows that the batch of this header has of it.
    #[must_use]
    pub fn rows(&self, header: &BatchHeader) -> usize {
        let counted = if header.is_summed() { self.counted_if_summed } else { self.counted };
        counted.map_or(0, |rows| header.rows(rows, self.layer))
    }

    /// The bytes that the batch of this header uses of it.
    #[must_use]
    pub fn used(&self, header: &BatchHeader) -> Range<usize> {
        self.at..self.at + self.rows(header) * self.row_bytes()
    }

    /// The bytes that are kept for it.
    #[must_use]
    pub fn room(&self) -> Range<usize> {
        self.at..self.at + self.capacity * self.row_bytes()
    }

    /// Whether the producer copies it from slot to slot.
    pub(crate) fn is_copied(&self) -> bool {
        let spec = self.column.spec();
        spec.lives_in == Slots::Both && spec.first_of.is_none()
    }
}
