//! Device memory cut into arrays.

/// Places arrays in one allocation, each aligned for any access.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: usize,
    /// Whether the arrays together exceed the address space.
    overflows: bool,
}

/// The alignment of the driver's allocations, and of each array within one.
const ALIGNMENT: usize = 256;

impl Arena {
    /// Reserves room for `count` entries of `each` bytes; returns its start.
    pub(crate) fn take(&mut self, count: usize, each: usize) -> usize {
        let begin = self.bytes;
        let end = count
            .checked_mul(each)
            .and_then(|bytes| begin.checked_add(bytes))
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        self.overflows |= end.is_none();
        self.bytes = end.unwrap_or(begin);
        begin
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        if self.overflows { usize::MAX } else { self.bytes }
    }
}
