//! Rows of several hops in place of a graph: what a run sees of a hop set.

use std::ops::Range;
use std::path::{Path, PathBuf};

use uva_mem::FileState;

use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::storage::graph_files::LabelArray;
use crate::storage::verify;
use crate::{ElementType, GraphError, Meta, Split};

/// A hop set whose files are open and of the shapes that its description says:
/// [`Dataset::of_hops`](crate::Dataset::of_hops) takes it.
#[derive(Debug)]
pub struct HopRows {
    /// The directory, as it was given.
    pub path: PathBuf,
    /// A name for messages.
    pub name: String,
    /// Identifies the content.
    pub fingerprint: String,
    /// Classes of labels that are one a node.
    pub classes: usize,
    /// Features of a row of one hop.
    pub dim: usize,
    /// The element type.
    pub element: ElementType,
    /// The node of each row, int64 \[rows\].
    pub nodes: NpyArray,
    /// The labels of the rows, as a dataset's.
    pub labels: Option<NpyArray>,
    /// The rows of train, valid and test.
    pub splits: [Range<usize>; 3],
    /// The files that hold the hops.
    pub arrays: Vec<NpyArray>,
    /// Where each hop lies in them, the features themselves first.
    pub hops: Vec<HopPlace>,
    /// How many operators there are. Each has as many of the hops behind the first, one operator's behind the other's.
    pub operators: usize,
}

/// Where the rows of a hop lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopPlace {
    /// Which of the arrays holds them.
    pub array: usize,
    /// The byte among its elements at which the first row begins.
    pub first: usize,
    /// Bytes from the begin of a row to that of the next.
    pub stride: usize,
}

/// The same, its labels checked.
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
    /// A hop set has none: the default.
    pub(crate) meta: Meta,
}

impl HopFiles {
    /// Checks the shape of the labels and, with `values`, each of them.
    pub(crate) fn of(rows: HopRows, values: bool) -> Result<HopFiles, GraphError> {
        let HopRows { path, name, fingerprint, classes, dim, element, nodes, labels, .. } = rows;
        let nodes = TypedArray::new(nodes, NpyType::I64)?;
        let labels = LabelArray::of(labels, nodes.values().len(), &Meta::default(), &path)?;
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
        })
    }
}

/// The rows of a hop set, lent.
#[derive(Clone, Copy, Debug)]
pub struct Hops<'a> {
    files: &'a HopFiles,
}

impl<'a> Hops<'a> {
    pub(crate) fn of(files: &'a HopFiles) -> Hops<'a> {
        Hops { files }
    }

    /// Hops of a row, the features themselves among them.
    #[must_use]
    pub fn count(self) -> usize {
        self.files.hops.len()
    }

    /// How many operators there are.
    #[must_use]
    pub fn operators(self) -> usize {
        self.files.operators
    }

    /// Hops that each operator has, the features themselves not counted.
    #[must_use]
    pub fn per_operator(self) -> usize {
        (self.count() - 1) / self.files.operators.max(1)
    }

    /// The rows of a split.
    #[must_use]
    pub fn rows_of(self, split: Split) -> Range<usize> {
        self.files.splits[split as usize].clone()
    }

    /// The node of each row in the dataset that the hop set was made of.
    #[must_use]
    pub fn nodes(self) -> &'a [i64] {
        self.files.nodes.values()
    }

    /// Bytes from a row to the next in the files: several hops lie side by side, or one alone.
    #[must_use]
    pub fn row_stride(self) -> usize {
        self.files.hops.first().map_or(0, |hop| hop.stride)
    }

    /// Where the rows of one hop lie.
    ///
    /// # Panics
    /// If there is no such hop.
    #[must_use]
    pub fn place(self, hop: usize) -> HopPlace {
        self.files.hops[hop]
    }

    /// The file that has this number in a [`HopPlace`], and the byte at which its elements begin.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn file(self, array: usize) -> (&'a Path, u64) {
        let array = &self.files.arrays[array];
        (array.path(), array.header().data_offset as u64)
    }

    /// The state in which that file was opened.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn state(self, array: usize) -> FileState {
        self.files.arrays[array].file().state()
    }

    /// All files, each with the state in which it was opened.
    pub(crate) fn all_files(self) -> impl Iterator<Item = (&'a Path, FileState)> {
        self.files.arrays.iter().map(|array| (array.path(), array.file().state()))
    }

    /// Bytes of one row of a hop.
    #[must_use]
    pub fn row_bytes(self) -> usize {
        self.files.dim * self.files.element.bytes()
    }

    /// These rows as each file has them, one behind the other: all hops of a row, or one.
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
    /// If there is no such hop.
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
    /// Whether a row begins where the one before ends.
    #[must_use]
    pub fn is_dense(self) -> bool {
        self.stride == self.row_bytes
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
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
