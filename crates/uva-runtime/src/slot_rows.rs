//! The rows of a feature slot in host memory: those of the batch's edges where asked for, and those of its nodes or their
//! sums.

use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout};
use uva_graph::Dataset;
use uva_rows::{HostPlace, RowCache};

use crate::RuntimeError;
use crate::clock::since_boot;
use crate::disk_counts::DiskCounts;
use crate::edge_rows::EdgeRows;
use crate::host_rows::{HostRows, behind};
use crate::rows_from::RowsFrom;

/// Fills a slot's columns of rows.
pub(crate) struct SlotRows<'d> {
    nodes: HostRows<'d>,
    edges: Option<EdgeRows>,
    from_disk: bool,
    disk: DiskCounts,
}

impl<'d> SlotRows<'d> {
    /// With this source of nodes' rows, which are read from disk or not.
    pub fn new(
        dataset: &'d Arc<Dataset>,
        layout: &BatchLayout,
        threads: usize,
        nodes: HostRows<'d>,
        from_disk: bool,
    ) -> Result<Self, RuntimeError> {
        let edges = EdgeRows::new(dataset, layout, threads)?;
        Ok(Self { nodes, edges, from_disk, disk: DiskCounts::default() })
    }

    /// By the calling thread alone, through this cache.
    pub fn of_one_thread(
        dataset: &'d Arc<Dataset>,
        layout: &BatchLayout,
        from: RowsFrom,
        cache: Option<RowCache>,
    ) -> Result<Self, RuntimeError> {
        let nodes = HostRows::behind(dataset, layout, (1, from), cache)?;
        Self::new(dataset, layout, 1, nodes, from != RowsFrom::Memory)
    }

    /// Says which nodes' rows the batches to come will ask for.
    pub fn expect(&mut self, coming: &[&[i64]]) {
        self.nodes.expect(coming);
    }

    /// Fills the columns of the batch of this header, and writes into it what that took. `from` is the payload with the
    /// sampler's columns, `to` the feature slot's from byte `skipped` on.
    pub fn fill(
        &mut self,
        layout: &BatchLayout,
        header: &mut BatchHeader,
        threads: usize,
        from: &[u8],
        (to, skipped): (&mut [u8], usize),
    ) -> Result<(), RuntimeError> {
        if let Some(edges) = &mut self.edges {
            for (layer, range) in EdgeRows::ranges(layout, header).enumerate() {
                let place = HostPlace { out: &mut to[behind(range, skipped)], threads };
                edges.fill(layout, header, layer, from, place)?;
            }
        }
        let read = self.nodes.fill(layout, header, threads, from, (to, skipped))?;
        header.set_rows_cached(read.hits());
        self.disk = if self.from_disk { DiskCounts::of(&read) } else { DiskCounts::default() };
        header.set_disk(self.disk.into());
        header.set_gathered(since_boot());
        Ok(())
    }

    /// As [`HostRows::serve`].
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        self.nodes.serve()
    }

    /// What the last batch's rows took from disk.
    pub fn disk_reads(&self) -> DiskCounts {
        self.disk
    }
}
