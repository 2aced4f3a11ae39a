//! Device memory as a place for rows.

use uva_cuda::Stream;

use super::error::FillError;
use crate::source::{Place, RowSource};

/// Device memory for the rows of a batch, in the order of a stream: the work begins behind everything that the stream
/// has so far, and all that comes to the stream later finds the rows.
#[derive(Clone, Copy, Debug)]
pub struct DevicePlace<'p> {
    /// Which of the fills that are under way side by side.
    pub(super) lane: usize,
    pub(super) stream: &'p Stream,
    /// The ids on the device.
    pub(super) ids: u64,
    /// The first row.
    pub(super) out: u64,
    /// The gather's report, which kernels write bad ids and cache hits to.
    pub(super) report: u64,
}

impl<'p> DevicePlace<'p> {
    /// The place of fill `lane`.
    ///
    /// # Safety
    /// In the stream's order, `ids` has the ids that are submitted with this place, `out` room for their rows, and
    /// `report` a gather's report, which `GatherKernels::begin` has prepared. Nobody else writes to them, and they live,
    /// until the stream has passed the fill. A lane is used again only after that.
    pub unsafe fn new(lane: usize, stream: &'p Stream, ids: u64, out: u64, report: u64) -> Self {
        Self { lane, stream, ids, out, report }
    }
}

impl Place for DevicePlace<'_> {
    type Error = FillError;
}

/// A source of rows in device memory.
pub trait DeviceSource: for<'p> RowSource<DevicePlace<'p>> {}

impl<S: for<'p> RowSource<DevicePlace<'p>> + ?Sized> DeviceSource for S {}
