//! Passes over the whole graph: evaluation and predictions with full neighbourhoods.

pub(crate) mod evaluate;
pub(crate) mod full_layer;
pub(crate) mod full_pass;
pub(crate) mod piece;
pub(crate) mod predict;
pub(crate) mod relation_pass;
pub(crate) mod wanted;
