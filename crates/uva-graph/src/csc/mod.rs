//! Edges turned into compressed sparse columns, in memory that is bounded by the caller.
//!
//! Edges go into [`buckets`] of nodes that follow each other, by destination. What does not fit the memory is written
//! to one temporary file. When all are there, [`CscBuilder::finish`] takes bucket after bucket, sorts it by a counting
//! sort, and appends it to `indptr.npy`, `indices.npy` and `weight.npy`. So the source is read once, in its own order,
//! and edges of one destination keep that order.

mod buckets;
mod builder;

pub(crate) use builder::CscBuilder;

use crate::import::SelfLoops;

/// What to change about the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Give every edge its other direction.
    pub(crate) symmetrise: bool,
    /// Keep one of edges with equal ends.
    pub(crate) deduplicate: bool,
    pub(crate) self_loops: SelfLoops,
}

impl Changes {
    /// Edges as they are in the source.
    pub(crate) const NONE: Changes =
        Changes { symmetrise: false, deduplicate: false, self_loops: SelfLoops::Keep };

    /// Whether the lists stay as they are.
    pub(crate) fn is_none(self) -> bool {
        self == Changes::NONE
    }

    /// Whether each list ascends afterwards.
    fn sorts(self) -> bool {
        self.symmetrise || self.deduplicate
    }
}
