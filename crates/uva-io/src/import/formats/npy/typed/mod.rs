//! A directory of `.npy` files with `"version": 2` in `meta.json`: a dataset of format 2, or the same with edges as
//! `edge_index`, or `src` and `dst`, in the directories of relations.
//!
//! Arrays of nodes have the names and types of a directory of one type, each optional. Other arrays with a row for each
//! node or edge are kept. Other importers pass such arrays by [`TypedArrays`].

mod arrays;
mod edges;
mod nodes;

use std::path::PathBuf;

use uva_graph::typed_meta::TypedMeta;
use uva_graph::{GraphError, Meta, NodeType, Relation, names};

use self::edges::EdgeArrays;
use self::nodes::NodeArrays;
pub(crate) use self::nodes::{FEATURES, LABELS};
pub(crate) use super::source::{ArrayFiles, ImportedLabels, SourceArrays};
use crate::import::reading::nodes::NodeRange;
use crate::import::request::ImportRequest;
use crate::import::writing::typed_changes::{RelationChanges, ReverseRule, TypedChanges};
use crate::import::writing::typed_output::{self, TypedSizes};
use crate::typed::{GraphPlan, RelationPlan};

/// Imports the source, whose metadata is `meta`.
pub(super) fn import(request: &ImportRequest<'_>, mut meta: Meta) -> Result<(), GraphError> {
    let Some(typed) = meta.typed.take() else { return Ok(()) };
    let mut arrays = TypedArrays::new(request, typed)?;
    for entry in arrays.typed.nodes.clone() {
        let directory = request.source.join(names::NODE_TYPES).join(&entry.name);
        let node_names = Some(directory.join(names::NODE_NAMES)).filter(|path| path.is_file());
        let source = SourceArrays::of_type(directory, ArrayFiles::Directory, &entry);
        arrays.open_type(source, None, node_names)?;
    }
    for entry in arrays.typed.edges.clone() {
        let directory = request.source.join(names::RELATIONS).join(entry.names.join("__"));
        let source = SourceArrays::of_relation(directory, ArrayFiles::Directory, &entry);
        arrays.open_relation(source, None, "meta.json")?;
    }
    arrays.write(meta)
}

/// The arrays of a typed graph, found and checked.
pub(crate) struct TypedArrays<'r> {
    request: &'r ImportRequest<'r>,
    /// The keys of `meta.json`, of which those that follow from arrays are set later.
    pub(crate) typed: TypedMeta,
    changes: TypedChanges,
    types: Vec<NodeArrays>,
    relations: Vec<EdgeArrays>,
}

impl<'r> TypedArrays<'r> {
    /// Those of these types and relations, without any arrays yet.
    pub(crate) fn new(request: &'r ImportRequest<'r>, typed: TypedMeta) -> Result<Self, GraphError> {
        let changes = TypedChanges::of(request.options, &typed.nodes, &typed.edges, ReverseRule::OnRequest)?;
        Ok(Self { request, typed, changes, types: Vec::new(), relations: Vec::new() })
    }

    /// The changes of each relation.
    pub(crate) fn changes(&self) -> &[RelationChanges] {
        &self.changes.relations
    }

    /// Opens the arrays of the next node type. `labels` are those of other files, and `node_names` is the file of the
    /// nodes' names.
    pub(crate) fn open_type(
        &mut self,
        source: SourceArrays,
        labels: Option<ImportedLabels>,
        node_names: Option<PathBuf>,
    ) -> Result<(), GraphError> {
        let at = self.types.len();
        let (entry, regression) = (&self.typed.nodes[at], self.changes.regression[at]);
        let labels = match labels {
            Some(labels) => labels,
            None => NodeArrays::labels(&source, entry, regression, self.request.watch)?,
        };
        self.types.push(NodeArrays::open(entry, source, labels, node_names, self.request.watch)?);
        Ok(())
    }

    /// Whether the labels of a node type are targets of regression.
    pub(crate) fn is_regression(&self, node_type: usize) -> bool {
        self.changes.regression[node_type]
    }

    /// Opens the arrays of the next relation. `lines` is a text with the edges in place of an array, and `file` states
    /// the numbers of nodes.
    pub(crate) fn open_relation(
        &mut self,
        source: SourceArrays,
        lines: Option<PathBuf>,
        file: &str,
    ) -> Result<(), GraphError> {
        let at = self.relations.len();
        let entry = &self.typed.edges[at];
        let [from, _, owner] = &entry.names;
        let ends = [from, owner].map(|name| {
            let num = self.typed.nodes.iter().find(|entry| entry.name == *name).map_or(0, |entry| entry.num);
            NodeRange::new(num, format!("{file} has {num} of {name}"))
        });
        let relation = (entry, self.typed.edges.as_slice());
        let arrays = EdgeArrays::open(relation, source, lines, ends, self.request.watch)?;
        arrays.check_changes(self.changes.relations[at])?;
        self.relations.push(arrays);
        Ok(())
    }

    /// Writes the dataset, with the other keys of `meta`.
    pub(crate) fn write(mut self, mut meta: Meta) -> Result<(), GraphError> {
        let mut sizes = TypedSizes::default();
        let float8 = &self.changes.float8;
        for ((entry, arrays), float8) in self.typed.nodes.iter_mut().zip(&self.types).zip(float8) {
            arrays.describe(entry, *float8);
            sizes.nodes = sizes.nodes.saturating_add(entry.num);
            sizes.node_bytes = sizes.node_bytes.saturating_add(arrays.bytes());
        }
        let changes = &self.changes.relations;
        for ((entry, arrays), change) in self.typed.edges.iter_mut().zip(&self.relations).zip(changes) {
            sizes.relations.push(arrays.sizes(*change));
            arrays.describe(entry);
        }
        let Self { request, typed, changes, types, relations } = self;
        let target = typed.target.clone();
        let planned = typed.edges.into_iter().zip(&changes.relations);
        let planned = planned.map(|(meta, change)| RelationPlan { meta, reversal: change.reversal });
        let plan = GraphPlan { nodes: typed.nodes, relations: planned.collect(), target: typed.target };
        let mut writer = typed_output::begin(request, plan, &sizes)?;
        for ((number, arrays), change) in (0..).zip(relations).zip(&changes.relations) {
            arrays.write(request, &mut writer, Relation(number), *change)?;
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
        for ((number, arrays), float8) in (0..).zip(types).zip(changes.float8) {
            let is_target = target == Some(NodeType(number));
            arrays.write(request, &writer, (NodeType(number), is_target), float8, &mut meta)?;
        }
        typed_output::finish(request, writer, meta)
    }
}
