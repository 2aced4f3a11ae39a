//! Where one column of a batch lies in a slot.

use std::ops::Range;

use crate::schema::{Rows, Slots};
use crate::{BatchHeader, ColumnKey, Element};

/// Where a column lies, and its shape in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace {
    /// Its name.
    pub key: ColumnKey,
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

    /// Whether the batch of this header has it.
    #[must_use]
    pub fn is_in(&self, header: &BatchHeader) -> bool {
        self.counted_in(header).is_some()
    }

    /// Rows that the batch of this header has of it.
    #[must_use]
    pub fn rows(&self, header: &BatchHeader) -> usize {
        self.counted_in(header).map_or(0, |rows| header.rows(rows, self.key.layer))
    }

    fn counted_in(&self, header: &BatchHeader) -> Option<Rows> {
        if header.is_summed() { self.counted_if_summed } else { self.counted }
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
        let spec = self.key.column.spec();
        spec.lives_in == Slots::Both && spec.first_of.is_none()
    }
}
