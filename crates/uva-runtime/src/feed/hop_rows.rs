//! Batches of a hop set: their rows, and their content in a slot.

use std::ops::Range;

use uva_batch::{BatchHeader, BatchLayout, Column};
use uva_graph::{Dataset, Hops, Split};
use uva_sample::{BatchCounts, BatchKey, ChunkOrder, rows_hash};

use crate::control::disk_counts::DiskCounts;
use crate::feed::rows::{HopSource, failed};
use crate::machine::clock::since_boot;
use crate::options::hop_options::HopBatches;
use crate::options::hop_run::HopRun;
use crate::plan::RunPlan;
use crate::{LoaderOptions, RuntimeError, machine};

/// The state of a role that determines the rows of a batch, allocated once.
pub(crate) struct HopSampling<'a> {
    dataset: &'a Dataset,
    hops: Hops<'a>,
    layout: &'a BatchLayout,
    /// The order of each split, with the epoch that it is prepared for.
    orders: [ChunkOrder; 3],
    prepared: [Option<u32>; 3],
    /// The rows of the current batch.
    runs: Vec<Range<usize>>,
}

impl<'a> HopSampling<'a> {
    /// Creates the state for batches of this plan over this dataset.
    pub fn new(
        dataset: &'a Dataset,
        plan: &'a RunPlan,
        HopRun { hops, batches }: HopRun<'a>,
    ) -> Result<Self, RuntimeError> {
        let order = |split| order(dataset, &plan.options, batches, split);
        Ok(Self {
            dataset,
            hops,
            layout: &plan.layout,
            orders: [order(Split::Train)?, order(Split::Valid)?, order(Split::Test)?],
            prepared: [None; 3],
            runs: Vec::new(),
        })
    }

    /// Writes nodes and labels of a batch into the payload of a slot. Afterwards [`runs`](Self::runs) are its rows.
    pub fn sample(&mut self, key: BatchKey, payload: &mut [u8]) -> Result<BatchHeader, RuntimeError> {
        let order = &mut self.orders[key.split as usize];
        let prepared = &mut self.prepared[key.split as usize];
        if *prepared != Some(key.epoch) {
            if order.uses_threads() {
                machine::start_threads()?;
            }
            order.prepare(key.epoch)?;
            *prepared = Some(key.epoch);
        }
        let first = self.hops.rows_of(key.split).start;
        self.runs.clear();
        self.runs.extend(order.batch(key.batch as usize).map(|run| first + run.start..first + run.end));
        let mut columns = self.layout.columns_mut(payload);
        let input_id: &mut [i64] = columns.take(Column::InputId);
        let places = self.runs.iter().cloned().flatten();
        input_id.iter_mut().zip(places).for_each(|(to, row)| *to = (row - first) as i64);
        let nodes: &mut [i64] = columns.take(Column::InputNodes);
        let rows = copy_runs(&self.runs, self.hops.nodes(), 1, nodes);
        let labels = self.dataset.labels();
        let label_bytes: &mut [u8] = columns.take(Column::Labels);
        copy_runs(&self.runs, labels.bytes(), labels.row_bytes(), label_bytes);
        let mut counts = BatchCounts::of_blocks(rows, []);
        counts.hash = rows_hash(&nodes[..rows]);
        Ok(BatchHeader::of_batch(key, &counts))
    }

    /// The rows of the batch that was sampled last.
    pub fn runs(&self) -> &[Range<usize>] {
        &self.runs
    }
}

/// Writes rows of these runs into the slot in host memory of the batch of this header. Returns the disk reads.
pub(crate) fn gather(
    source: &mut HopSource<'_>,
    layout: &BatchLayout,
    runs: &[Range<usize>],
    header: &mut BatchHeader,
    payload: &mut [u8],
) -> Result<DiskCounts, RuntimeError> {
    let ranges = (0..layout.tables()).map(|table| layout.range(header, Column::X.part(table)));
    let read = source.gather(runs, &mut parts(payload, ranges)).map_err(failed)?;
    let counts = DiskCounts::of_runs(read, header.nodes());
    header.set_disk(counts.into());
    header.set_gathered(since_boot());
    Ok(counts)
}

/// The rows of a batch whose slot has its places in the split.
pub(crate) fn runs_at(places: &[i64], first: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for place in places {
        let row = first + *place as usize;
        match runs.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            _ => runs.push(row..row + 1),
        }
    }
    runs
}

/// Splits off these consecutive ranges of `bytes`.
pub(crate) fn parts(bytes: &mut [u8], ranges: impl Iterator<Item = Range<usize>>) -> Vec<&mut [u8]> {
    let (mut rest, mut taken) = (bytes, 0);
    let part = |range: Range<usize>| {
        let (before, behind) = std::mem::take(&mut rest).split_at_mut(range.end - taken);
        (rest, taken) = (behind, range.end);
        let begins = before.len() - range.len();
        &mut before[begins..]
    };
    ranges.map(part).collect()
}

/// Copies runs of rows of `width` values each to the start of `to`, and returns the number of rows.
fn copy_runs<T: Copy>(runs: &[Range<usize>], from: &[T], width: usize, to: &mut [T]) -> usize {
    let mut rows = 0;
    for run in runs {
        let end = rows + run.len();
        to[rows * width..end * width].copy_from_slice(&from[run.start * width..run.end * width]);
        rows = end;
    }
    rows
}

/// The order of a split's rows. Only training may drop its last batch.
fn order(
    dataset: &Dataset,
    options: &LoaderOptions,
    batches: &HopBatches,
    split: Split,
) -> Result<ChunkOrder, RuntimeError> {
    let drop_last = split == Split::Train && options.drop_last;
    let chunk = options.shuffled.has(split).then_some(batches.chunk);
    let rows = dataset.split(split).len();
    Ok(ChunkOrder::new(options.seed, split, rows, chunk, options.batch_size, drop_last)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_side_by_side_are_a_run() {
        assert_eq!(runs_at(&[4, 5, 6, 2, 3, 9, 8], 10), [14..17, 12..14, 19..20, 18..19]);
        assert!(runs_at(&[], 10).is_empty());
    }

    #[test]
    fn parts_are_the_ranges_and_nothing_between_them() {
        let mut bytes: Vec<u8> = (0..20).collect();
        let parts = parts(&mut bytes, [2..5, 5..5, 8..12].into_iter());
        assert_eq!(parts, [&[2, 3, 4][..], &[], &[8, 9, 10, 11]]);
    }
}
