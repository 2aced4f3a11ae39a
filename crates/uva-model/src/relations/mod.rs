//! Models over the relations of a typed graph: the graph as they see it, what their layers use, and their sizes.

pub(crate) mod embedding;
pub(crate) mod model_graph;
pub(crate) mod relation_model;
pub(crate) mod relation_networks;
pub(crate) mod wiring;
