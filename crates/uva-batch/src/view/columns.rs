//! The input of a model: the arrays of a batch by key.

use std::collections::BTreeMap;

use bytemuck::Pod;
use uva_cuda::DeviceSlice;
use uva_graph::Labels;
use uva_sample::BlockSize;

use crate::{Column, ColumnKey, Element};

/// The memory of an array.
#[derive(Clone, Copy, Debug)]
pub enum ArrayMemory<'a> {
    /// In host memory.
    Host(&'a [u8]),
    /// In a GPU's memory.
    Device(DeviceSlice<'a>),
}

/// An array of a batch, in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct ColumnArray<'a> {
    /// Its bytes.
    pub memory: ArrayMemory<'a>,
    /// The type of its values.
    pub element: Element,
    /// Number of its rows, or of its values if it has one dimension.
    pub rows: usize,
    /// Values in a row; `None` if it has one dimension.
    pub width: Option<usize>,
}

/// A check on the GPU that a batch was complete when it was used: words that the writer of the batch writes last, and
/// their expected values.
#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    /// The words, 64 bits each.
    pub words: DeviceSlice<'a>,
    /// Places among the words, with the value of each in a complete batch.
    pub expected: [(usize, i64); 2],
}

/// A mini-batch: its sizes, and its arrays by [`ColumnKey`], borrowed from a slot ([`BatchView::columns`]) or from
/// other memory. All arrays are in host memory, or all on one GPU.
///
/// [`BatchView::columns`]: crate::BatchView::columns
#[derive(Clone, Debug, Default)]
pub struct BatchColumns<'a> {
    /// Seeds, padding included.
    pub seeds: usize,
    /// Input nodes, padding included: the sources of the last block.
    pub nodes: usize,
    /// Number of padding seeds, which are the last ones.
    pub padding: usize,
    /// The size of each layer's block, from the seeds outward. A batch of a hop set has no blocks.
    pub layers: Vec<BlockSize>,
    /// The proof that the batch was complete, for checks on the GPU; `None` for memory that cannot be reclaimed.
    pub proof: Option<Proof<'a>>,
    /// Its arrays.
    pub arrays: BTreeMap<ColumnKey, ColumnArray<'a>>,
}

impl<'a> BatchColumns<'a> {
    /// A batch of these sizes without padding and without arrays.
    #[must_use]
    pub fn new(seeds: usize, layers: Vec<BlockSize>) -> Self {
        let nodes = layers.last().map_or(seeds, |layer| layer.sources);
        Self { seeds, nodes, layers, ..Self::default() }
    }

    /// The array with this key; `None` if the batch does not have it.
    #[must_use]
    pub fn get(&self, key: impl Into<ColumnKey>) -> Option<ColumnArray<'a>> {
        self.arrays.get(&key.into()).copied()
    }

    /// Adds or replaces an array.
    #[must_use]
    pub fn with(mut self, key: impl Into<ColumnKey>, array: ColumnArray<'a>) -> Self {
        self.arrays.insert(key.into(), array);
        self
    }

    /// Removes an array.
    #[must_use]
    pub fn without(mut self, key: impl Into<ColumnKey>) -> Self {
        self.arrays.remove(&key.into());
        self
    }

    /// Adds labels of the seeds in host memory.
    #[must_use]
    pub fn with_labels(self, labels: Labels<'a>) -> Self {
        let array = match labels {
            Labels::Absent => return self.without(Column::Labels),
            Labels::Single(values) => ColumnArray::vector(values, Element::I64),
            Labels::Multi { classes, values } => {
                let rows = values.len() / classes.max(1);
                ColumnArray::table(values, Element::U8, rows, classes)
            }
            Labels::Regression { columns, values } => {
                let vector = ColumnArray::vector(values, Element::F32);
                ColumnArray { rows: values.len() / columns.unwrap_or(1).max(1), width: columns, ..vector }
            }
        };
        self.with(Column::Labels, array)
    }

    /// Whether its arrays are on a GPU.
    #[must_use]
    pub fn is_on_device(&self) -> bool {
        self.arrays.values().any(|array| matches!(array.memory, ArrayMemory::Device(_)))
    }
}

impl<'a> ColumnArray<'a> {
    /// A one-dimensional array in host memory. `element` is the type `T`.
    #[must_use]
    pub fn vector<T: Pod>(values: &'a [T], element: Element) -> Self {
        let memory = ArrayMemory::Host(bytemuck::cast_slice(values));
        Self { memory, element, rows: values.len(), width: None }
    }

    /// An array with rows of `width` values in host memory.
    #[must_use]
    pub fn table(bytes: &'a [u8], element: impl Into<Element>, rows: usize, width: usize) -> Self {
        Self { memory: ArrayMemory::Host(bytes), element: element.into(), rows, width: Some(width) }
    }

    /// Its bytes in host memory; `None` on a GPU.
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        match self.memory {
            ArrayMemory::Host(bytes) => Some(bytes),
            ArrayMemory::Device(_) => None,
        }
    }

    /// Labels in host memory; `None` on a GPU.
    #[must_use]
    pub fn labels(&self) -> Option<Labels<'a>> {
        self.host().map(|bytes| labels_of(values_of(bytes), self.element, self.width))
    }
}

/// Interprets a column of labels: int64 is one class per seed, a row of uint8 several classes, float32 numbers.
pub(super) fn labels_of(bytes: &[u8], element: Element, width: Option<usize>) -> Labels<'_> {
    match (element, width) {
        (Element::F32, columns) => Labels::Regression { columns, values: values_of(bytes) },
        (_, None) => Labels::Single(values_of(bytes)),
        (_, Some(classes)) => Labels::Multi { classes, values: bytes },
    }
}

/// Casts the bytes of a column to its values. Slots are page-aligned and offsets are multiples of 64. Only an empty
/// range may have any address, since a slot on a GPU returns no address for it.
pub(super) fn values_of<T: Pod>(bytes: &[u8]) -> &[T] {
    if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
}
