//! The library's numbers: of 32 or of 64 bits.

/// An `idx_t`.
pub(crate) trait Number: Copy + Default {
    const BITS: u32;

    /// `None` for one that it cannot hold.
    fn of(count: usize) -> Option<Self>;

    /// The part of a node; `None` for a number that is none.
    fn part(self) -> Option<u16>;
}

impl Number for i32 {
    const BITS: u32 = 32;

    fn of(count: usize) -> Option<Self> {
        Self::try_from(count).ok()
    }

    fn part(self) -> Option<u16> {
        u16::try_from(self).ok()
    }
}

impl Number for i64 {
    const BITS: u32 = 64;

    fn of(count: usize) -> Option<Self> {
        Self::try_from(count).ok()
    }

    fn part(self) -> Option<u16> {
        u16::try_from(self).ok()
    }
}
