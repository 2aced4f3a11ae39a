//! Rows of several hops instead of a graph: the view of a hop set in a run.

use std::ops::Range;
use std::path::{Path, PathBuf};

use uva_mem::FileState;

use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::storage::arrays::label_array::LabelArray;
use crate::storage::arrays::place::ArrayDirectory;
use crate::storage::verify;
use crate::{ElementType, GraphError, Meta, Metagraph, Split};

/// A hop set whose files are open and have the shapes of its description. Passed to
/// [`Dataset::of_hops`](crate::Dataset::of_hops).
#[derive(Debug)]
pub struct HopRows {
    /// The directory, as passed by the caller.
    pub path: PathBuf,
    /// A name for messages.
    pub name: String,
    /// Identifier of the content.
    pub fingerprint: String,
    /// The number of classes, for labels with one class per node.
    pub classes: usize,
    /// Features per row of one hop.
    pub dim: usize,
    /// The element type.
    pub element: ElementType,
    /// The node of each row, int64 \[rows\].
    pub nodes: NpyArray,
    /// The labels of the rows, in a dataset's format.
    pub labels: Option<NpyArray>,
    /// The rows of the train, valid and test split.
    pub splits: [Range<usize>; 3],
    /// The files that hold the hops.
    pub arrays: Vec<NpyArray>,
    /// The location of each hop in `arrays`; the features themselves come first.
    pub hops: Vec<HopPlace>,
    /// The number of operators. The hops after the first are divided equally among the operators, one operator after
    /// the other.
    pub operators: usize,
}

/// Location of the rows of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopPlace {
    /// Index of the array with the rows.
    pub array: usize,
    /// Byte offset of the first row, from the first element of the array.
    pub first: usize,
    /// Bytes from the start of a row to the start of the next.
    pub stride: usize,
}

/// A hop set with checked labels.
#[derive(Debug)]
pub(crate) struct HopFiles {
    pub(crate) name: String,
    pub(crate) fingerprint: String,
    pub(crate) classes: usize,
    pub(crate) dim: usize,
    pub(crate) element: ElementType,
    pub(crate) nodes: TypedArray<i64>,
    pub(crate) labels: LabelArray,
    pub(super) splits: [Range<usize>; 3],
    arrays: Vec<NpyArray>,
    hops: Vec<HopPlace>,
    operators: usize,
    /// Always the default, since a hop set has no `meta.json`.
    pub(crate) meta: Meta,
    pub(crate) metagraph: Metagraph,
}

impl HopFiles {
    /// Checks the shape of the labels and, with `values`, each of them.
    pub(crate) fn of(rows: HopRows, values: bool) -> Result<HopFiles, GraphError> {
        let HopRows { path, name, fingerprint, classes, dim, element, nodes, labels, .. } = rows;
        let nodes = TypedArray::new(nodes, NpyType::I64)?;
        let labels = LabelArray::of(labels, nodes.values().len(), None, &ArrayDirectory::of_dataset(path))?;
        if values {
            verify::labels(&labels, Some(classes as u64))?;
        }
        let classes = match &labels {
            LabelArray::Single(_) => classes,
            LabelArray::Multi { classes, .. } => *classes,
            LabelArray::Absent | LabelArray::Regression { .. } => 0,
        };
        let HopRows { splits, arrays, hops, operators, .. } = rows;
        let meta = Meta::default();
        Ok(Self {
            name,
            fingerprint,
            classes,
            dim,
            element,
            nodes,
            labels,
            splits,
            arrays,
            hops,
            operators,
            meta,
            metagraph: Metagraph::of_nodes_alone(),
        })
    }
}

/// A view of the rows of a hop set.
#[derive(Clone, Copy, Debug)]
pub struct Hops<'a> {
    files: &'a HopFiles,
}

impl<'a> Hops<'a> {
    pub(crate) fn of(files: &'a HopFiles) -> Hops<'a> {
        Hops { files }
    }

    /// The number of hops of a row, including the features themselves.
    #[must_use]
    pub fn count(self) -> usize {
        self.files.hops.len()
    }

    /// The number of operators.
    #[must_use]
    pub fn operators(self) -> usize {
        self.files.operators
    }

    /// The number of hops per operator, excluding the features themselves.
    #[must_use]
    pub fn per_operator(self) -> usize {
        (self.count() - 1) / self.files.operators.max(1)
    }

    /// The rows of a split.
    #[must_use]
    pub fn rows_of(self, split: Split) -> Range<usize> {
        self.files.splits[split as usize].clone()
    }

    /// The node of each row in the source dataset of the hop set.
    #[must_use]
    pub fn nodes(self) -> &'a [i64] {
        self.files.nodes.values()
    }

    /// Bytes from a row to the next in the files, which hold several hops side by side or a single one.
    #[must_use]
    pub fn row_stride(self) -> usize {
        self.files.hops.first().map_or(0, |hop| hop.stride)
    }

    /// The location of the rows of one hop.
    ///
    /// # Panics
    /// If there is not such a hop.
    #[must_use]
    pub fn place(self, hop: usize) -> HopPlace {
        self.files.hops[hop]
    }

    /// The file with index `array` in a [`HopPlace`], and the byte offset of its elements.
    ///
    /// # Panics
    /// If there is not such a file.
    #[must_use]
    pub fn file(self, array: usize) -> (&'a Path, u64) {
        let array = &self.files.arrays[array];
        (array.path(), array.header().data_offset as u64)
    }

    /// The state of that file when it was opened.
    ///
    /// # Panics
    /// If there is not such a file.
    #[must_use]
    pub fn state(self, array: usize) -> FileState {
        self.files.arrays[array].file().state()
    }

    /// All files, in the order of their indices.
    pub(crate) fn arrays(self) -> impl Iterator<Item = &'a NpyArray> {
        self.files.arrays.iter()
    }

    /// Bytes per row of a hop.
    #[must_use]
    pub fn row_bytes(self) -> usize {
        self.files.dim * self.files.element.bytes()
    }

    /// The stored bytes of these rows in each file, row after row: all hops of a row, or one hop.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn as_stored(self, rows: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let stride = self.row_stride();
        self.files.arrays.iter().map(move |array| &array.bytes()[rows.start * stride..rows.end * stride])
    }

    /// The rows of one hop.
    ///
    /// # Panics
    /// If there is not such a hop.
    #[must_use]
    pub fn table(self, hop: usize) -> HopTable<'a> {
        let HopPlace { array, first, stride } = self.files.hops[hop];
        let bytes = &self.files.arrays[array].bytes()[first..];
        HopTable { bytes, row_bytes: self.row_bytes(), stride }
    }
}

/// The rows of one hop.
#[derive(Clone, Copy, Debug)]
pub struct HopTable<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
    stride: usize,
}

impl<'a> HopTable<'a> {
    /// Whether rows are contiguous.
    #[must_use]
    pub fn is_dense(self) -> bool {
        self.stride == self.row_bytes
    }

    /// One row.
    ///
    /// # Panics
    /// If there is not such a row.
    #[must_use]
    pub fn row(self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.stride..][..self.row_bytes]
    }

    /// Several rows of a [dense](Self::is_dense) table.
    ///
    /// # Panics
    /// If there are no such rows.
    #[must_use]
    pub fn rows(self, rows: Range<usize>) -> &'a [u8] {
        &self.bytes[rows.start * self.row_bytes..rows.end * self.row_bytes]
    }
}
