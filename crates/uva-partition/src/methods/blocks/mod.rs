//! Blocks of nodes by breadth-first search, merged, and assigned greedily to parts.

pub(crate) mod assign;
pub(crate) mod block_graph;
pub(crate) mod merge;
pub(crate) mod search;
