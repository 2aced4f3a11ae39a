//! Rows that are kept nearer than their table: which ones, where they lie, and how often they were asked for.
//!
//! Every cache here is a direct map: a 32-bit slot for each row of the table (negative: not cached) and a dense array
//! of rows. A look-up is one read; the map costs 4 bytes a row of the table, cached or not ([`map_bytes`]).
//!
//! | cache | what is in it | source |
//! |---|---|---|
//! | [`CachedRows`] | the rows it was made with | PaGraph, GNNLab and others differ only in how they choose them |
//! | [`FifoCache`] | the rows that were missed last | BGL (Liu et al., NSDI 2023), §3.2 |

mod fifo;
mod pages;

pub use fifo::FifoCache;
pub(crate) use fifo::FifoSlots;
use pages::zeroed_pages;
use uva_mem::ZeroedPages;

use crate::{GatherError, HostGather, RowGather};

/// The most rows a cache can have: slots are int32.
pub const MOST_CACHED_ROWS: usize = i32::MAX as usize;

/// No slot, in a slot map.
const NO_SLOT: i32 = -1;

/// Bytes of the slot map of a table of so many rows.
pub fn map_bytes(table_rows: usize) -> u64 {
    4 * table_rows as u64
}

/// How many rows were asked for, and how many of them were in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Rows of the last gather.
    pub last_rows: u64,
    /// How many of those were cached.
    pub last: u64,
    /// Rows of all gathers so far.
    pub total_rows: u64,
    /// How many of those were cached.
    pub total: u64,
}

impl Hits {
    /// Takes one gather in.
    pub(crate) fn count(&mut self, rows: u64, hits: u64) {
        (self.last_rows, self.last) = (rows, hits);
        self.total_rows += rows;
        self.total += hits;
    }

    /// The share of all rows so far that were cached; 0 when there were none.
    pub fn rate(&self) -> f64 {
        if self.total_rows == 0 { 0.0 } else { self.total as f64 / self.total_rows as f64 }
    }
}

/// The slot of each row of a table, in host memory: [`NO_SLOT`], or one below the number of slots that it was made for.
#[derive(Debug)]
pub(crate) struct SlotMap {
    pages: ZeroedPages,
}

impl SlotMap {
    /// No row has a slot.
    pub fn new(table_rows: usize) -> Result<Self, GatherError> {
        let mut pages = zeroed_pages(4, table_rows)?;
        // All ones is -1.
        pages.bytes_mut().fill(0xff);
        Ok(Self { pages })
    }

    pub fn slots(&self) -> &[i32] {
        // From the beginning of a page, so aligned.
        bytemuck::cast_slice(self.pages.bytes())
    }

    /// As it lies in memory.
    pub fn bytes(&self) -> &[u8] {
        self.pages.bytes()
    }

    fn slots_mut(&mut self) -> &mut [i32] {
        bytemuck::cast_slice_mut(self.pages.bytes_mut())
    }

    /// Gives the `i`-th of `ids` slot `i`.
    ///
    /// # Errors
    /// [`GatherError::IdOutOfRange`], [`GatherError::RepeatedId`], [`GatherError::TooManyCached`].
    pub fn assign(&mut self, ids: &[i64]) -> Result<(), GatherError> {
        check_capacity(ids.len())?;
        let map = self.slots_mut();
        let rows = map.len();
        for (position, &id) in ids.iter().enumerate() {
            let place = usize::try_from(id).ok().and_then(|id| map.get_mut(id));
            let place = place.ok_or(GatherError::IdOutOfRange { position, id, rows })?;
            if *place != NO_SLOT {
                return Err(GatherError::RepeatedId { position, id });
            }
            *place = position as i32;
        }
        Ok(())
    }
}

/// Refuses a number of slots that 32 bits don't count.
pub(crate) fn check_capacity(rows: usize) -> Result<(), GatherError> {
    if rows > MOST_CACHED_ROWS { Err(GatherError::TooManyCached { rows }) } else { Ok(()) }
}

/// Rows of a table, chosen once and copied: a static cache in host memory.
///
/// It is a copy of its own, so the table's rows must not change while it is used.
#[derive(Debug)]
pub struct CachedRows {
    map: SlotMap,
    rows: ZeroedPages,
    row_bytes: usize,
    count: usize,
}

impl CachedRows {
    /// Copies the rows `ids` of `table`, rows of `row_bytes` bytes (at least 1), by `threads` threads. In any order,
    /// none at all is fine.
    ///
    /// # Errors
    /// As [`HostGather::new`]; [`GatherError::IdOutOfRange`] and [`GatherError::RepeatedId`] for the ids;
    /// [`GatherError::TooManyCached`] above [`MOST_CACHED_ROWS`]; [`GatherError::CacheMemory`].
    pub fn new(table: &[u8], row_bytes: usize, ids: &[i64], threads: usize) -> Result<Self, GatherError> {
        let mut gather = HostGather::new(table, row_bytes, threads)?;
        let mut map = SlotMap::new(gather.rows())?;
        map.assign(ids)?;
        let mut rows = zeroed_pages(row_bytes, ids.len())?;
        gather.gather(ids, rows.bytes_mut())?;
        Ok(Self { map, rows, row_bytes, count: ids.len() })
    }

    /// How many rows are cached.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the cached rows; the map comes on top: [`map_bytes`].
    pub fn bytes(&self) -> u64 {
        self.rows.bytes().len() as u64
    }

    /// Whether row `id` of the table is cached.
    pub fn contains(&self, id: i64) -> bool {
        usize::try_from(id).ok().and_then(|id| self.map.slots().get(id)).is_some_and(|&slot| slot != NO_SLOT)
    }
}

/// A cache in host memory, for [`HostGather::with_cache`].
#[derive(Debug)]
pub enum RowCache {
    /// Chosen once.
    Static(CachedRows),
    /// What was missed last.
    Fifo(FifoCache),
}

impl From<CachedRows> for RowCache {
    fn from(cache: CachedRows) -> Self {
        Self::Static(cache)
    }
}

impl From<FifoCache> for RowCache {
    fn from(cache: FifoCache) -> Self {
        Self::Fifo(cache)
    }
}

/// What the copying loop needs of a cache. Every slot in `map` is a row of `rows`.
#[derive(Clone, Copy)]
pub(crate) struct CacheView<'c> {
    pub map: &'c [i32],
    pub rows: &'c [u8],
}

impl RowCache {
    /// Rows of the table that it is for, and bytes of each.
    pub(crate) fn shape(&self) -> (usize, usize) {
        match self {
            Self::Static(cache) => (cache.map.slots().len(), cache.row_bytes),
            Self::Fifo(cache) => cache.shape(),
        }
    }

    pub(crate) fn view(&self) -> CacheView<'_> {
        match self {
            Self::Static(cache) => CacheView { map: cache.map.slots(), rows: cache.rows.bytes() },
            Self::Fifo(cache) => cache.view(),
        }
    }
}
