//! Moves lists to their nodes' new places.

use std::ops::Range;

use rayon::prelude::*;

use super::NodeOrder;

/// Entries that one task moves. Tasks are split by entries, not by nodes, so that threads share a hub's list too.
const CHUNK: usize = 1 << 16;

/// Writes the bounds of the lists in the new order: `out` has one entry more than nodes.
pub(super) fn write_ends(indptr: &[i64], order: &NodeOrder, out: &mut [i64]) {
    let Some((start, ends)) = out.split_first_mut() else { return };
    *start = 0;
    // Fetching the lengths is random access, so it runs in parallel; adding them up is one pass through memory.
    super::order::by_place(order, 0, ends, |node| indptr[node + 1] - indptr[node]);
    let mut end = 0;
    for length in ends {
        end += *length;
        *length = end;
    }
}

/// Both sides of a move.
pub(super) struct Lists<'a> {
    /// Ends of the lists in the old order.
    pub(super) from: &'a [i64],
    /// Ends in the new order, from [`write_ends`].
    pub(super) to: &'a [i64],
    pub(super) order: &'a NodeOrder,
}

impl Lists<'_> {
    /// Writes entries `range` of the new order: `change` maps each entry of `values`. Runs in parallel.
    ///
    /// # Errors
    /// The position in `values` of the first entry, in the new order, for which `change` has no result.
    pub(super) fn write<T: Copy + Sync, U: Send>(
        &self,
        range: Range<usize>,
        values: &[T],
        out: &mut [U],
        change: impl Fn(T) -> Option<U> + Sync,
    ) -> Result<(), usize> {
        debug_assert_eq!(range.len(), out.len());
        let wrong = out.par_chunks_mut(CHUNK).enumerate().find_map_first(|(chunk, mut out)| {
            let first = range.start + chunk * CHUNK;
            for from in self.stretches(first..first + out.len()) {
                let (now, later) = out.split_at_mut(from.len());
                for (at, (out, &value)) in now.iter_mut().zip(&values[from.clone()]).enumerate() {
                    match change(value) {
                        Some(changed) => *out = changed,
                        None => return Some(from.start + at),
                    }
                }
                out = later;
            }
            None
        });
        wrong.map_or(Ok(()), Err)
    }

    /// Writes the rows of entries `range` of the new order, `row_bytes` bytes each. Runs in parallel.
    pub(super) fn write_rows(&self, range: Range<usize>, row_bytes: usize, rows: &[u8], out: &mut [u8]) {
        debug_assert_eq!(range.len() * row_bytes, out.len());
        let chunk_rows = (CHUNK / row_bytes).max(1);
        out.par_chunks_mut(chunk_rows * row_bytes).enumerate().for_each(|(chunk, mut out)| {
            let first = range.start + chunk * chunk_rows;
            for from in self.stretches(first..first + out.len() / row_bytes) {
                let (now, later) = out.split_at_mut(from.len() * row_bytes);
                now.copy_from_slice(&rows[from.start * row_bytes..from.end * row_bytes]);
                out = later;
            }
        });
    }

    /// The places in the old order of entries `range` of the new one: a list, or part of one, at a time.
    fn stretches(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut position = range.start;
        // The list that holds the position: the last one that starts at or before it.
        let mut place = self.to.partition_point(|&start| start <= position as i64).saturating_sub(1);
        std::iter::from_fn(move || {
            if position == range.end {
                return None;
            }
            let length = (self.to[place + 1] as usize).min(range.end) - position;
            let begin = self.from[self.order.node(place)] as usize + position - self.to[place] as usize;
            (position, place) = (position + length, place + 1);
            Some(begin..begin + length)
        })
    }
}
