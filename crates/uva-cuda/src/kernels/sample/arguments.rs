//! What the sampling kernels read and write, and how a batch went.

use crate::error::CudaError;
use crate::kernels::gather::IdWidth;

/// Most layers of a batch.
pub const LAYERS: usize = 32;

/// A fanout that takes every list as it stands.
pub const WHOLE_LISTS: u32 = u32::MAX;

/// What the sampling kernels read and write. Addresses are the device's; all arrays are aligned to their entries.
/// `SampleArguments` of `kernels/sample.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleArguments {
    /// int64, `nodes + 1` entries: where each node's list begins and ends in `indices`.
    pub indptr: u64,
    /// The lists, `edges` ids.
    pub indices: u64,
    /// Nodes of the graph.
    pub nodes: u64,
    /// Edges of the graph.
    pub edges: u64,
    /// The first `cached_lists + 1` entries of `indptr` in device memory; 0 where no list is cached.
    pub cached_indptr: u64,
    /// The first `cached_edges` of `indices` in device memory.
    pub cached_indices: u64,
    /// Lists of nodes below this are read from the cache.
    pub cached_lists: u64,
    /// Where they end in `indices`.
    pub cached_edges: u64,
    /// An id a node: what random words and hashes are keyed by. 0 where that is the node itself.
    pub original_ids: u64,
    /// An id a node: what the batch's nodes are called when all is done. 0 where that is the node itself.
    pub dataset_ids: u64,
    /// 1 where `original_ids` are int64, 0 where they are int32.
    pub original_ids_wide: u64,
    /// The same of `dataset_ids`.
    pub dataset_ids_wide: u64,
    /// int64, `nodes + 1` entries: where each node's list begins in the dataset's indices, by the dataset's ids. 0
    /// where the lists are at home where they lie.
    pub home_indptr: u64,
    /// float32, one an edge of the dataset, where picks are by weight.
    pub weights: u64,
    /// The run's seed.
    pub seed: u64,
    /// The batch within its epoch.
    pub batch: u32,
    /// The last word of the random counter: epoch, and split in the two highest bits.
    pub epoch_and_split: u32,
    /// For how many batches a node's picks stay, at least 1.
    pub batch_dependency: u32,
    /// Never the same twice, and rising, while `local_ids` are kept; not 0.
    pub stamp: u32,
    /// The hop, 0 at the seeds.
    pub layer: u32,
    /// Picks out of a longer list: at least 1; [`WHOLE_LISTS`] takes all.
    pub fanout: u32,
    /// 1 where a neighbour may be picked more than once, else 0.
    pub replace: u32,
    /// Destinations that are looked at before any of them is picked for, at least 1: decides which of several errors is
    /// told.
    pub group: u32,
    /// 1 where a list is read whole whatever is picked from it, else 0: for the counts of reads.
    pub reads_whole_lists: u64,
    /// Seeds, which lie in `batch_nodes`.
    pub seeds: u64,
    /// `block_indptr` of the layer before, whose picks are kept: this block begins with that one. 0 where each
    /// destination gets picks of its own.
    pub kept_indptr: u64,
    /// `block_indices` of the layer before; 0 as `kept_indptr`.
    pub kept_indices: u64,
    /// `edge_ids` of the layer before; 0 as `kept_indptr` or `edge_ids`.
    pub kept_edge_ids: u64,
    /// int64, room for `nodes_room` node ids.
    pub batch_nodes: u64,
    /// At most 2³¹ − 1, at least `seeds`.
    pub nodes_room: u64,
    /// int32, as many as `batch_nodes`: the in-degrees of these nodes. 0 where nobody asks.
    pub node_degrees: u64,
    /// int32, `destinations_room + 1` entries.
    pub block_indptr: u64,
    /// Destinations that this layer has room for.
    pub destinations_room: u64,
    /// int32, `edges_room` entries.
    pub block_indices: u64,
    /// Picks that this layer has room for; at most 2³¹ − 1.
    pub edges_room: u64,
    /// int64, `edges_room` entries: the position of each pick in the dataset's indices. 0 where nobody asks.
    pub edge_ids: u64,
    /// uint64, one a node: all ones at first, then the kernels' own from batch to batch.
    pub local_ids: u64,
    /// int64, one a pick: scratch.
    pub slots: u64,
    /// int64, one a destination: scratch, kept within a batch.
    pub begins: u64,
    /// uint32, one a destination: scratch, kept within a batch.
    pub degrees: u64,
    /// int64, one a destination: scratch, kept within a batch. 0 where `home_indptr` is.
    pub homes: u64,
    /// uint32, one a destination: scratch, kept within a batch. 0 unless picks are by weight.
    pub existing: u64,
    /// The same.
    pub heaviest: u64,
    /// uint64, one for each block of a launch: scratch.
    pub totals: u64,
    /// A [`SampleReport`].
    pub report: u64,
}

