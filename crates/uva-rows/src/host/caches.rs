//! Caches of rows in host memory.

use std::sync::Arc;

use rayon::prelude::*;
use uva_cuda::kernels::cache::CacheInsertion;
use uva_mem::ZeroedPages;

use uva_ops::rows::{CachedTable, NarrowFloat};

use super::mapped_table::MappedTable;
use super::place::{HostPlace, HostSource, HostTable, SumPlace};
use crate::cache::eviction::{EvictingSlots, Eviction};
use crate::cache::{SlotMap, zeroed_pages};
use crate::error::GatherError;
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};
use crate::stack::{Cached, SummedValues};

/// The size of insertions in bytes from which several threads copy them.
const PARALLEL_FROM: usize = 1 << 20;

/// Insertions that a thread takes at a time.
const TASK: usize = 256;

/// Rows that a cache is filled with at a time.
const FILLED: usize = 1 << 20;

/// Rows of a table, chosen once and copied: a static cache in host memory.
///
/// The rows are copies, so the table must not change while the cache is used.
#[derive(Debug)]
pub struct CachedRows {
    map: SlotMap,
    rows: ZeroedPages,
    row_bytes: usize,
    count: usize,
}

impl CachedRows {
    /// Copies the rows `ids` of `table`, rows of `row_bytes` bytes (at least 1), by `threads` threads. The ids may be
    /// in any order, and empty.
    ///
    /// # Errors
    /// As [`MappedTable::new`]; [`GatherError::IdOutOfRange`] and [`GatherError::RepeatedId`] for the ids;
    /// `GatherError::TooManyCached` above `MOST_CACHED_ROWS`; `GatherError::CacheMemory`.
    pub fn new(table: &[u8], row_bytes: usize, ids: &[i64], threads: usize) -> Result<Self, GatherError> {
        Self::read(&mut MappedTable::new(table, row_bytes, threads)?, ids)
    }

    /// Copies the rows `ids` of the table that `source` reads.
    ///
    /// # Errors
    /// As [`new`](Self::new) for the ids, and those of the source.
    pub fn read(source: &mut impl HostSource, ids: &[i64]) -> Result<Self, GatherError> {
        let row_bytes = source.row_bytes();
        let mut map = SlotMap::new(source.rows())?;
        map.assign(ids)?;
        let mut rows = zeroed_pages(row_bytes, ids.len())?;
        // A source plans its reads for all rows of a call, which takes memory per row.
        for (ids, rows) in ids.chunks(FILLED).zip(rows.bytes_mut().chunks_mut(FILLED * row_bytes.max(1))) {
            source.fill(ids, HostPlace::new(rows))?;
        }
        Ok(Self { map, rows, row_bytes, count: ids.len() })
    }

    /// The number of cached rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no rows are cached.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the cached rows; excludes the map: `map_bytes`.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes().len() as u64
    }

    /// The number of fills that [`read`](Self::read) makes for `rows` rows.
    pub(super) fn fills(rows: usize) -> usize {
        rows.div_ceil(FILLED)
    }

    /// The slot map, and the rows in the slots. Every slot in the map is one of the rows.
    pub(super) fn view(&self) -> (&[i32], &[u8]) {
        (self.map.slots(), self.rows.bytes())
    }

    /// The row of this id, if it is cached.
    pub(super) fn row(&self, id: i64) -> Option<&[u8]> {
        let slot = usize::try_from(self.map.slots()[id as usize]).ok()?;
        Some(&self.rows.bytes()[slot * self.row_bytes..][..self.row_bytes])
    }

    /// Checks that the table has the expected shape.
    pub(super) fn check_table(&self, table_rows: usize, table_row_bytes: usize) -> Result<(), GatherError> {
        check_shape((self.map.slots().len(), self.row_bytes), table_rows, table_row_bytes)
    }

    /// Whether row `id` of the table is cached.
    pub fn contains(&self, id: i64) -> bool {
        usize::try_from(id).ok().and_then(|id| self.map.slots().get(id)).is_some_and(|&slot| slot >= 0)
    }
}

