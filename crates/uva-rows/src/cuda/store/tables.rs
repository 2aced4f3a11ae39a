//! Several tables in device memory, with rows selected by the same ids.

use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherArguments, GatherKernels, GatherReport, GridBound, IdWidth, Kernel};
use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{Context, CudaError, CudaStream};

use super::upload::{PIECE, Upload};
use crate::cuda::error::FillError;
use crate::error::GatherError;

/// Writes a range of rows of every table, each into its slice.
pub type ReadRows<'r> = dyn FnMut(Range<usize>, &mut [&mut [u8]]) -> Result<(), GatherError> + 'r;

/// Tables in device memory, with the same number and size of rows. A fill gets the rows of its ids in every one of
/// them.
#[derive(Debug)]
pub struct DeviceTables {
    kernel: Kernel,
    bound: GridBound,
    /// The tables, one after another.
    buffer: DeviceBuffer,
    /// A report for every table except the first, whose gather reports to the slot. A gather distributes its rows by a
    /// counter in its report. The reports are only used by one stream, gather after gather.
    reports: DeviceBuffer,
    tables: usize,
    rows: usize,
    row_bytes: usize,
}

impl DeviceTables {
    /// Copies `rows` rows of `row_bytes` bytes (at least 1) of `tables` tables (at least one) to the device. `read`
    /// provides them, in row order. Gathers use this kernel in a grid bounded by `bound`; `what` names the tables in
    /// messages.
    ///
    /// # Errors
    /// Errors of `read`; [`FillError::Cuda`] if the device has too little free memory.
    pub fn new(
        context: &Arc<Context>,
        (tables, rows, row_bytes): (usize, usize, usize),
        (kernel, bound): (Kernel, GridBound),
        what: &str,
        read: &mut ReadRows<'_>,
    ) -> Result<Self, FillError> {
        let (tables, row_bytes) = (tables.max(1), row_bytes.max(1));
        let bytes = rows.saturating_mul(row_bytes).saturating_mul(tables);
        let buffer = DeviceBuffer::new(context, bytes, what)?;
        let reports = DeviceBuffer::new(context, (tables - 1) * GatherReport::BYTES, "reports of gathers")?;
        let mut upload = Upload::new(context, PIECE.max(row_bytes))?;
        let at_once = (PIECE / row_bytes).max(1);
        let mut staged = vec![Vec::new(); tables];
        for first in (0..rows).step_by(at_once) {
            let block = first..rows.min(first + at_once);
            staged.iter_mut().for_each(|rows: &mut Vec<u8>| rows.resize(block.len() * row_bytes, 0));
            let mut parts: Vec<&mut [u8]> = staged.iter_mut().map(Vec::as_mut_slice).collect();
            read(block.clone(), &mut parts)?;
            for (table, rows_of) in staged.iter().enumerate() {
                let to = buffer.address() + ((table * rows + first) * row_bytes) as u64;
                let write = |piece: &mut [u8]| {
                    piece.copy_from_slice(rows_of);
                    Ok::<_, CudaError>(())
                };
                // SAFETY: rows of our own buffer, which is not shared yet and is large enough. The upload is finished
                // below, or waited for when it is dropped, which is before the buffer.
                unsafe { upload.send(to, rows_of.len(), write) }?;
            }
        }
        upload.finish()?;
        Ok(Self { kernel, bound, buffer, reports, tables, rows, row_bytes })
    }

    /// The number of tables.
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Bytes of a row of one table.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// Enqueues the gathers of `count` rows. `outs` has the destinations of the rows of each table. A bad id is
    /// recorded in `report`.
    ///
    /// # Safety
    /// In stream order, `ids` has `count` ids, every one of `outs` has space for as many rows without overlaps, and
    /// `report` is a prepared report. Until the stream has passed this, they and this value stay allocated, no other
    /// code writes to them, and no other stream runs gathers of this value.
    pub(crate) unsafe fn enqueue(
        &self,
        stream: &CudaStream,
        kernels: &GatherKernels,
        (ids, count): (u64, usize),
        outs: impl Iterator<Item = u64>,
        report: u64,
    ) -> Result<(), CudaError> {
        for (table, out) in outs.take(self.tables).enumerate() {
            let report = match table {
                0 => report,
                _ => self.reports.address() + ((table - 1) * GatherReport::BYTES) as u64,
            };
            if table > 0 {
                // SAFETY: our own report. The gather that used it last comes before on this stream.
                unsafe { kernels.begin(stream, report)? };
            }
            let arguments = GatherArguments {
                table: self.buffer.address() + (table * self.rows * self.row_bytes) as u64,
                rows: self.rows as u64,
                row_bytes: self.row_bytes as u64,
                ids,
                count: count as u64,
                out,
                report,
                slot_map: 0,
                cache: 0,
                order: 0,
            };
            // SAFETY: the table is a part of our buffer. The rest is the caller's promise.
            unsafe { kernels.rows(stream, self.kernel, IdWidth::I64, &arguments, self.bound)? };
        }
        Ok(())
    }
}
