//! Checked lists of rows, which loops use without further checks.

use std::fmt;
use std::ops::Range;

/// The index of a row: i32 or i64.
pub trait Id: Copy + Send + Sync + 'static {
    /// The number; a negative number becomes one beyond any table.
    fn place(self) -> usize;

    /// Converts a number to an id. The caller ensures that the number fits.
    fn of(place: usize) -> Self;
}

impl Id for i32 {
    #[inline(always)]
    fn place(self) -> usize {
        self as u32 as usize
    }

    fn of(place: usize) -> Self {
        place as i32
    }
}

impl Id for i64 {
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }

    fn of(place: usize) -> Self {
        place as i64
    }
}

/// Why lists and their arrays are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListsError {
    /// There are no offsets.
    NoOffsets,
    /// Offsets do not rise from 0 to this number of indices.
    Offsets(usize),
    /// An index is not below this number of rows.
    Index(usize),
    /// The number of elements differs from that required by the lists.
    Rows {
        /// Elements that were given.
        given: usize,
        /// Required elements.
        wanted: usize,
    },
    /// The number of weights differs from that of edges.
    Weights {
        /// Weights that were given.
        given: usize,
        /// Edges, each of which needs a weight.
        edges: usize,
    },
    /// The number of weights of own rows differs from that of lists.
    OwnWeights {
        /// Weights that were given.
        given: usize,
        /// Lists, each of which needs a weight.
        lists: usize,
    },
    /// A row cannot be divided equally between the heads.
    Heads {
        /// Elements of a row.
        width: usize,
        /// Parts to divide it into.
        heads: usize,
    },
}

impl fmt::Display for ListsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOffsets => write!(formatter, "lists without offsets"),
            Self::Offsets(edges) => write!(formatter, "offsets of lists that do not rise from 0 to {edges}"),
            Self::Index(rows) => write!(formatter, "an index that is not among {rows} rows"),
            Self::Rows { given, wanted } => {
                write!(formatter, "{given} elements of rows, but {wanted} are expected")
            }
            Self::Weights { given, edges } => write!(formatter, "{given} weights for {edges} edges"),
            Self::OwnWeights { given, lists } => {
                write!(formatter, "{given} weights for the own rows of {lists} lists")
            }
            Self::Heads { width, heads } => {
                write!(formatter, "rows of {width} elements do not divide into {heads} heads")
            }
        }
    }
}

impl std::error::Error for ListsError {}

/// Lists over rows, checked: offsets never fall and end at the number of indices, each of which names a row.
// Invariant: the fields are private and set by `new` alone, so loops rely on this without further checks.
#[derive(Clone, Copy)]
pub struct Lists<'a, I> {
    offsets: &'a [I],
    indices: &'a [I],
    rows: usize,
}

impl<'a, I: Id> Lists<'a, I> {
    /// Checks lists, where list v is `indices[offsets[v]..offsets[v + 1]]`, over a table of `rows` rows.
    ///
    /// # Errors
    /// If offsets or indices are invalid.
    pub fn new(offsets: &'a [I], indices: &'a [I], rows: usize) -> Result<Self, ListsError> {
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return Err(ListsError::NoOffsets);
        };
        let falls = offsets.windows(2).fold(false, |falls, pair| falls | (pair[0].place() > pair[1].place()));
        if first.place() != 0 || last.place() != indices.len() || falls {
            return Err(ListsError::Offsets(indices.len()));
        }
        // Branch-free, so that it runs at the speed of memory.
        if indices.iter().fold(false, |outside, index| outside | (index.place() >= rows)) {
            return Err(ListsError::Index(rows));
        }
        Ok(Self { offsets, indices, rows })
    }

    /// The number of lists.
    #[allow(clippy::len_without_is_empty, reason = "not used")]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The indices of all lists, list by list.
    pub fn indices(&self) -> &'a [I] {
        self.indices
    }

    /// The edges of list `v`, as a range of the indices.
    #[inline(always)]
    pub fn edges(&self, v: usize) -> Range<usize> {
        self.offsets[v].place()..self.offsets[v + 1].place()
    }

    /// The row of an edge.
    #[inline(always)]
    pub fn row(&self, edge: usize) -> usize {
        self.indices[edge].place()
    }

    /// Checks that a table has the expected size: `rows` rows of `width` elements.
    pub(super) fn check_table(&self, given: usize, rows: usize, width: usize) -> Result<(), ListsError> {
        let wanted = rows.saturating_mul(width);
        if given == wanted { Ok(()) } else { Err(ListsError::Rows { given, wanted }) }
    }
}