const _: () = assert!(size_of::<SampleArguments>() == 328 && align_of::<SampleArguments>() == 8);

/// The size of one block of the batch. `SampleLayer` of `kernels/sample.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleLayer {
    /// Nodes that aggregate.
    pub destinations: u64,
    /// Nodes that are aggregated, destinations included.
    pub sources: u64,
    /// Picks.
    pub edges: u64,
}

/// How a batch went. `SampleReport` of `kernels/sample.cuh`; it lies in device memory and is read by a copy. Where
/// there is no "first" one its number is all ones.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleReport {
    /// The batch's stamp, once everything else is complete; 0 from its beginning until then.
    pub stamp: u64,
    /// The device's clock at the beginning, nanoseconds.
    pub began_ns: u64,
    /// The device's clock at the end, nanoseconds.
    pub ended_ns: u64,
    /// The batch's hash.
    pub hash: u64,
    /// Reads of lists: one of a list's place, and one for each neighbour picked from it.
    pub reads: u64,
    /// Those of cached lists.
    pub cached_reads: u64,
    /// Nodes of the batch.
    pub nodes: u64,
    /// 0: none; 1: a seed; 2: more destinations than room; 4: more kept picks than room; 3: one of `bad_list`,
    /// `bad_home`, `overflow`, `bad_entry`, `bad_edge`, `no_room`.
    pub failure: u64,
    /// The layer of failures from 2 on.
    pub failed_layer: u64,
    /// The first destination there whose picks are not kept, of failure 3.
    pub failed_first: u64,
    /// Twice the position of the first seed that cannot be, one more where it is a repetition.
    pub bad_seed: u64,
    /// The first destination whose list is no range of the edges.
    pub bad_list: u64,
    /// That node.
    pub bad_node: u64,
    /// The first destination that the dataset has no weights for.
    pub bad_home: u64,
    /// That node.
    pub bad_home_node: u64,
    /// Where its list should begin in the dataset.
    pub bad_home_begin: u64,
    /// The first destination whose picks have no room.
    pub overflow: u64,
    /// The first pick whose id is no node.
    pub bad_edge: u64,
    /// Its position in `indices`.
    pub bad_position: u64,
    /// The first pick whose node is new and has no room.
    pub no_room: u64,
    /// The first entry that was looked at for its name and is no node: its destination in the upper half, its place in
    /// the list in the lower.
    pub bad_entry: u64,
    /// The first pick of the destinations that were looked at together with that one.
    pub bad_entry_edge: u64,
    /// The entry's position in `indices`.
    pub bad_entry_position: u64,
    /// The kernels' own.
    pub destinations: u64,
    /// The kernels' own.
    pub known: u64,
    /// The kernels' own.
    pub picking: u64,
    /// The kernels' own.
    pub edges: u64,
    /// The kernels' own.
    pub base: u64,
    /// The kernels' own.
    pub done: u64,
    /// The blocks' sizes, from the seeds outward.
    pub layers: [SampleLayer; LAYERS],
}

const _: () = assert!(size_of::<SampleReport>() == SampleReport::BYTES && align_of::<SampleReport>() == 8);

impl SampleReport {
    /// Bytes of a report.
    pub const BYTES: usize = 29 * 8 + LAYERS * 24;

    /// A report from the bytes that were copied from the device.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        // SAFETY: as many bytes, read unaligned; every field is a number, for which any bytes are a value.
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }
}

