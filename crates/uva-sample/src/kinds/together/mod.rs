//! The kinds that draw nodes for all destinations of a hop together.
//!
//! A hop first decides which nodes are drawn ([`Draw`](draw::Draw)). Its edges are the entries of the destinations'
//! lists that name a drawn node, in the order of the lists. Each has a weight: the weighted sum of a destination's
//! sources estimates the mean over its complete list.

mod draw;
mod drawn_edges;
mod fastgcn;
mod ladies;
mod saint;
mod saint_edge;
mod saint_node;
mod sums;

pub use self::drawn_edges::Together;
pub use self::fastgcn::FastGcn;
pub use self::ladies::Ladies;
pub use self::saint::Saint;
pub use self::saint_edge::SaintEdges;
pub use self::saint_node::SaintNodes;
