//! Launches of the kernels that gather from several tables at once.

use std::sync::Arc;

use uva_kernels::tables::{TABLES_AT_ONCE, TablesArguments};

use crate::devices::context::Context;
use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, Kernel, SINGLE, pointer};
use crate::memory::{DeviceBuffer, fill};
use crate::stream::CudaStream;

pub use uva_kernels::tables::GatheredTable;

/// The counters of the launches of a gather from more tables than one launch takes: the first counts in the report.
/// One gather at a time uses them, in stream order.
#[derive(Debug)]
pub struct TableCounters {
    buffer: DeviceBuffer,
}

impl TableCounters {
    /// Creates the counters for gathers from this many tables.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, tables: usize) -> Result<Self, CudaError> {
        let more = tables.div_ceil(TABLES_AT_ONCE).saturating_sub(1);
        Ok(Self { buffer: DeviceBuffer::new(context, more * size_of::<u64>(), "counters of a gather")? })
    }

    /// The counter of a launch; 0 for the one that counts in the report.
    fn address(&self, launch: usize) -> u64 {
        launch.checked_sub(1).map_or(0, |more| self.buffer.address() + (more * size_of::<u64>()) as u64)
    }

    fn launches(&self) -> usize {
        1 + self.buffer.bytes() / size_of::<u64>()
    }
}

impl GatherKernels {
    /// Enqueues the gather of rows from these tables, by one launch for each 32 of them, and returns without waiting.
    /// Without rows no work is enqueued. The report must have been prepared.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy, and for more tables than the counters are for;
    /// [`CudaError::Call`] if a launch fails.
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`] requires for a gather from each of the tables. Every use of the counters is
    /// enqueued on this stream, and they exist until it has passed this.
    pub unsafe fn tables(
        &self,
        stream: &CudaStream,
        kernel: Kernel,
        (tables, counters): (&[GatheredTable], &TableCounters),
        report: u64,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        if counters.launches() > 1 {
            // SAFETY: the counters' own memory, used in the order of the stream.
            unsafe { fill(stream, counters.buffer.address(), 0, counters.buffer.bytes()) }?;
        }
        for mut arguments in launches(tables, counters, report)? {
            let count = arguments.count();
            if count > 0 {
                let entry = &self.tables[kernel as usize];
                let shape = self.shape(entry, bound, count);
                // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises
                // everything that they name.
                unsafe { entry.function.launch(stream, shape, &mut [pointer(&mut arguments)]) }?;
            }
        }
        Ok(())
    }

    /// Enqueues the completion of the report of [`GatherKernels::tables`], with `stamp` last.
    ///
    /// # Errors
    /// As [`GatherKernels::tables`].
    ///
    /// # Safety
    /// As [`GatherKernels::tables`]; the ids are unchanged.
    pub unsafe fn finish_tables(
        &self,
        stream: &CudaStream,
        (tables, counters): (&[GatheredTable], &TableCounters),
        report: u64,
        stamp: u64,
    ) -> Result<(), CudaError> {
        let launches = launches(tables, counters, report)?;
        let last = launches.len().saturating_sub(1);
        for (number, mut arguments) in launches.into_iter().enumerate() {
            let mut stamp = if number == last { stamp } else { 0 };
            let mut parameters = [pointer(&mut arguments), pointer(&mut stamp)];
            // SAFETY: two parameters, as the kernel has them; the caller promises everything that they name.
            unsafe { self.finish_tables.launch(stream, SINGLE, &mut parameters) }?;
        }
        Ok(())
    }
}

/// The arguments of each launch: one, even without tables.
fn launches(
    tables: &[GatheredTable],
    counters: &TableCounters,
    report: u64,
) -> Result<Vec<TablesArguments>, CudaError> {
    let count = tables.len().div_ceil(TABLES_AT_ONCE).max(1);
    if count > counters.launches() {
        let reason = format!("{} tables for the counters of {} launches", tables.len(), counters.launches());
        return Err(CudaError::Refused(reason));
    }
    let launch = |number: usize| {
        let first = number * TABLES_AT_ONCE;
        let tables = &tables[first..tables.len().min(first + TABLES_AT_ONCE)];
        let arguments = TablesArguments::new(tables, first, report, counters.address(number));
        arguments.check().map(|()| arguments).map_err(CudaError::Refused)
    };
    (0..count).map(launch).collect()
}
