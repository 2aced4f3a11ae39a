//! Parts of a partitioned dataset. Each part is a dataset of its own, from which batches are made without access to
//! other parts.
//!
//! A part holds the training nodes that the partition assigns to it and every node within `hops` in-hops of them. Lists
//! at a distance below `hops` are complete and keep their order; lists at the distance `hops` are empty. Original ids
//! are kept (`orig_id.npy`). So a batch of at most `hops` hops around the part's nodes is equal to the batch of the
//! whole dataset, value for value, and has the same hash.
//!
//! | file | what it is for |
//! |---|---|
//! | `closure` | which nodes a part has, and how far from its training nodes they are |
//! | `members` | the place of each node in a part |
//! | `options` | how a dataset is cut, and the checks of options |
//! | `outline` | the sizes of a part before it is written |
//! | `reach` | the nodes around which a part is complete |
//! | `write` | the files of all parts, and the description next to them |
//! | `arrays` | one array of a part, row by row or list by list |
//! | `verify` | checks of counts, lists and rows of the parts present |

mod arrays;
mod closure;
mod members;
mod options;
mod outline;
mod reach;
mod verify;
mod write;

pub use crate::partition::parts::{CLOSURE, ClosureSummary, WrittenPart};

pub use self::options::{MOST_HOPS, PartOptions};
pub use self::reach::first_cut;
pub use self::verify::{CheckedParts, verify_parts};
pub use self::write::{directory_name, memory_bytes, stage_parts, write_parts};
