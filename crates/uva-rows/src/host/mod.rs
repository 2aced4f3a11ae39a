//! The gather on the CPU, by several threads.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod copy;
mod ids;
mod portable;
mod widening;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use copy::RowCopy;
use copy::{CachedTable, LINE, RowKind, TableRows, Way, copy_rows};
pub(crate) use ids::RowId;
pub use widening::HalfFloat;

use crate::cache::{Hits, RowCache};
use crate::{GatherError, RowGather};

/// Bytes that a thread takes at a time: long enough to hide what handing out work costs (a few microseconds against
/// tens), short enough that threads end together.
const TASK_BYTES: usize = 256 << 10;

/// Bytes of an output from which on it is written past the caches.
///
/// 400-byte rows into slots used in turns, each then read in full by another thread; GB/s of the gather, of the read,
/// and of both one after the other, by the threads' own time in a loop apart with masked loads, as medians
/// (3 slots on 4 KiB pages, the table on 2 MiB):
///
/// | a slot's bytes | cached: gather, read, both | streamed: gather, read, both |
/// |---|---|---|
/// | 512 KiB | 7.4, 80, 6.8 | 9.2, 17, 6.0 |
/// | 1 MiB | 7.0, 55, 6.2 | 9.2, 17, 5.9 |
/// | 2 MiB | 7.6, 34, 6.2 | 9.3, 16, 5.9 |
/// | 4 MiB | 6.3, 30, 5.2 | 9.3, 16, 5.8 |
/// | 8 MiB | 5.6, 19, 4.3 | 9.4, 16, 5.9 |
/// | 40 MiB | 5.1, 17, 3.9 | 9.5, 16, 6.0 |
///
/// A store into a line that no cache has reads it first and writes it back later: three times the bytes, which
/// streaming spares. What is small enough to stay in the second-level cache is better left there.
const STREAMED_FROM: usize = 4 << 20;

