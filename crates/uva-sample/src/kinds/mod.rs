//! The kinds of sampler. Each kind has one file with its row of facts and its algorithm; `table.rs` lists them. Shared
//! code is in [`hops`](crate::hops).

use crate::hops::{ById, HopSampler};

mod check;
mod exponential;
mod find_sampler;
mod floyd;
mod labor;
mod lanes;
mod neighbor;
mod per_node;
mod ppr;
mod smallest_keys;
mod table;
mod together;
mod walk;
mod weighted;

pub use check::{divided_sampler, sampler};

/// Samples neighbours uniformly: [`SamplerKind::NEIGHBOR`](crate::SamplerKind::NEIGHBOR).
pub type NeighborSampler<'g> = HopSampler<'g, neighbor::Uniform, ById<'g>>;
