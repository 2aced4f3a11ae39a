//! The kind of the data at a path.

use std::path::Path;

use uva_propagate::HopSet;

use super::graph::GraphData;
use super::hop_set::HopSetData;
use super::kind::DataKind;

/// The kind of the data at this path.
pub fn kind_at(path: &Path) -> &'static dyn DataKind {
    if HopSet::is_at(path) { &HopSetData } else { &GraphData }
}
