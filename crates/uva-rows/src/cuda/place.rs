//! Device memory as a place for rows.

use uva_cuda::CudaStream;
use uva_cuda::kernels::gather::GatherKernels;

use super::error::FillError;
use crate::source::{Place, RowSource};

/// Device memory for the rows of a batch, in stream order: the fill runs after all earlier work on the stream, and
/// later work on the stream sees the rows.
#[derive(Clone, Copy, Debug)]
pub struct DevicePlace<'p> {
    /// The index of the concurrent fill.
    pub(super) lane: usize,
    pub(super) stream: &'p CudaStream,
    pub(super) kernels: &'p GatherKernels,
    /// The address of the ids on the device, and their number. Sources that read ids also get them on the host.
    pub(super) ids: u64,
    pub(super) count: usize,
    /// The address of the first row.
    pub(super) out: u64,
    /// The gather's report, to which kernels write bad ids and cache hits.
    pub(super) report: u64,
}

impl<'p> DevicePlace<'p> {
    /// Creates the place of fill `lane`.
    ///
    /// # Safety
    /// In stream order, `ids` has `count` ids: equal to those submitted with this place, if any. `out` has space for
    /// their rows, and `report` is a prepared report
    /// ([`GatherReport::PREPARED`](uva_cuda::kernels::gather::GatherReport::PREPARED)). Until the stream has passed the
    /// fill, they stay allocated and are not written by other code. A lane is reused only after that.
    pub unsafe fn new(
        lane: usize,
        stream: &'p CudaStream,
        kernels: &'p GatherKernels,
        (ids, count): (u64, usize),
        out: u64,
        report: u64,
    ) -> Self {
        Self { lane, stream, kernels, ids, count, out, report }
    }

    /// Writes the beginning to the report: for fills without a gather kernel, which would do this. Call this before any
    /// kernel of the fill.
    pub(super) fn note_beginning(&self) -> Result<(), FillError> {
        // SAFETY: the place's report, by the promise of `new`. It is still empty.
        unsafe { self.kernels.begin(self.stream, self.report)? };
        Ok(())
    }
}

impl Place for DevicePlace<'_> {
    type Error = FillError;
}

/// A source of rows in device memory.
pub trait DeviceSource: for<'p> RowSource<DevicePlace<'p>> {}

impl<S: for<'p> RowSource<DevicePlace<'p>> + ?Sized> DeviceSource for S {}
