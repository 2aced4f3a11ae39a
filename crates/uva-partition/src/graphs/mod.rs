//! Graphs as the methods read them, and what they count in them.
//!
//! | file | what it is for |
//! |---|---|
//! | `graph` | the graph by original ids, with lists in both directions |
//! | `weighted` | graphs whose nodes stand for several |
//! | `order` | random orders |
//! | `tally` | the edges of a node by what they lead to |
//! | `counts` | sizes and edges between parts |
//! | `limits` | how many nodes and training nodes a part may have |

pub(crate) mod counts;
pub(crate) mod graph;
pub(crate) mod limits;
pub(crate) mod order;
pub(crate) mod tally;
pub(crate) mod weighted;
