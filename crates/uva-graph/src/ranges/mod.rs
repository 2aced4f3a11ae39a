//! Partitions in ranges: the graph reordered so that each part owns one contiguous range of ids, and stores the feature
//! rows of that range only. Together the parts have every row once.
//!
//! Several ranks and machines share such a partition: each has the whole graph and the rows of one part. Original ids
//! are kept (`orig_id.npy`), and random words are keyed by them. So a batch sampled from the graph equals the batch of
//! the source dataset and has the same hash.
//!
//! | in the partition's directory | content |
//! |---|---|
//! | `graph` | lists, weights, labels, splits and original ids of all nodes, in the new order |
//! | `part-0`, `part-1`, … | `feat.npy`: the feature rows of the part's range; `edge_feat.npy`: those of the entries of its lists |
//! | `partition.npy`, `partition.json` | the [map](crate::partition_map), and its description with the boundaries of the ranges |
//!
//! [`write_ranges`] writes one, [`RangeParts`] opens it, [`verify_ranges`] checks it completely.
//!
//! | file | what it is for |
//! |---|---|
//! | `arrays` | the arrays of the graph and of a part, with fingerprints and hashes |
//! | `write` | the order, and the files of the graph and all parts |
//! | `directory` | the graph, or one part, from its directory |
//! | `parts` | the graph and some parts, compared with the description |
//! | `verify` | checks of counts, boundaries and hashes of everything present |
//! | `compare` | comparison of rows and lists with the source dataset |

mod arrays;
mod compare;
mod directory;
mod parts;
mod verify;
mod write;

pub use crate::partition::parts::{GRAPH, RANGES, RangesSummary, WrittenGraph, WrittenRange};

pub use self::directory::{RangeGraph, RangeRows};
pub use self::parts::RangeParts;
pub use self::verify::{CheckedRanges, check_sizes, verify_ranges};
pub use self::write::{check_space, memory_bytes, stage_ranges, write_ranges};
pub use crate::partition::range_book::RangeBook;
