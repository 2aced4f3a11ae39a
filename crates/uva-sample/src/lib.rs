//! Sampling of batches: the order of an epoch's seeds, and the neighbours around each batch of seeds.
//!
//! A batch is a function of the graph, the options and its [`BatchKey`] alone. Random numbers are counter-based
//! ([`philox`]) and keyed by their purpose, never by thread, process or earlier batches. So any number of samplers, in
//! any order, produces the same batches bit for bit. `docs/spec/reproducible-batches.md` is the exact contract,
//! `docs/test-vectors.json` its test vectors.
//!
//! There are several kinds of sampler ([`SamplerKind`], listed in `kinds/table.rs`) behind one trait, [`BatchSampler`].
//! [`sampler`](sampler()) makes the one that the options name. It writes into its caller's memory (a slot of shared
//! memory, or a [`MiniBatch`]) and allocates nothing once it is built.
//!
//! [`cuda`] makes the same batches on a GPU. The driver is loaded when a sampler needs it, so the module has no cost
//! without a GPU.
//!
//! This crate must not know: processes, slots and the transport of batches; features, labels and models; which lists to
//! cache. Start at [`BatchSampler`] and [`SamplerKind`]; `uva-plan` and `uva-runtime` build on it.
// Only the CUDA half enqueues work on memory that the compiler cannot follow.
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod batch_key;
mod batches;
#[allow(unsafe_code, reason = "kernels are launched on memory that their arguments name")]
pub mod cuda;
mod error;
mod hops;
mod kind;
mod kinds;
mod limits;
mod options;
mod order;
pub mod philox;
mod sampler;
mod visit;

pub use batch_key::BatchKey;
pub use batches::batch::{BatchCounts, BatchMut, BlockMut, BlockRef, ListReads, MiniBatch};
pub use batches::bounds::{BatchBounds, GraphSize, RelationSize};
pub use batches::hash::{batch_hash, rows_hash};
pub use batches::sizes::{BlockSize, RelationEnds, TypeSize};
pub use error::{Capacity, InvalidOption, SampleError};
pub use hops::{Divided, ListCounts};
pub use kind::SamplerKind;
pub use kinds::{NeighborSampler, divided_sampler, sampler};
pub use limits::{MAX_EPOCH, MAX_FANOUT, MAX_LAYERS};
pub use options::{
    Expand, FanoutPer, FanoutSpec, Fanouts, HopShape, SamplerOptions, TimeLimit, TimePick, TimeRule, Trees,
    Walks, batch_of_picks,
};
pub use order::{ChunkOrder, EpochOrder, Follow, OrderEdges, Proximity, SeedOrder, SeedSequences, Sequenced};
pub use sampler::{
    BatchSampler, GraphView, OriginalEdges, RelationView, Seeds, SortedTimes, TypeView, TypedView,
};
pub use visit::VisitReads;
