//! The rows of a hop set's tables: copied from the mapped files, or read from disk.

use std::ops::Range;

use rayon::ThreadPool;
use uva_graph::{Dataset, HopTable, Hops};
use uva_rows::{DiskReads, GatherError, TASK_BYTES, divide, gather_pool};

use super::host::failed;
use super::tree::RowTree;
use crate::RuntimeError;
use crate::options::hop_files::OpenHopFiles;
use crate::options::hop_run::HopRun;
use crate::plan::RunPlan;

impl RowTree {
    /// The hop set whose tables are in this tree.
    pub(crate) fn hop_run<'d>(
        &self,
        dataset: &'d Dataset,
        plan: &'d RunPlan,
    ) -> Result<HopRun<'d>, RuntimeError> {
        HopRun::of(dataset, &plan.options).ok_or_else(|| self.is_not("of a hop set"))
    }
}

/// A source of a batch's rows in the tables of batches.
pub(crate) struct HopSource<'a> {
    hops: Hops<'a>,
    tables: &'a [usize],
    disk: Option<OpenHopFiles>,
    /// `None` for one thread: the caller's.
    pool: Option<ThreadPool>,
}

impl<'a> HopSource<'a> {
    /// Creates the source of these tables of a hop set, each `stored` in its mapped file or read from it. `threads`
    /// threads copy rows in memory; a reader of files has its own threads.
    pub fn new(
        hops: Hops<'a>,
        tables: &'a [usize],
        threads: usize,
        stored: &RowTree,
    ) -> Result<Self, RuntimeError> {
        let disk = match stored {
            RowTree::Mapped => None,
            RowTree::File(reader) => {
                let disk = OpenHopFiles::open(hops, tables, *reader)?;
                let (reader, how) = (disk.files().reader(), disk.files().how());
                tracing::info!(%reader, how, "rows of hops are read from disk");
                Some(disk)
            }
            other => return Err(other.is_not("of tables of a hop set")),
        };
        let pool = gather_pool(if disk.is_none() { threads } else { 1 }).map_err(failed)?;
        Ok(Self { hops, tables, disk, pool })
    }

    /// Writes the rows of these runs, for each table into the slice with its index, which has the length of the rows.
    pub fn gather(&mut self, runs: &[Range<usize>], out: &mut [&mut [u8]]) -> Result<DiskReads, GatherError> {
        if let Some(disk) = &mut self.disk {
            return disk.read(runs, self.hops.row_bytes(), out);
        }
        let tables = self.tables.iter().map(|table| self.hops.table(*table));
        let Some(pool) = &self.pool else {
            tables.zip(out).for_each(|(table, out)| copy(table, runs, out));
            return Ok(DiskReads::default());
        };
        // Every thread copies a part of each table, if the table is large enough.
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

/// Divides the rows of these runs into `parts` consecutive parts of about equal size.
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

/// Copies `from` to the start of `to`, which is then advanced.
fn put(to: &mut &mut [u8], from: &[u8]) {
    let (front, rest) = std::mem::take(to).split_at_mut(from.len());
    front.copy_from_slice(from);
    *to = rest;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a part may be one run")]
    fn rows_are_divided_evenly_in_order_and_runs_cut_where_they_must_be() {
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
}
