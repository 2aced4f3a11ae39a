//! One fill of a slot: before, and after.

use std::ops::Range;

use uva_cuda::Signal;

use crate::cuda::error::FillError;
use crate::source::{Origin, Place, RowsRead};

/// A slot, and the batch that goes there.
#[derive(Clone, Copy, Debug)]
pub struct SlotPlace<'p> {
    /// The slot.
    pub slot: usize,
    /// The batch's arrays as they lie in a slot; free again when the fill has been submitted.
    pub payload: &'p [u8],
    /// The bytes of the payload that are copied, to the same offsets of the slot.
    pub arrays: &'p [Range<usize>],
    /// More bytes, each with its place in the slot; free again likewise.
    pub beside: &'p [(usize, &'p [u8])],
    /// Where in the payload, within one of the arrays, the submitted ids begin.
    pub ids_at: usize,
    /// Where in the slot the rows begin.
    pub features_at: usize,
    /// The report's stamp, written behind everything else.
    pub stamp: u64,
    /// The device waits for it, as it was last recorded before the submission.
    pub after: Option<&'p dyn Signal>,
    /// Recorded behind everything.
    pub ready: &'p dyn Signal,
}

impl Place for SlotPlace<'_> {
    type Error = FillError;
}

/// A fill that has completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// The slot.
    pub slot: usize,
    /// Its stamp.
    pub stamp: u64,
    /// Rows gathered.
    pub rows: usize,
    /// Where they were read.
    pub read: RowsRead,
    /// The device's clock when the gather began, nanoseconds.
    pub began_ns: u64,
    /// The same when the last row was there.
    pub ended_ns: u64,
    /// The first position whose id is no row of the table, and that id: found by a kernel. Its row was not written.
    pub bad: Option<(u64, i64)>,
}

impl Fill {
    /// How many rows kernels read, cached ones among them.
    pub fn by_kernel(&self) -> usize {
        self.rows - self.read.rows(Origin::Dma) as usize
    }
}
