//! How `uvatrain partition` writes parts.

use clap::{Args, ValueEnum};
use uva_graph::part::MOST_HOPS;

use super::within::within;

/// What the parts hold.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Parts")]
pub struct PartsFlags {
    /// Hops of the closures of pagraph, and of the batches over which auto counts; and within how many in-hops of its
    /// training nodes a part is whole: as many as batches will have [default: those of the map, or 2]
    #[arg(long, value_name = "L", value_parser = within::<u32>(1..=u64::from(MOST_HOPS)))]
    pub hops: Option<u32>,

    /// Which nodes a part holds
    #[arg(long, value_enum, default_value_t = PartLayout::Closure)]
    pub layout: PartLayout,

    /// Divide validation and test nodes as training nodes are, with all that is near them [default: each part has those
    /// around which it is whole anyway]
    #[arg(long)]
    pub split_eval: bool,
}

/// Which nodes a part holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartLayout {
    /// All that batches of its training nodes can reach: no part asks another
    Closure,
}
