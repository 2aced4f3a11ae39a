//! The graph's arrays, readable by both the device and the CPU.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::PodCastError;
use uva_cuda::kernels::gather::IdWidth;
use uva_cuda::memory::{PinOptions, PinnedTable, TableBytes};
use uva_cuda::{Context, CudaError};
use uva_graph::{Csc, Dataset, Indices};

/// An array within a pinned table.
#[derive(Clone, Debug)]
pub struct PinnedArray {
    table: Arc<PinnedTable>,
    bytes: Range<usize>,
}

impl PinnedArray {
    /// The bytes `bytes` of `table`.
    ///
    /// # Errors
    /// [`CudaError::Refused`] if the range is reversed or reaches beyond the table's end.
    pub fn new(table: Arc<PinnedTable>, bytes: Range<usize>) -> Result<Self, CudaError> {
        if bytes.start > bytes.end || bytes.end > table.bytes() {
            return Err(CudaError::Refused(format!(
                "bytes {}..{} are not within a pinned table of {} bytes",
                bytes.start,
                bytes.end,
                table.bytes()
            )));
        }
        Ok(Self { table, bytes })
    }

    /// All of `table`.
    pub fn whole(table: Arc<PinnedTable>) -> Self {
        let bytes = 0..table.bytes();
        Self { table, bytes }
    }

    /// Pins an array of an open dataset, in place if possible. `options.what` is replaced by the array's name.
    ///
    /// # Errors
    /// As [`PinnedTable::new`].
    pub fn of_dataset(
        context: &Arc<Context>,
        dataset: &Arc<Dataset>,
        array: DatasetArray,
        options: &PinOptions,
    ) -> Result<Self, CudaError> {
        let what = format!("{} of {}", array.file(), dataset.path().display());
        let bytes: Arc<dyn TableBytes> = Arc::new(ArrayBytes { dataset: Arc::clone(dataset), array });
        let table = PinnedTable::new(context, bytes, &PinOptions { what, ..options.clone() })?;
        Ok(Self::whole(Arc::new(table)))
    }

    /// The device address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.table.address() + self.bytes.start as u64
    }

    /// The bytes, for the CPU.
    pub(crate) fn host(&self) -> &[u8] {
        &self.table.host()[self.bytes.clone()]
    }

    fn context(&self) -> &Arc<Context> {
        self.table.context()
    }
}

/// A graph as compressed sparse columns in pinned memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GraphSource {
    indptr: PinnedArray,
    indices: PinnedArray,
    width: IdWidth,
    home: Option<PinnedArray>,
    weights: Option<PinnedArray>,
}

impl GraphSource {
    /// A graph whose lists are `indices[indptr[v]..indptr[v + 1]]`: `indptr` is int64 with one entry per node and one
    /// more, `indices` of the given width.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arrays that are not whole entries, not aligned to them, or pinned for different
    /// devices.
    pub fn new(indptr: PinnedArray, indices: PinnedArray, width: IdWidth) -> Result<Self, CudaError> {
        bytemuck::try_cast_slice::<u8, i64>(indptr.host()).map_err(|error| no_numbers("indptr", error))?;
        let whole = match width {
            IdWidth::I32 => bytemuck::try_cast_slice::<u8, i32>(indices.host()).map(|_| ()),
            IdWidth::I64 => bytemuck::try_cast_slice::<u8, i64>(indices.host()).map(|_| ()),
        };
        whole.map_err(|error| no_numbers("indices", error))?;
        let source = Self { indptr, indices, width, home: None, weights: None };
        source.check_context("indices", &source.indices)?;
        Ok(source)
    }

    /// Marks the graph as a dataset's graph in another order. `indptr` is the dataset's, which leads back to the
    /// dataset's edges. Each list keeps the dataset's order of its entries. The
    /// [`dataset_ids`](crate::cuda::CudaSamplerOptions::dataset_ids) map each list to its node of the dataset.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for an array that is not whole entries, not aligned to them, of another length than the
    /// graph's, or pinned for another device.
    pub fn with_home(mut self, indptr: PinnedArray) -> Result<Self, CudaError> {
        let what = "the dataset's indptr";
        let ends: &[i64] =
            bytemuck::try_cast_slice(indptr.host()).map_err(|error| no_numbers(what, error))?;
        let (given, needed) = (ends.len(), self.csc().indptr.len());
        if given != needed {
            let what =
                format!("{what} has {given} entries, but that of the graph in another order has {needed}");
            return Err(CudaError::Refused(what));
        }
        self.check_context(what, &indptr)?;
        self.home = Some(indptr);
        Ok(self)
    }

