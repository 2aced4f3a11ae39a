//! Multithreaded, checked loops that move rows of host memory.

use std::sync::atomic::{AtomicU64, Ordering};

use uva_ops::lists::{IndexedRows, Largest, ListsError, WeightedSums};
use uva_ops::rows::{CopyMethod, LINE, NarrowFloat, RowAddresses, RowCopy, RowKind, any_outside, copy_rows};

use super::place::{HostPlace, Reduction, SumPlace};
use super::threads::{TASK_BYTES, divide, gather_pool};
use crate::error::GatherError;
use crate::stack::SummedValues;

/// Lists summed by a thread at a time.
const TASK_LISTS: usize = 128;

/// Outputs of at least this many bytes are written with streaming stores, bypassing the caches.
///
/// Measured with 400-byte rows gathered into alternating slots; another thread then reads each slot in full. Figures
/// are GB/s of the gather, of the read, and of both in sequence: medians of the threads' own time, from a separate loop
/// with masked loads (3 slots on 4 KiB pages, the table on 2 MiB):
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
/// A store that misses all caches reads the line first and writes it back later. That is three times the bytes, which
/// streaming avoids. An output that fits in the second-level cache should stay there.
const STREAMED_FROM: usize = 4 << 20;

/// A mover of rows of one size, with its own pool of threads.
#[derive(Debug)]
pub(super) struct Mover {
    pub row_bytes: usize,
    pub copy: RowCopy,
    /// `None` for one thread: the caller's. The caller takes part in copying, so one thread of the pool is idle then.
    pool: Option<rayon::ThreadPool>,
}

