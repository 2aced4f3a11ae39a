//! Graphs as input of the methods, and counts in them.
//!
//! | file | content |
//! |---|---|
//! | `graph` | the graph by original ids, with lists in both directions |
//! | `weighted` | graphs whose nodes represent several |
//! | `order` | random orders |
//! | `tally` | sums of a node's edges by label |
//! | `counts` | sizes and edges between parts |
//! | `limits` | limits on the nodes and training nodes of a part |

pub(crate) mod counts;
pub(crate) mod graph;
pub(crate) mod limits;
pub(crate) mod order;
pub(crate) mod tally;
pub(crate) mod weighted;
