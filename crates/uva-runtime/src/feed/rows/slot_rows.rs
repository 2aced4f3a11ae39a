//! The rows of a feature slot in host memory: those of the batch's nodes or their sums, and optionally those of its edges.

use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout};
use uva_graph::Dataset;
use uva_rows::HostPlace;

use super::edge_rows::EdgeRowSource;
use super::host::{ComingBatch, HostRows, behind};
use super::host_build::HostParts;
use super::tree::RowTree;
use crate::RuntimeError;
use crate::control::disk_counts::DiskCounts;
use crate::machine::clock::since_boot;

/// A filler of a slot's columns of rows.
pub(crate) struct SlotRows<'d> {
    nodes: HostRows<'d>,
    edges: Option<EdgeRowSource>,
    from_disk: bool,
    disk: DiskCounts,
}

impl<'d> SlotRows<'d> {
    /// Creates the filler with nodes' rows from this tree, and edges' rows of this dataset, the same dataset as in the
    /// parts.
    pub fn new(
        tree: &RowTree,
        layout: &BatchLayout,
        dataset: &Arc<Dataset>,
        parts: &HostParts<'d, '_>,
    ) -> Result<Self, RuntimeError> {
        let edges = EdgeRowSource::new(dataset, layout, parts.threads)?;
        let nodes = tree.on_host(layout, parts)?;
        Ok(Self { nodes, edges, from_disk: tree.reads_disk(), disk: DiskCounts::default() })
    }

    /// Announces the batches to come.
    pub fn expect(&mut self, layout: &BatchLayout, coming: &[ComingBatch<'_>]) {
        self.nodes.expect(layout, coming);
    }

    /// Fills the columns of the batch of this header, and writes the counts into the header. `from` is the payload with
    /// the sampler's columns, `to` the feature slot's from byte `skipped` on.
    pub fn fill(
        &mut self,
        layout: &BatchLayout,
        header: &mut BatchHeader,
        threads: usize,
        from: &[u8],
        (to, skipped): (&mut [u8], usize),
    ) -> Result<(), RuntimeError> {
        if let Some(edges) = &mut self.edges {
            for (column, range) in EdgeRowSource::columns(layout, header) {
                let place = HostPlace { out: &mut to[behind(range, skipped)], threads };
                edges.fill(layout, header, column, from, place)?;
            }
        }
        let read = self.nodes.fill(layout, header, threads, from, (to, skipped))?;
        header.set_rows_cached(read.hits());
        self.disk = if self.from_disk { DiskCounts::of(&read) } else { DiskCounts::default() };
        header.set_disk(self.disk.into());
        header.set_gathered(since_boot());
        Ok(())
    }

    /// See [`HostRows::serve`].
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        self.nodes.serve()
    }

    /// Disk reads for the last batch's rows.
    pub fn disk_reads(&self) -> DiskCounts {
        self.disk
    }
}
