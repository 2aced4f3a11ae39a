//! Graph datasets on disk: opening, checking and reordering them, and the writers used for all datasets.
//!
//! A dataset is a directory of `.npy` files: in-neighbours as compressed sparse columns (CSC), feature rows, labels and
//! three splits. [`Dataset`] maps the files, checks them once and lends typed views. [`TypedDataset`] does so for a graph
//! with several types of nodes and edges; a `Dataset` is one of a single type. [`reorder`] renumbers nodes.
//! [`csc`] and [`npy`] write datasets in bounded memory, into directories of `uva-files`. This crate must not depend on
//! other formats, processes, sampling, training or GPUs. Next: `uva-io` imports, exports and generates datasets;
//! `uva-sample` samples from one.
//!
//! ```
//! use uva_graph::npy::{NpyType, write_array};
//! use uva_graph::{Dataset, Split};
//!
//! let parent = tempfile::tempdir()?;
//! let write = |name: &str, row: &[usize], values: &[i64]| {
//!     write_array(&parent.path().join(name), NpyType::I64, row, values)
//! };
//! // Node 0 aggregates the features of node 1, node 1 those of both.
//! write("indptr.npy", &[], &[0, 1, 3])?;
//! write("indices.npy", &[], &[1, 0, 1])?;
//! write("label.npy", &[], &[0, 1])?;
//! write("train_idx.npy", &[], &[1])?;
//! write("valid_idx.npy", &[], &[0])?;
//! write("test_idx.npy", &[], &[])?;
//! write_array(&parent.path().join("feat.npy"), NpyType::F32, &[2], &[0.5_f32, 1.0, 1.5, 2.0])?;
//!
//! let dataset = Dataset::open(parent.path())?;
//! let csc = dataset.csc();
//! let node = dataset.split(Split::Train)[0] as usize;
//! for edge in csc.indptr[node]..csc.indptr[node + 1] {
//!     println!("{node} aggregates the features of {}", csc.indices.get(edge as usize));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod comparison;
pub mod csc;
pub mod dataset;
mod description;
pub mod error;
pub mod hash;
mod kinds;
pub mod npy;
pub mod part;
mod partition;
pub mod ranges;
pub mod reorder;
mod storage;
pub mod typed_dataset;

pub use dataset::Dataset;
pub use description::edge_values::{EDGE_VALUES, EdgeValues, EdgeValuesSpec};
pub use description::element::ElementType;
pub use description::feature_element::{edge_feature_element, feature_element};
pub use description::meta::Meta;
pub use description::metagraph::{MOST_NODE_TYPES, MOST_RELATIONS, Metagraph, MetagraphError, UnknownName};
pub use description::part_of::PartOf;
pub use description::ranges_of::RangesOf;
pub use description::schema::{NodeType, Relation, RelationSchema, Schema, TableSchema};
pub use description::split::Split;
pub use description::summary::Summary;
pub use description::{meta, names, typed_meta};
pub use error::GraphError;
pub use kinds::KindWords;
pub use kinds::hop_rows::{HopPlace, HopRows, HopTable, Hops};
pub use kinds::own_rows::OwnRows;
pub use partition::map as partition_map;
pub use partition::map::{PartitionMap, PartitionSource, PartitionSummary};
pub use storage::arrays::label_array::label_columns;
pub use storage::directory::DATASET;
pub use storage::node_rows::NodeRows;
pub use storage::random_file::{RandomFile, RandomValues};
pub use storage::verification::{Verification, Verify};
pub use storage::views::{Csc, EdgeRows, EntryTimes, FeatureTable, Indices, Labels, SeedTimes};
pub use storage::{node_file, verify, views};
pub use typed_dataset::{Overlap, Repeats, TypedDataset};
pub use uva_files::Progress;
pub use uva_mem::mix;
