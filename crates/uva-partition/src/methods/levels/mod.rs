//! Levels of ever smaller graphs: clusters by label propagation, parts of the last level, refined on the way back.

mod cluster;
mod coarsest;
mod level;
pub(crate) mod multilevel;
pub(crate) mod refine;
