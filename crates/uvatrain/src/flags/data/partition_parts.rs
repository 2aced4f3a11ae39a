//! How `uvatrain partition` writes parts.

use clap::{Args, ValueEnum};
use uva_graph::part::MOST_HOPS;

use crate::flags::within::within;

/// What the parts hold.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Parts")]
pub struct PartsFlags {
    /// Number of hops of the batches: of the closures of pagraph, of the batches that auto counts, and of the in-hops
    /// around its training nodes that a part contains completely [default: as in the map, or 2]
    #[arg(long, value_name = "L", value_parser = within::<u32>(1..=u64::from(MOST_HOPS)))]
    pub hops: Option<u32>,

    /// Also write the parts, with this content [default: closure, with --write-parts or --map]
    #[arg(long, value_enum)]
    pub layout: Option<PartLayout>,

    /// Divide validation and test nodes like training nodes, with their neighbourhoods [default: each part has those whose
    /// neighbourhoods it contains anyway]
    #[arg(long)]
    pub split_eval: bool,
}

/// What parts hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartLayout {
    /// Everything that batches of its training nodes can reach: a part needs no other part
    Closure,
    /// The feature rows of its own nodes, which are a range of ids; the whole graph is stored next to the parts
    Ranges,
}
