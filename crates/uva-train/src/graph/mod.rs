//! A whole graph: its lists as tensors, tables of all its nodes, and what a layer over it provides.

pub(crate) mod full_layer;
pub(crate) mod full_table;
pub(crate) mod lists;
pub(crate) mod whole_data;
pub(crate) mod whole_graph;
pub(crate) mod whole_lists;
