//! What a consumer sees of a feature slot.

use std::time::Duration;

use uva_graph::{FeatureTable, Labels, Split};
use uva_mem::ring::ReadSlot;
use uva_sample::BlockRef;

use super::{BatchHeader, BatchLayout};

/// A batch with its features, in the slot where the producer put them. It borrows the slot: dropping it gives the
/// slot back, and nothing taken from it can outlive it.
#[derive(Debug)]
pub struct Batch<'a> {
    slot: ReadSlot<'a>,
    layout: &'a BatchLayout,
    header: BatchHeader,
}

impl<'a> Batch<'a> {
    /// `header` is the slot's own, held against `layout` already.
    pub(crate) fn new(slot: ReadSlot<'a>, layout: &'a BatchLayout, header: BatchHeader) -> Self {
        Self { slot, layout, header }
    }

    fn slice<T: bytemuck::Pod>(&self, range: std::ops::Range<usize>) -> &[T] {
        bytemuck::cast_slice(&self.slot.payload()[range])
    }

    /// Which split the seeds are of.
    pub fn split(&self) -> Split {
        self.header.key().split
    }

    /// The epoch, from 0; 0 for test batches.
    pub fn epoch(&self) -> u32 {
        self.header.key().epoch
    }

    /// The batch's number within its pass, from 0.
    pub fn index(&self) -> u32 {
        self.header.key().batch
    }

    /// The batch's hash (docs/reproducible-batches.md).
    pub fn hash(&self) -> u64 {
        self.header.hash()
    }

    /// Ids of all nodes of the batch, the seeds first: the nodes whose features [`Batch::features`] holds.
    pub fn input_nodes(&self) -> &[i64] {
        self.slice(self.layout.nodes_range(&self.header))
    }

    /// Ids of the seeds.
    pub fn seeds(&self) -> &[i64] {
        &self.input_nodes()[..self.header.seeds()]
    }

    /// Labels of the seeds.
    pub fn labels(&self) -> Labels<'_> {
        let range = self.layout.labels_range(&self.header);
        match self.layout.label_classes() {
            None => Labels::Single(self.slice(range)),
            Some(classes) => Labels::Multi { classes, values: self.slice(range) },
        }
    }

    /// Feature rows, row `i` for `input_nodes()[i]`; 64-byte aligned.
    pub fn features(&self) -> FeatureTable<'_> {
        FeatureTable {
            bytes: &self.slot.payload()[self.layout.features_range(&self.header)],
            rows: self.header.nodes(),
            dim: self.layout.dim(),
            element: self.layout.element(),
        }
    }

    /// Layers of the batch, one a fanout.
    pub fn layers(&self) -> usize {
        self.layout.layers().len()
    }

    /// The block of a layer; layer 0 is the hop at the seeds.
    ///
    /// # Panics
    /// When there is no such layer.
    pub fn block(&self, layer: usize) -> BlockRef<'_> {
        let counts = self.header.layer(layer);
        BlockRef {
            destinations: counts.destinations,
            sources: counts.sources,
            indptr: self.slice(self.layout.indptr_range(&self.header, layer)),
            indices: self.slice(self.layout.indices_range(&self.header, layer)),
        }
    }

    /// How long the sampler worked on it.
    pub fn sample_time(&self) -> Duration {
        Duration::from_nanos(self.header.sample_ns())
    }

    /// How long the producer worked on it.
    pub fn gather_time(&self) -> Duration {
        Duration::from_nanos(self.header.gather_ns())
    }
}
