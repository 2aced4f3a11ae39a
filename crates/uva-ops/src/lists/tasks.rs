//! Lists divided between threads.

use super::checked_lists::{Id, Lists};
use rayon::ThreadPool;
use rayon::prelude::*;

/// Lists that a thread takes at once.
const TASK_LISTS: usize = 128;

/// Edges × columns up to which the caller does all work, since waking threads takes longer.
const ALONE: usize = 1 << 17;

/// Runs `run` with the first list and the output of each task. `out` has `width` elements per list; `work` is counted
/// in edges × columns.
pub(super) fn by_list<T: Send>(
    out: &mut [T],
    width: usize,
    work: usize,
    pool: Option<&ThreadPool>,
    run: impl Fn(usize, &mut [T]) + Sync,
) {
    match pool {
        Some(pool) if work > ALONE && width > 0 => pool.install(|| {
            let tasks = out.par_chunks_mut(TASK_LISTS * width).enumerate();
            tasks.for_each(|(task, out)| run(task * TASK_LISTS, out));
        }),
        _ => run(0, out),
    }
}

/// Like [`by_list`], for an output of `width` elements per edge: `run` gets the lists of each task and the output of
/// their edges.
pub(super) fn by_edge<T: Send, I: Id>(
    lists: &Lists<'_, I>,
    mut out: &mut [T],
    width: usize,
    work: usize,
    pool: Option<&ThreadPool>,
    run: impl Fn(std::ops::Range<usize>, &mut [T]) + Sync,
) {
    let count = lists.len();
    let Some(pool) = pool.filter(|_| work > ALONE) else { return run(0..count, out) };
    let mut tasks = Vec::with_capacity(count.div_ceil(TASK_LISTS));
    for first in (0..count).step_by(TASK_LISTS) {
        let end = (first + TASK_LISTS).min(count);
        let edges = lists.edges(end - 1).end - lists.edges(first).start;
        let (own, rest) = out.split_at_mut(edges * width);
        tasks.push((first..end, own));
        out = rest;
    }
    pool.install(|| tasks.into_par_iter().for_each(|(lists, out)| run(lists, out)));
}
