//! Lists of rows that loops may follow without looking again.

use std::fmt;
use std::ops::Range;

/// A number that names a row: i32 or i64.
pub trait Id: Copy + Send + Sync + 'static {
    /// The number; one below zero becomes one that no table has.
    fn place(self) -> usize;

    /// The other way. The caller knows that the number fits.
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

/// Why lists and the arrays beside them do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListsError {
    /// There is not even a first offset.
    NoOffsets,
    /// Offsets have to rise from 0 to this number of indices.
    Offsets(usize),
    /// An index is not below this number of rows.
    Index(usize),
    /// So many elements where the lists ask for another number.
    Rows {
        /// Elements that were given.
        given: usize,
        /// Elements that they ask for.
        wanted: usize,
    },
    /// So many weights for so many edges.
    Weights {
        /// Weights that were given.
        given: usize,
        /// One for each of these.
        edges: usize,
    },
    /// So many weights for the own rows of so many lists.
    OwnWeights {
        /// Weights that were given.
        given: usize,
        /// One for each of these.
        lists: usize,
    },
    /// A row of so many elements cannot be divided between so many heads.
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
            Self::Index(rows) => write!(formatter, "an index of a row among {rows} that is none"),
            Self::Rows { given, wanted } => {
                write!(formatter, "{given} elements of rows where {wanted} belong")
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
// Invariant: the fields are private and set by `new` alone, so loops rely on this without a check of their own.
#[derive(Clone, Copy)]
pub struct Lists<'a, I> {
    offsets: &'a [I],
    indices: &'a [I],
    rows: usize,
}

impl<'a, I: Id> Lists<'a, I> {
    /// List v is `indices[offsets[v]..offsets[v + 1]]`, and names rows of a table of `rows` rows.
    ///
    /// # Errors
    /// If that is not so.
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

    /// How many lists there are.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What all lists hold together, list by list.
    pub fn indices(&self) -> &'a [I] {
        self.indices
    }

    /// The edges of list `v`, as a range of the indices.
    #[inline(always)]
    pub fn edges(&self, v: usize) -> Range<usize> {
        self.offsets[v].place()..self.offsets[v + 1].place()
    }

    /// The row that an edge names.
    #[inline(always)]
    pub fn row(&self, edge: usize) -> usize {
        self.indices[edge].place()
    }

    /// Refuses a table of another size: `rows` rows of `width` elements.
    pub(super) fn check_table(&self, given: usize, rows: usize, width: usize) -> Result<(), ListsError> {
        let wanted = rows.saturating_mul(width);
        if given == wanted { Ok(()) } else { Err(ListsError::Rows { given, wanted }) }
    }
}
