//! A batch as a model takes it: its arrays by key.

use std::collections::BTreeMap;

use bytemuck::Pod;
use uva_cuda::DeviceSlice;
use uva_graph::Labels;
use uva_sample::LayerCounts;

use crate::{Column, ColumnKey, Element};

/// The memory of an array.
#[derive(Clone, Copy, Debug)]
pub enum ArrayMemory<'a> {
    /// In host memory.
    Host(&'a [u8]),
    /// In a GPU's memory.
    Device(DeviceSlice<'a>),
}

/// An array of a batch, its rows one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct ColumnArray<'a> {
    /// Its bytes.
    pub memory: ArrayMemory<'a>,
    /// The type of its values.
    pub element: Element,
    /// Its rows; values where it has one dimension.
    pub rows: usize,
    /// Values in a row; `None` where it has one dimension.
    pub width: Option<usize>,
}

/// What a GPU compares to see whether a batch was whole when it used it: words that the writer of the batch writes last,
/// and their values.
#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    /// The words, 64 bits each.
    pub words: DeviceSlice<'a>,
    /// Places among the words, and the value of each beside a whole batch.
    pub expected: [(usize, i64); 2],
}

/// A mini-batch: its sizes, and its arrays by [`ColumnKey`], borrowed from a slot ([`BatchView::columns`]) or from
/// anywhere else. All arrays are in host memory, or all on one GPU.
///
/// [`BatchView::columns`]: crate::BatchView::columns
#[derive(Clone, Debug, Default)]
pub struct BatchColumns<'a> {
    /// Seeds, padding included.
    pub seeds: usize,
    /// Input nodes, padding included: the sources of the last block.
    pub nodes: usize,
    /// How many of the seeds are padding: the last ones.
    pub padding: usize,
    /// The size of each layer's block, that at the seeds first. A batch of a hop set has no blocks.
    pub layers: Vec<LayerCounts>,
    /// Shows on the GPU that the batch was whole; `None` for memory that cannot be taken away.
    pub proof: Option<Proof<'a>>,
    /// Its arrays.
    pub arrays: BTreeMap<ColumnKey, ColumnArray<'a>>,
}

impl<'a> BatchColumns<'a> {
    /// A batch of these sizes without padding, and without arrays yet.
    #[must_use]
    pub fn new(seeds: usize, layers: Vec<LayerCounts>) -> Self {
        let nodes = layers.last().map_or(seeds, |layer| layer.sources);
        Self { seeds, nodes, layers, ..Self::default() }
    }

    /// The array with this key; `None` where the batch has none.
    #[must_use]
    pub fn get(&self, key: impl Into<ColumnKey>) -> Option<ColumnArray<'a>> {
        self.arrays.get(&key.into()).copied()
    }

    /// The same with an array added or replaced.
    #[must_use]
    pub fn with(mut self, key: impl Into<ColumnKey>, array: ColumnArray<'a>) -> Self {
        self.arrays.insert(key.into(), array);
        self
    }

    /// The same without an array.
    #[must_use]
    pub fn without(mut self, key: impl Into<ColumnKey>) -> Self {
        self.arrays.remove(&key.into());
        self
    }

    /// The same with labels of its seeds in host memory.
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
    /// Values in host memory, in one dimension. `element` is the type `T`.
    #[must_use]
    pub fn vector<T: Pod>(values: &'a [T], element: Element) -> Self {
        let memory = ArrayMemory::Host(bytemuck::cast_slice(values));
        Self { memory, element, rows: values.len(), width: None }
    }

    /// Rows of `width` values in host memory.
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

/// A column of labels as labels: int64 is one class a seed, a row of uint8 several, float32 numbers.
pub(super) fn labels_of(bytes: &[u8], element: Element, width: Option<usize>) -> Labels<'_> {
    match (element, width) {
        (Element::F32, columns) => Labels::Regression { columns, values: values_of(bytes) },
        (_, None) => Labels::Single(values_of(bytes)),
        (_, Some(classes)) => Labels::Multi { classes, values: bytes },
    }
}

/// The bytes of a column as its values. Slots are page-aligned and offsets multiples of 64; only an empty range may begin
/// anywhere, since a slot on a GPU lends none of its addresses for it.
pub(super) fn values_of<T: Pod>(bytes: &[u8]) -> &[T] {
    if bytes.is_empty() { &[] } else { bytemuck::cast_slice(bytes) }
}
