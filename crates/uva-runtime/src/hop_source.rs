//! The rows of a hop set's tables: copied from the mapped files, or read from disk.

use std::ops::Range;

use rayon::ThreadPool;
use uva_disk::{RunFiles, TableShape};
use uva_graph::{HopTable, Hops};
use uva_rows::{DiskReads, GatherError, TASK_BYTES, divide, gather_pool};

use crate::RuntimeError;
use crate::host_rows::failed;
use crate::rows_from::{Reader, RowsFrom, disk_error};

/// Brings the rows of a batch in the tables that batches have.
pub(crate) struct HopSource<'a> {
    hops: Hops<'a>,
    tables: &'a [usize],
    disk: Option<HopFiles>,
    /// `None` for one thread: the caller's.
    pool: Option<ThreadPool>,
}

impl<'a> HopSource<'a> {
    /// Of these tables of a hop set. Rows in memory are copied by so many threads; a reader of files has threads of its own.
    pub fn new(
        hops: Hops<'a>,
        tables: &'a [usize],
        (threads, from): (usize, RowsFrom),
    ) -> Result<Self, RuntimeError> {
        let disk = match from {
            RowsFrom::Memory => None,
            RowsFrom::Disk(reader) | RowsFrom::DiskAhead(reader, _) => {
                let disk = HopFiles::open(hops, tables, reader)?;
                let (reader, how) = (disk.files.reader(), disk.files.how());
                tracing::info!(%reader, how, "rows of hops are read from disk");
                Some(disk)
            }
        };
        let pool = gather_pool(if disk.is_none() { threads } else { 1 }).map_err(failed)?;
        Ok(Self { hops, tables, disk, pool })
    }

    /// Brings the rows of these runs: of each table into the slice of its place, which is as long as they are.
    pub fn gather(&mut self, runs: &[Range<usize>], out: &mut [&mut [u8]]) -> Result<DiskReads, GatherError> {
        if let Some(disk) = &mut self.disk {
            return disk.read(runs, self.hops.row_bytes(), out);
        }
        let tables = self.tables.iter().map(|table| self.hops.table(*table));
        let Some(pool) = &self.pool else {
            tables.zip(out).for_each(|(table, out)| copy(table, runs, out));
            return Ok(DiskReads::default());
        };
        // Of each table every thread copies a part, if it is worth handing out.
        let row_bytes = self.hops.row_bytes();
        let bytes = runs.iter().map(ExactSizeIterator::len).sum::<usize>() * row_bytes;
        let threads = pool.current_num_threads();
        let shares = divided(runs, bytes.div_ceil(TASK_BYTES).clamp(1, threads));
        let mut tasks = Vec::with_capacity(shares.len() * self.tables.len());
        for (table, out) in tables.zip(out) {
            let mut rest = &mut **out;
            for share in &shares {
                let rows: usize = share.iter().map(ExactSizeIterator::len).sum();
                let (part, behind) = std::mem::take(&mut rest).split_at_mut(rows * row_bytes);
                tasks.push((table, share, part));
                rest = behind;
            }
        }
        divide(pool, threads, tasks.into_iter(), |(table, share, part)| copy(table, share, part));
        Ok(DiskReads::default())
    }
}

/// The rows of these runs in so many parts of about as many rows, one behind the other.
fn divided(runs: &[Range<usize>], parts: usize) -> Vec<Vec<Range<usize>>> {
    let rows: usize = runs.iter().map(ExactSizeIterator::len).sum();
    let mut rest = runs.iter().cloned();
    let mut run = rest.next();
    let mut taken = 0;
    (1..=parts)
        .map(|part| {
            let mut share = Vec::new();
            let end = rows * part / parts;
            while taken < end
                && let Some(open) = &mut run
            {
                let until = open.end.min(open.start + end - taken);
                taken += until - open.start;
                share.push(open.start..until);
                open.start = until;
                if open.start == open.end {
                    run = rest.next();
                }
            }
            share
        })
        .collect()
}

/// Copies the rows of these runs.
fn copy(table: HopTable<'_>, runs: &[Range<usize>], out: &mut [u8]) {
    let mut rest = out;
    for run in runs {
        if table.is_dense() {
            put(&mut rest, table.rows(run.clone()));
        } else {
            run.clone().for_each(|row| put(&mut rest, table.row(row)));
        }
    }
}

/// Whether a file has rows of several hops side by side, so that no run of one of these tables lies in one piece.
pub(crate) fn stored_side_by_side(hops: Hops<'_>, tables: &[usize]) -> bool {
    tables.iter().any(|table| hops.place(*table).stride != hops.row_bytes())
}

/// Copies `from` to the front of `to`, which then begins behind it.
fn put(to: &mut &mut [u8], from: &[u8]) {
    let (front, rest) = std::mem::take(to).split_at_mut(from.len());
    front.copy_from_slice(from);
    *to = rest;
}

