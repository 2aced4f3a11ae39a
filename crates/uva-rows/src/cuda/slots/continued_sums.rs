//! Sums that the CPU begins and a kernel continues: with the rows that a cache on the device has.

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

/// A cache, and room on the device for what the CPU begins: a part for each slot, since the next batch's comes while the
/// kernel reads this one's.
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

/// A batch whose sums are continued, as it lies in its slot.
pub(super) struct ContinuedBatch<'b> {
    pub slot: usize,
    /// Where the slot begins, and where in it the own rows do.
    pub base: u64,
    pub features_at: usize,
    /// The ids, and how many.
    pub ids: u64,
    pub count: usize,
    pub report: u64,
    pub sums: &'b SlotSums,
    /// What the CPU made of them, which lies in the slot's part.
    pub begun: &'b PartialSums,
}

impl Continued {
    /// For a table of `rows` rows of `row_bytes` bytes of these values (`None`: float32), and `slots` slots with parts of
    /// at most `room` bytes; by a grid of that bound.
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

    /// Where the slot's part begins, and its bytes.
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
    /// In stream order, ids, lists and a prepared report are in the slot, and what the CPU made is in the slot's part,
    /// as it says. The slot's bytes that the sums name, and that part, are nobody else's and disjoint, until the stream
    /// has passed this.
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
        // SAFETY: the cache's map names its own rows alone. What the CPU made is numbered by `SumBeginner`, and it lies
        // within the part (`SlotFiller::submit`). The slot's arrays are promised by our caller.
        unsafe { kernels.continue_sums(stream, self.values, &arguments, self.bound)? };
        Ok(())
    }
}
