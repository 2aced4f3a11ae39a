//! From seeds to blocks: the order of an epoch's seeds, and the neighbours sampled around each batch of them.
//!
//! A batch is a function of the graph, the options and its [`BatchKey`] alone: random numbers are counter-based and
//! keyed by what they are for ([`philox`]), never by thread, process or the batches sampled before. So any number
//! of samplers, in any order, produces the same batches bit for bit. `docs/reproducible-batches.md` is the contract
//! to the letter, `docs/test-vectors.json` its test vectors.
//!
//! [`NeighborSampler`] writes into memory that its caller owns (a slot of shared memory, or a [`MiniBatch`]) and
//! allocates nothing once it is built.
//!
//! What this crate must not know: processes, slots and how a batch travels; features, labels and what is computed
//! from them; devices.
#![forbid(unsafe_code)]

mod batch;
mod bounds;
mod error;
mod hash;
mod local_ids;
mod neighbor;
mod options;
pub mod philox;
mod pick;
mod seed_order;

pub use batch::{BatchCounts, BatchMut, BlockMut, BlockRef, LayerCounts, ListReads, MiniBatch};
pub use bounds::{BatchBounds, LayerBounds};
pub use error::{Capacity, InvalidOption, SampleError};
pub use hash::batch_hash;
pub use neighbor::NeighborSampler;
pub use options::{BatchKey, Expand, HopShape, MAX_EPOCH, MAX_LAYERS, SamplerOptions, batch_of_picks};
pub use seed_order::SeedOrder;