impl SampleArguments {
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy.
    pub(super) fn check(&self, width: IdWidth) -> Result<(), CudaError> {
        let refuse = |what: String| Err(CudaError::Refused(format!("a batch cannot be sampled: {what}")));
        let wide = |flag: u64| if flag == 0 { 4 } else { 8 };
        let named = |address: u64| if address == 0 { 0 } else { self.nodes };
        let if_any = |address: u64, many: u64| if address == 0 { 0 } else { many };
        let homes = if_any(self.home_indptr, self.destinations_room);
        let weighed = if_any(self.existing, self.destinations_room);
        let cached = if self.cached_lists == 0 { 0 } else { self.cached_lists.saturating_add(1) };
        for (what, address, many, each) in [
            ("indptr", self.indptr, self.nodes.saturating_add(1), 8),
            ("indices", self.indices, self.edges, width.bytes()),
            ("the cached indptr", self.cached_indptr, cached, 8),
            ("the cached indices", self.cached_indices, self.cached_edges, width.bytes()),
            ("the original ids", self.original_ids, named(self.original_ids), wide(self.original_ids_wide)),
            ("the dataset's ids", self.dataset_ids, named(self.dataset_ids), wide(self.dataset_ids_wide)),
            (
                "the dataset's indptr",
                self.home_indptr,
                if_any(self.home_indptr, self.nodes.saturating_add(1)),
                8,
            ),
            ("the weights", self.weights, if_any(self.existing, self.edges), 4),
            ("the nodes of the batch", self.batch_nodes, self.nodes_room, 8),
            ("the degrees of the nodes", self.node_degrees, 0, 4),
            ("the block's indptr", self.block_indptr, self.destinations_room.saturating_add(1), 4),
            ("the block's indices", self.block_indices, self.edges_room, 4),
            ("the edge ids", self.edge_ids, if_any(self.edge_ids, self.edges_room), 8),
            ("the local ids", self.local_ids, self.nodes, 8),
            ("the slots", self.slots, self.edges_room, 8),
            ("the begins", self.begins, self.destinations_room, 8),
            ("the degrees", self.degrees, self.destinations_room, 4),
            ("the places in the dataset", self.homes, homes, 8),
            ("the counts of entries", self.existing, weighed, 4),
            ("the heaviest weights", self.heaviest, weighed, 4),
            ("the totals", self.totals, 1, 8),
            ("the report", self.report, 1, SampleReport::BYTES as u64),
        ] {
            if many.checked_mul(each).and_then(|bytes| address.checked_add(bytes)).is_none() {
                return refuse(format!(
                    "{what} ({many} times {each} bytes at {address:#x}) reaches beyond 64 bits"
                ));
            }
            if many > 0 && address == 0 {
                return refuse(format!("{what} is at address 0"));
            }
            let alignment = each.min(8);
            if address % alignment != 0 {
                return refuse(format!("{what} at {address:#x} is not aligned to {alignment} bytes"));
            }
        }
        if self.nodes_room > i32::MAX as u64 || self.edges_room > i32::MAX as u64 {
            return refuse("local ids end at 2^31 - 1".to_owned());
        }
        if self.seeds > self.nodes_room {
            return refuse(format!("{} seeds in room for {} nodes", self.seeds, self.nodes_room));
        }
        if self.cached_lists > self.nodes || self.cached_edges > self.edges {
            return refuse("more lists are cached than there are".to_owned());
        }
        if self.stamp == 0 || self.fanout == 0 || self.group == 0 || self.batch_dependency == 0 {
            return refuse("its stamp, fanout, group or batch dependency is 0".to_owned());
        }
        let kept = [self.kept_indptr, self.kept_indices, self.kept_edge_ids].map(|address| address != 0);
        let keeps = self.kept_indptr != 0;
        if kept != [keeps, keeps, keeps && self.edge_ids != 0] || (keeps && self.layer == 0) {
            return refuse("it keeps part of a block, or has none before it".to_owned());
        }
        if self.layer as usize >= LAYERS {
            return refuse(format!("layer {} of {LAYERS}", self.layer));
        }
        Ok(())
    }
}
