//! The graph of the tests in this folder.

use std::path::{Path, PathBuf};

use uva_graph::ElementType;
use uva_io::generate::{self, Common, PowerLaw};

/// A generated graph of three classes, five features a node, in `directory`.
#[allow(dead_code, reason = "not every program needs both")]
pub fn graph(directory: &Path, nodes: u64, average_degree: f64) -> PathBuf {
    graph_of(directory, nodes, average_degree, ElementType::F32)
}

/// The same with features of this type.
pub fn graph_of(directory: &Path, nodes: u64, average_degree: f64, feature_element: ElementType) -> PathBuf {
    let path = directory.join("graph");
    let (feature_dim, classes, seed) = (5, 3, 3);
    let common =
        Common { nodes, average_degree, feature_dim, classes, seed, feature_element, ..Common::default() };
    generate::write(&path, &PowerLaw::of(common), &|_| {}).expect("a graph");
    path
}
