//! Sums that the CPU begins and a kernel continues with the rows of a cache on the device.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GridBound};
use uva_cuda::kernels::sums::{ContinuedArguments, SumArguments, SummedType};
use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{Context, CudaStream};
use uva_ops::rows::NarrowFloat;

use super::sums::{SlotSums, summed_type};
use crate::cuda::error::FillError;
use crate::cuda::store::cache::DeviceCache;
use crate::host::PartialSums;

/// A cache, and device memory for the sums that the CPU begins: one part per slot, since the next batch's part arrives
/// while the kernel reads the current one.
#[derive(Debug)]
pub(super) struct Continued {
    cache: DeviceCache,
    begun: DeviceBuffer,
    /// Bytes of a slot's part.
    room: usize,
    row_bytes: usize,
    values: SummedType,
    bound: GridBound,
}

/// A batch whose sums are continued, with its layout in the slot.
pub(super) struct ContinuedBatch<'b> {
    pub slot: usize,
    /// The address of the slot, and the offset of the own rows in it.
    pub base: u64,
    pub features_at: usize,
    /// The address of the ids, and their number.
    pub ids: u64,
    pub count: usize,
    pub report: u64,
    pub sums: &'b SlotSums,
    /// The partial sums of the CPU, which are in the slot's part.
    pub begun: &'b PartialSums,
}

impl Continued {
    /// Creates the state for a table of `rows` rows of `row_bytes` bytes of these values (`None`: float32), and `slots`
    /// slots with parts of at most `room` bytes; the grid is bounded by `bound`.
    pub fn new(
        context: &Arc<Context>,
        cache: DeviceCache,
        (rows, row_bytes): (usize, usize),
        (slots, room): (usize, usize),
        narrow: Option<NarrowFloat>,
        bound: GridBound,
    ) -> Result<Self, FillError> {
        cache.check(context, rows, row_bytes)?;
        if cache.is_dynamic() {
            return Err(FillError::Layout("sums are continued by a cache that keeps its rows".to_owned()));
        }
        let values = summed_type(narrow, row_bytes)?;
        let room = room.next_multiple_of(64);
        let bytes = slots.checked_mul(room).ok_or_else(|| {
            FillError::Layout(format!("{slots} times {room} bytes are more than 64 bits can count"))
        })?;
        let what = format!(
            "sums that the CPU begins, for {slots} feature slots (`slots`, `batch_size` and `fanouts` decide how many; \
             `aggregate=off` needs none)"
        );
        let begun = DeviceBuffer::new(context, bytes, &what)?;
        Ok(Self { cache, begun, room, row_bytes, values, bound })
    }

    /// The address of the slot's part, and its size in bytes.
    pub fn part(&self, slot: usize) -> (u64, usize) {
        (self.begun.address() + (slot * self.room) as u64, self.room)
    }

    /// Bytes of a sum.
    pub fn sum_bytes(&self) -> usize {
        self.row_bytes / self.values.bytes() as usize * size_of::<f32>()
    }

    /// Enqueues the rest of the batch's sums, and the own rows.
    ///
    /// # Safety
    /// In stream order, ids, lists and a prepared report are in the slot, and the CPU's partial sums are in the slot's
    /// part, as described by `begun`. The slot's bytes used by the sums, and that part, are disjoint and exclusive
    /// until the stream has passed this.
    pub unsafe fn sum(
        &self,
        stream: &CudaStream,
        kernels: &GatherKernels,
        batch: &ContinuedBatch<'_>,
    ) -> Result<(), FillError> {
        let ContinuedBatch { base, sums, begun, .. } = *batch;
        let (part, (slot_map, rows)) = (self.part(batch.slot).0, self.cache.addresses());
        let own = if sums.own { base + batch.features_at as u64 } else { 0 };
        let arguments = ContinuedArguments {
            lists: SumArguments { own, ..sums.arguments(base, rows, self.row_bytes, batch.count) },
            cached: self.cache.rows() as u64,
            ids: batch.ids,
            slot_map,
            table_rows: self.cache.table_rows() as u64,
            begun: part + begun.sums.start as u64,
            begun_of: part + begun.sum_of.start as u64,
            begun_rows: begun.sum_rows as u64,
            missed: part + begun.own.start as u64,
            missed_of: if sums.own { part + begun.own_of.start as u64 } else { 0 },
            missed_rows: begun.own_rows as u64,
            report: batch.report,
        };
        // SAFETY: the cache's map refers to its own rows only. The CPU's part is numbered by `SumBeginner`, and is
        // within the slot's part (`SlotFiller::submit`). The slot's arrays are promised by our caller.
        unsafe { kernels.continue_sums(stream, self.values, &arguments, self.bound)? };
        Ok(())
    }
}
