//! Reordering of a graph's nodes.
//!
//! If the most-read lists come first, a cache of lists is a prefix of the graph, and "is the list cached?" is the
//! comparison `id < k`. [`NodeOrder`] says which node comes at which place. [`write_reordered`] writes a dataset in
//! that order. [`ReorderedLayout`] puts only the reordered graph, without features and labels, into one region of
//! memory, for a run that keeps its dataset unchanged.
//!
//! Either way users see no change. Every list keeps the order of its neighbours, and every split the order of its
//! nodes. Random keys, hashes and messages use the original ids of the nodes (`orig_id.npy`,
//! [`Csc::original_ids`](crate::Csc::original_ids)). So the batches of a run are equal, value for value.

mod copy;
mod lists;
mod order;
mod region;
mod write;

pub(crate) use copy::Copy;
pub use order::{NodeOrder, Places};
pub use region::{ReorderedLayout, ReorderedView};
pub use write::{stage_reordered, write_reordered};
