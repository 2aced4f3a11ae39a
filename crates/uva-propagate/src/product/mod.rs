//! Products of a graph operator with feature rows: sums of rows, the rows' source, the speed of both.

pub(crate) mod features;
pub(crate) mod speed;
pub(crate) mod sums;
