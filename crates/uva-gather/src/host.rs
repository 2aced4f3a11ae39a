//! The gather on the CPU: plain copies by several threads, with the rows to come prefetched.

use rayon::prelude::*;

use crate::cache::{CacheView, Hits, RowCache};
use crate::{GatherError, RowGather};

/// Rows between the one being copied and the one being prefetched, into the second-level cache.
///
/// Random rows of a 2 GiB table on 4 KiB pages into 32 MiB, one core of a shared Xeon (family 6, model 207), variants
/// taken in turns, median of 29 by thread CPU time, GB/s; all lines of a row unless said otherwise:
///
/// | bytes a row | none | L1, 16 ahead, 2 lines | L2, 16 ahead | 32 | 48 | 64 | 128 | memcpy |
/// |---|---|---|---|---|---|---|---|---|
/// | 128  | 2.86 | 2.81 | 2.93 | 2.95 | 3.04 | 3.02 | 2.98 | 7.56 |
/// | 400  | 4.57 | 4.95 | 4.57 | 4.85 | 5.05 | 4.80 | 4.96 | 8.32 |
/// | 512  | 4.80 | 4.80 | 4.56 | 5.23 | 5.15 | 5.11 | 5.18 | 8.22 |
/// | 1024 | 4.99 | 5.66 | 5.93 | 6.04 | 5.98 | 6.12 | 5.74 | 9.29 |
///
/// Wide vector loads (as memcpy a row) and non-temporal stores (3.3 at 400, 3.6 at 512) won nothing and are not used.
const PREFETCH_AHEAD: usize = 48;

/// Cache lines of a row that are prefetched; in longer rows the hardware's own prefetcher has found the rest by then.
const PREFETCH_LINES: usize = 16;

const LINE: usize = 64;

/// Bytes that a thread takes at a time: long enough to hide what handing out work costs (a few microseconds against
/// tens), short enough that threads end together.
const TASK_BYTES: usize = 256 << 10;

/// Gathers rows of a table in this process's memory, such as a mapped file, on a pool of threads of its own.
///
/// With a cache ([`HostGather::with_cache`]) cached rows are read from there, in the same pass. In host memory that
/// wins nothing but locality; it is there so that everything about caches can be run and counted without a GPU.
#[derive(Debug)]
pub struct HostGather<'t> {
    table: &'t [u8],
    row_bytes: usize,
    rows: usize,
    /// `None` for one thread: the caller's.
    pool: Option<rayon::ThreadPool>,
    /// How many of its threads a gather uses.
    used: usize,
    cache: Option<RowCache>,
    hits: Hits,
}

