//! A partition, and its statistics.

use std::collections::BTreeMap;

use serde_json::{Map, json};
use uva_graph::partition_map::PARTITION_FORMAT;
use uva_graph::{Csc, Dataset, GraphError, PartitionMap, PartitionSource, PartitionSummary, Split};

use crate::auto::Candidate;
use crate::graphs::counts::{InLists, edge_cut};
use crate::options::PartitionOptions;

/// The method of a map without information on its origin.
const GIVEN: &str = "given";

/// The part of each node.
#[derive(Clone, Debug)]
pub struct NodePartition {
    /// Number of parts.
    pub parts: u32,
    /// The part of each node, by original id.
    pub of: Vec<u16>,
    /// The method's name, with `+refine` if the partition was refined.
    pub method: String,
    /// Nodes of each part.
    pub nodes: Vec<u64>,
    /// Training nodes of each part.
    pub train: Vec<u64>,
    /// Blocks before and after merging, for bgl.
    pub blocks: Option<[u64; 2]>,
    /// Entries of neighbour lists whose node is in another part than the list's.
    pub edge_cut: u64,
    /// The methods that auto tried; empty for other methods.
    pub candidates: Vec<Candidate>,
    /// Wall-clock seconds of each stage.
    pub seconds: BTreeMap<String, f64>,
}

impl NodePartition {
    /// The description in the files of a partition.
    #[must_use]
    pub fn into_map(self, dataset: &Dataset, options: &PartitionOptions) -> PartitionMap {
        let mut other = Map::new();
        other.insert("options".to_owned(), described(dataset, options));
        if !self.candidates.is_empty() {
            other.insert("candidates".to_owned(), json!(self.candidates));
        }
        let source = PartitionSource { name: dataset.name().to_owned(), fingerprint: dataset.fingerprint() };
        let summary = PartitionSummary {
            format: PARTITION_FORMAT,
            dataset: source,
            parts: self.parts,
            method: self.method,
            seed: options.seed,
            hops: options.hops,
            nodes: self.nodes,
            train: self.train,
            blocks: self.blocks,
            edge_cut: self.edge_cut,
            seconds: self.seconds,
            other,
            written: None,
        };
        PartitionMap { parts: self.parts, of: self.of, summary: Some(summary) }
    }

    /// The statistics of an existing map on its dataset. Uses the current rayon pool.
    ///
    /// # Errors
    /// If the map belongs to another dataset, or a neighbour is not a node.
    pub fn of_map(dataset: &Dataset, map: &PartitionMap) -> Result<NodePartition, GraphError> {
        dataset.check_edges()?;
        let owners = map.by_node(dataset)?;
        let mut train = vec![0; map.parts as usize];
        let of_train = dataset.split(Split::Train).iter().map(|&node| usize::from(owners[node as usize]));
        of_train.for_each(|part| train[part] += 1);
        let edge_cut = edge_cut(&DatasetGraph(dataset.csc()), &owners);
        Ok(NodePartition {
            parts: map.parts,
            method: map.summary.as_ref().map_or_else(|| GIVEN.to_owned(), |summary| summary.method.clone()),
            nodes: map.sizes(),
            train,
            blocks: None,
            edge_cut,
            candidates: Vec::new(),
            seconds: BTreeMap::new(),
            of: map.of.clone(),
        })
    }
}

/// The lists of a dataset by its own ids.
struct DatasetGraph<'g>(Csc<'g>);

impl InLists for DatasetGraph<'_> {
    fn in_list(&self, node: usize) -> impl Iterator<Item = usize> {
        let Csc { indptr, indices, .. } = self.0;
        let entries = indptr[node] as usize..indptr[node + 1] as usize;
        entries.map(move |entry| indices.get(entry) as usize)
    }
}

/// The options that reproduce the partition.
fn described(dataset: &Dataset, options: &PartitionOptions) -> serde_json::Value {
    let mut described = json!({"method": options.method, "refine": options.passes()});
    if options.method.makes_blocks() {
        described["block_nodes"] = json!(options.nodes_a_block(dataset.nodes()));
        described["sources"] = json!(options.sources);
        described["count"] = json!(options.count);
    }
    described
}
