//! An open dataset of one or several types of nodes and edges.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use uva_mem::{FileState, MappedFile};

use crate::description::edge_values::EdgeValues;
use crate::description::names;
use crate::kinds::{Kind, KindWords};
use crate::npy::TypedArray;
use crate::storage::arrays::node_files::NodeFiles;
use crate::storage::arrays::place::ArrayDirectory;
use crate::storage::arrays::relation_files::RelationFiles;
use crate::storage::files::{Files, RowArray};
use crate::storage::graph_files::GraphFiles;
use crate::storage::node_rows::NodeRows;
use crate::storage::random_file::{CopiedLists, RandomFile, RandomValues};
use crate::storage::stamp::Stamp;
use crate::storage::verification::{Verification, Verify, check_graph};
use crate::storage::verify;
use crate::{
    Csc, EdgeRows, ElementType, EntryTimes, FeatureTable, GraphError, Labels, Meta, Metagraph, NodeType,
    Relation, Schema, SeedTimes, Split, TableSchema,
};

/// Nodes that replace those of a split.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) split: Split,
    /// The types of the seeds, in their order, each with its nodes.
    pub(crate) of_types: Vec<(NodeType, Vec<i64>)>,
    /// The nodes of each of these types that are there again, once for each repetition. Found once: each bound of a
    /// batch counts them.
    repeated: Vec<Vec<usize>>,
}

impl Chosen {
    /// These nodes of types, each type once, of which a graph has `nodes_of`.
    pub(crate) fn new(
        split: Split,
        mut of_types: Vec<(NodeType, Vec<i64>)>,
        nodes_of: impl Fn(NodeType) -> usize,
    ) -> Self {
        of_types.sort_by_key(|(of, _)| *of);
        let repeated = of_types.iter().map(|(of, ids)| repeated(ids, nodes_of(*of)).collect()).collect();
        Self { split, of_types, repeated }
    }

    /// The nodes of a type that are there again.
    fn repeated(&self, node_type: NodeType) -> &[usize] {
        let place = self.of_types.iter().position(|(of, _)| *of == node_type);
        place.map_or(&[], |place| &self.repeated[place])
    }

    /// The nodes of a type; empty if it has no seeds.
    pub(crate) fn of(&self, node_type: NodeType) -> &[i64] {
        self.of_types.iter().find(|(of, _)| *of == node_type).map_or(&[], |(_, ids)| ids)
    }
}

/// Two splits that have nodes in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The splits, in the order of [`Split::ALL`].
    pub splits: [Split; 2],
    /// The number of nodes in both splits.
    pub nodes: usize,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.splits.map(Split::name);
        let nodes = if self.nodes == 1 { "node" } else { "nodes" };
        write!(f, "{first} and {second} have {} {nodes} in common", self.nodes)
    }
}

/// Duplicates in a list of nodes. A batch of such nodes has at most `rows` more rows than the graph has nodes, and a
/// block of it at most `edges` more edges than the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// The number of duplicate entries.
    pub rows: usize,
    /// The total length of their neighbour lists.
    pub edges: usize,
}

impl Repeats {
    /// Counts the duplicates in `ids`. Ids outside the graph are ignored.
    pub fn of(ids: &[i64], csc: &Csc<'_>) -> Self {
        Self::of_nodes(repeated(ids, csc.nodes()), csc)
    }

    /// Duplicates that are these nodes.
    fn of_nodes(nodes: impl Iterator<Item = usize>, csc: &Csc<'_>) -> Self {
        let mut repeats = Self::default();
        for node in nodes {
            repeats.rows += 1;
            repeats.edges += csc.degree(node);
        }
        repeats
    }
}

/// The duplicates in `ids`. Ids outside the graph are ignored.
fn repeated(ids: &[i64], nodes: usize) -> impl Iterator<Item = usize> {
    let mut seen = vec![false; nodes];
    let known = ids.iter().filter_map(move |&id| usize::try_from(id).ok().filter(|&node| node < nodes));
    known.filter(move |&node| std::mem::replace(&mut seen[node], true))
}

