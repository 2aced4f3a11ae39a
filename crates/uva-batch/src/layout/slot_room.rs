//! The capacity of a feature slot on a GPU.

use serde::{Deserialize, Serialize};
use uva_graph::Split;
use uva_sample::{BatchCounts, BatchKey};

use crate::static_shapes::likely_most;
use crate::{BatchHeader, BatchLayout};

/// Slots begin on pages.
const PAGE: usize = 4096;

/// The capacity of a feature slot on a GPU. The slot uses this memory whether or not a batch fills it, so it may be
/// smaller than the largest batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRoom {
    /// Bytes of the slot: whole pages.
    pub bytes: usize,
    /// Maximum number of nodes, which is the number of rows that are gathered into the slot or outside it.
    pub nodes: usize,
}

impl SlotRoom {
    /// Capacity for every batch of this layout.
    #[must_use]
    pub fn largest(layout: &BatchLayout) -> Self {
        Self { bytes: layout.device_slot_bytes(), nodes: layout.node_capacity() }
    }

    /// Capacity for batches like `samples`: mean plus five standard deviations of their bytes and of their nodes, at
    /// most that of the largest batch.
    ///
    /// # Panics
    /// If `samples` is empty.
    #[must_use]
    pub fn estimate(samples: &[BatchCounts], layout: &BatchLayout) -> Self {
        let bytes = samples.iter().map(|counts| layout.packed_bytes(&header(counts)));
        let nodes = samples.iter().map(BatchCounts::nodes);
        let likely = Self { bytes: likely_most(bytes).next_multiple_of(PAGE), nodes: likely_most(nodes) };
        likely.combined(Self::largest(layout), usize::min)
    }

    /// Capacity for batches of either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.combined(other, usize::max)
    }

    fn combined(self, other: Self, each: fn(usize, usize) -> usize) -> Self {
        Self { bytes: each(self.bytes, other.bytes), nodes: each(self.nodes, other.nodes) }
    }

    /// Whether the batch of this header fits.
    #[must_use]
    pub fn holds(&self, layout: &BatchLayout, header: &BatchHeader) -> bool {
        header.nodes() <= self.nodes && layout.packed_bytes(header) <= self.bytes
    }
}

/// The header of a batch with these counts.
fn header(counts: &BatchCounts) -> BatchHeader {
    BatchHeader::of_batch(BatchKey { split: Split::Train, epoch: 0, batch: 0 }, counts)
}

// As JSON, for messages of a run's set-up.
uva_options::json_values!(SlotRoom);

#[cfg(test)]
mod tests {
    use uva_graph::Dataset;
    use uva_io::generate::{self, Common, PowerLaw};
    use uva_options::OptionValue;
    use uva_sample::{BlockSize, SamplerOptions};

    use super::*;
    use crate::{Aggregation, BatchSpec, FeatureType};

    /// Batches of 10 seeds with 3 neighbours each, of nodes with 100 float32.
    fn layout() -> BatchLayout {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("graph");
        let common = Common { nodes: 500, average_degree: 6.0, feature_dim: 100, ..Common::default() };
        generate::write(&path, &PowerLaw::of(common), &|_| {}).unwrap();
        let spec = BatchSpec {
            sampling: SamplerOptions { fanouts: [3].into(), ..SamplerOptions::default() },
            batch_size: 10,
            target: uva_graph::NodeType::ONLY,
            slot_bytes: None,
            feature_type: FeatureType::Table,
            aggregation: Aggregation::None,
            gathers_before_sums: false,
            chooses_sums: false,
            asked: Vec::new(),
            shapes: None,
            tables: None,
        };
        BatchLayout::new(&Dataset::open(&path).unwrap(), &spec).unwrap()
    }

    fn batch(nodes: usize) -> BatchCounts {
        BatchCounts::of_blocks(10, [BlockSize { destinations: 10, sources: nodes, edges: 30 }])
    }

    #[test]
    fn room_is_mean_plus_five_deviations_and_at_most_the_largest_batch() {
        let (layout, largest) = (layout(), SlotRoom::largest(&layout()));
        assert_eq!(largest.nodes, 40);
        let bytes = |nodes| layout.packed_bytes(&header(&batch(nodes)));
        let alike = SlotRoom::estimate(&[batch(20), batch(20)], &layout);
        assert_eq!(alike, SlotRoom { bytes: bytes(20).next_multiple_of(PAGE), nodes: 20 });
        // 21 + 5·√2 = 28.07 nodes of 400 bytes.
        let likely = SlotRoom::estimate(&[batch(20), batch(22)], &layout);
        assert_eq!(likely.nodes, 29);
        assert!(bytes(28) <= likely.bytes && likely.bytes < bytes(29) + PAGE, "{likely:?}");
        assert_eq!(SlotRoom::estimate(&[batch(10), batch(40)], &layout), largest);
        assert_eq!(alike.or(SlotRoom { bytes: 0, nodes: 30 }), SlotRoom { nodes: 30, ..alike });
    }

    #[test]
    fn a_batch_fits_by_its_bytes_and_by_its_nodes() {
        let layout = layout();
        let room = SlotRoom::estimate(&[batch(20)], &layout);
        let holds = |room: SlotRoom, nodes| room.holds(&layout, &header(&batch(nodes)));
        assert!(holds(room, 20) && holds(room, 11));
        assert!(!holds(room, 21), "a node too many");
        assert!(!holds(SlotRoom { nodes: 40, ..room }, 40), "too many bytes");
        assert!(holds(SlotRoom::largest(&layout), 40));
    }

    #[test]
    fn room_is_read_as_it_was_written() {
        let room = SlotRoom { bytes: 8192, nodes: 7 };
        assert_eq!(SlotRoom::of_text(&room.text()), Some(room));
        assert_eq!(SlotRoom::of_json(&serde_json::json!({ "bytes": 3 })), None);
    }
}
