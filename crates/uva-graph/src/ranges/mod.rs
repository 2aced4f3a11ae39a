//! Partitions in ranges: the graph reordered so that each part owns one contiguous range of ids, and stores the feature
//! rows of these alone. Together the parts have every row once.
//!
//! It is what several ranks and machines hold between them: each has the whole graph, and one part's rows. Original ids
//! are kept (`orig_id.npy`), and random words are keyed by them. So a batch that is sampled in the graph is the batch
//! of the dataset that was divided, and has the same hash.
//!
//! | in the partition's directory | content |
//! |---|---|
//! | `graph` | lists, weights, labels, splits and original ids of all nodes, in the new order |
//! | `part-0`, `part-1`, … | `feat.npy`: the feature rows of the part's range; `edge_feat.npy`: those of the entries of its lists |
//! | `partition.npy`, `partition.json` | the [map](crate::partition_map), and its description with the boundaries of the ranges |
//!
//! [`write_ranges`] writes one, [`RangeParts`] opens it, [`verify_ranges`] checks all of it.
//!
//! | file | what it is for |
//! |---|---|
//! | `arrays` | which arrays the graph and a part have, their fingerprints and hashes |
//! | `write` | the order, and the files of the graph and all parts |
//! | `directory` | the graph, or one part, from its directory |
//! | `parts` | the graph and some parts, compared with the description |
//! | `verify` | counts, boundaries and hashes of everything that is there |
//! | `compare` | the same rows and lists as in the dataset that was divided |

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
