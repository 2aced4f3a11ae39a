//! Nodes in descending order of the savings per byte of cache.
//!
//! Only nodes with reads are ranked. Ties are broken by id, so a ranking is a function of the counts.

use rayon::prelude::*;
use uva_graph::Csc;
use uva_sample::SamplerOptions;

use crate::Hotness;

/// The sizes of cached lists and rows.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'g> {
    indptr: &'g [i64],
    /// Bytes of one neighbour id in the list cache.
    pub index_bytes: u64,
    /// Bytes of one neighbour's weight in the list cache; 0 where picks are not by weight.
    pub weight_bytes: u64,
    /// Bytes of a list's place in the dataset, which leads to its edge ids; 0 if edge ids are not requested or the
    /// graph is in the dataset's own order.
    pub home_bytes: u64,
    /// Bytes of a feature row.
    pub row_bytes: u64,
    /// Bytes of the map from place to node id. A list cache needs the map unless the graph is in its own order already.
    pub list_map_bytes: u64,
    /// Bytes of the map from node to slot, which a row cache needs.
    pub row_map_bytes: u64,
}

/// Bytes of a map's entry.
const MAP_ENTRY_BYTES: u64 = 4;

/// Bytes of a cached weight.
pub(crate) const WEIGHT_BYTES: u64 = 4;

/// Bytes of a cached list's place in the dataset.
pub(crate) const HOME_BYTES: u64 = 8;

impl<'g> Sizes<'g> {
    /// Sizes for a graph that is reordered at run time, with ids as narrow as its nodes allow, and rows of `row_bytes`.
    /// Lists have no arrays other than their ids.
    #[must_use]
    pub fn new(csc: &Csc<'g>, row_bytes: usize) -> Self {
        let nodes = csc.nodes() as u64;
        Self {
            indptr: csc.indptr,
            index_bytes: if nodes < 1 << 31 { 4 } else { 8 },
            weight_bytes: 0,
            home_bytes: 0,
            row_bytes: row_bytes as u64,
            list_map_bytes: MAP_ENTRY_BYTES * nodes,
            row_map_bytes: MAP_ENTRY_BYTES * nodes,
        }
    }

    /// Adds the arrays that samplers with these options read from a list in addition to its ids.
    #[must_use]
    pub fn read_by(self, options: &SamplerOptions) -> Self {
        Self {
            weight_bytes: if options.kind.needs_weights() { WEIGHT_BYTES } else { 0 },
            home_bytes: if options.edge_ids { HOME_BYTES } else { 0 },
            ..self
        }
    }

    /// Nodes of the graph.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Bytes of a node's list in the cache: its entry in indptr, its place in the dataset, and its neighbours with
    /// their weights. A copy to a GPU has exactly this size.
    ///
    /// # Panics
    /// If `node` is not below [`nodes`](Self::nodes).
    #[inline]
    #[must_use]
    pub fn list_bytes(&self, node: u32) -> u64 {
        let node = node as usize;
        let entries = (self.indptr[node + 1] - self.indptr[node]) as u64;
        8 + self.home_bytes + entries * (self.index_bytes + self.weight_bytes)
    }
}

/// Nodes by reads of their list per byte of it, descending.
///
/// # Panics
/// If `hotness` and `sizes` are for different graphs.
#[must_use]
pub fn rank_lists(hotness: &Hotness, sizes: &Sizes<'_>) -> Vec<u32> {
    assert_eq!(hotness.list_reads.len(), sizes.nodes(), "one count a node");
    let mut keyed: Vec<(u64, u32)> = read_nodes(&hotness.list_reads)
        .into_par_iter()
        .map(|node| {
            // A quotient of two exact numbers, correctly rounded, so it never falls where the true one rises. The bits
            // of a positive number have the same order.
            let density = f64::from(hotness.list_reads[node as usize]) / sizes.list_bytes(node) as f64;
            (!density.to_bits(), node)
        })
        .collect();
    keyed.par_sort_unstable();
    keyed.into_par_iter().map(|(_, node)| node).collect()
}