    /// Adds the weight of each edge, float32, in the order of the dataset's edges.
    ///
    /// # Errors
    /// As [`with_home`](Self::with_home).
    pub fn with_weights(mut self, weights: PinnedArray) -> Result<Self, CudaError> {
        let what = "the weights";
        let values: &[f32] =
            bytemuck::try_cast_slice(weights.host()).map_err(|error| no_numbers(what, error))?;
        let (given, edges) = (values.len(), self.csc().edges());
        if given != edges {
            return Err(CudaError::Refused(format!("{given} weights for the {edges} edges of the graph")));
        }
        self.check_context(what, &weights)?;
        self.weights = Some(weights);
        Ok(self)
    }

    fn check_context(&self, what: &str, array: &PinnedArray) -> Result<(), CudaError> {
        if Arc::ptr_eq(self.indptr.context(), array.context()) {
            return Ok(());
        }
        Err(CudaError::Refused(format!("indptr and {what} are pinned in different contexts")))
    }

    /// Pins the graph of an open dataset, in place if possible. `options.what` is replaced by the arrays' names.
    ///
    /// # Errors
    /// As [`PinnedTable::new`].
    pub fn of_dataset(
        context: &Arc<Context>,
        dataset: &Arc<Dataset>,
        options: &PinOptions,
    ) -> Result<Self, CudaError> {
        let pin = |array| PinnedArray::of_dataset(context, dataset, array, options);
        let width = match dataset.csc().indices {
            Indices::I32(_) => IdWidth::I32,
            Indices::I64(_) => IdWidth::I64,
        };
        Self::new(pin(DatasetArray::Indptr)?, pin(DatasetArray::Indices)?, width)
    }

    /// The arrays, for the CPU; no original ids.
    pub fn csc(&self) -> Csc<'_> {
        let indices = match self.width {
            IdWidth::I32 => Indices::I32(bytemuck::cast_slice(self.indices.host())),
            IdWidth::I64 => Indices::I64(bytemuck::cast_slice(self.indices.host())),
        };
        Csc { indptr: bytemuck::cast_slice(self.indptr.host()), indices, original_ids: None, degrees: None }
    }

    /// The type of the ids in the lists.
    pub fn width(&self) -> IdWidth {
        self.width
    }

    /// The context in which the arrays are pinned.
    pub fn context(&self) -> &Arc<Context> {
        self.indptr.context()
    }

    pub(crate) fn indptr(&self) -> &PinnedArray {
        &self.indptr
    }

    pub(crate) fn indices(&self) -> &PinnedArray {
        &self.indices
    }

    /// The dataset's `indptr`, if the graph is the dataset's in another order.
    pub(crate) fn home(&self) -> Option<&PinnedArray> {
        self.home.as_ref()
    }

    pub(crate) fn weights(&self) -> Option<&PinnedArray> {
        self.weights.as_ref()
    }
}

fn no_numbers(what: &str, error: PodCastError) -> CudaError {
    CudaError::Refused(format!("{what} in pinned memory cannot be read as numbers: {error}"))
}

/// An array of a dataset for the device to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetArray {
    /// `indptr.npy`, int64.
    Indptr,
    /// `indices.npy`, in the width of the file.
    Indices,
    /// `weight.npy`, float32; empty if there is none.
    Weights,
}

impl DatasetArray {
    fn file(self) -> &'static str {
        match self {
            Self::Indptr => "indptr.npy",
            Self::Indices => "indices.npy",
            Self::Weights => "weight.npy",
        }
    }
}

/// One array of a dataset. It stays mapped while the dataset is open.
struct ArrayBytes {
    dataset: Arc<Dataset>,
    array: DatasetArray,
}

impl TableBytes for ArrayBytes {
    fn bytes(&self) -> &[u8] {
        let csc = self.dataset.csc();
        match (self.array, csc.indices) {
            (DatasetArray::Indptr, _) => bytemuck::cast_slice(csc.indptr),
            (DatasetArray::Weights, _) => bytemuck::cast_slice(self.dataset.weights().unwrap_or_default()),
            (DatasetArray::Indices, Indices::I32(ids)) => bytemuck::cast_slice(ids),
            (DatasetArray::Indices, Indices::I64(ids)) => bytemuck::cast_slice(ids),
        }
    }
}
