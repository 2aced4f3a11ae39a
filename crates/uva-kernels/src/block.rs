//! Preparation of a batch's blocks for training: `kernels/train.cu`.

use crate::arrays::KernelArray;
use crate::source::BLOCK_CUH;

/// The entry point.
pub const BLOCK_PREPARE: &str = "block_prepare";

/// Threads of a block of threads, exactly.
pub const BLOCK_THREADS: u32 = crate::header::constant(BLOCK_CUH, "UVA_BLOCK_THREADS") as u32;

/// Destinations that a block of threads works on.
pub const DESTINATIONS: u64 = crate::header::constant(BLOCK_CUH, "UVA_BLOCK_DESTINATIONS");

/// The maximum number of blocks of a launch.
pub const BLOCKS_AT_ONCE: usize = crate::header::constant(BLOCK_CUH, "UVA_BLOCKS_AT_ONCE") as usize;

/// The weights of a block's edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeWeights {
    /// No weights.
    None,
    /// The sampler's weights, or else one over the number of edges of the destination's list.
    Mean,
    /// Weight 1.
    Sum,
    /// Weights of a graph convolutional network, by whole-graph degrees.
    Degrees,
}

impl EdgeWeights {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::None, Self::Mean, Self::Sum, Self::Degrees];

    /// The kernel's number for it.
    pub const fn number(self) -> u64 {
        match self {
            Self::None => crate::header::constant(BLOCK_CUH, "UVA_WEIGHTS_NONE"),
            Self::Mean => crate::header::constant(BLOCK_CUH, "UVA_WEIGHTS_MEAN"),
            Self::Sum => crate::header::constant(BLOCK_CUH, "UVA_WEIGHTS_SUM"),
            Self::Degrees => crate::header::constant(BLOCK_CUH, "UVA_WEIGHTS_DEGREES"),
        }
    }
}

shared_struct! {
    in BLOCK_CUH;
    /// A block in a slot, and the destination of the prepared block. Addresses are the device's. The block's numbers
    /// may have any value; prepared numbers are in range.
    pub struct BlockArguments {
        /// int32, `destinations + 1`: offsets.
        pub indptr: u64,
        /// int32, `edges`: sources.
        pub indices: u64,
        /// float32, `edges`: the sampler's weights. 0 if there are none.
        pub sampled: u64,
        /// int32, `sources`: whole-graph degrees. 0 unless edges are weighted by them.
        pub degrees: u64,
        /// Destinations of the block: the first of the sources.
        pub destinations: u64,
        /// Edges; none without destinations.
        pub edges: u64,
        /// Sources.
        pub sources: u64,
        /// [`EdgeWeights::number`].
        pub weighting: u64,
        /// 0 for weights in float32, 1 for float64.
        pub wide: u64,
        /// int32, `destinations + 1`: offsets from 0 to `edges`, never decreasing.
        pub offsets: u64,
        /// int32, `edges`: sources below `sources`.
        pub sources_of_edges: u64,
        /// int32, `edges`: the destination of each edge.
        pub destinations_of_edges: u64,
        /// `edges` weights; 0 for [`EdgeWeights::None`].
        pub weights: u64,
        /// `destinations` weights of the destinations' own rows for [`EdgeWeights::Degrees`], else 0.
        pub own: u64,
    }
}

