//! Counts of the rows of a loader's batches that came from the cache on their GPU.

use std::collections::VecDeque;
use std::sync::Arc;

use uva_runtime::Batch;
use uva_runtime::feed::device::Receipt;

/// Rows and hits of batches. A GPU reports them later than the batches are handed out.
#[derive(Default)]
pub struct CacheTally {
    rows: u64,
    hits: u64,
    /// Batches that may still be gathered, oldest first: their receipts, and their rows.
    late: VecDeque<(Arc<Receipt>, u64)>,
}

impl CacheTally {
    /// Counts a batch, as soon as its gather is done.
    pub fn add(&mut self, batch: &Batch) {
        let Some(receipt) = batch.receipt() else { return };
        if self.late.len() == Receipt::LATE {
            // A caller that takes this many batches without waiting for one does not receive its hits.
            self.late.pop_front();
        }
        self.late.push_back((receipt, batch.node_count() as u64));
        self.settle();
    }

    /// Rows of the batches whose gather is done, and the number of hits.
    pub fn counts(&mut self) -> (u64, u64) {
        self.settle();
        (self.rows, self.hits)
    }

    fn settle(&mut self) {
        while let Some((receipt, rows)) = self.late.pop_front_if(|(receipt, _)| receipt.confirm().is_ok()) {
            self.rows += rows;
            self.hits += receipt.rows_cached();
        }
    }
}
