//! The rows of a feature slot in host memory: those of the batch's edges where asked for, and those of its nodes or their
//! sums.

use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout};
use uva_graph::Dataset;
use uva_rows::{DiskReads, HostPlace, RowCache};

use crate::RuntimeError;
use crate::clock::since_boot;
use crate::edge_rows::EdgeRows;
use crate::host_rows::{HostRows, behind};
use crate::rows_from::RowsFrom;

/// Fills a slot's columns of rows.
pub(crate) struct SlotRows<'d> {
    nodes: HostRows<'d>,
    edges: Option<EdgeRows>,
    disk: DiskReads,
}

impl<'d> SlotRows<'d> {
    /// With this source of nodes' rows.
    pub fn new(
        dataset: &'d Arc<Dataset>,
        layout: &BatchLayout,
        threads: usize,
        nodes: HostRows<'d>,
    ) -> Result<Self, RuntimeError> {
        let edges = EdgeRows::new(dataset, layout, threads)?;
        Ok(Self { nodes, edges, disk: DiskReads::default() })
    }

    /// By the calling thread alone, through this cache.
    pub fn of_one_thread(
        dataset: &'d Arc<Dataset>,
        layout: &BatchLayout,
        from: RowsFrom,
        cache: Option<RowCache>,
    ) -> Result<Self, RuntimeError> {
        Self::new(dataset, layout, 1, HostRows::behind(dataset, layout, (1, from), cache)?)
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
        self.disk = read.disk();
        header.set_gathered(since_boot());
        Ok(())
    }

    /// What the last batch's rows took from disk.
    pub fn disk_reads(&self) -> DiskReads {
        self.disk
    }
}
