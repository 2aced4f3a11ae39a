//! The options of `uvatrain order`.

use std::path::PathBuf;

use clap::Args;
use uva_sample::OrderEdges;

use crate::flags::declared::one_of;
use crate::flags::within::within;

/// The options of `uvatrain order`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain order data/demo --sequences 64 --out order.npy
  uvatrain train data/demo --seed-order proximity --order order.npy")]
pub struct OrderFlags {
    /// The dataset
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Number of sequences of the order; a run may use fewer
    #[arg(
        long,
        value_name = "K",
        value_parser = within::<u32>(1..=u64::from(uva_runtime::options::seed_order::MOST_SEQUENCES))
    )]
    pub sequences: u32,

    /// File to write: an array of node ids with one row per sequence. An existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,

    /// Random seed of the roots
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Edges along which nodes are near
    #[arg(long, value_name = "EDGES", value_parser = one_of::<OrderEdges>(), default_value = OrderEdges::Both.name())]
    pub order_edges: OrderEdges,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
