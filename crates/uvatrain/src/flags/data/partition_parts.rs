//! How `uvatrain partition` writes parts.

use clap::{Args, ValueEnum};
use uva_graph::part::MOST_HOPS;

use crate::flags::within::within;

/// What the parts hold.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Parts")]
pub struct PartsFlags {
    /// Hops of the closures of pagraph, and of the batches over which auto counts; and within how many in-hops of its
    /// training nodes a part is whole: as many as batches will have [default: those of the map, or 2]
    #[arg(long, value_name = "L", value_parser = within::<u32>(1..=u64::from(MOST_HOPS)))]
    pub hops: Option<u32>,

    /// Write the parts too, and what they hold [default: closure, with --write-parts or --map]
    #[arg(long, value_enum)]
    pub layout: Option<PartLayout>,

    /// Divide validation and test nodes as training nodes are, with all that is near them [default: each part has those
    /// around which it is whole anyway]
    #[arg(long)]
    pub split_eval: bool,
}

/// What parts hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartLayout {
    /// All that batches of its training nodes can reach: no part asks another
    Closure,
    /// The feature rows of its own nodes, which are a range of ids; the whole graph lies beside the parts
    Ranges,
}
