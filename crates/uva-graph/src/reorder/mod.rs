//! The same graph with its nodes in another order.
//!
//! A cache of lists is a prefix of the graph once the lists that are read most come first: whether a list is cached is
//! then the comparison `id < k`. [`NodeOrder`] says which node comes at which place. [`write_reordered`] makes a
//! dataset in that order; [`ReorderedLayout`] puts the reordered graph alone, without features and labels, into one
//! region of memory, for a run that keeps its dataset as it is.
//!
//! Either way nothing that a user sees changes: every list keeps the order of its neighbours, every split the order of
//! its nodes, and random keys, hashes and messages use the ids that the nodes had at first (`orig_id.npy`,
//! [`Csc::original_ids`](crate::Csc::original_ids)). So the batches of a run are the same, value for value.

mod lists;
mod order;
mod region;
mod write;

pub use order::{NodeOrder, Places};
pub use region::{ReorderedLayout, ReorderedView};
pub use write::{stage_reordered, write_reordered};
