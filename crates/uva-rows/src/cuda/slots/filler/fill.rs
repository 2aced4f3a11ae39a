//! One fill of a slot, before and after its submission.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::BadId;
use uva_cuda::memory::SharedBuffer;
use uva_cuda::{CudaEvent, Signal};
use uva_disk::DiskReads;

use crate::cuda::direct::DirectRuns;
use crate::cuda::error::FillError;
use crate::cuda::slots::sums::SlotSums;
use crate::cuda::sources::table_set::TablePlace;
use crate::error::GatherError;
use crate::host::PartialSums;
use crate::source::{Place, RowOrigin, RowsRead};

/// The alignment of a range of host-made rows in page-locked memory, so that vector stores of two ranges never share a
/// line.
pub(super) const CACHE_LINE: usize = 64;

/// A batch's arrays that are in device memory already.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice<'p> {
    /// The memory. Kept alive until the fill has run.
    pub memory: &'p Arc<SharedBuffer>,
    /// The offset of each array in the slot, ascending, and its range of the memory.
    pub arrays: &'p [(usize, Range<usize>)],
    /// The number of ids in these arrays.
    pub count: usize,
    /// Recorded after the last read of the memory.
    pub taken: &'p CudaEvent,
}

/// Writes rows to these places.
pub type MakeRows<'p> = dyn Fn(&mut [&mut [u8]]) -> Result<(), GatherError> + 'p;

/// Rows of a slot that the host makes, instead of those of the source.
#[derive(Clone, Copy)]
pub struct HostMadeRows<'p> {
    /// The ranges of the slot that the rows occupy; each is transferred by a separate copy.
    pub ranges: &'p [Range<usize>],
    /// Makes the rows, in page-locked memory: a slice of each range's length. Called once by `submit`, before anything
    /// is enqueued.
    pub make: &'p MakeRows<'p>,
}

impl HostMadeRows<'_> {
    /// Total bytes of the ranges, each on its own cache lines.
    pub(super) fn bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.len().next_multiple_of(CACHE_LINE)).sum()
    }
}

impl fmt::Debug for HostMadeRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMadeRows").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// Rows of a slot that are read from files bypassing host memory, instead of those of the source.
#[derive(Clone, Copy)]
pub struct BroughtRows<'p> {
    /// The reader of the rows, into the memory of the filler's slots. Called once by `submit`, when the slot is no
    /// longer in use and no work of this fill is enqueued.
    pub by: &'p RefCell<DirectRuns>,
    /// The rows of every table.
    pub runs: &'p [Range<usize>],
    /// The range of the slot for the rows of each table.
    pub ranges: &'p [Range<usize>],
    /// Receives the statistics of disk reads.
    pub took: &'p Cell<DiskReads>,
}

impl fmt::Debug for BroughtRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroughtRows").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

/// Makes the CPU's part of a batch's sums, in this memory.
pub type BeginSums<'p> = dyn Fn(&mut [u8]) -> Result<PartialSums, GatherError> + 'p;

/// Sums of a slot that the host begins with the rows that are not in the filler's cache.
#[derive(Clone, Copy)]
pub struct HostPartialSums<'p> {
    /// Begins the sums, as [`SumBeginner`](crate::SumBeginner) does, in the reserved page-locked memory. Called once by
    /// `submit`, before anything is enqueued.
    pub begin: &'p BeginSums<'p>,
}

impl fmt::Debug for HostPartialSums<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostPartialSums").finish_non_exhaustive()
    }
}

/// A slot, and the batch to write to it.
#[derive(Clone, Copy, Debug)]
pub struct SlotPlace<'p> {
    /// The slot.
    pub slot: usize,
    /// The batch's arrays, each with its offset in the slot, ascending, after the report. One copy transfers all of
    /// them, so bytes between them are overwritten too. They can be reused when the fill has been submitted.
    pub arrays: &'p [(usize, &'p [u8])],
    /// More arrays, after the others in the slot. The ids may be among them: if the source does not [read
    /// them](crate::RowSource::reads_ids), none need be submitted.
    pub on_device: Option<OnDevice<'p>>,
    /// The offset of the ids in the slot, within one of the arrays.
    pub ids_at: usize,
    /// The offset of the rows in the slot.
    pub features_at: usize,
    /// Sums of the rows by lists, instead of the rows: for a filler that [sums](crate::cuda::SlotFiller::sum_rows).
    pub sums: Option<SlotSums>,
    /// Rows that the host makes: for a filler with [reserved memory](crate::cuda::SlotFiller::reserve_made). The source
    /// then reads none.
    pub made: Option<HostMadeRows<'p>>,
    /// Rows that are read from files bypassing host memory. The source then reads none. The host waits for
    /// [`after`](Self::after), since these writes are not ordered by a stream.
    pub brought: Option<BroughtRows<'p>>,
    /// The offsets in the slot of the rows of each of the filler's [tables](crate::cuda::SlotFiller::with_tables),
    /// instead of all other rows.
    pub tables_at: Option<&'p [usize]>,
    /// The places in the slot of the ids and rows of each table of the filler's [set](crate::cuda::SlotFiller::with_set),
    /// instead of all other rows. No ids are submitted then.
    pub of_set: Option<&'p [TablePlace]>,
    /// The host's part of the [`sums`](Self::sums), which a kernel continues: for a filler that [continues
    /// sums](crate::cuda::SlotFiller::continue_sums). The source then reads no rows.
    pub begun: Option<HostPartialSums<'p>>,
    /// The report's stamp, written after everything else.
    pub stamp: u64,
    /// The event that the device waits for, as last recorded before the submission.
    pub after: Option<&'p dyn Signal>,
    /// Recorded after all work of the fill.
    pub ready: &'p dyn Signal,
}

impl SlotPlace<'_> {
    /// Whether the host makes rows, or rows are summed.
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
    /// Rows gathered; 0 if the host makes them, or begins their sums.
    pub rows: usize,
    /// The origins of the rows.
    pub read: RowsRead,
    /// The device's clock at the start of the gather, in nanoseconds.
    pub began_ns: u64,
    /// The device's clock when the last row was complete, in nanoseconds.
    pub ended_ns: u64,
    /// The first id that is not a row of its table, found by a kernel. Its row was not written.
    pub bad: Option<BadId>,
}

impl Fill {
    /// The number of rows read by kernels, including cached ones.
    pub fn by_kernel(&self) -> usize {
        self.rows - self.read.rows(RowOrigin::Dma) as usize
    }
}
