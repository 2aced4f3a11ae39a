//! One fill of a slot: before, and after.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use uva_cuda::memory::SharedBuffer;
use uva_cuda::{CudaEvent, Signal};
use uva_disk::DiskReads;

use crate::cuda::direct::DirectRuns;
use crate::cuda::error::FillError;
use crate::cuda::slots::sums::SlotSums;
use crate::error::GatherError;
use crate::host::PartialSums;
use crate::source::{Place, RowOrigin, RowsRead};

/// Where a range of rows that the host makes begins in page-locked memory: vector stores of two never share a line.
pub(super) const CACHE_LINE: usize = 64;

/// Arrays of a batch that are in device memory already.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice<'p> {
    /// The memory. It is held until the fill has run.
    pub memory: &'p Arc<SharedBuffer>,
    /// Where each array goes in the slot, in the order of these places, and its bytes of the memory.
    pub arrays: &'p [(usize, Range<usize>)],
    /// How many ids are among them.
    pub count: usize,
    /// Recorded behind the last read of the memory.
    pub taken: &'p CudaEvent,
}

/// Writes rows to these places.
pub type MakeRows<'p> = dyn Fn(&mut [&mut [u8]]) -> Result<(), GatherError> + 'p;

/// Rows of a slot that the host makes, in place of those that the source reads.
#[derive(Clone, Copy)]
pub struct HostMadeRows<'p> {
    /// The bytes of the slot that they take: each of these ranges is brought by a copy of its own.
    pub ranges: &'p [Range<usize>],
    /// Makes them, in page-locked memory: a slice of each range's length. Called once by `submit`, before anything is
    /// enqueued.
    pub make: &'p MakeRows<'p>,
}

impl HostMadeRows<'_> {
    /// Bytes that the ranges take side by side, each on cache lines of its own.
    pub(super) fn bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.len().next_multiple_of(CACHE_LINE)).sum()
    }
}

impl fmt::Debug for HostMadeRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMadeRows").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// Rows of a slot that come from files past the host's memory, in place of those that the source reads.
#[derive(Clone, Copy)]
pub struct BroughtRows<'p> {
    /// Brings them, into the memory of the filler's slots. It is asked once by `submit`, when nobody uses the slot any more
    /// and nothing of this fill is enqueued.
    pub by: &'p RefCell<DirectRuns>,
    /// Which rows of every table.
    pub runs: &'p [Range<usize>],
    /// The bytes of the slot that the rows of each table take.
    pub ranges: &'p [Range<usize>],
    /// Gets what that took from disk.
    pub took: &'p Cell<DiskReads>,
}

impl fmt::Debug for BroughtRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroughtRows").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// Makes the CPU's part of a batch's sums, in this room.
pub type BeginSums<'p> = dyn Fn(&mut [u8]) -> Result<PartialSums, GatherError> + 'p;

/// Sums of a slot that the host begins, with the rows that the filler's cache has not.
#[derive(Clone, Copy)]
pub struct HostPartialSums<'p> {
    /// Begins them, as [`SumBeginner`](crate::SumBeginner) does, in page-locked memory of as many bytes as were reserved.
    /// Called once by `submit`, before anything is enqueued.
    pub begin: &'p BeginSums<'p>,
}

impl fmt::Debug for HostPartialSums<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostPartialSums").finish_non_exhaustive()
    }
}

/// A slot, and the batch that goes there.
#[derive(Clone, Copy, Debug)]
pub struct SlotPlace<'p> {
    /// The slot.
    pub slot: usize,
    /// The batch's arrays, each with its place in the slot, in the order of these places, behind the report. One copy
    /// takes all of them: bytes between them are overwritten too. They are free again when the fill has been submitted.
    pub arrays: &'p [(usize, &'p [u8])],
    /// More arrays, which lie behind those in the slot. The ids may be among them: if the source does not
    /// [read them](crate::RowSource::reads_ids), none need be submitted.
    pub on_device: Option<OnDevice<'p>>,
    /// Where in the slot, within one of the arrays, the ids begin.
    pub ids_at: usize,
    /// Where in the slot the rows begin.
    pub features_at: usize,
    /// Sums of the rows by lists, in place of the rows: for a filler that [sums](crate::cuda::SlotFiller::sum_rows).
    pub sums: Option<SlotSums>,
    /// Rows that the host makes: for a filler with [room for them](crate::cuda::SlotFiller::reserve_made). The source
    /// then reads none.
    pub made: Option<HostMadeRows<'p>>,
    /// Rows that come from files past the host's memory. The source then reads none. The host waits for
    /// [`after`](Self::after), since no stream orders what writes them.
    pub brought: Option<BroughtRows<'p>>,
    /// Where in the slot the rows of each of the filler's [tables](crate::cuda::SlotFiller::with_tables) begin, in the place
    /// of all other rows.
    pub tables_at: Option<&'p [usize]>,
    /// What the host makes of the [`sums`](Self::sums), of which a kernel makes the rest: for a filler that
    /// [continues sums](crate::cuda::SlotFiller::continue_sums). The source then reads no rows.
    pub begun: Option<HostPartialSums<'p>>,
    /// The report's stamp, written behind everything else.
    pub stamp: u64,
    /// The device waits for it, as it was last recorded before the submission.
    pub after: Option<&'p dyn Signal>,
    /// Recorded behind everything.
    pub ready: &'p dyn Signal,
}

impl SlotPlace<'_> {
    /// Whether the host makes rows of it, or somebody sums them.
    pub(super) fn has_others(&self) -> bool {
        self.made.is_some() || self.begun.is_some() || self.sums.is_some()
    }
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
    /// Rows gathered; none where the host makes them, or begins their sums.
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
        self.rows - self.read.rows(RowOrigin::Dma) as usize
    }
}
