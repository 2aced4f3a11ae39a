//! What a workload reads: hotness of nodes, curves and rankings by it, and a simulation of caches.

pub(crate) mod curve;
pub(crate) mod hotness;
pub(crate) mod rank;
pub(crate) mod simulation;
pub(crate) mod workload;
