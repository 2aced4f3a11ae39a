//! What a pass over a whole graph reads.

use crate::TrainError;
use crate::graph::whole_graph::WholeGraph;
use uva_graph::{Csc, Dataset, FeatureTable};

/// The nodes of each type of a graph and the lists of each relation, in the order of the dataset. A graph without types
/// has one of each.
#[derive(Clone, Debug)]
pub struct WholeData<'a> {
    /// The node types.
    pub types: Vec<WholeType<'a>>,
    /// The relations.
    pub relations: Vec<WholeGraph<'a>>,
    /// Relations of which the layer of a hop reads no edges, as in training with a fanout of 0: hop, from 0 at the seeds, and
    /// relation. Models of one relation ignore them.
    pub unread: Vec<(usize, usize)>,
}

/// The nodes of a type.
#[derive(Clone, Copy, Debug)]
pub struct WholeType<'a> {
    /// Their number.
    pub nodes: usize,
    /// Their feature rows; `None` if they have none.
    pub features: Option<FeatureTable<'a>>,
}

impl<'a, G: Into<WholeGraph<'a>>> From<(G, FeatureTable<'a>)> for WholeData<'a> {
    fn from((graph, features): (G, FeatureTable<'a>)) -> Self {
        let graph = graph.into();
        let of_type = WholeType { nodes: graph.csc.nodes(), features: Some(features) };
        Self { types: vec![of_type], relations: vec![graph], unread: Vec::new() }
    }
}

impl<'a> From<&'a Dataset> for WholeData<'a> {
    fn from(dataset: &'a Dataset) -> Self {
        let metagraph = dataset.metagraph();
        let of_type = |of| WholeType { nodes: dataset.nodes_of(of), features: dataset.rows(of) };
        let edge_features = dataset.edge_features();
        let relation = |of| WholeGraph { csc: dataset.lists(of), edge_features };
        Self {
            types: metagraph.types().map(of_type).collect(),
            relations: metagraph.relations().map(relation).collect(),
            unread: Vec::new(),
        }
    }
}

impl<'a> WholeData<'a> {
    /// The only relation, and the feature rows of the only type.
    pub(crate) fn single(&self) -> Result<(&WholeGraph<'a>, FeatureTable<'a>), TrainError> {
        match (&self.types[..], &self.relations[..]) {
            ([WholeType { features: Some(features), .. }], [graph]) => Ok((graph, *features)),
            (types, relations) => Err(TrainError::Input(format!(
                "a graph of {} node types and {} relations for a model of one type with feature rows and one relation",
                types.len(),
                relations.len()
            ))),
        }
    }
}

/// Refuses offsets that don't form lists: views of a dataset are checked, but callers can build their own.
pub(crate) fn check_offsets(csc: &Csc<'_>) -> Result<(), TrainError> {
    let ends_fit =
        csc.indptr.first() == Some(&0) && csc.indptr.last().copied() == i64::try_from(csc.edges()).ok();
    match csc.indptr.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(v) => Err(TrainError::Input(format!("the graph's offsets fall at node {v}"))),
        None if !ends_fit => Err(TrainError::Input(format!(
            "the graph's offsets do not go from 0 to its {} edges",
            csc.edges()
        ))),
        None => Ok(()),
    }
}
