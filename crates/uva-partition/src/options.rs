//! Methods and their parameters.

use uva_graph::partition_map::MOST_PARTS;
use uva_graph::{Dataset, GraphError, Split};
use uva_options::named;
use uva_sample::MAX_LAYERS;

named! {
    /// How nodes are divided into parts.
    pub enum Method = Auto {
        /// Runs range, ldg, bgl and multilevel, and keeps the result whose batches read least from other parts.
        Auto = "auto",
        /// Blocks by breadth-first search, merged and assigned greedily (BGL).
        Bgl = "bgl",
        /// Assigns each training node in turn to the part that has most of its closure (PaGraph).
        Pagraph = "pagraph",
        /// Assigns each node in turn to the part with most of its neighbours (linear deterministic greedy).
        Ldg = "ldg",
        /// Coarsens the graph in levels of clusters, and partitions and refines it level by level.
        Multilevel = "multilevel",
        /// Consecutive ids.
        Range = "range",
        /// Random parts, by the seed.
        Random = "random",
    }
}

named! {
    /// What connects a block to a part, for bgl.
    pub enum Count = Edges {
        /// The edges between the block and the part.
        Edges = "edges",
        /// The part's blocks within two hops of it, as published.
        Blocks = "blocks",
    }
}

named! {
    /// Order of the training nodes, for pagraph.
    pub enum Scan = File {
        /// The order of the file.
        File = "file",
        /// A random order, by the seed.
        Shuffled = "shuffled",
    }
}

/// Passes of refinement of a method that is refined by default.
const PASSES: u32 = 10;

/// The least default of nodes in a block.
const LEAST_BLOCK_NODES: u64 = 64;

/// Blocks of a part, by the default of nodes in a block.
const BLOCKS_A_PART: u64 = 64;

/// How a graph is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Parts, 1 to [`MOST_PARTS`].
    pub parts: u32,
    /// The method.
    pub method: Method,
    /// Passes of refinement; `None`: 10 for auto, bgl and ldg, and none for the others.
    pub refine: Option<u32>,
    /// Hops of the closures of pagraph, and of the batches that auto counts visits over. 1 to [`MAX_LAYERS`].
    pub hops: u32,
    /// The most nodes of a block; `None`: a 64th of a part, and 64 at least.
    pub block_nodes: Option<u64>,
    /// Blocks that grow at a time, 1 or more.
    pub sources: u32,
    /// What connects a block to a part.
    pub count: Count,
    /// In which order training nodes come, for pagraph.
    pub scan: Scan,
    /// The seed of all random words.
    pub seed: u64,
    /// The most bytes of memory that it may take, as [estimated](crate::memory::bytes).
    pub memory: u64,
}

impl Method {
    /// Whether it makes blocks of nodes, so that the options of blocks apply.
    #[must_use]
    pub fn makes_blocks(self) -> bool {
        matches!(self, Self::Auto | Self::Bgl)
    }
}

impl PartitionOptions {
    /// The defaults for `parts` parts, with any amount of memory.
    #[must_use]
    pub fn of_parts(parts: u32) -> PartitionOptions {
        PartitionOptions {
            parts,
            method: Method::default(),
            refine: None,
            hops: 2,
            block_nodes: None,
            sources: 64,
            count: Count::default(),
            scan: Scan::default(),
            seed: 0,
            memory: u64::MAX,
        }
    }

    /// Passes of refinement in force.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.refine.unwrap_or(match self.method {
            Method::Auto | Method::Bgl | Method::Ldg => PASSES,
            Method::Pagraph | Method::Multilevel | Method::Range | Method::Random => 0,
        })
    }

    /// Passes of refinement after a method, which may be one of those that auto tries. The levels of multilevel are
    /// refined anyway.
    pub(crate) fn passes_of(&self, method: Method) -> u32 {
        if method == Method::Multilevel { self.refine.unwrap_or(0) } else { self.passes() }
    }

    /// The most nodes of a block of a graph of `nodes` nodes.
    #[must_use]
    pub fn nodes_a_block(&self, nodes: usize) -> u64 {
        let default = nodes as u64 / (BLOCKS_A_PART * u64::from(self.parts.max(1)));
        self.block_nodes.unwrap_or(default.max(LEAST_BLOCK_NODES))
    }

    /// Refuses what no graph, or not this one, can be divided by.
    ///
    /// # Errors
    /// [`GraphError::Usage`] with the option and its valid values.
    pub fn check(&self, dataset: &Dataset) -> Result<(), GraphError> {
        let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
        if dataset.part().is_some() {
            let message = "it is a part itself: partition the dataset that it was cut from".to_owned();
            return refuse("DATA", format!("{}: {message}", dataset.path().display()));
        }
        if !(1..=MOST_PARTS).contains(&self.parts) {
            return refuse("parts", format!("{} is not from 1 to {MOST_PARTS}", self.parts));
        }
        if !(1..=MAX_LAYERS as u32).contains(&self.hops) {
            return refuse("hops", format!("{} is not from 1 to {MAX_LAYERS}", self.hops));
        }
        if self.sources == 0 {
            return refuse("sources", "invalid value 0: expected 1 or more".to_owned());
        }
        if self.block_nodes == Some(0) {
            return refuse("block_nodes", "invalid value 0: expected 1 or more".to_owned());
        }
        if self.method == Method::Pagraph && self.passes() > 0 {
            let message = "not supported with `method=pagraph`, whose balance of training nodes moves would undo: omit \
                           it, or use another `method`";
            return refuse("refine", message.to_owned());
        }
        let train = dataset.split(Split::Train).len();
        if train == 0 {
            let file = dataset.path().join(Split::Train.file_name());
            return refuse(
                &file.display().to_string(),
                "the training split is empty: parts are balanced by its nodes".to_owned(),
            );
        }
        if self.parts as usize > train {
            return refuse(
                "parts",
                format!("{} is more than the {train} training nodes: a part could not train", self.parts),
            );
        }
        if u32::try_from(dataset.nodes()).is_err() {
            let nodes = dataset.nodes();
            return refuse("DATA", format!("it has {nodes} nodes, but at most {} are supported", u32::MAX));
        }
        Ok(())
    }
}
