//! A short measurement of how fast this machine sums, for the time estimate.

use std::time::Instant;

use rayon::ThreadPool;
use uva_graph::{Indices, mix};

use crate::operator::Operator;
use crate::product::sums::{Matrix, OperatorGraph};

/// Columns of the sample.
const COLUMNS: usize = 16;

/// The maximum number of rows of the sample: a table of 32 MiB, more than most caches hold.
const MOST_ROWS: usize = 1 << 19;

/// Lists of the sample, and entries per list.
const LISTS: usize = 1 << 13;
const ENTRIES: usize = 16;

/// Entries times columns per second, for sums over random rows of a table of `nodes` rows, or of fewer if there are
/// many. The first of two passes is not measured, because it maps memory.
pub(crate) fn multiply_adds_a_second(nodes: usize, pool: &ThreadPool) -> f64 {
    let rows = nodes.clamp(LISTS, MOST_ROWS);
    let table = vec![1.0; rows * COLUMNS];
    let ids: Vec<i32> = (0..(LISTS * ENTRIES) as u64).map(|at| (mix(at + 1) % rows as u64) as i32).collect();
    // Rows after the lists of the sample have empty lists.
    let offsets: Vec<i64> = (0..=rows).map(|row| (row.min(LISTS) * ENTRIES) as i64).collect();
    let graph = OperatorGraph { offsets: &offsets, indices: Indices::I32(&ids), weights: None };
    let mut sums = vec![0.0; LISTS * COLUMNS];
    pool.install(|| {
        let matrix = Matrix::of(Operator::Sym, graph);
        let mut seconds = 0.0;
        for _ in 0..2 {
            let start = Instant::now();
            let _ = matrix.rows(&(0..LISTS), (&table, COLUMNS), &mut sums);
            seconds = start.elapsed().as_secs_f64();
        }
        (LISTS * (ENTRIES + 1) * COLUMNS) as f64 / seconds.max(1e-9)
    })
}
