//! The graph's arrays, where both the device and the CPU can read them.

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

    /// Where the device finds the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.table.address() + self.bytes.start as u64
    }

    /// The bytes, as the CPU reads them.
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
}

impl GraphSource {
    /// A graph whose lists are `indices[indptr[v]..indptr[v + 1]]`: `indptr` is int64 with an entry a node and one more,
    /// `indices` of the width given.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arrays that are no whole entries, not aligned to them, or pinned for different devices.
    pub fn new(indptr: PinnedArray, indices: PinnedArray, width: IdWidth) -> Result<Self, CudaError> {
        let refuse = |what: &str, error: PodCastError| {
            CudaError::Refused(format!("{what} in pinned memory cannot be read as numbers: {error}"))
        };
        bytemuck::try_cast_slice::<u8, i64>(indptr.host()).map_err(|error| refuse("indptr", error))?;
        let whole = match width {
            IdWidth::I32 => bytemuck::try_cast_slice::<u8, i32>(indices.host()).map(|_| ()),
            IdWidth::I64 => bytemuck::try_cast_slice::<u8, i64>(indices.host()).map(|_| ()),
        };
        whole.map_err(|error| refuse("indices", error))?;
        if !Arc::ptr_eq(indptr.context(), indices.context()) {
            return Err(CudaError::Refused("indptr and indices are pinned in different contexts".to_owned()));
        }
        Ok(Self { indptr, indices, width })
    }

    /// Pins the graph of an open dataset, in place where that can be. `options.what` is replaced by the arrays' names.
    ///
    /// # Errors
    /// As [`PinnedTable::new`].
    pub fn of_dataset(
        context: &Arc<Context>,
        dataset: &Arc<Dataset>,
        options: &PinOptions,
    ) -> Result<Self, CudaError> {
        let pin = |part: Part, file: &str| {
            let what = format!("{} of {}", file, dataset.path().display());
            let bytes: Arc<dyn TableBytes> = Arc::new(PartBytes { dataset: Arc::clone(dataset), part });
            let table = PinnedTable::new(context, bytes, &PinOptions { what, ..options.clone() })?;
            Ok::<_, CudaError>(PinnedArray::whole(Arc::new(table)))
        };
        let width = match dataset.csc().indices {
            Indices::I32(_) => IdWidth::I32,
            Indices::I64(_) => IdWidth::I64,
        };
        Self::new(pin(Part::Indptr, "indptr.npy")?, pin(Part::Indices, "indices.npy")?, width)
    }

    /// The arrays, as the CPU reads them; no original ids.
    pub fn csc(&self) -> Csc<'_> {
        let indices = match self.width {
            IdWidth::I32 => Indices::I32(bytemuck::cast_slice(self.indices.host())),
            IdWidth::I64 => Indices::I64(bytemuck::cast_slice(self.indices.host())),
        };
        Csc { indptr: bytemuck::cast_slice(self.indptr.host()), indices, original_ids: None }
    }

    /// The type of the ids in the lists.
    pub fn width(&self) -> IdWidth {
        self.width
    }

    /// The context that the arrays are pinned in.
    pub fn context(&self) -> &Arc<Context> {
        self.indptr.context()
    }

    pub(crate) fn indptr(&self) -> &PinnedArray {
        &self.indptr
    }

    pub(crate) fn indices(&self) -> &PinnedArray {
        &self.indices
    }
}

#[derive(Clone, Copy)]
enum Part {
    Indptr,
    Indices,
}

/// One array of a dataset, which is mapped for as long as it is open.
struct PartBytes {
    dataset: Arc<Dataset>,
    part: Part,
}

impl TableBytes for PartBytes {
    fn bytes(&self) -> &[u8] {
        let csc = self.dataset.csc();
        match (self.part, csc.indices) {
            (Part::Indptr, _) => bytemuck::cast_slice(csc.indptr),
            (Part::Indices, Indices::I32(ids)) => bytemuck::cast_slice(ids),
            (Part::Indices, Indices::I64(ids)) => bytemuck::cast_slice(ids),
        }
    }
}
