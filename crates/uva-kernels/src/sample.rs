//! Batches of neighbours, sampled and relabelled on the device: `kernels/sample.cu`.

use crate::arrays::KernelArray;
use crate::gather::IdWidth;
use crate::header::constant;
use crate::source::SAMPLE_CUH;

/// Threads of a block.
pub const BLOCK_THREADS: u32 = constant(SAMPLE_CUH, "UVA_SAMPLE_BLOCK_THREADS") as u32;
/// The maximum number of layers of a batch.
pub const LAYERS: usize = constant(SAMPLE_CUH, "UVA_SAMPLE_LAYERS") as usize;
/// A fanout that takes every entry of a list.
pub const WHOLE_LISTS: u32 = u32::MAX;
/// The maximum number of nodes of a batch, and of picks of a layer: local ids and offsets are int32.
pub const MOST_LOCAL: u64 = i32::MAX as u64;

/// The values of [`SampleReport::failure`]. `failed_layer` names the layer, except for [`failure::SEEDS`].
pub mod failure {
    use crate::header::constant;
    use crate::source::SAMPLE_CUH;

    /// No failure.
    pub const NONE: u64 = 0;
    /// An invalid seed: `bad_seed`.
    pub const SEEDS: u64 = constant(SAMPLE_CUH, "FAILED_SEEDS");
    /// More destinations than the array holds.
    pub const DESTINATIONS: u64 = constant(SAMPLE_CUH, "FAILED_DESTINATIONS");
    /// More kept picks than the array holds.
    pub const KEPT: u64 = constant(SAMPLE_CUH, "FAILED_KEPT");
    /// One of `bad_list`, `bad_home`, `overflow`, `bad_entry`, `bad_edge` and `no_room`.
    pub const LAYER: u64 = constant(SAMPLE_CUH, "FAILED_LAYER");
}