impl<'t> HostGather<'t> {
    /// A gather from `table`, rows of `row_bytes` bytes (at least 1) without gaps, by `threads` threads (0 counts as
    /// 1).
    ///
    /// # Errors
    /// [`GatherError::TableLength`] unless the table is whole rows; [`GatherError::Threads`] when the system
    /// has no threads to give.
    pub fn new(table: &'t [u8], row_bytes: usize, threads: usize) -> Result<Self, GatherError> {
        if row_bytes == 0 || !table.len().is_multiple_of(row_bytes) {
            return Err(GatherError::TableLength { length: table.len(), row_bytes });
        }
        let pool = if threads > 1 {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|index| format!("gather-{index}"))
                .build()
                .map_err(|error| GatherError::Threads { threads, reason: error.to_string() })?;
            Some(pool)
        } else {
            None
        };
        let rows = table.len() / row_bytes;
        Ok(Self { table, row_bytes, rows, pool, used: threads.max(1), cache: None, hits: Hits::default() })
    }

    /// Reads cached rows from `cache` from now on: a [`CachedRows`](crate::CachedRows) or a
    /// [`FifoCache`](crate::FifoCache). What is gathered stays the same, byte for byte. Counts begin anew.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] for a cache of another number of rows, or of rows of another size.
    pub fn with_cache(mut self, cache: impl Into<RowCache>) -> Result<Self, GatherError> {
        let cache = cache.into();
        let (rows, row_bytes) = cache.shape();
        if (rows, row_bytes) != (self.rows, self.row_bytes) {
            let (table_rows, table_row_bytes) = (self.rows, self.row_bytes);
            return Err(GatherError::OtherTable { rows, row_bytes, table_rows, table_row_bytes });
        }
        self.cache = Some(cache);
        self.hits = Hits::default();
        Ok(self)
    }

    /// Gathers with so many of its threads from now on, at least one and at most all: for a producer that is ahead.
    pub fn use_threads(&mut self, threads: usize) {
        self.used = threads.clamp(1, self.threads());
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    pub(crate) fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }

    fn gather_ids<I: RowId>(&mut self, ids: &[I], out: &mut [u8]) -> Result<(), GatherError> {
        let row_bytes = self.row_bytes;
        if ids.len().checked_mul(row_bytes) != Some(out.len()) {
            return Err(GatherError::OutputLength { ids: ids.len(), row_bytes, length: out.len() });
        }
        let outside = |&id: &I| !id.is_below(self.rows);
        let mut task_rows = TASK_BYTES.div_ceil(row_bytes);
        if self.used < self.threads() {
            // As many tasks as threads are to be used: the others find nothing to do.
            task_rows = task_rows.max(ids.len().div_ceil(self.used));
        }
        let first_outside = match &self.pool {
            // `position_first` and not `position_any`: the message names the same id whatever the threads do.
            Some(pool) if ids.len() > task_rows => {
                pool.install(|| ids.par_iter().with_min_len(1 << 14).position_first(outside))
            }
            _ => ids.iter().position(outside),
        };
        if let Some(position) = first_outside {
            return Err(GatherError::IdOutOfRange { position, id: ids[position].to_i64(), rows: self.rows });
        }
        let cache = self.cache.as_ref().map(RowCache::view);
        let copy = |ids: &[I], out: &mut [u8]| match cache {
            None => {
                // SAFETY: all ids were found below `rows` above, and nothing can have changed them since.
                unsafe { copy_rows(self.table, row_bytes, ids, out) };
                0
            }
            // SAFETY: as above. The cache is for as many rows of as many bytes (`with_cache`), and every slot in its
            // map is one of its rows.
            Some(cache) => unsafe { copy_cached_rows(self.table, cache, row_bytes, ids, out) },
        };
        let hits = match &self.pool {
            Some(pool) if ids.len() > task_rows => pool.install(|| {
                let tasks = out.par_chunks_mut(task_rows * row_bytes).zip(ids.par_chunks(task_rows));
                tasks.map(|(out, ids)| copy(ids, out)).sum()
            }),
            _ => copy(ids, out),
        };
        self.hits.count(ids.len() as u64, hits);
        if let Some(RowCache::Fifo(cache)) = &mut self.cache {
            cache.insert_misses(ids, out, self.pool.as_ref());
        }
        Ok(())
    }
}

impl RowGather for HostGather<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn gather(&mut self, ids: &[i64], out: &mut [u8]) -> Result<(), GatherError> {
        self.gather_ids(ids, out)
    }

    fn gather_i32(&mut self, ids: &[i32], out: &mut [u8]) -> Result<(), GatherError> {
        self.gather_ids(ids, out)
    }

    fn hits(&self) -> Hits {
        self.hits
    }
}

/// The id types: what the hot loop is compiled for.
pub(crate) trait RowId: bytemuck::Pod + Sync {
    fn is_below(self, rows: usize) -> bool;
    fn to_i64(self) -> i64;
    /// The id as an index; only for one that [is below](RowId::is_below) some number of rows.
    fn index(self) -> usize;
}

impl RowId for i64 {
    fn is_below(self, rows: usize) -> bool {
        // A negative id becomes a number of at least 2^63, more rows than a slice of bytes can hold.
        (self as u64) < rows as u64
    }

