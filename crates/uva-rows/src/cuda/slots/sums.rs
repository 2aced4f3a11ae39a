//! Sums by lists instead of rows: the rows of a batch are gathered into a scratch, and a kernel sums them into the slot.

use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GridBound};
use uva_cuda::kernels::sums::{SumArguments, SummedType};
use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{Context, CudaStream};
use uva_ops::rows::NarrowFloat;

use super::slot::FilledRows;
use crate::cuda::error::FillError;

/// The layout in the slot of the lists of a fill whose rows are summed, and of the sums.
#[derive(Clone, Copy, Debug)]
pub struct SlotSums {
    /// The number of lists, which belong to the first ids.
    pub destinations: usize,
    /// The number of entries of all lists.
    pub edges: usize,
    /// The offset of `destinations + 1` list bounds, int32.
    pub indptr_at: usize,
    /// The offset of `edges` places of ids, int32.
    pub indices_at: usize,
    /// The offset of as many weights, float32; without weights, means are computed.
    pub weights_at: Option<usize>,
    /// The offset of the degree of each id, int32: rows are then weighted by degrees, and each list's own row comes
    /// last.
    pub degrees_at: Option<usize>,
    /// The offset of the sums: a row of float32 per list.
    pub sums_at: usize,
    /// Whether the rows of the first ids, one per list, are also written, to the place of the rows.
    pub own: bool,
}

impl SlotSums {
    /// The ranges of the slot that the kernel reads.
    pub(crate) fn read(&self, ids: usize) -> impl Iterator<Item = Range<usize>> {
        let of = |at: usize, count: usize| at..at.saturating_add(count.saturating_mul(4));
        let always = [of(self.indptr_at, self.destinations + 1), of(self.indices_at, self.edges)];
        let weights = self.weights_at.map(|at| of(at, self.edges));
        always.into_iter().chain(weights).chain(self.degrees_at.map(|at| of(at, ids)))
    }

    /// The kernel's arguments for the slot that begins at `base`, and rows of `sources` ids that begin at `rows`; without
    /// own rows.
    pub(crate) fn arguments(&self, base: u64, rows: u64, row_bytes: usize, sources: usize) -> SumArguments {
        let at = |at: usize| base + at as u64;
        SumArguments {
            rows,
            row_bytes: row_bytes as u64,
            sources: sources as u64,
            indptr: at(self.indptr_at),
            indices: at(self.indices_at),
            sampled: self.weights_at.map_or(0, at),
            degrees: self.degrees_at.map_or(0, at),
            destinations: self.destinations as u64,
            edges: self.edges as u64,
            sums: at(self.sums_at),
            own: 0,
        }
    }

    /// The rows of the slot that the kernel writes, for rows of `row_bytes` bytes that begin at `features_at`, and sums
    /// of `sum_bytes`.
    pub(crate) fn written(&self, features_at: usize, row_bytes: usize, sum_bytes: usize) -> [FilledRows; 2] {
        let own = if self.own { self.destinations } else { 0 };
        [
            FilledRows { at: features_at, count: own, bytes: row_bytes },
            FilledRows { at: self.sums_at, count: self.destinations, bytes: sum_bytes },
        ]
    }
}

/// The kernels' type for these values (`None`: float32) in rows of `row_bytes` bytes.
pub(crate) fn summed_type(narrow: Option<NarrowFloat>, row_bytes: usize) -> Result<SummedType, FillError> {
    let values = match narrow {
        None => SummedType::F32,
        Some(NarrowFloat::F16) => SummedType::F16,
        Some(NarrowFloat::Bf16) => SummedType::Bf16,
        Some(NarrowFloat::E4m3) => SummedType::E4m3,
    };
    if !row_bytes.is_multiple_of(values.bytes() as usize) {
        return Err(FillError::Layout(format!("rows of {row_bytes} bytes are not whole {values:?}")));
    }
    Ok(values)
}

/// Memory for the rows of one batch, and their reduction. One is enough for all slots, since fills are ordered by one
/// stream.
#[derive(Debug)]
pub(crate) struct Scratch {
    rows: DeviceBuffer,
    row_bytes: usize,
    values: SummedType,
    bound: GridBound,
}

impl Scratch {
    /// Allocates memory for at most `rows` rows of `row_bytes` bytes of these values (`None`: float32); the grid is
    /// bounded by `bound`.
    pub fn new(
        context: &Arc<Context>,
        (rows, row_bytes): (usize, usize),
        narrow: Option<NarrowFloat>,
        bound: GridBound,
    ) -> Result<Self, FillError> {
        let values = summed_type(narrow, row_bytes)?;
        let bytes = rows.checked_mul(row_bytes).ok_or_else(|| {
            FillError::Layout(format!("{rows} rows of {row_bytes} bytes are more than 64 bits can count"))
        })?;
        let what = format!(
            "{rows} rows that are summed on the GPU (`batch_size`, `fanouts` and `slot_bytes` decide how many; \
             `aggregate=off` needs none)"
        );
        Ok(Self { rows: DeviceBuffer::new(context, bytes, &what)?, row_bytes, values, bound })
    }

    /// The address of the first row.
    pub fn address(&self) -> u64 {
        self.rows.address()
    }

    /// Whether `rows` rows fit.
    pub fn holds(&self, rows: usize) -> bool {
        rows.checked_mul(self.row_bytes).is_some_and(|bytes| bytes <= self.rows.bytes())
    }

    /// Bytes of a sum.
    pub fn sum_bytes(&self) -> usize {
        self.row_bytes / self.values.bytes() as usize * size_of::<f32>()
    }

    /// Enqueues the sums of the rows of `sources` ids, which are in the scratch, into the slot that begins at `base`.
    ///
    /// # Safety
    /// In stream order the rows and the slot's lists are complete, and the slot's bytes used by the sums are disjoint
    /// and exclusive, until the stream has passed this.
    pub unsafe fn sum(
        &self,
        stream: &CudaStream,
        kernels: &GatherKernels,
        (base, features_at): (u64, usize),
        sources: usize,
        sums: &SlotSums,
    ) -> Result<(), FillError> {
        let own = if sums.own { base + features_at as u64 } else { 0 };
        let arguments =
            SumArguments { own, ..sums.arguments(base, self.rows.address(), self.row_bytes, sources) };
        // SAFETY: the rows are ours, and there are as many as passed to the kernel (`holds`); the slot's are promised
        // by our caller.
        unsafe { kernels.sum(stream, self.values, &arguments, self.bound)? };
        Ok(())
    }
}