impl BlockArguments {
    /// The arrays of these arguments.
    pub fn arrays(&self) -> [KernelArray; 9] {
        let Self { destinations, edges, sources, .. } = *self;
        let number = if self.wide == 0 { 4 } else { 8 };
        let (none, degrees) = (EdgeWeights::None.number(), EdgeWeights::Degrees.number());
        let weights = if self.weighting == none { 0 } else { edges };
        let (own, read_degrees) = if self.weighting == degrees { (destinations, sources) } else { (0, 0) };
        [
            KernelArray::read("the offsets", self.indptr, destinations + 1, 4),
            KernelArray::read("the sources", self.indices, edges, 4),
            KernelArray::read("the sampler's weights", self.sampled, edges, 4).if_any(),
            KernelArray::read("the degrees", self.degrees, read_degrees, 4),
            KernelArray::write("the prepared offsets", self.offsets, destinations + 1, 4),
            KernelArray::write("the prepared sources", self.sources_of_edges, edges, 4),
            KernelArray::write("the edges' destinations", self.destinations_of_edges, edges, 4),
            KernelArray::write("the weights", self.weights, weights, number),
            KernelArray::write("the own weights", self.own, own, number),
        ]
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// The reason why no memory can match these arguments.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |what: String| Err(format!("a block cannot be prepared: {what}"));
        let Self { destinations, edges, sources, weighting, .. } = *self;
        if [destinations, edges, sources].iter().any(|&count| count >= i32::MAX as u64) {
            return refuse(format!(
                "{destinations} destinations, {edges} edges or {sources} sources are more than i32 can count"
            ));
        }
        if destinations > sources || (destinations == 0 && edges > 0) {
            return refuse(format!("{edges} edges from {sources} sources to {destinations} destinations"));
        }
        if EdgeWeights::ALL.iter().all(|known| known.number() != weighting) {
            return refuse(format!("its edges are weighted in a way of number {weighting}"));
        }
        if self.weights != 0 && weighting == EdgeWeights::None.number() {
            return refuse("weights are for edges that are weighted".to_owned());
        }
        if self.own != 0 && weighting != EdgeWeights::Degrees.number() {
            return refuse("own weights are for those by degrees".to_owned());
        }
        self.arrays().iter().find_map(KernelArray::refusal).map_or(Ok(()), refuse)
    }

    /// The number of blocks of threads with work.
    pub fn useful_blocks(&self) -> u64 {
        self.destinations.div_ceil(DESTINATIONS).max(1)
    }
}

shared_struct! {
    in BLOCK_CUH;
    /// The blocks that a launch prepares. Its grid is a multiple of their number.
    pub struct BatchBlocks {
        /// The number of blocks: 1 to [`BLOCKS_AT_ONCE`].
        pub count: u64,
        /// The blocks; those after `count` are ignored.
        pub blocks: [BlockArguments; BLOCKS_AT_ONCE],
    }
}

impl BatchBlocks {
    /// Creates the arguments of a launch.
    ///
    /// # Panics
    /// If there is no block, or more than [`BLOCKS_AT_ONCE`].
    pub fn new(blocks: &[BlockArguments]) -> Self {
        let mut all = Self { count: blocks.len() as u64, ..Self::default() };
        assert!(!blocks.is_empty(), "a launch for no block");
        all.blocks[..blocks.len()].copy_from_slice(blocks);
        all
    }

    /// The first `count` blocks.
    pub fn blocks(&self) -> &[BlockArguments] {
        &self.blocks[..(self.count as usize).min(BLOCKS_AT_ONCE)]
    }

    /// The number of blocks of threads to launch, so that each block gets as many as the largest one needs.
    pub fn grid(&self) -> u64 {
        self.count * self.blocks().iter().map(BlockArguments::useful_blocks).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_no_memory_can_satisfy_are_refused() {
        let good = BlockArguments {
            indptr: 0x1004,
            indices: 0x2004,
            sampled: 0,
            degrees: 0x3004,
            destinations: 3,
            edges: 5,
            sources: 4,
            weighting: EdgeWeights::Degrees.number(),
            wide: 1,
            offsets: 0x4004,
            sources_of_edges: 0x5004,
            destinations_of_edges: 0x6004,
            weights: 0x7008,
            own: 0x8008,
        };
        good.check().unwrap();
        BlockArguments { weighting: EdgeWeights::None.number(), weights: 0, own: 0, degrees: 0, ..good }
            .check()
            .unwrap();
        for (wrong, told) in [
            (BlockArguments { sources: 2, ..good }, "to 3 destinations"),
            (BlockArguments { destinations: 0, ..good }, "to 0 destinations"),
            (BlockArguments { edges: 1 << 31, ..good }, "more than i32"),
            (BlockArguments { weighting: 9, ..good }, "number 9"),
            (BlockArguments { weights: 0, ..good }, "the weights is at address 0"),
            (
                BlockArguments { weighting: EdgeWeights::None.number(), own: 0, ..good },
                "weights are for edges",
            ),
            (BlockArguments { weights: 0x7004, ..good }, "aligned to 8"),
            (BlockArguments { degrees: 0, ..good }, "the degrees"),
            (BlockArguments { weighting: EdgeWeights::Mean.number(), ..good }, "own weights"),
            (BlockArguments { offsets: 0, ..good }, "the prepared offsets"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(told), "{error} should contain {told}");
        }
    }
}