/// Declares [`SampleKernel`] from one row for each sampling kernel.
macro_rules! sample_kernels {
    ($($(#[doc = $doc:literal])* $kernel:ident = $name:literal $(reads $width:ident)?,)*) => {
        /// A sampling kernel. For their order see docs/internals/kernels.md.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SampleKernel {
            $($(#[doc = $doc])* $kernel,)*
        }

        impl SampleKernel {
            /// Every kernel, in the order of the table.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kernel),*];

            /// Its entry point.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kernel => $name,)* }
            }

            /// The width of the neighbour ids, if it reads ids.
            pub fn width(self) -> Option<IdWidth> {
                match self { $(Self::$kernel => sample_kernels!(@width $($width)?),)* }
            }
        }
    };
    (@width) => { None };
    (@width $width:ident) => { Some(IdWidth::$width) };
}

sample_kernels! {
    /// Resets the report.
    Begin = "sample_begin",
    /// Makes the seeds the first nodes of the batch.
    Seeds = "sample_seeds",
    /// Finds the lists.
    Lists = "sample_lists",
    /// Counts the entries that exist, for picks by weight.
    Weigh = "sample_weigh",
    /// Adds up the picks, for picks by weight.
    Totals = "sample_totals",
    /// Writes the block's `indptr`.
    Offsets = "sample_offsets",
    /// Picks positions uniformly.
    Picks = "sample_picks",
    /// Picks by LABOR, int32 ids.
    LaborI32 = "sample_labor_i32" reads I32,
    /// Picks by LABOR, int64 ids.
    LaborI64 = "sample_labor_i64" reads I64,
    /// Picks by weight.
    Weighted = "sample_weighted",
    /// Writes the positions in the dataset.
    EdgeIds = "sample_edge_ids",
    /// Reads int32 ids at the picked positions.
    IdsI32 = "sample_ids_i32" reads I32,
    /// Reads int64 ids at the picked positions.
    IdsI64 = "sample_ids_i64" reads I64,
    /// Finds the first pick of each node.
    Fresh = "sample_fresh",
    /// Assigns local ids.
    Assign = "sample_assign",
    /// Writes the block's `indices`.
    Relabel = "sample_relabel",
    /// Writes the nodes' names and degrees, and completes the report.
    Nodes = "sample_nodes",
}

impl SampleKernel {
    /// LABOR for ids of this width.
    pub const fn labor(width: IdWidth) -> Self {
        match width {
            IdWidth::I32 => Self::LaborI32,
            IdWidth::I64 => Self::LaborI64,
        }
    }

    /// The kernel that reads ids of this width.
    pub const fn ids(width: IdWidth) -> Self {
        match width {
            IdWidth::I32 => Self::IdsI32,
            IdWidth::I64 => Self::IdsI64,
        }
    }
}

shared_struct! {
    in SAMPLE_CUH;
    /// The arguments of the sampling kernels. Addresses are the device's; all arrays are aligned to their entries.
    pub struct SampleArguments {
        /// int64, `nodes + 1` entries: the bounds of each node's list in `indices`.
        pub indptr: u64,
        /// The lists, `edges` ids.
        pub indices: u64,
        /// Nodes of the graph.
        pub nodes: u64,
        /// Edges of the graph.
        pub edges: u64,
        /// The first `cached_lists` entries of `indptr` in device memory; 0 without a list cache.
        pub cached_indptr: u64,
        /// The first `cached_edges` of `indices` in device memory.
        pub cached_indices: u64,
        /// Lists of nodes below this are read from the cache.
        pub cached_lists: u64,
        /// The end of the cached lists in `indices`.
        pub cached_edges: u64,
        /// int64, `cached_lists` entries: the start of each cached list in the dataset's indices; 0 if it is looked up in
        /// `home_indptr`.
        pub cached_homes: u64,
        /// float32, `cached_edges` entries: the weights of the cached lists, in the order of `indices`; 0 if they are read
        /// from `weights`.
        pub cached_weights: u64,
        /// An id per node: the key of random words and hashes. 0 if that is the node itself.
        pub original_ids: u64,
        /// An id per node: its id in the finished batch. 0 if that is the node itself.
        pub dataset_ids: u64,
        /// 1 if `original_ids` are int64, 0 if they are int32.
        pub original_ids_wide: u64,
        /// 1 if `dataset_ids` are int64, 0 if they are int32.
        pub dataset_ids_wide: u64,
        /// int64, `nodes + 1` entries: the start of each node's list in the dataset's indices, by the dataset's ids. 0
        /// if the graph has the dataset's own order.
        pub home_indptr: u64,
        /// float32, one per edge of the dataset, for picks by weight.
        pub weights: u64,
        /// int32, one per node, by the dataset's ids: in-degrees in the whole graph that contains this one. 0 if every
        /// list is whole.
        pub whole_degrees: u64,
        /// The run's seed.
        pub seed: u64,
        /// The batch within its epoch.
        pub batch: u32,
        /// The last word of the random counter: epoch, and split in the two highest bits.
        pub epoch_and_split: u32,
        /// The number of batches for which a node's picks stay, at least 1.
        pub batch_dependency: u32,
        /// Strictly increasing while `local_ids` are kept; not 0.
        pub stamp: u32,
        /// The hop, 0 at the seeds.
        pub layer: u32,
        /// Picks from a longer list: at least 1; [`WHOLE_LISTS`] takes all.
        pub fanout: u32,
        /// 1 if a neighbour may be picked more than once, else 0.
        pub replace: u32,
        /// Destinations whose lists are read before any of them is picked for, at least 1. Among several errors, it
        /// decides which one is reported.
        pub group: u32,
        /// 1 if every visit of a list reads all of its entries, else 0: for the counts of reads.
        pub reads_whole_lists: u64,
        /// The number of seeds, which are in `batch_nodes`.
        pub seeds: u64,
        /// `block_indptr` of the previous layer, whose picks are kept: this block begins with that one. 0 if each
        /// destination gets new picks.
        pub kept_indptr: u64,
        /// `block_indices` of the previous layer; 0 if `kept_indptr` is 0.
        pub kept_indices: u64,
        /// `edge_ids` of the previous layer; 0 if `kept_indptr` or `edge_ids` is 0.
        pub kept_edge_ids: u64,
        /// int64, capacity for `nodes_room` node ids.
        pub batch_nodes: u64,
        /// At most 2³¹ − 1, at least `seeds`.
        pub nodes_room: u64,
        /// int32, as many as `batch_nodes`: the in-degrees of these nodes. 0 if not requested.
        pub node_degrees: u64,
        /// int32, `destinations_room + 1` entries.
        pub block_indptr: u64,
        /// The maximum number of destinations of this layer.
        pub destinations_room: u64,
        /// int32, `edges_room` entries.
        pub block_indices: u64,
        /// The maximum number of picks of this layer; at most 2³¹ − 1.
        pub edges_room: u64,
        /// int64, `edges_room` entries: the position of each pick in the dataset's indices. 0 if not requested.
        pub edge_ids: u64,
        /// uint64, one per node: initially all ones; the kernels keep it from batch to batch.
        pub local_ids: u64,
        /// int64, one per pick: scratch.
        pub slots: u64,
        /// int64, one per destination: scratch, kept within a batch.
        pub begins: u64,
        /// uint32, one per destination: scratch, kept within a batch.
        pub degrees: u64,
        /// int64, one per destination: scratch, kept within a batch. 0 if `home_indptr` is 0.
        pub homes: u64,
        /// uint32, one per destination: scratch, kept within a batch. 0 unless picks are by weight.
        pub existing: u64,
        /// uint32, one per destination: scratch, kept within a batch. 0 unless picks are by weight.
        pub heaviest: u64,
        /// uint64, one for each block of a launch: scratch.
        pub totals: u64,
        /// A [`SampleReport`].
        pub report: u64,
    }
}

shared_struct! {
    in SAMPLE_CUH;
    /// The size of one block of the batch.
    pub struct SampleLayer {
        /// Nodes that aggregate (destinations).
        pub destinations: u64,
        /// Sources, destinations included.
        pub sources: u64,
        /// Picks.
        pub edges: u64,
    }
}

shared_struct! {
    in SAMPLE_CUH;
    /// The result of a batch. It is in device memory and is read by a copy. The index of a missing "first" item is all
    /// ones.
    pub struct SampleReport {
        /// The batch's report stamp, written after everything else; 0 from its beginning until then.
        pub stamp: u64,
        /// The device's clock at the beginning, nanoseconds.
        pub began_ns: u64,
        /// The device's clock at the end, nanoseconds.
        pub ended_ns: u64,
        /// The batch's hash.
        pub hash: u64,
        /// Reads of lists: one for a list's bounds, and one for each neighbour picked from it.
        pub reads: u64,
        /// Reads of cached lists.
        pub cached_reads: u64,
        /// Nodes of the batch.
        pub nodes: u64,
        /// One of the numbers of [`failure`].
        pub failure: u64,
        /// The layer of failures from 2 on.
        pub failed_layer: u64,
        /// The first destination in that layer whose picks are not kept, for failure 3.
        pub failed_first: u64,
        /// The position of the first invalid seed.
        pub bad_seed: u64,
        /// The first destination with a list that is not a range of the edges.
        pub bad_list: u64,
        /// That node.
        pub bad_node: u64,
        /// The first destination without weights in the dataset.
        pub bad_home: u64,
        /// That node.
        pub bad_home_node: u64,
        /// The position in the dataset at which its list should begin.
        pub bad_home_begin: u64,
        /// The first destination whose picks do not fit.
        pub overflow: u64,
        /// The first pick with an id that is not a node.
        pub bad_edge: u64,
        /// Its position in `indices`.
        pub bad_position: u64,
        /// The first pick with a new node that does not fit.
        pub no_room: u64,
        /// The first entry whose original id was needed and that is not a node: its destination in the upper half, its
        /// position in the list in the lower.
        pub bad_entry: u64,
        /// The first pick of the destinations in the same group.
        pub bad_entry_edge: u64,
        /// The entry's position in `indices`.
        pub bad_entry_position: u64,
        /// Only for the kernels.
        pub destinations: u64,
        /// Only for the kernels.
        pub known: u64,
        /// Only for the kernels.
        pub picking: u64,
        /// Only for the kernels.
        pub edges: u64,
        /// Only for the kernels.
        pub base: u64,
        /// Only for the kernels.
        pub done: u64,
        /// The blocks' sizes, from the seeds outward.
        pub layers: [SampleLayer; LAYERS],
    }
}

impl SampleReport {
    /// Reads a report from bytes copied from the device.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        bytemuck::pod_read_unaligned(bytes)
    }
}

impl SampleArguments {
    /// The arrays of these arguments; `width` if neighbour ids are read.
    pub fn arrays(&self, width: Option<IdWidth>) -> [KernelArray; 28] {
        let nodes = self.nodes;
        let ends = nodes.saturating_add(1);
        let wide = |flag: u64| if flag == 0 { 4 } else { 8 };
        let id_bytes = width.map_or(4, IdWidth::bytes);
        let of_ids = |count: u64| if width.is_some() { count } else { 0 };
        let homes = if self.home_indptr == 0 { 0 } else { self.destinations_room };
        let (weights, weighed) =
            if self.existing == 0 { (0, 0) } else { (self.edges, self.destinations_room) };
        [
            KernelArray::read("indptr", self.indptr, ends, 8),
            KernelArray::read("indices", self.indices, of_ids(self.edges), id_bytes),
            KernelArray::read("the cached indptr", self.cached_indptr, self.cached_lists, 8),
            KernelArray::read("the cached indices", self.cached_indices, of_ids(self.cached_edges), id_bytes),
            KernelArray::read("the places of the cached lists", self.cached_homes, self.cached_lists, 8)
                .if_any(),
            KernelArray::read("the cached weights", self.cached_weights, self.cached_edges, 4).if_any(),
            KernelArray::read("the original ids", self.original_ids, nodes, wide(self.original_ids_wide))
                .if_any(),
            KernelArray::read("the dataset's ids", self.dataset_ids, nodes, wide(self.dataset_ids_wide))
                .if_any(),
            KernelArray::read("the dataset's indptr", self.home_indptr, ends, 8).if_any(),
            KernelArray::read("the weights", self.weights, weights, 4),
            KernelArray::read("the in-degrees in the whole graph", self.whole_degrees, nodes, 4).if_any(),
            KernelArray::read("the kept indptr", self.kept_indptr, 1, 4).unbounded().if_any(),
            KernelArray::read("the kept indices", self.kept_indices, 1, 4).unbounded().if_any(),
            KernelArray::read("the kept edge ids", self.kept_edge_ids, 1, 8).unbounded().if_any(),
            KernelArray::write("the nodes of the batch", self.batch_nodes, self.nodes_room, 8),
            KernelArray::write("the degrees of the nodes", self.node_degrees, self.nodes_room, 4).if_any(),
            KernelArray::write(
                "the block's indptr",
                self.block_indptr,
                self.destinations_room.saturating_add(1),
                4,
            ),
            KernelArray::write("the block's indices", self.block_indices, self.edges_room, 4),
            KernelArray::write("the edge ids", self.edge_ids, self.edges_room, 8).if_any(),
            KernelArray::write("the local ids", self.local_ids, nodes, 8),
            KernelArray::write("the slots", self.slots, self.edges_room, 8),
            KernelArray::write("the begins", self.begins, self.destinations_room, 8),
            KernelArray::write("the degrees", self.degrees, self.destinations_room, 4),
            KernelArray::write("the places in the dataset", self.homes, homes, 8),
            KernelArray::write("the counts of entries", self.existing, weighed, 4),
            KernelArray::write("the heaviest weights", self.heaviest, weighed, 4),
            KernelArray::write("the totals", self.totals, 1, 8),
            KernelArray::write("the report", self.report, 1, SampleReport::BYTES as u64),
        ]
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments, or which numbers are invalid.
    pub fn check(&self, width: Option<IdWidth>) -> Result<(), String> {
        let refuse = |what: String| Err(format!("a batch cannot be sampled: {what}"));
        if let Some(refusal) = self.arrays(width).iter().find_map(KernelArray::refusal) {
            return refuse(refusal);
        }
        if self.nodes_room > MOST_LOCAL || self.edges_room > MOST_LOCAL {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_from_its_bytes() {
        let mut bytes = [0; SampleReport::BYTES];
        for word in 0..SampleReport::BYTES / 8 {
            bytes[word * 8..][..8].copy_from_slice(&(word as u64 + 1).to_ne_bytes());
        }
        let report = SampleReport::from_bytes(&bytes);
        assert_eq!((report.stamp, report.hash, report.no_room, report.done), (1, 4, 20, 29));
        assert_eq!(report.layers[0], SampleLayer { destinations: 30, sources: 31, edges: 32 });
        assert_eq!(report.layers[31].edges, 125);
    }

    fn arguments() -> SampleArguments {
        SampleArguments {
            indptr: 0x1000,
            indices: 0x2000,
            nodes: 10,
            edges: 20,
            batch_dependency: 1,
            stamp: 1,
            fanout: 3,
            group: 256,
            seeds: 2,
            batch_nodes: 0x3000,
            nodes_room: 8,
            block_indptr: 0x4000,
            destinations_room: 2,
            block_indices: 0x5000,
            edges_room: 6,
            local_ids: 0x6000,
            slots: 0x7000,
            begins: 0x8000,
            degrees: 0x9000,
            totals: 0xa000,
            report: 0xb000,
            ..SampleArguments::default()
        }
    }

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = arguments();
        good.check(Some(IdWidth::I64)).unwrap();
        SampleArguments { indices: 0x2004, ..good }.check(Some(IdWidth::I32)).unwrap();
        for (wrong, told) in [
            (SampleArguments { indptr: 0, ..good }, "indptr"),
            (SampleArguments { nodes: u64::MAX / 4, ..good }, "indptr"),
            (SampleArguments { indices: 0x2004, ..good }, "aligned to 8"),
            (SampleArguments { cached_lists: 1, ..good }, "the cached indptr"),
            (SampleArguments { cached_lists: 11, cached_indptr: 0x100, ..good }, "more lists"),
            (
                SampleArguments { cached_lists: 1, cached_indptr: 0x100, cached_homes: 0x104, ..good },
                "the places of the cached lists",
            ),
            (
                SampleArguments { cached_edges: 1, cached_indices: 0x100, cached_weights: 0x102, ..good },
                "the cached weights",
            ),
            (SampleArguments { original_ids: 0x104, original_ids_wide: 1, ..good }, "the original ids"),
            (SampleArguments { nodes_room: 1 << 31, ..good }, "2^31"),
            (SampleArguments { edges_room: 1 << 31, ..good }, "2^31"),
            (SampleArguments { seeds: 9, ..good }, "9 seeds"),
            (SampleArguments { stamp: 0, ..good }, "its stamp"),
            (SampleArguments { fanout: 0, ..good }, "fanout"),
            (SampleArguments { layer: 32, ..good }, "layer 32"),
            (SampleArguments { report: 0xb004, ..good }, "the report"),
            (SampleArguments { totals: 0, ..good }, "the totals"),
            (SampleArguments { home_indptr: 0x100, ..good }, "the places in the dataset"),
            (SampleArguments { weights: 0x102, ..good }, "the weights"),
            (SampleArguments { existing: 0x104, ..good }, "the weights"),
            (SampleArguments { existing: 0x104, weights: 0x108, ..good }, "the heaviest weights"),
            (SampleArguments { kept_indptr: 0x100, kept_indices: 0x200, ..good }, "keeps"),
            (SampleArguments { kept_indptr: 0x100, layer: 1, ..good }, "keeps"),
            (SampleArguments { edge_ids: 0x104, ..good }, "the edge ids"),
        ] {
            let error = wrong.check(Some(IdWidth::I64)).unwrap_err();
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }
}
