//! Launches of the kernels that order the reads of a gather, and their memory.

use std::sync::Arc;

use uva_kernels::order::OrderArguments;

use crate::devices::context::Context;
use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, pointer};
use crate::memory::{DeviceBuffer, fill};
use crate::stream::CudaStream;

/// Bytes of a region: four of the 64 KiB that a translation of an H100 covers. It read 1,048,576 rows of 512 bytes, drawn
/// from 48 GiB, at 27.2 GB/s in regions of 64 KiB. Regions of 256 KiB gave 26.8, those of 2 MiB 24.2, those of 16 MiB 19.5,
/// and the order of the draw 14.1 (docs/results/gpu/translation-h100.json).
const REGION_BYTES: usize = 256 << 10;

/// Maximum number of regions: those of a table of 64 GiB. Larger tables have larger regions.
const MOST_REGIONS: usize = 1 << 18;

/// Minimum number of ids, or regions, per warp: small gathers start few blocks. Not compared on a GPU.
const IDS_PER_WARP: u64 = 256;

/// Orders the reads of gathers by the table's regions. Has memory for one gather at a time, in stream order.
#[derive(Debug)]
pub struct VisitOrder {
    context: Arc<Context>,
    regions: usize,
    row_bits: u32,
    places: DeviceBuffer,
    order: DeviceBuffer,
}

impl VisitOrder {
    /// Creates an order for gathers of at most `most` of a table's `rows` rows.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Call`].
    pub fn new(
        context: &Arc<Context>,
        rows: usize,
        row_bytes: usize,
        most: usize,
    ) -> Result<Self, CudaError> {
        let (regions, row_bits) = regions(rows, row_bytes);
        let what = "the order of a gather's visits";
        let places = DeviceBuffer::new(context, (regions + 1) * 4, what)?;
        let order = DeviceBuffer::new(context, most * 4, what)?;
        Ok(Self { context: Arc::clone(context), regions, row_bits, places, order })
    }

    /// Allocates memory for gathers of `most` rows.
    ///
    /// # Errors
    /// As [`VisitOrder::new`].
    pub fn reserve(&mut self, most: usize) -> Result<(), CudaError> {
        if self.most() < most {
            self.order = DeviceBuffer::new(&self.context, most * 4, "the order of a gather's visits")?;
        }
        Ok(())
    }

    /// The maximum number of rows of a gather.
    pub fn most(&self) -> usize {
        self.order.bytes() / 4
    }

    /// Enqueues the order of `count` ids at that device address, and returns the address of the order for
    /// [`GatherArguments::order`](crate::kernels::gather::GatherArguments). In its report, the gather begins here.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for more ids than reserved; [`CudaError::Call`] if a launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed the gather:
    /// - `ids` is `count` readable int64 ids. They were written before (in stream order) and are not written in the
    ///   meantime.
    /// - `report` is a prepared report, not read or written by other code.
    /// - This value and the kernels' module exist. Every use of this value is enqueued on the same stream.
    /// - The stream is as [`GatherKernels::enqueue`] requires.
    pub unsafe fn enqueue(
        &self,
        stream: &CudaStream,
        kernels: &GatherKernels,
        (ids, count): (u64, usize),
        report: u64,
        bound: GridBound,
    ) -> Result<u64, CudaError> {
        if count > self.most() {
            return Err(CudaError::Refused(format!(
                "{count} rows cannot be sorted: there is room for {}",
                self.most()
            )));
        }
        let arguments = OrderArguments {
            ids,
            count: count as u64,
            regions: self.regions as u64,
            row_bits: u64::from(self.row_bits),
            places: self.places.address(),
            order: self.order.address(),
            report,
        };
        arguments.check().map_err(CudaError::Refused)?;
        // SAFETY: the memory is this value's own, used in the order of the stream; the caller promises ids and report.
        unsafe {
            fill(stream, self.places.address(), 0, self.places.bytes())?;
            kernels.order(stream, &arguments, bound)?;
        }
        Ok(self.order.address())
    }
}

impl GatherKernels {
    /// Launches one step of the order.
    ///
    /// # Safety
    /// As [`VisitOrder::enqueue`] requires, for all memory of the arguments.
    unsafe fn order(
        &self,
        stream: &CudaStream,
        arguments: &OrderArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        let warps = arguments.count.max(arguments.regions).div_ceil(IDS_PER_WARP);
        for step in self.order.iter() {
            let mut copy = *arguments;
            let shape = self.shape(step, bound, warps);
            // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises
            // everything that they name.
            unsafe { step.function.launch(stream, shape, &mut [pointer(&mut copy)]) }?;
        }
        Ok(())
    }
}

/// The number of regions of a table, and the binary logarithm of a region's rows.
fn regions(rows: usize, row_bytes: usize) -> (usize, u32) {
    let mut row_bits = (REGION_BYTES / row_bytes.max(1)).max(1).ilog2();
    let regions = |row_bits: u32| rows.div_ceil(1 << row_bits).max(1);
    while regions(row_bits) > MOST_REGIONS {
        row_bits += 1;
    }
    (regions(row_bits), row_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_at_least_256_kib_cover_a_table_that_needs_too_many() {
        assert_eq!(regions(1 << 20, 512), (2048, 9));
        assert_eq!(regions((1 << 20) + 1, 512), (2049, 9));
        // 400-byte rows: 512 of them are 200 KiB.
        assert_eq!(regions(1000, 400), (2, 9));
        assert_eq!(regions(10, 1 << 20), (10, 0));
        assert_eq!(regions(0, 512), (1, 9));
        // 256 GiB of 512-byte rows.
        assert_eq!(regions(1 << 29, 512), (1 << 18, 11));
    }
}