/// Nodes by reads of their row, descending. All rows have the same size.
#[must_use]
pub fn rank_rows(hotness: &Hotness) -> Vec<u32> {
    let mut keyed: Vec<u64> = read_nodes(&hotness.feature_reads)
        .into_par_iter()
        .map(|node| u64::from(!hotness.feature_reads[node as usize]) << 32 | u64::from(node))
        .collect();
    keyed.par_sort_unstable();
    keyed.into_par_iter().map(|key| key as u32).collect()
}

/// The nodes with reads, in ascending order, in memory of exactly their number.
fn read_nodes(reads: &[u32]) -> Vec<u32> {
    let mut nodes = Vec::with_capacity(reads.par_iter().filter(|&&reads| reads > 0).count());
    nodes.extend((0..).zip(reads).filter(|(_, reads)| **reads > 0).map(|(node, _)| node));
    nodes
}

#[cfg(test)]
mod tests {
    use uva_graph::Indices;
    use uva_sample::SamplerKind;

    use super::*;

    #[test]
    fn lists_rank_by_reads_per_byte_rows_by_reads_and_unread_ones_not_at_all() {
        let indptr = [0, 2, 2, 12, 14, 16];
        let csc = Csc { indptr: &indptr, indices: Indices::I32(&[0; 16]), original_ids: None, degrees: None };
        let sizes = Sizes::new(&csc, 12);
        // Bytes: 16, 8, 48, 16, 16.
        assert_eq!(sizes.list_bytes(1), 8);
        assert_eq!(sizes.list_bytes(2), 48);
        let hotness = Hotness {
            feature_reads: vec![3, 0, 9, 3, 1],
            list_reads: vec![4, 3, 11, 4, 0],
            ..Hotness::default()
        };
        assert_eq!(rank_lists(&hotness, &sizes), [1, 0, 3, 2]);
        assert_eq!(rank_rows(&hotness), [2, 0, 3, 4]);
    }

    #[test]
    fn weights_count_for_each_neighbour_and_places_for_each_list() {
        let indptr = [0, 2, 2, 12];
        let csc = Csc { indptr: &indptr, indices: Indices::I32(&[0; 12]), original_ids: None, degrees: None };
        let bytes = |kind: SamplerKind, edge_ids: bool| {
            let options = SamplerOptions { kind, edge_ids, ..SamplerOptions::default() };
            let sizes = Sizes::new(&csc, 12).read_by(&options);
            [0, 1, 2].map(|node| sizes.list_bytes(node))
        };
        assert_eq!(bytes(SamplerKind::NEIGHBOR, false), [16, 8, 48]);
        assert_eq!(bytes(SamplerKind::NEIGHBOR, true), [24, 16, 56]);
        assert_eq!(bytes(SamplerKind::WEIGHTED, false), [24, 8, 88]);
        assert_eq!(bytes(SamplerKind::WEIGHTED, true), [32, 16, 96]);
        // A longer list has a lower value per byte.
        let hotness = Hotness { list_reads: vec![5, 2, 14], ..Hotness::default() };
        let sizes = Sizes::new(&csc, 12);
        assert_eq!(rank_lists(&hotness, &sizes), [0, 2, 1]);
        let weighted = SamplerOptions { kind: SamplerKind::WEIGHTED, ..SamplerOptions::default() };
        assert_eq!(rank_lists(&hotness, &sizes.read_by(&weighted)), [1, 0, 2]);
    }

    #[test]
    fn counts_at_the_top_are_ranked_first() {
        let hotness = Hotness {
            feature_reads: vec![0, 1, u32::MAX, u32::MAX - 1],
            list_reads: vec![0; 4],
            ..Hotness::default()
        };
        assert_eq!(rank_rows(&hotness), [2, 3, 1]);
    }
}