/// An open dataset whose nodes have types, and whose edges belong to relations between types: its mapped files and their
/// metadata. Clones share the mappings.
///
/// A homogeneous dataset has one node type and one relation, so code over a typed dataset takes it too: it loops over
/// the types and relations of the [`Metagraph`]. A [`Dataset`](crate::Dataset) is a typed dataset that is known to be
/// homogeneous, and dereferences to one. Code that takes a `Dataset` is therefore never called with several types.
///
/// Methods for a type or a relation panic if the metagraph does not have it.
#[derive(Clone, Debug)]
pub struct TypedDataset {
    path: PathBuf,
    name: String,
    schema: Schema,
    pub(crate) kind: Arc<dyn Kind>,
    /// Rows of the first type that replace those of the table.
    pub(crate) rows: Option<Arc<NodeRows>>,
    /// Lists in memory that replace those of the files, of each relation; empty if no lists are replaced.
    lists: Vec<Arc<CopiedLists>>,
    pub(crate) chosen: Option<Chosen>,
    verification: Verification,
}

impl TypedDataset {
    /// Opens the dataset in the directory `path` and checks it, with [`Verify::Stamp`].
    ///
    /// # Errors
    /// If a file is missing or its content is wrong. The message names the file, the offset and the value.
    pub fn open(path: &Path) -> Result<Self, GraphError> {
        Self::open_verified(path, Verify::Stamp)
    }

    /// Opens the dataset in the directory `path` and checks it according to `how`.
    ///
    /// # Errors
    /// If a file is missing or its content is wrong. The message names the file, the offset and the value.
    pub fn open_verified(path: &Path, how: Verify) -> Result<Self, GraphError> {
        Self::open_if(path, how, |_| Ok(()))
    }

    /// Opens the dataset and checks it according to `how`, if `accept` accepts its files before their content is
    /// checked.
    pub(crate) fn open_if(
        path: &Path,
        how: Verify,
        accept: impl FnOnce(&Files) -> Result<(), GraphError>,
    ) -> Result<Self, GraphError> {
        let start = Instant::now();
        // The stamp is taken before the files are read, so that a change in between shows in the next comparison.
        let stamp = Stamp::of(path);
        let meta = Files::read_meta(path)?;
        let stamp = stamp.and_then(|stamp| stamp.with_types(path, &meta));
        let files = Arc::new(Files::open_described(path, meta)?);
        accept(&files)?;
        let mut verification = check_graph(path, &files.graph, how, stamp.as_ref())?;
        if verification.edges_checked {
            verify::edge_rows(&files)?;
        }
        if how == Verify::FullWithFeatures {
            verify::features(&files)?;
            verify::reverses(&files.graph)?;
            verification.features_checked = true;
        }
        if verification.edges_checked {
            verification.stamp = stamp.and_then(|stamp| stamp.leave(path));
        }
        verification.seconds = start.elapsed().as_secs_f64();
        let name = files.graph.meta.name.clone().unwrap_or_else(|| directory_name(path));
        Ok(Self::of_kind(path.to_owned(), name, files, verification))
    }

    pub(crate) fn of_kind(
        path: PathBuf,
        name: String,
        kind: Arc<dyn Kind>,
        verification: Verification,
    ) -> Self {
        let (schema, lists) = (kind.schema(), Vec::new());
        Self { path, name, schema, kind, rows: None, lists, chosen: None, verification }
    }

    /// The types of nodes and edges. Those of a homogeneous dataset have no names.
    pub fn metagraph(&self) -> &Metagraph {
        self.kind.metagraph()
    }

    /// The type whose splits are seeds; `None` if there are several and `meta.json` names no target.
    pub fn target(&self) -> Option<NodeType> {
        self.schema.target
    }

    /// The dataset with the splits of another type as seeds.
    #[must_use]
    pub fn with_target(mut self, target: NodeType) -> Self {
        self.schema.target = Some(target);
        self
    }

    /// Names that messages use for the dataset and its content.
    pub fn words(&self) -> KindWords {
        self.kind.words()
    }

    /// Counts and types of the content. If [`with_rows`](Self::with_rows) replaced the rows, the schema is still that
    /// of the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The directory, as passed by the caller.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name in `meta.json`, or that of the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of nodes of all types, or of rows in a hop set.
    pub fn nodes(&self) -> usize {
        self.schema.nodes.iter().sum()
    }

    /// The number of edges of all relations; both directions of an undirected edge count.
    pub fn edges(&self) -> usize {
        self.schema.relations.iter().map(|relation| relation.edges).sum()
    }

