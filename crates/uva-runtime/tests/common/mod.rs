//! The graph that the tests of this folder run on.

use std::path::{Path, PathBuf};

use uva_graph::generate::{PowerLaw, power_law};

/// A generated graph of three classes, five features a node, in `directory`.
pub fn graph(directory: &Path, nodes: u64, average_degree: f64) -> PathBuf {
    let path = directory.join("graph");
    let options =
        PowerLaw { nodes, average_degree, feature_dim: 5, classes: 3, seed: 3, ..PowerLaw::default() };
    power_law(&path, &options, &|_| {}).expect("a graph");
    path
}
