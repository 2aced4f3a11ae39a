//! The cost of generating a graph, before anything is written.

use uva_files::progress::STEP_BYTES;

use super::options::common::Common;
use super::options::train_by::{DegreeDraw, TrainBy};

/// The cost of generating a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorEstimate {
    /// The number of nodes.
    pub nodes: u64,
    /// The maximum number of edges, except for random variation.
    pub edges: u64,
    /// Bytes of all files, slightly more than will be written.
    pub disk_bytes: u64,
    /// Resident memory of the generator. It does not grow with the edges: output is made a piece at a time.
    pub memory_bytes: u64,
}

impl GeneratorEstimate {
    /// The estimate for options that [`Common::check`] has accepted, so that nothing overflows.
    pub(super) fn of(common: &Common) -> GeneratorEstimate {
        let &Common { nodes, feature_dim, average_degree, .. } = common;
        let edges = (average_degree * nodes as f64) as u64;
        let id_bytes = id_bytes(nodes);
        let row_bytes = (feature_dim * common.feature_element.bytes()) as u64;
        let in_splits = (common.split_shares().min(1.0) * nodes as f64) as u64;
        // indptr and labels; then the splits, the lists, the rows.
        let per_node = nodes * 16 + in_splits * 8;
        let disk_bytes = per_node.saturating_add(edges * id_bytes).saturating_add(nodes * row_bytes);
        let drawn = match common.train_by {
            TrainBy::Shape => 0,
            TrainBy::Degree => common.train_nodes() * DegreeDraw::BYTES,
        };
        GeneratorEstimate { nodes, edges, disk_bytes, memory_bytes: MEMORY_BYTES + nodes / 5 + drawn }
    }
}

/// Program, threads' stacks, and the memory of one step: its lists as 64-bit numbers, in vectors that double, and the
/// output being written. The hosts of a web take 8 bytes per 40 nodes.
const MEMORY_BYTES: u64 = 4 * STEP_BYTES as u64;

/// Bytes of a neighbour's id: ids that fit 32 bits take half the space, and half the reads.
pub(super) fn id_bytes(nodes: u64) -> u64 {
    if nodes <= i32::MAX as u64 { 4 } else { 8 }
}
