//! The making of batches by samplers and workers, for each kind of data.
//!
//! | file | holds |
//! |---|---|
//! | `maker` | the interface |
//! | `graph` | batches that are sampled in a graph |
//! | `hop_set` | batches of rows of a hop set |
//! | `choose` | the maker of a run |

mod choose;
mod graph;
mod hop_set;
mod maker;

pub(crate) use choose::maker_of;
pub(crate) use maker::{SampleBatch, SamplerParts, WorkerBatches, WorkerParts};