    /// The number of nodes of a type.
    pub fn nodes_of(&self, node_type: NodeType) -> usize {
        self.schema.nodes[node_type.index()]
    }

    /// The number of edges of a relation.
    pub fn edges_of(&self, relation: Relation) -> usize {
        self.schema.relations[relation.index()].edges
    }

    /// The neighbour lists of a relation: one for each node of its destination type, with ids of its source type.
    /// Original ids are those of the destination type.
    pub fn lists(&self, relation: Relation) -> Csc<'_> {
        let csc = self.some_graph().lists(relation);
        match self.lists.get(relation.index()) {
            Some(lists) => lists.in_place_of(csc),
            None => csc,
        }
    }

    /// Shape and type of the feature rows of a type's nodes; `None` if it has none. If other rows replace those of the
    /// table, theirs. Each hop of a hop set has rows of this shape.
    pub fn table_of(&self, node_type: NodeType) -> Option<TableSchema> {
        let table = self.schema.tables.iter().find(|table| table.node_type == node_type)?.clone();
        Some(match &self.rows {
            Some(rows) if node_type == NodeType::ONLY => {
                TableSchema { dim: rows.dim, element: rows.element, ..table }
            }
            _ => table,
        })
    }

    /// Shape and type of the feature rows of a relation's edges; `None` if it has none, or the dataset is divided.
    pub fn edge_table_of(&self, relation: Relation) -> Option<(ElementType, usize)> {
        self.edge_rows(relation).map(|rows| (rows.table.element, rows.table.dim))
    }

    /// The type of the seeds: the target, or the only type.
    pub fn seed_type(&self) -> NodeType {
        self.target().unwrap_or(NodeType::ONLY)
    }

    /// The feature rows of the nodes of a type; `None` if it has none, for a hop set, and for a divided dataset.
    pub fn rows(&self, node_type: NodeType) -> Option<FeatureTable<'_>> {
        match &self.rows {
            Some(rows) if node_type == NodeType::ONLY => Some(rows.table(self.nodes_of(node_type))),
            _ => self.kind.feature_rows(node_type),
        }
    }

    /// The file of the feature rows of a type, the byte offset of its first row, and the file's state when it was opened.
    /// `None` if the type has none, for a hop set, which has several files, and for a divided dataset, which has only a
    /// part of the rows.
    pub fn rows_file(&self, node_type: NodeType) -> Option<(&Path, u64, FileState)> {
        let rows = match &self.rows {
            Some(rows) if node_type == NodeType::ONLY => &rows.array,
            _ => &self.whole()?.tables[node_type.index()].as_ref()?.array,
        };
        Some((rows.path(), rows.header().data_offset as u64, rows.file().state()))
    }

    /// The labels of the nodes of a type.
    pub fn labels_of(&self, node_type: NodeType) -> Labels<'_> {
        self.kind.labels(node_type)
    }

    /// The number of classes of a type: from `meta.json`, or the largest label + 1, or, if a node may have several, the
    /// number of columns of `label.npy`. 0 if no node has a class.
    pub fn classes_of(&self, node_type: NodeType) -> usize {
        self.schema.classes[node_type.index()]
    }

    /// The node ids of a split of a type in file order, or the ids that replace them. Empty if the type does not have
    /// the split.
    pub fn split_of(&self, node_type: NodeType, split: Split) -> &[i64] {
        match &self.chosen {
            Some(chosen) if chosen.split == split => chosen.of(node_type),
            _ => self.kind.split(node_type, split),
        }
    }

    /// The types that nodes in place of a split are of, in their order; empty if no split was replaced.
    pub fn chosen_types(&self) -> impl Iterator<Item = NodeType> {
        self.chosen.iter().flat_map(|chosen| &chosen.of_types).map(|(of, _)| *of)
    }

    /// The file of a split of a type, which need not exist.
    pub fn split_file(&self, node_type: NodeType, split: Split) -> PathBuf {
        self.directory_of_type(node_type).join(split.file_name())
    }

    /// The directory of the arrays of a type.
    pub fn directory_of_type(&self, node_type: NodeType) -> PathBuf {
        ArrayDirectory::of_type(&self.path, self.metagraph(), node_type).directory
    }

    /// The directory of the arrays of a relation.
    pub fn directory_of_relation(&self, relation: Relation) -> PathBuf {
        ArrayDirectory::of_relation(&self.path, self.metagraph(), relation).directory
    }

    /// The time of each node in the file of a split; `None` if there are none.
    pub fn split_times_of(&self, node_type: NodeType, split: Split) -> Option<&[i64]> {
        self.node_files(node_type)?.split_times[split as usize].as_ref().map(TypedArray::values)
    }

    /// The times of the seeds of a type: those of the file of the split, unless other nodes replace the split, or else of
    /// the nodes, or else `other`; `None` if there is no such time.
    pub fn seed_times_of(
        &self,
        node_type: NodeType,
        split: Split,
        other: Option<i64>,
    ) -> Option<SeedTimes<'_>> {
        let is_replaced = self.chosen.as_ref().is_some_and(|chosen| chosen.split == split);
        let of_split = self.split_times_of(node_type, split).filter(|_| !is_replaced);
        let of_nodes = || self.node_times(node_type).map(SeedTimes::OfNodes);
        of_split.map(SeedTimes::OfSplit).or_else(of_nodes).or(other.map(SeedTimes::Same))
    }

    /// The time of each node of a type; `None` if there are none.
    pub fn node_times(&self, node_type: NodeType) -> Option<&[i64]> {
        self.node_files(node_type)?.times.as_ref().map(TypedArray::values)
    }

    /// The time of each edge of a relation, in the order of the lists; `None` if there are none.
    pub fn edge_times(&self, relation: Relation) -> Option<&[i64]> {
        self.relation_files(relation).times.as_ref().map(TypedArray::values)
    }

    /// The time of each entry of a relation: of its edge, or else of its neighbour; `None` if there are neither.
    pub fn entry_times(&self, relation: Relation) -> Option<EntryTimes<'_>> {
        self.some_graph().entry_times(relation)
    }

    /// Whether the entries of each list of a relation ascend by [their times](Self::entry_times).
    pub fn is_ordered_by_time(&self, relation: Relation) -> bool {
        self.relation_files(relation).order.is_some()
    }

    /// The id that each node of a type had before the dataset was reordered; `None` if the ids are the same.
    pub fn original_ids_of(&self, node_type: NodeType) -> Option<&[i64]> {
        self.kind.original_ids(node_type)
    }

    /// The weights of the edges of a relation, in the order of the lists; `None` if it has no weights.
    pub fn weights_of(&self, relation: Relation) -> Option<&[f32]> {
        self.relation_files(relation).edge_values(EdgeValues::Weights)
    }

    /// The row that each edge of a relation had in the user's table, in the order of the lists; `None` if it is that of
    /// its place.
    pub fn edge_ids_of(&self, relation: Relation) -> Option<&[i64]> {
        self.relation_files(relation).edge_ids.as_ref().map(TypedArray::values)
    }

    /// The feature rows of the edges of a relation; `None` if it has none, or the dataset is divided.
    pub fn edge_rows(&self, relation: Relation) -> Option<EdgeRows<'_>> {
        let (rows, by_id) = self.whole()?.edge_rows(relation)?;
        let row_of = if by_id { self.edge_ids_of(relation) } else { None };
        Some(EdgeRows { table: RowArray::table(rows), row_of, file: rows.array.path() })
    }

    /// The names of arrays in the directory of a type that opening does not read, sorted: the user's own. Empty if types
    /// have no directories.
    pub fn other_arrays_of(&self, node_type: NodeType) -> Vec<String> {
        if !self.metagraph().is_named() {
            return Vec::new();
        }
        let directory = self.directory_of_type(node_type);
        // An unreadable directory has no arrays to show.
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_other = |name: &String| {
            name.ends_with(".npy")
                && names::of_a_node_type().chain([names::NODE_IDS]).all(|known| known != name)
        };
        let mut others: Vec<String> = files.filter(is_other).collect();
        others.sort_unstable();
        others
    }

    /// The pairs of splits of a type with common nodes, and how many nodes they share.
    pub fn overlaps_of(&self, node_type: NodeType) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for (at, first) in Split::ALL.into_iter().enumerate() {
            // One bit per node.
            let largest = self.split_of(node_type, first).iter().max().map_or(0, |&id| id as usize);
            let mut among = vec![0_u64; largest / 64 + 1];
            for &id in self.split_of(node_type, first) {
                among[id as usize / 64] |= 1 << (id % 64);
            }
            for second in Split::ALL.into_iter().skip(at + 1) {
                let is_in =
                    |&&id: &&i64| among.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1);
                let nodes = self.split_of(node_type, second).iter().filter(is_in).count();
                if nodes > 0 {
                    overlaps.push(Overlap { splits: [first, second], nodes });
                }
            }
        }
        overlaps
    }

    /// The files with feature rows of nodes (one table, or those of a hop set), each with its state when it was opened.
    pub fn row_files(&self) -> Vec<(&Path, FileState)> {
        self.mapped_rows().into_iter().map(|file| (file.path(), file.state())).collect()
    }

    fn mapped_rows(&self) -> Vec<&MappedFile> {
        match &self.rows {
            Some(rows) => vec![rows.array.file()],
            None => self.kind.row_files(),
        }
    }

    /// The mapped files that batches read in random order.
    pub fn random_files(&self) -> Vec<RandomFile<'_>> {
        let rows = self.mapped_rows().into_iter().map(|file| RandomFile { values: RandomValues::Rows, file });
        let relations = self.graph_files().into_iter().flat_map(|graph| &graph.relations);
        let lists = relations.flat_map(|edges| {
            let indptr = RandomFile { values: RandomValues::Indptr, file: edges.indptr.array().file() };
            [indptr, RandomFile { values: RandomValues::Indices, file: edges.indices.array().file() }]
        });
        rows.chain(lists).collect()
    }

    /// Replaces the lists of all relations by copies, as
    /// [`Dataset::with_copied_lists`](crate::Dataset::with_copied_lists).
    pub(crate) fn copy_lists(&mut self, indptr: bool, indices: bool) -> io::Result<()> {
        let copy = |relation| CopiedLists::of(&self.lists(relation), indptr, indices).map(Arc::new);
        self.lists = self.metagraph().relations().map(copy).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The number of duplicates among the nodes of a type that replace a split.
    pub fn repeated_seeds(&self, node_type: NodeType) -> usize {
        self.chosen.as_ref().map_or(0, |chosen| chosen.repeated(node_type).len())
    }

    /// Duplicates among the nodes that replace a split, and their lists in a relation.
    pub fn repeats_in(&self, relation: Relation) -> Repeats {
        let destination = self.metagraph().destination(relation);
        let nodes = self.chosen.iter().flat_map(|chosen| chosen.repeated(destination)).copied();
        Repeats::of_nodes(nodes, &self.lists(relation))
    }

    /// The content of `meta.json`.
    pub fn meta(&self) -> &Meta {
        self.kind.meta()
    }

    /// 16 hex digits that identify the content: equal for every copy of the dataset, regardless of its name and
    /// location. It covers all shapes and classes, and a sample of at most 16,384 words of each array. A divided
    /// dataset has the fingerprint of its source.
    pub fn fingerprint(&self) -> String {
        self.kind.fingerprint()
    }

    /// Checks every edge, weight and original id unless this run has done so. Needed before they are rewritten, since a
    /// stamp may be older than the files.
    ///
    /// # Errors
    /// About the first wrong value.
    pub fn check_edges(&self) -> Result<(), GraphError> {
        match self.graph_files() {
            Some(files) if !self.verification.edges_checked => verify::edges(files),
            _ => Ok(()),
        }
    }

    /// The files of a complete dataset with a graph.
    pub(crate) fn whole(&self) -> Option<&Files> {
        self.kind.whole()
    }

    pub(crate) fn graph_files(&self) -> Option<&GraphFiles> {
        self.kind.graph()
    }

    /// The graph's files, for content that only graphs have.
    ///
    /// # Panics
    /// On a hop set, which has no relation that could be named.
    pub(crate) fn some_graph(&self) -> &GraphFiles {
        self.graph_files().expect("the dataset has a graph")
    }

    fn node_files(&self, node_type: NodeType) -> Option<&NodeFiles> {
        Some(&self.graph_files()?.types[node_type.index()])
    }

    fn relation_files(&self, relation: Relation) -> &RelationFiles {
        &self.some_graph().relations[relation.index()]
    }

    /// The checks done when the dataset was opened, and their duration.
    pub fn verification(&self) -> &Verification {
        &self.verification
    }
}

fn directory_name(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    absolute.file_name().map_or_else(|| "dataset".to_owned(), |name| name.to_string_lossy().into_owned())
}