/// The files of some tables, open to be read.
pub struct HopFiles {
    files: RunFiles,
    held: Vec<Held>,
}

/// The tables that a file has rows of.
struct Held {
    /// Bytes from a row to the next.
    stride: usize,
    /// Of each: its place among the tables that batches have, and where its row begins in the file's.
    tables: Vec<(usize, usize)>,
}

impl HopFiles {
    /// Opens the files of these tables.
    ///
    /// # Errors
    /// As [`row_file`](crate::rows_from::row_file).
    pub fn open(hops: Hops<'_>, tables: &[usize], reader: Reader) -> Result<Self, RuntimeError> {
        let mut arrays: Vec<usize> = Vec::new();
        let mut held: Vec<Held> = Vec::new();
        for (place, table) in tables.iter().enumerate() {
            let of = hops.place(*table);
            let file = arrays.iter().position(|array| *array == of.array).unwrap_or_else(|| {
                arrays.push(of.array);
                held.push(Held { stride: of.stride, tables: Vec::new() });
                held.len() - 1
            });
            held[file].tables.push((place, of.first));
        }
        let shapes: Vec<_> = arrays
            .iter()
            .zip(&held)
            .map(|(array, held)| {
                let (path, offset) = hops.file(*array);
                (path, TableShape { offset, rows: hops.nodes().len(), row_bytes: held.stride })
            })
            .collect();
        let states: Vec<_> = arrays.iter().map(|array| hops.state(*array)).collect();
        let files = RunFiles::open(&shapes, reader.kind())
            .and_then(|files| files.since(&states))
            .map_err(|error| disk_error(error, reader))?;
        Ok(Self { files, held })
    }

    /// How they are read.
    pub fn files(&self) -> &RunFiles {
        &self.files
    }

    /// The files alone, for whoever reads all that they have.
    #[must_use]
    pub fn into_files(self) -> RunFiles {
        self.files
    }

    fn read(
        &mut self,
        runs: &[Range<usize>],
        row_bytes: usize,
        out: &mut [&mut [u8]],
    ) -> Result<DiskReads, GatherError> {
        let Self { files, held } = self;
        let read = files.read(runs, |file, at, bytes| held[file].put(row_bytes, (at, bytes), out))?;
        // A file of several tables also brings the rows of those that batches do not have.
        Ok(DiskReads { bytes_asked: out.iter().map(|out| out.len() as u64).sum(), ..read })
    }
}

impl Held {
    /// Puts bytes of the file's rows, from byte `at` of those that were asked for, where their tables' rows belong.
    fn put(&self, row_bytes: usize, (at, bytes): (usize, &[u8]), out: &mut [&mut [u8]]) {
        let Self { stride, tables } = self;
        if *stride == row_bytes {
            for (place, _) in tables {
                out[*place][at..at + bytes.len()].copy_from_slice(bytes);
            }
            return;
        }
        let end = at + bytes.len();
        for row in at / stride..end.div_ceil(*stride) {
            for (place, first) in tables {
                let begins = row * stride + first;
                let part = begins.max(at)..(begins + row_bytes).min(end);
                if !part.is_empty() {
                    let to = row * row_bytes + part.start - begins;
                    out[*place][to..to + part.len()].copy_from_slice(&bytes[part.start - at..part.end - at]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a part may be one run")]
    fn rows_are_divided_evenly_in_their_order_and_runs_are_cut_where_they_must_be() {
        let runs = [10..14, 3..4, 20..29];
        assert_eq!(divided(&runs, 2), [vec![10..14, 3..4, 20..22], vec![22..29]]);
        for parts in 1..20 {
            let shares = divided(&runs, parts);
            let rows = |runs: &[Range<usize>]| runs.iter().cloned().flatten().collect::<Vec<_>>();
            assert_eq!(shares.iter().flat_map(|share| rows(share)).collect::<Vec<_>>(), rows(&runs));
            assert!(
                shares.len() == parts
                    && shares.iter().all(|share| rows(share).len() <= 14_usize.div_ceil(parts))
            );
        }
        assert_eq!(divided(&[], 2), [vec![], vec![]]);
    }

    #[test]
    fn pieces_of_rows_side_by_side_reach_their_tables_wherever_they_are_cut() {
        // Rows of three tables of 4 bytes, of which the last and the first are wanted.
        let held = Held { stride: 12, tables: vec![(0, 8), (1, 0)] };
        let bytes: Vec<u8> = (0..48).collect();
        for cut in 0..=48 {
            let (mut last, mut first) = ([0; 16], [0; 16]);
            for piece in [0..cut, cut..48] {
                held.put(4, (piece.start, &bytes[piece]), &mut [&mut last, &mut first]);
            }
            let of = |from: usize| -> Vec<u8> {
                (0..4).flat_map(|row| bytes[row * 12 + from..][..4].to_vec()).collect()
            };
            assert_eq!((last.to_vec(), first.to_vec()), (of(8), of(0)), "cut at byte {cut}");
        }
    }
}
