//! A directory of `.npy` files with `"version": 2` in `meta.json`: a dataset of format 2, or the same with edges as
//! `edge_index`, or `src` and `dst`, in the directories of relations.
//!
//! Arrays of nodes have the names and types of a directory of one type, each optional. Other arrays with a row for each
//! node or edge are kept. Other importers pass such arrays by [`TypedArrays`].

mod arrays;
mod edges;
mod nodes;

use uva_graph::typed_meta::{RelationMeta, TypedMeta};
use uva_graph::{GraphError, Meta, NodeType, Relation, names};

pub(crate) use self::edges::EdgeArrays;
pub(crate) use self::nodes::{FEATURES, LABELS, NodeArrays};
pub(crate) use super::source::{ArrayFiles, ImportedLabels, SourceArrays};
use crate::import::reading::nodes::NodeRange;
use crate::import::request::ImportRequest;
use crate::import::writing::typed_output::{self, TypedSizes};
use crate::typed::{GraphPlan, RelationPlan, Reversal};

/// Imports the source, whose metadata is `meta`.
pub(super) fn import(request: &ImportRequest<'_>, mut meta: Meta) -> Result<(), GraphError> {
    let Some(typed) = meta.typed.take() else { return Ok(()) };
    let mut arrays = TypedArrays::new(typed);
    for entry in arrays.typed.nodes.clone() {
        let directory = request.source.join(names::NODE_TYPES).join(&entry.name);
        let node_names = Some(directory.join(names::NODE_NAMES)).filter(|path| path.is_file());
        let source = SourceArrays::of_type(directory, ArrayFiles::Directory, &entry);
        arrays.types.push(NodeArrays::open(request, &entry, source, None, node_names)?);
    }
    for entry in arrays.typed.edges.clone() {
        let directory = request.source.join(names::RELATIONS).join(entry.names.join("__"));
        let source = SourceArrays::of_relation(directory, ArrayFiles::Directory, &entry);
        let ends = arrays.ends(&entry, "meta.json");
        arrays.relations.push(EdgeArrays::open(request, &entry, source, None, ends)?);
    }
    arrays.write(request, meta)
}

/// The arrays of a typed graph, found and checked.
pub(crate) struct TypedArrays {
    /// The keys of `meta.json`, of which those that follow from arrays are set later.
    pub(crate) typed: TypedMeta,
    /// Those of each node type.
    pub(crate) types: Vec<NodeArrays>,
    /// Those of each relation.
    pub(crate) relations: Vec<EdgeArrays>,
}

impl TypedArrays {
    pub(crate) fn new(typed: TypedMeta) -> Self {
        Self { typed, types: Vec::new(), relations: Vec::new() }
    }

    /// The nodes at both ends of a relation. `file` is what states their numbers.
    pub(crate) fn ends(&self, relation: &RelationMeta, file: &str) -> [NodeRange; 2] {
        let [source, _, destination] = &relation.names;
        [source, destination].map(|name| {
            let num = self.typed.nodes.iter().find(|entry| entry.name == *name).map_or(0, |entry| entry.num);
            NodeRange::new(num, format!("{file} has {num} of {name}"))
        })
    }

    /// Writes the dataset, with the other keys of `meta`.
    pub(crate) fn write(mut self, request: &ImportRequest<'_>, mut meta: Meta) -> Result<(), GraphError> {
        typed_output::refuse_changes(request.options)?;
        let mut sizes = TypedSizes::default();
        for (entry, arrays) in self.typed.nodes.iter_mut().zip(&self.types) {
            arrays.describe(entry, request.options.float8);
            sizes.nodes = sizes.nodes.saturating_add(entry.num);
            sizes.node_bytes = sizes.node_bytes.saturating_add(arrays.bytes());
        }
        for (entry, arrays) in self.typed.edges.iter_mut().zip(&self.relations) {
            sizes.relations.push(arrays.sizes());
            arrays.describe(entry);
        }
        let Self { typed, types, relations } = self;
        let target = typed.target.clone();
        let planned = |meta| RelationPlan { meta, reversal: Reversal::None };
        let plan = GraphPlan {
            nodes: typed.nodes,
            relations: typed.edges.into_iter().map(planned).collect(),
            target: typed.target,
        };
        let mut writer = typed_output::begin(request, plan, &sizes)?;
        for (number, arrays) in (0..).zip(relations) {
            arrays.write(request, &mut writer, Relation(number))?;
        }
        let metagraph = writer.metagraph();
        let target = match target {
            Some(name) => metagraph.find_type(&name).ok(),
            None => (metagraph.type_count() == 1).then_some(NodeType::ONLY),
        };
        if request.options.split.is_some() && target.is_none() {
            let message = "requires \"target\" in meta.json, the type that is split";
            return Err(GraphError::usage("split", message));
        }
        for (number, arrays) in (0..).zip(types) {
            let is_target = target == Some(NodeType(number));
            arrays.write(request, &writer, NodeType(number), is_target, &mut meta)?;
        }
        typed_output::finish(request, writer, meta)
    }
}
