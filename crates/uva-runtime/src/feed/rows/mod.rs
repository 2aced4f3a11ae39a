//! The rows of batches: their origin ([`RowTree`]), and the sources of a tree on the CPU. Sources on a GPU are built in
//! [`device`](crate::feed::device).
//!
//! | file | holds |
//! |---|---|
//! | `tree` | the tree: its branches, their properties and memory, its line for people |
//! | `choose` | the tree of a run, from its plan |
//! | `kept` | the division of memory for rows of files over their tables |
//! | `buffers` | the sizes of buffers before the slots |
//! | `host_build`, `host` | sources of a tree on the CPU; filling a batch's columns |
//! | `hop_source` | rows of a hop set's tables |
//! | `edge_rows` | rows of edges |
//! | `slot_rows` | all rows of a slot in host memory |

mod buffers;
mod choose;
mod edge_rows;
mod hop_source;
pub(super) mod host;
mod host_build;
mod kept;
mod slot_rows;
mod tree;

pub use buffers::training_bytes;
pub(crate) use buffers::{begun_bytes, begun_room, upload_room};
pub use choose::bytes_beside_gpu_cache;
pub(crate) use edge_rows::EdgeRowSource;
pub(crate) use hop_source::HopSource;
pub(crate) use host::{ComingBatch, FeatureBytes, HostRows, failed, nodes_of};
pub(crate) use host_build::{ChosenRows, HostParts};
pub(crate) use slot_rows::SlotRows;
pub(crate) use tree::Counting;
pub use tree::{RowCacheKind, RowTree};
