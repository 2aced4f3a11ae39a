//! Typed views of a dataset's arrays. They borrow their data and are cheap to copy.
//!
//! Every view can also be built over other arrays, as tests and library users do. Only [`Dataset`](crate::Dataset)
//! promises that its values have been checked.

use std::ops::Range;
use std::path::Path;

use crate::ElementType;

/// Neighbour ids, in the width of the file.
#[derive(Debug, Clone, Copy)]
pub enum Indices<'a> {
    /// 32-bit ids.
    I32(&'a [i32]),
    /// 64-bit ids.
    I64(&'a [i64]),
}

impl Indices<'_> {
    /// The number of ids.
    pub fn len(&self) -> usize {
        match self {
            Indices::I32(ids) => ids.len(),
            Indices::I64(ids) => ids.len(),
        }
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id at position `i`.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    #[inline]
    pub fn get(&self, i: usize) -> i64 {
        match self {
            Indices::I32(ids) => i64::from(ids[i]),
            Indices::I64(ids) => ids[i],
        }
    }

    /// Bytes per id: 4 or 8.
    pub fn id_bytes(&self) -> usize {
        match self {
            Indices::I32(_) => 4,
            Indices::I64(_) => 8,
        }
    }
}

/// What the time of an entry in the lists of a relation is. Times are in the user's unit.
#[derive(Debug, Clone, Copy)]
pub enum EntryTimes<'a> {
    /// That of its edge: a time for each, in the order of `indices`.
    Edges(&'a [i64]),
    /// That of its neighbour: a time for each node of the source type.
    Sources(&'a [i64]),
}

/// What the time of a seed is.
#[derive(Debug, Clone, Copy)]
pub enum SeedTimes<'a> {
    /// A time for each entry of the split.
    OfSplit(&'a [i64]),
    /// A time for each node of the type.
    OfNodes(&'a [i64]),
    /// One for all seeds.
    Same(i64),
}

impl SeedTimes<'_> {
    /// The time of the seed `node`, which is at `position` of its split.
    ///
    /// # Panics
    /// If there are no such entries.
    #[inline]
    pub fn of(&self, position: usize, node: i64) -> i64 {
        match self {
            SeedTimes::OfSplit(times) => times[position],
            SeedTimes::OfNodes(times) => times[node as usize],
            SeedTimes::Same(time) => *time,
        }
    }
}

/// A graph as compressed sparse columns: `indices[indptr[v]..indptr[v + 1]]` are the in-neighbours of node `v`,
/// whose features `v` aggregates.
///
/// In a typed graph these are the lists of one relation: `v` is of its destination type, and neighbours are of its source
/// type, whose number of nodes may be another.
#[derive(Debug, Clone, Copy)]
pub struct Csc<'a> {
    /// The bounds of each node's list; `nodes + 1` entries, the first 0, never falling, the last `edges`.
    pub indptr: &'a [i64],
    /// The lists, one after the other.
    pub indices: Indices<'a>,
    /// The id that each node had before the dataset was reordered; `None` if it was never reordered.
    pub original_ids: Option<&'a [i64]>,
    /// The in-degree of each node in the graph that this one was cut from, if lists are cut; `None` if every list is
    /// complete.
    pub degrees: Option<&'a [i32]>,
}

impl Csc<'_> {
    /// The number of nodes that own a list.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// The number of edges; both directions of an undirected edge count.
    #[inline]
    pub fn edges(&self) -> usize {
        self.indices.len()
    }

    /// The number of in-neighbours of `node` in this graph: the length of its list.
    ///
    /// # Panics
    /// If `node` is not below [`nodes`](Self::nodes).
    #[inline]
    pub fn degree(&self, node: usize) -> usize {
        (self.indptr[node + 1] - self.indptr[node]) as usize
    }

    /// The number of in-neighbours of `node` in the whole graph, of which this graph may be a part.
    ///
    /// # Panics
    /// If `node` is not below [`nodes`](Self::nodes).
    #[inline]
    pub fn whole_degree(&self, node: usize) -> usize {
        self.degrees.map_or_else(|| self.degree(node), |degrees| degrees[node] as usize)
    }
}

/// One feature row per node, or per edge, row after row, as opaque bytes.
#[derive(Debug, Clone, Copy)]
pub struct FeatureTable<'a> {
    /// `rows * dim` values, little-endian.
    pub bytes: &'a [u8],
    /// The number of rows.
    pub rows: usize,
    /// Values in a row.
    pub dim: usize,
    /// The element type of a value.
    pub element: ElementType,
}

impl FeatureTable<'_> {
    /// Bytes in a row.
    #[inline]
    pub fn row_bytes(&self) -> usize {
        self.dim * self.element.bytes()
    }
}

/// The feature rows of a relation's edges.
#[derive(Debug, Clone, Copy)]
pub struct EdgeRows<'a> {
    /// The rows, which other relations may have too.
    pub table: FeatureTable<'a>,
    /// The row of each edge, in the order of the lists; `None` if edge `i` has row `i`.
    pub row_of: Option<&'a [i64]>,
    /// The file of the rows.
    pub file: &'a Path,
}

/// The prediction targets of the nodes.
#[derive(Debug, Clone, Copy)]
pub enum Labels<'a> {
    /// The dataset has no `label.npy`.
    Absent,
    /// One class per node, −1 for none.
    Single(&'a [i64]),
    /// A row of `classes` zeros and ones per node.
    Multi {
        /// Values in a row.
        classes: usize,
        /// `nodes * classes` bytes.
        values: &'a [u8],
    },
    /// A row of numbers per node, for regression.
    Regression {
        /// Values in a row; `None` if one, in an array of one dimension.
        columns: Option<usize>,
        /// `nodes * columns` finite numbers.
        values: &'a [f32],
    },
}

impl<'a> Labels<'a> {
    /// All labels as bytes, row after row.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Labels::Absent => &[],
            Labels::Single(values) => bytemuck::cast_slice(values),
            Labels::Multi { values, .. } => values,
            Labels::Regression { values, .. } => bytemuck::cast_slice(values),
        }
    }

    /// Bytes per node's label: 8, or the number of classes if a node may have several, or 4 for each number. 0 without
    /// labels.
    pub fn row_bytes(&self) -> usize {
        match self {
            Labels::Absent => 0,
            Labels::Single(_) => 8,
            Labels::Multi { classes, .. } => *classes,
            Labels::Regression { columns, .. } => 4 * columns.unwrap_or(1),
        }
    }

    /// The labels of consecutive nodes.
    ///
    /// # Panics
    /// If there are no such nodes.
    #[must_use]
    pub fn of_nodes(&self, nodes: Range<usize>) -> Labels<'a> {
        match *self {
            Labels::Absent => Labels::Absent,
            Labels::Single(values) => Labels::Single(&values[nodes]),
            Labels::Multi { classes, values } => {
                Labels::Multi { classes, values: &values[nodes.start * classes..nodes.end * classes] }
            }
            Labels::Regression { columns, values } => {
                let width = columns.unwrap_or(1);
                Labels::Regression { columns, values: &values[nodes.start * width..nodes.end * width] }
            }
        }
    }

    /// Whether the dataset has labels. A single node may still have no label.
    pub fn are_there(&self) -> bool {
        !matches!(self, Labels::Absent)
    }

    /// Numbers to predict for each node; `None` unless they are for regression.
    pub fn regression_columns(&self) -> Option<usize> {
        match self {
            Labels::Regression { columns, .. } => Some(columns.unwrap_or(1)),
            Labels::Absent | Labels::Single(_) | Labels::Multi { .. } => None,
        }
    }
}
