//! The reads of a workload: hotness of nodes, curves and rankings by hotness, and a simulation of caches.

pub(crate) mod curve;
pub(crate) mod hotness;
pub(crate) mod rank;
pub(crate) mod simulation;
pub(crate) mod workload;
