//! The files of a dataset without its feature tables, mapped, their shapes and types checked against each other. Their
//! content is not checked here.

use std::path::Path;

use bytemuck::AnyBitPattern;

use crate::description::edge_values::{EdgeValues, EdgeValuesSpec};
use crate::description::metagraph::Metagraph;
use crate::description::typed_meta::NodeTypeMeta;
use crate::description::{meta, names};
use crate::npy::{NpyArray, TypedArray};
use crate::storage::arrays::node_files::{NodeFiles, SaidOfNodes};
use crate::storage::arrays::place::ArrayDirectory;
use crate::storage::arrays::relation_files::RelationFiles;
use crate::storage::typed_directory::check_directories;
use crate::{Csc, EntryTimes, GraphError, Meta, NodeType, Relation, Split};

/// The graph of a dataset, with the labels and splits of its nodes. A homogeneous graph has one node type and one
/// relation.
#[derive(Debug)]
pub(crate) struct GraphFiles {
    pub(crate) meta: Meta,
    pub(crate) metagraph: Metagraph,
    /// The type whose splits are seeds, if there is one.
    pub(crate) target: Option<NodeType>,
    /// The nodes of each type.
    pub(crate) types: Vec<NodeFiles>,
    /// The edges of each relation.
    pub(crate) relations: Vec<RelationFiles>,
}

#[derive(Debug, thiserror::Error)]
#[error("\"part\" is of no partition that can be: write the parts again")]
struct ImpossiblePart;

#[derive(Debug, thiserror::Error)]
#[error(
    "only parts of a graph have it, since their lists are cut, and meta.json has no \"part\": copy the part's meta.json too"
)]
struct CutWithoutPart;

/// The largest number of nodes of a type: the random keys have 40 bits for a node.
const MOST_NODES: u64 = 1 << 40;

#[derive(Debug, thiserror::Error)]
#[error("{key} is {num}, it has to be at most 2^40")]
struct TooManyNodes {
    key: String,
    num: u64,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{key} is \"time\", but neither the relation nor {source_type} has a time.npy: remove the key, or write the times"
)]
struct OrderWithoutTimes {
    key: String,
    source_type: String,
}

#[derive(Debug, thiserror::Error)]
#[error("\"reverse\" of {relation} has {found} edges, it has to have {wanted}")]
struct ReverseCount {
    relation: String,
    found: usize,
    wanted: usize,
}

/// Checks the part of a partition that a dataset of format 1 is, if it is one.
fn check_part(directory: &Path, meta: &Meta) -> Result<(), GraphError> {
    if let Some(part) = &meta.part {
        if !part.can_be() {
            return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), ImpossiblePart));
        }
        part.check_beside(directory)?;
    } else if directory.join(names::DEGREES).is_file() {
        return Err(GraphError::invalid(&directory.join(names::DEGREES), CutWithoutPart));
    }
    Ok(())
}

impl GraphFiles {
    /// Maps the files of the graph in `directory`, which `meta` describes.
    pub(crate) fn open(directory: &Path, meta: Meta) -> Result<GraphFiles, GraphError> {
        let meta_file = directory.join(meta::FILE_NAME);
        let metagraph = meta.metagraph().map_err(|problem| GraphError::invalid(&meta_file, problem))?;
        let target = match &meta.typed {
            None => {
                check_part(directory, &meta)?;
                Some(NodeType::ONLY)
            }
            Some(typed) => {
                check_directories(directory, &metagraph)?;
                typed.target(&metagraph).map_err(|problem| GraphError::invalid(&meta_file, problem))?
            }
        };
        let relations = metagraph.relations().map(|relation| {
            let place = ArrayDirectory::of_relation(directory, &metagraph, relation);
            let edges = RelationFiles::open(&place)?;
            let Some(typed) = &meta.typed else { return Ok(edges) };
            let destination = &typed.nodes[metagraph.destination(relation).index()];
            edges.check_destinations(destination.num, &destination.name)?;
            edges.with_times_and_ids(&place, typed.edges[relation.index()].order)
        });
        let relations = relations.collect::<Result<Vec<_>, _>>()?;
        let types = metagraph.types().map(|node_type| {
            let place = ArrayDirectory::of_type(directory, &metagraph, node_type);
            let class_names = meta.class_names.as_ref().filter(|_| target == Some(node_type));
            match &meta.typed {
                None => {
                    let (has_all_splits, is_part) = (true, meta.part.is_some());
                    let said = SaidOfNodes { classes: meta.classes, class_names, has_all_splits, is_part };
                    NodeFiles::open(&place, relations[Relation::ONLY.index()].destinations(), &said)
                }
                Some(typed) => {
                    let NodeTypeMeta { num, classes, .. } = typed.nodes[node_type.index()];
                    let said = SaidOfNodes { classes, class_names, ..SaidOfNodes::default() };
                    if num > MOST_NODES {
                        return Err(place.wrong_meta(TooManyNodes { key: place.key("num"), num }));
                    }
                    NodeFiles::open(&place, num as usize, &said)?.with_times(&place)
                }
            }
        });
        let types = types.collect::<Result<Vec<_>, _>>()?;
        let files = GraphFiles { meta, metagraph, target, types, relations };
        files.check_reverses(directory)?;
        files.check_orders(directory)?;
        Ok(files)
    }

