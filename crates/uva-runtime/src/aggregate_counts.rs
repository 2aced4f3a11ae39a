//! What the producer's sums of a batch saved, for the metrics.

use serde::{Deserialize, Serialize};
use uva_batch::{Aggregation, BatchHeader, BatchLayout};

/// The sums of a batch. Counts leave padding out, bytes do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateCounts {
    /// Where they were made: `host`, by the producer's CPU threads, or `device`, by a kernel of its.
    pub way: String,
    /// Feature rows in the slot: the destinations' own.
    pub own_rows: usize,
    /// Sums in the slot.
    pub sum_rows: usize,
    /// Rows that were added up, each as often as a list names it.
    pub entries: usize,
    /// Rows that were read: those added up, and the destinations' own.
    pub rows_read: usize,
    /// Bytes of rows and sums in the slot.
    pub slot_bytes: usize,
    /// Bytes that the rows of all nodes would take there.
    pub raw_slot_bytes: usize,
}

impl AggregateCounts {
    /// Those of the batch of this header, whose slot is on a GPU or in host memory; `None` where the producer does not
    /// sum.
    pub fn of(layout: &BatchLayout, header: &BatchHeader, on_device: bool) -> Option<Self> {
        let aggregation = layout.aggregation();
        if aggregation == Aggregation::None {
            return None;
        }
        let last = layout.layers().len() - 1;
        let (outermost, in_slot) = (header.real_layer(last), header.outermost());
        let (sum_rows, entries) = (outermost.destinations, outermost.edges);
        let own = |rows| if aggregation.keeps_own_rows() { rows } else { 0 };
        Some(Self {
            way: if on_device { "device" } else { "host" }.to_owned(),
            own_rows: own(sum_rows),
            sum_rows,
            entries,
            // GCN's sums read the destination's own row, too.
            rows_read: entries + sum_rows,
            slot_bytes: own(in_slot.destinations) * layout.row_bytes()
                + in_slot.destinations * layout.dim() * size_of::<f32>(),
            raw_slot_bytes: header.nodes() * layout.row_bytes(),
        })
    }
}
