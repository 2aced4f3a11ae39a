//! Products of a graph operator with feature rows: the sums, the source of the rows, and their speed.

pub(crate) mod features;
pub(crate) mod speed;
pub(crate) mod sums;