/// Gathers rows of a table in this process's memory, such as a mapped file, on a pool of threads of its own.
///
/// With [`HostGather::with_widening`] a table of half-precision values is gathered as float32.
///
/// With a cache ([`HostGather::with_cache`]) cached rows are read from there, in the same pass. In host memory that
/// wins nothing but locality; it is there so that everything about caches can be run and counted without a GPU.
#[derive(Debug)]
pub struct HostGather<'t> {
    table: &'t [u8],
    kind: RowKind,
    rows: usize,
    copy: RowCopy,
    /// `None` for one thread: the caller's. The caller takes part in copying, so that one of the pool's rests then.
    pool: Option<rayon::ThreadPool>,
    /// How many threads copy.
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
        Ok(Self {
            table,
            kind: RowKind { row_bytes, widened: None },
            rows,
            copy: RowCopy::best(),
            pool,
            used: threads.max(1),
            cache: None,
            hits: Hits::default(),
        })
    }

    /// Reads cached rows from `cache` from now on: a [`CachedRows`](crate::CachedRows) or a
    /// [`FifoCache`](crate::FifoCache). What is gathered stays the same, byte for byte. Counts begin anew.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] for a cache of another number of rows, or of rows of another size.
    pub fn with_cache(mut self, cache: impl Into<RowCache>) -> Result<Self, GatherError> {
        let cache = cache.into();
        let (rows, row_bytes) = cache.shape();
        if (rows, row_bytes) != (self.rows, self.kind.row_bytes) {
            let (table_rows, table_row_bytes) = (self.rows, self.kind.row_bytes);
            return Err(GatherError::OtherTable { rows, row_bytes, table_rows, table_row_bytes });
        }
        self.cache = Some(cache);
        self.hits = Hits::default();
        Ok(self)
    }

    /// Takes the table's rows for values of type `from`, and gathers them as float32 from now on: rows are twice as
    /// long in the output as in the table. A cache, before or after, is one of the table's own rows.
    ///
    /// # Errors
    /// [`GatherError::NotHalves`] unless a row is a whole number of such values.
    pub fn with_widening(mut self, from: HalfFloat) -> Result<Self, GatherError> {
        let row_bytes = self.kind.row_bytes;
        if !row_bytes.is_multiple_of(HalfFloat::BYTES) {
            return Err(GatherError::NotHalves { row_bytes });
        }
        self.kind.widened = Some(from);
        Ok(self)
    }

    /// Moves rows in this way from now on: for measurements and tests.
    #[must_use]
    pub fn with_copy(mut self, copy: RowCopy) -> Self {
        self.copy = copy;
        self
    }

    /// Gathers with so many of its threads from now on, at least one and at most all: for a producer that is ahead.
    pub fn use_threads(&mut self, threads: usize) {
        self.used = threads.clamp(1, self.threads());
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Its threads; `None` for one, which is the caller's.
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }

    fn gather_ids<I: RowId>(&mut self, ids: &[I], out: &mut [u8]) -> Result<(), GatherError> {
        let row_bytes = self.row_bytes();
        if ids.len().checked_mul(row_bytes) != Some(out.len()) {
            return Err(GatherError::OutputLength { ids: ids.len(), row_bytes, length: out.len() });
        }
        if any_outside(self.copy.vectors, ids, self.rows)
            && let Some(position) = ids.iter().position(|id| !id.is_below(self.rows))
        {
            return Err(GatherError::IdOutOfRange { position, id: ids[position].to_i64(), rows: self.rows });
        }
        let (table, kind) = (self.table, self.kind);
        let way = Way {
            vectors: self.copy.vectors,
            streamed: self.copy.streamed.unwrap_or(out.len() >= STREAMED_FROM),
            ahead: self.copy.ahead,
        };
        let cache = self.cache.as_ref().map(RowCache::view);
        let copy = |ids: &[I], out: &mut [u8]| match cache {
            // SAFETY: all ids were found below `rows` above, and nothing can have changed them since. `out` is as many
            // rows.
            None => unsafe {
                let source = TableRows { table, row_bytes: kind.row_bytes };
                copy_rows(way, source, kind, ids, out)
            },
            // SAFETY: as above. The cache is for as many rows of as many bytes (`with_cache`), and every slot in its
            // map is one of its rows.
            Some(cache) => unsafe {
                copy_rows(way, CachedTable::new(table, cache, kind.row_bytes), kind, ids, out)
            },
        };
        let task_rows = self.task_rows();
        let threads = self.used.min(ids.len().div_ceil(task_rows));
        let hits = match &self.pool {
            Some(pool) if threads > 1 => {
                let tasks = Mutex::new(out.chunks_mut(task_rows * row_bytes).zip(ids.chunks(task_rows)));
                let hits = AtomicU64::new(0);
                let take_part = || {
                    // The lock is held for as long as it takes to find out where the next task is.
                    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while let Some((out, ids)) = next() {
                        // Read when all threads have come to an end, which orders it.
                        hits.fetch_add(copy(ids, out), Ordering::Relaxed);
                    }
                };
                pool.in_place_scope(|scope| {
                    for _ in 1..threads {
                        scope.spawn(|_| take_part());
                    }
                    // Here work begins at once; a thread that sleeps may take as long to wake as a whole task.
                    take_part();
                });
                hits.into_inner()
            }
            _ => copy(ids, out),
        };
        self.hits.count(ids.len() as u64, hits);
        if let Some(RowCache::Fifo(cache)) = &mut self.cache {
            let table_row =
                |position: usize| &table[ids[position].index() * kind.row_bytes..][..kind.row_bytes];
            match kind.widened {
                // What was gathered lies closer together than what it was gathered from.
                None => cache.insert_misses(
                    ids,
                    |position| &out[position * row_bytes..][..row_bytes],
                    self.pool.as_ref(),
                ),
                Some(_) => cache.insert_misses(ids, table_row, self.pool.as_ref()),
            }
        }
        Ok(())
    }

    /// Rows that a thread takes at a time. Their bytes are whole lines, so that no two threads write to one where the
    /// output begins on a line.
    fn task_rows(&self) -> usize {
        let row_bytes = self.row_bytes();
        // As a power of two divides a line, the fewest rows that are whole lines are one too.
        let whole_lines = LINE >> row_bytes.trailing_zeros().min(LINE.trailing_zeros());
        TASK_BYTES.div_ceil(row_bytes).next_multiple_of(whole_lines)
    }
}

uva_ops::vectorized! {
    /// Whether an id is no row of the table.
    fn any_outside<I: RowId>(ids: &[I], rows: usize) -> bool {
        // To the end in any case: a loop that may end early is not made of vectors.
        let mut outside = false;
        for id in ids {
            outside |= !id.is_below(rows);
        }
        outside
    }
}

impl RowGather for HostGather<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row_bytes(&self) -> usize {
        self.kind.out_bytes()
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