/// A dynamic cache in host memory: after each gather, missed rows are inserted, and the policy chooses the evicted
/// rows. Initially empty.
#[derive(Debug)]
pub struct EvictingRows {
    slots: Box<dyn EvictingSlots>,
    rows: ZeroedPages,
    row_bytes: usize,
}

impl EvictingRows {
    /// Creates a cache of `capacity` rows of `row_bytes` bytes (at least 1), but at most `table_rows`, the number of
    /// rows of the table. With a capacity of 0 no lookup hits.
    ///
    /// # Errors
    /// [`GatherError::TooManyCached`] above [`MOST_CACHED_ROWS`](crate::cache::MOST_CACHED_ROWS);
    /// [`GatherError::CacheMemory`].
    pub fn new(
        policy: &Eviction,
        table_rows: usize,
        row_bytes: usize,
        capacity: usize,
    ) -> Result<Self, GatherError> {
        let slots = policy.slots(table_rows, capacity)?;
        let rows = zeroed_pages(row_bytes, slots.capacity())?;
        Ok(Self { slots, rows, row_bytes })
    }

    /// The capacity in rows.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Bytes of these rows, excluding the map: [`map_bytes`](crate::cache::map_bytes).
    pub fn bytes(&self) -> u64 {
        self.rows.bytes().len() as u64
    }

    /// Inserts the misses of a gather of `ids`; `row_at` returns the table's row for the id at a position.
    pub(super) fn insert_misses<'r>(
        &mut self,
        ids: &[i64],
        row_at: impl Fn(usize) -> &'r [u8] + Sync,
        pool: Option<&rayon::ThreadPool>,
    ) {
        let row_bytes = self.row_bytes;
        let rows = self.rows.bytes_mut();
        let insertions = self.slots.insert_misses(ids);
        let copy = |row: &mut [u8], insertion: &CacheInsertion| {
            row.copy_from_slice(row_at(insertion.position as usize));
        };
        let Some(pool) = pool.filter(|_| insertions.len() * row_bytes > PARALLEL_FROM) else {
            for insertion in insertions {
                copy(&mut rows[insertion.slot as usize * row_bytes..][..row_bytes], insertion);
            }
            return;
        };
        // Ascending slots, so that each task has its own range of rows.
        let mut sorted = insertions.to_vec();
        sorted.sort_by_key(|insertion| insertion.slot);
        let mut tasks = Vec::with_capacity(sorted.len().div_ceil(TASK));
        let (mut rest, mut from) = (rows, 0);
        for task in sorted.chunks(TASK) {
            let end = task[task.len() - 1].slot as usize + 1;
            let (stretch, behind) = rest.split_at_mut((end - from) * row_bytes);
            tasks.push((stretch, from, task));
            (rest, from) = (behind, end);
        }
        pool.install(|| {
            tasks.into_par_iter().for_each(|(stretch, from, task)| {
                for insertion in task {
                    let at = (insertion.slot as usize - from) * row_bytes;
                    copy(&mut stretch[at..][..row_bytes], insertion);
                }
            });
        });
    }
}

/// A cache in host memory, for [`Cached`] over [`MappedTable`] or [`FileTable`](crate::FileTable).
#[derive(Debug)]
pub enum RowCache {
    /// A static cache, which may be shared with other sources.
    Static(Arc<CachedRows>),
    /// A cache that changes during the run.
    Evicting(EvictingRows),
}

impl From<CachedRows> for RowCache {
    fn from(cache: CachedRows) -> Self {
        Self::Static(Arc::new(cache))
    }
}

impl From<Arc<CachedRows>> for RowCache {
    fn from(cache: Arc<CachedRows>) -> Self {
        Self::Static(cache)
    }
}

impl From<EvictingRows> for RowCache {
    fn from(cache: EvictingRows) -> Self {
        Self::Evicting(cache)
    }
}

