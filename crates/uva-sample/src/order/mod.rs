//! The orders in which epochs visit the nodes of a split, or the rows of a hop set.
//!
//! [`EpochOrder`] is the order of a run's seeds: shuffled, as in the file, or by [`SeedSequences`]. [`Proximity`] makes
//! sequences in which nodes that are near in the graph follow one another. [`ChunkOrder`] is the order of a hop set's
//! rows.

mod chunk_order;
mod epoch_order;
mod out_lists;
mod proximity;
mod seed_order;
mod sequences;
mod turns;

pub use chunk_order::ChunkOrder;
pub use epoch_order::{EpochOrder, Follow, Sequenced};
pub use proximity::{OrderEdges, Proximity};
pub use seed_order::SeedOrder;
pub use sequences::SeedSequences;