impl Mover {
    /// Creates a mover for rows of `row_bytes` bytes with `threads` threads (0 counts as 1).
    pub fn new(row_bytes: usize, threads: usize) -> Result<Self, GatherError> {
        let pool = gather_pool(threads)?;
        Ok(Self { row_bytes, copy: RowCopy::best(), pool })
    }

    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// The pool of threads; `None` if only the caller's thread is used.
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }

    /// Checks that all ids are below `rows`.
    pub fn check(&self, ids: &[i64], rows: usize) -> Result<(), GatherError> {
        if any_outside(self.copy.vectors, ids, rows)
            && let Some(position) = ids.iter().position(|&id| id as u64 >= rows as u64)
        {
            return Err(GatherError::IdOutOfRange { position, id: ids[position], rows });
        }
        Ok(())
    }

    /// Checks ids and place, and copies the rows that `source` finds. Returns the rows that came from a cache.
    ///
    /// # Safety
    /// `source` has this many rows, of `row_bytes` bytes each.
    pub unsafe fn copy(
        &self,
        source: impl RowAddresses + Sync,
        rows: usize,
        widened: Option<NarrowFloat>,
        ids: &[i64],
        place: &mut HostPlace<'_>,
    ) -> Result<u64, GatherError> {
        let kind = RowKind { row_bytes: self.row_bytes, widened };
        let row_bytes = kind.out_bytes();
        let out = &mut *place.out;
        if ids.len().checked_mul(row_bytes) != Some(out.len()) {
            return Err(GatherError::OutputLength { ids: ids.len(), row_bytes, length: out.len() });
        }
        self.check(ids, rows)?;
        let way = CopyMethod {
            vectors: self.copy.vectors,
            streamed: self.copy.streamed.unwrap_or(out.len() >= STREAMED_FROM),
            ahead: self.copy.ahead,
        };
        // SAFETY: all ids were found below `rows` above, and cannot have changed since. The source has as many rows, by
        // our caller's promise; `out` is as many rows as there are ids.
        let copy = |ids: &[i64], out: &mut [u8]| unsafe { copy_rows(way, source, kind, ids, out) };
        let task_rows = task_rows(row_bytes);
        let threads = place.threads.clamp(1, self.threads()).min(ids.len().div_ceil(task_rows));
        Ok(match &self.pool {
            Some(pool) if threads > 1 => {
                let hits = AtomicU64::new(0);
                let tasks = out.chunks_mut(task_rows * row_bytes).zip(ids.chunks(task_rows));
                divide(pool, threads, tasks, |(out, ids)| {
                    // Read when all threads have come to an end, which orders it.
                    hits.fetch_add(copy(ids, out), Ordering::Relaxed);
                });
                hits.into_inner()
            }
            _ => copy(ids, out),
        })
    }

    /// Checks ids and place, sums the rows that `source` finds, and copies the rows that the place requests. Returns
    /// the number of ids that were in a cache.
    ///
    /// # Safety
    /// `source` has this many rows, of `row_bytes` bytes each.
    pub unsafe fn sum(
        &self,
        source: impl RowAddresses + Sync,
        table_rows: usize,
        values: SummedValues,
        ids: &[i64],
        place: SumPlace<'_>,
    ) -> Result<u64, GatherError> {
        let SumPlace { out, own, argmax, lists, reduction, threads } = place;
        let width = self.row_bytes / values.bytes();
        if lists.len().checked_mul(width) != Some(out.len()) {
            let row_bytes = width * size_of::<f32>();
            return Err(GatherError::OutputLength { ids: lists.len(), row_bytes, length: size_of_val(out) });
        }
        let argmax_of = if matches!(reduction, Reduction::Max) { out.len() } else { 0 };
        if !argmax.is_empty() && argmax.len() != argmax_of {
            let (row_bytes, length) = (width * size_of::<i32>(), size_of_val(argmax));
            return Err(GatherError::OutputLength { ids: argmax_of / width, row_bytes, length });
        }
        self.check(ids, table_rows)?;
        // SAFETY: all ids were found to be rows of the table, and so of the source; here and below.
        let hits = ids.iter().map(|&id| unsafe { source.row(id) }.1).sum();
        // SAFETY: the same.
        let rows = unsafe { IndexedRows::new(source, ids, values.narrow) };
        let vectors = self.copy.vectors;
        let write: Box<WriteLists<'_>> = match reduction {
            Reduction::Sum { weights, own } => {
                // SAFETY: the source's rows are `width` values long.
                let mut sums = unsafe { WeightedSums::of_table(rows, width, lists, weights)? };
                if let Some(weights) = own {
                    sums = sums.with_own(weights)?;
                }
                Box::new(move |first, out, _| sums.write_some(first, out, vectors))
            }
            Reduction::Max => {
                // SAFETY: the same.
                let largest = unsafe { Largest::of_table(rows, width, lists)? };
                Box::new(move |first, out, argmax| match argmax {
                    [] => largest.write_some(first, out, vectors),
                    argmax => largest.write_some_with_places(first, out, argmax, vectors),
                })
            }
        };
        if !own.is_empty() {
            let of_own = ids.get(..lists.len()).ok_or(ListsError::Index(ids.len()))?;
            // SAFETY: by our caller.
            unsafe {
                self.copy(source, table_rows, values.own(), of_own, &mut HostPlace { out: own, threads })?
            };
        }
        let threads = threads.clamp(1, self.threads()).min(lists.len().div_ceil(TASK_LISTS));
        match &self.pool {
            Some(pool) if threads > 1 => {
                let values = TASK_LISTS * width;
                let argmax = argmax.chunks_mut(values).chain(std::iter::repeat_with(Default::default));
                let tasks = out.chunks_mut(values).zip(argmax).enumerate();
                divide(pool, threads, tasks, |(task, (out, argmax))| write(task * TASK_LISTS, out, argmax));
            }
            _ => write(0, out, argmax),
        }
        Ok(hits)
    }
}

/// Writes the results of as many lists as fit the output, from a first one, and for maxima the places of the rows, if
/// requested.
type WriteLists<'w> = dyn Fn(usize, &mut [f32], &mut [i32]) + Sync + 'w;

/// Rows that a thread takes at a time. Their size is a multiple of a line, so that no two threads write to the same
/// line if the output begins on a line.
fn task_rows(row_bytes: usize) -> usize {
    // As a power of two divides a line, the smallest number of rows that fill whole lines is one too.
    let whole_lines = LINE >> row_bytes.trailing_zeros().min(LINE.trailing_zeros());
    TASK_BYTES.div_ceil(row_bytes).next_multiple_of(whole_lines)
}