    /// Checks that relations with an order have the times that it is by.
    fn check_orders(&self, directory: &Path) -> Result<(), GraphError> {
        let ordered = |relation: &Relation| self.relations[relation.index()].order.is_some();
        for relation in self.metagraph.relations().filter(ordered) {
            if self.entry_times(relation).is_none() {
                let place = ArrayDirectory::of_relation(directory, &self.metagraph, relation);
                let source_type = self.metagraph.type_name(self.metagraph.source(relation)).to_owned();
                return Err(place.wrong_meta(OrderWithoutTimes { key: place.key("order"), source_type }));
            }
        }
        Ok(())
    }

    /// The times of a relation's entries: of its edges, or else of its source type; `None` if there are neither.
    pub(crate) fn entry_times(&self, relation: Relation) -> Option<EntryTimes<'_>> {
        let of_edges = self.relations[relation.index()].times.as_ref().map(TypedArray::values);
        let of_sources = || self.types[self.metagraph.source(relation).index()].times.as_ref();
        let of_sources = || of_sources().map(|times| EntryTimes::Sources(times.values()));
        of_edges.map(EntryTimes::Edges).or_else(of_sources)
    }

    /// The number of edges of each relation and its reverse; an error if a pair differs.
    fn check_reverses(&self, directory: &Path) -> Result<(), GraphError> {
        let edges = |relation: Relation| self.relations[relation.index()].edges();
        for relation in self.metagraph.relations() {
            if let Some(reverse) = self.metagraph.reverse(relation)
                && edges(reverse) != edges(relation)
            {
                let (name, found, wanted) =
                    (self.metagraph.full_name(relation).to_owned(), edges(reverse), edges(relation));
                let problem = ReverseCount { relation: name, found, wanted };
                return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), problem));
            }
        }
        Ok(())
    }

    /// The lists of a relation.
    pub(crate) fn lists(&self, relation: Relation) -> Csc<'_> {
        let owners = &self.types[self.metagraph.destination(relation).index()];
        let edges = &self.relations[relation.index()];
        Csc {
            indptr: edges.indptr.values(),
            indices: edges.indices.values(),
            original_ids: owners.original_ids(),
            degrees: owners.degrees.as_ref().map(TypedArray::values),
        }
    }

    // Of a homogeneous graph, or of the first type and relation.

    /// The nodes of the first type.
    pub(crate) fn first_type(&self) -> &NodeFiles {
        &self.types[NodeType::ONLY.index()]
    }

    /// The edges of the first relation.
    pub(crate) fn first_relation(&self) -> &RelationFiles {
        &self.relations[Relation::ONLY.index()]
    }

    pub(crate) fn nodes(&self) -> usize {
        self.first_type().count
    }

    /// The lists.
    pub(crate) fn csc(&self) -> Csc<'_> {
        self.lists(Relation::ONLY)
    }

    /// The nodes of a split.
    pub(crate) fn split(&self, split: Split) -> &[i64] {
        self.first_type().split(split)
    }

    /// An array with one value per edge; `None` if the dataset lacks it.
    pub(crate) fn edge_array(&self, values: EdgeValues) -> Option<&NpyArray> {
        self.first_relation().edge_array(values)
    }

    /// Its values. `T` has to be the array's type.
    pub(crate) fn edge_values<T: AnyBitPattern>(&self, values: EdgeValues) -> Option<&[T]> {
        self.first_relation().edge_values(values)
    }

    /// The arrays with one value per edge that are present.
    pub(crate) fn edge_arrays(&self) -> impl Iterator<Item = (&'static EdgeValuesSpec, &NpyArray)> {
        self.first_relation().edge_arrays()
    }

    /// Bytes of an edge: of its entry in the lists, and of its value in each of these arrays.
    pub(crate) fn edge_bytes(&self) -> usize {
        self.first_relation().edge_bytes()
    }

    /// The number of classes: from `meta.json`, or the largest label + 1, or the columns of `label.npy`. 0 if labels
    /// are not classes.
    pub(crate) fn classes(&self) -> usize {
        self.first_type().classes()
    }
}