    fn to_i64(self) -> i64 {
        self
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl RowId for i32 {
    fn is_below(self, rows: usize) -> bool {
        i64::from(self).is_below(rows)
    }

    fn to_i64(self) -> i64 {
        i64::from(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Copies row `ids[i]` of `table` to row `i` of `out`.
///
/// # Safety
/// Every id is below `table.len() / row_bytes`, and `out.len() == ids.len() * row_bytes`.
unsafe fn copy_rows<I: RowId>(table: &[u8], row_bytes: usize, ids: &[I], out: &mut [u8]) {
    debug_assert_eq!(out.len(), ids.len() * row_bytes);
    let mut to = out.as_mut_ptr();
    for (position, id) in ids.iter().enumerate() {
        if let Some(ahead) = ids.get(position + PREFETCH_AHEAD) {
            prefetch(table, ahead.index() * row_bytes, row_bytes);
        }
        // SAFETY: the id is below the number of rows, so the row ends within the table and the product does not
        // overflow. `to` has advanced `position` rows of the `ids.len()` that `out` holds, so one more fits; after the
        // last it points one past the end, which is allowed. `out` is exclusively borrowed and so not part of `table`.
        unsafe {
            let from = table.as_ptr().add(id.index() * row_bytes);
            std::ptr::copy_nonoverlapping(from, to, row_bytes);
            to = to.add(row_bytes);
        }
    }
}

/// As [`copy_rows`], with rows that have a slot read from the cache. How many those were.
///
/// # Safety
/// As [`copy_rows`]; `cache.map` has as many entries as the table has rows, and each is negative or below
/// `cache.rows.len() / row_bytes`.
unsafe fn copy_cached_rows<I: RowId>(
    table: &[u8],
    cache: CacheView<'_>,
    row_bytes: usize,
    ids: &[I],
    out: &mut [u8],
) -> u64 {
    debug_assert_eq!(out.len(), ids.len() * row_bytes);
    // Where a row is read, and 1 if that is the cache; only for an id below the number of rows.
    let source = |id: I| {
        // SAFETY: the map has an entry for each row, by our caller's promise.
        let slot = unsafe { *cache.map.get_unchecked(id.index()) };
        if slot < 0 { (table, id.index(), 0) } else { (cache.rows, slot as usize, 1) }
    };
    let mut to = out.as_mut_ptr();
    let mut hits = 0;
    for (position, &id) in ids.iter().enumerate() {
        // The map is read as much at random as the rows are: its entry comes first, the row that it names later.
        if let Some(far) = ids.get(position + 2 * PREFETCH_AHEAD) {
            prefetch(bytemuck::cast_slice(cache.map), far.index() * size_of::<i32>(), size_of::<i32>());
        }
        if let Some(&ahead) = ids.get(position + PREFETCH_AHEAD) {
            let (rows, row, _) = source(ahead);
            prefetch(rows, row * row_bytes, row_bytes);
        }
        let (rows, row, hit) = source(id);
        hits += hit;
        // SAFETY: an id is below the number of rows of the table, and a slot below that of the cache, so the row ends
        // within either and the product does not overflow. `to` is as in `copy_rows`. `out` is exclusively borrowed
        // and so part of neither.
        unsafe {
            std::ptr::copy_nonoverlapping(rows.as_ptr().add(row * row_bytes), to, row_bytes);
            to = to.add(row_bytes);
        }
    }
    hits
}

/// Asks for the row at `offset`, into the second-level cache. Harmless at any address, and nothing where the machine
/// has no such thing.
#[inline(always)]
fn prefetch(table: &[u8], offset: usize, row_bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let row = table.as_ptr().wrapping_add(offset);
        let lines = ((row as usize % LINE + row_bytes).div_ceil(LINE)).min(PREFETCH_LINES);
        for line in 0..lines {
            // SAFETY: a prefetch reads nothing that the program could see and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(row.wrapping_add(line * LINE).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, offset, row_bytes, LINE, PREFETCH_LINES);
}
