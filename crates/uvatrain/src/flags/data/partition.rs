//! The options of `uvatrain partition`.

use std::path::PathBuf;

use clap::Args;
use uva_graph::partition_map::MOST_PARTS;
use uva_partition::{Count, Method, Scan};
use uva_runtime::spec::ByteSize;

use super::partition_parts::{PartLayout, PartsFlags};
use crate::flags::declared::one_of;
use crate::flags::within::within;

/// The options of `uvatrain partition`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain partition data/demo data/demo-4 --parts 4
  uvatrain partition data/demo data/demo-4 --parts 4 --method pagraph --hops 3 --write-parts
  uvatrain partition data/demo data/demo-cut --map data/demo-4 --hops 2
  uvatrain partition data/demo data/demo-ranges --parts 4 --layout ranges

OUT gets partition.npy, the part of each node by its original id, and partition.json, which describes it. The parts depend only on the dataset, these options and the seed. `uvatrain bench partition` counts what
batches of a part read from other parts. With --write-parts, --layout or --map OUT also has part-0, part-1 and so on: by
default self-contained datasets; with --layout ranges the feature rows of each part, and the whole graph in OUT/graph.
DATA is only read.")]
pub struct PartitionFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The directory to write; it must not exist
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// Number of parts
    #[arg(
        long,
        value_name = "K",
        value_parser = within::<u32>(1..=u64::from(MOST_PARTS)),
        required_unless_present = "map"
    )]
    pub parts: Option<u32>,

    /// Use this map instead of a new one: a directory with partition.npy and partition.json, or an array of uint16 by
    /// original id
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["parts", "method", "refine", "block_nodes", "sources", "count", "scan", "seed", "write_parts"]
    )]
    pub map: Option<PathBuf>,

    /// Partitioning method
    #[arg(long, value_parser = one_of::<Method>(), default_value = "auto")]
    pub method: Method,

    /// Refinement passes, which move nodes to the part of most of their neighbours [default: 10 with auto, bgl and ldg,
    /// otherwise 0]
    #[arg(long, value_name = "PASSES", value_parser = within::<u32>(0..=1000))]
    pub refine: Option<u32>,

    /// Maximum nodes of a block of bgl [default: a 64th of a part, at least 64]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..))]
    pub block_nodes: Option<u64>,

    /// Blocks of bgl that grow at the same time [default: 64]
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..))]
    pub sources: Option<u32>,

    /// Connection between a block of bgl and a part [default: edges]
    #[arg(long, value_parser = one_of::<Count>())]
    pub count: Option<Count>,

    /// Order in which pagraph visits training nodes [default: file]
    #[arg(long, value_parser = one_of::<Scan>())]
    pub scan: Option<Scan>,

    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Maximum memory, checked against an estimate before the start [default: the available memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,

    /// Also write the parts, not only the map of their nodes
    #[arg(long, help_heading = "Parts")]
    pub write_parts: bool,

    /// What the parts hold.
    #[command(flatten)]
    pub cut: PartsFlags,

    /// Print the result as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

impl PartitionFlags {
    /// The layout of the written parts; `None` if only the map is written.
    pub fn layout(&self) -> Option<PartLayout> {
        let written = self.write_parts || self.map.is_some();
        self.cut.layout.or(written.then_some(PartLayout::Closure))
    }
}