impl RowCache {
    /// The number of rows of its table, and bytes per row.
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Static(cache) => (cache.map.slots().len(), cache.row_bytes),
            Self::Evicting(cache) => (cache.slots.map().len(), cache.row_bytes),
        }
    }

    /// Checks that the table has the expected shape.
    pub(super) fn check_table(&self, table_rows: usize, table_row_bytes: usize) -> Result<(), GatherError> {
        check_shape(self.shape(), table_rows, table_row_bytes)
    }

    /// The slot map, and the rows in the slots. Every slot in the map is one of the rows.
    pub(super) fn view(&self) -> (&[i32], &[u8]) {
        match self {
            Self::Static(cache) => cache.view(),
            Self::Evicting(cache) => (cache.slots.map(), cache.rows.bytes()),
        }
    }
}

/// Checks that a cache and a table have the same shape.
fn check_shape(
    (rows, row_bytes): (usize, usize),
    table_rows: usize,
    table_row_bytes: usize,
) -> Result<(), GatherError> {
    if (rows, row_bytes) == (table_rows, table_row_bytes) {
        return Ok(());
    }
    Err(GatherError::OtherTable { rows, row_bytes, table_rows, table_row_bytes })
}

impl<'t> Cached<MappedTable<'t>, RowCache> {
    /// Reads cached rows from `cache`, in the same pass as the others. In host memory this only improves locality. It
    /// allows caches to be run and measured without a GPU.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] for a cache of another number of rows, or of rows of another size.
    pub fn in_memory(source: MappedTable<'t>, cache: impl Into<RowCache>) -> Result<Self, GatherError> {
        let cache = cache.into();
        cache.check_table(source.rows(), source.row_bytes())?;
        Ok(Self { source, cache })
    }
}

impl HostTable for Cached<MappedTable<'_>, RowCache> {
    fn table_row_bytes(&self) -> usize {
        self.source.row_bytes()
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.source.pool()
    }

    fn copy_to(
        &mut self,
        ids: &[i64],
        mut place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError> {
        let Self { source, cache } = self;
        let row_bytes = source.row_bytes();
        let (map, rows) = cache.view();
        // SAFETY: the cache is for as many rows of as many bytes (`Cached::in_memory`), and every slot in its map is one of
        // its rows.
        let hits = unsafe {
            source.copy(CachedTable::new(source.table(), map, rows, row_bytes), widened, ids, &mut place)
        }?;
        if let RowCache::Evicting(cache) = cache {
            let (table, out, pool) = (source.table(), &*place.out, source.pool());
            match widened {
                // The gathered rows lie closer together than those of the table.
                None => cache.insert_misses(ids, |position| &out[position * row_bytes..][..row_bytes], pool),
                Some(_) => {
                    let row = |position: usize| &table[ids[position] as usize * row_bytes..][..row_bytes];
                    cache.insert_misses(ids, row, pool);
                }
            }
        }
        let read = RowsRead::of(RowOrigin::HostTable, ids.len() as u64, row_bytes);
        Ok(read.with_hits(RowOrigin::HostTable, RowOrigin::HostCache, hits))
    }

    fn sum_to(
        &mut self,
        ids: &[i64],
        place: SumPlace<'_>,
        values: SummedValues,
    ) -> Result<RowsRead, GatherError> {
        let Self { source, cache } = self;
        let row_bytes = source.row_bytes();
        let (map, rows) = cache.view();
        // SAFETY: as in `copy_to`.
        let hits = unsafe {
            source.sum(CachedTable::new(source.table(), map, rows, row_bytes), values, ids, place)
        }?;
        if let RowCache::Evicting(cache) = cache {
            let (table, pool) = (source.table(), source.pool());
            let row = |position: usize| &table[ids[position] as usize * row_bytes..][..row_bytes];
            cache.insert_misses(ids, row, pool);
        }
        let read = RowsRead::of(RowOrigin::HostTable, ids.len() as u64, row_bytes);
        Ok(read.with_hits(RowOrigin::HostTable, RowOrigin::HostCache, hits))
    }
}

impl RowSource<HostPlace<'_>> for Cached<MappedTable<'_>, RowCache> {
    fn rows(&self) -> usize {
        self.source.rows()
    }

    fn row_bytes(&self) -> usize {
        self.source.row_bytes()
    }

    fn check(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.source.check(ids)
    }

    fn submit(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<Ticket, GatherError> {
        Ok(Ticket::of(0, self.copy_to(ids, place, None)?))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
        Ok(ticket.read)
    }
}
