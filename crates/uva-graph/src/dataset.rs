//! An open dataset of one node type and at most one relation.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::description::edge_values::EdgeValues;
use crate::description::part_of::PartOf;
use crate::description::{meta, names};
use crate::hash;
use crate::kinds::Kind;
use crate::kinds::hop_rows::{HopFiles, HopRows, Hops};
use crate::kinds::own_rows::{DividedFiles, OwnRows};
use crate::npy::NpyArray;
use crate::storage::files::{Files, RowArray};
use crate::storage::graph_files::GraphFiles;
use crate::storage::node_rows::NodeRows;
use crate::storage::verification::{Verification, Verify};
use crate::storage::{node_file, verify};
use crate::typed_dataset::{Chosen, Overlap, Repeats, TypedDataset};
use crate::{Csc, FeatureTable, GraphError, Labels, NodeType, Relation, Split, TableSchema};

/// Why a typed dataset is not one of one type.
#[derive(Debug, thiserror::Error)]
enum TypedProblem {
    #[error(
        "the graph has {types} node types and {relations} relations: typed graphs are not supported here yet, only one \
         node type with one relation; `uvatrain info` shows the types"
    )]
    Several { types: usize, relations: usize },
    #[error(
        "\"feat_rows\": \"edge_id\" and \"feat_of\" are not supported here yet: store a feature row for each edge"
    )]
    RowsById,
    #[error("its copy has format 1, which has no {what}: they would be lost")]
    Lost { what: &'static str },
}

/// An open dataset whose seeds are of one node type: its mapped files and their metadata. Clones share the mappings.
///
/// It is a [`TypedDataset`], to which it dereferences. It usually has one type and one relation, and opening a graph of
/// several as a `Dataset` is refused, with a message that has their number. Code that makes batches of typed graphs opens
/// them by [`TypedDataset::for_batches`]. Then the lists, rows and other arrays of a homogeneous graph are absent, and
/// splits and labels are those of the [target](TypedDataset::target).
///
/// A hop set can be opened as a dataset ([`Dataset::of_hops`]). Its nodes are the rows of the hop set, and there is no
/// graph: lists, edges and original ids are absent. [`Dataset::hops`] lends the rows.
///
/// So can one part of a partition in ranges ([`RangeParts::dataset`](crate::ranges::RangeParts::dataset)), which has
/// the whole graph and the feature rows of one range of nodes. [`Dataset::own_rows`] lends these rows.
#[derive(Clone, Debug)]
pub struct Dataset {
    typed: TypedDataset,
}

impl Deref for Dataset {
    type Target = TypedDataset;

    fn deref(&self) -> &TypedDataset {
        &self.typed
    }
}

/// Checks that code for one node type and one relation can use these files.
fn check_single_type(path: &Path, files: &Files) -> Result<(), GraphError> {
    let refuse = |problem| Err(GraphError::invalid(&path.join(meta::FILE_NAME), problem));
    let metagraph = &files.graph.metagraph;
    let (types, relations) = (metagraph.type_count(), metagraph.relation_count());
    if (types, relations) != (1, 1) {
        return refuse(TypedProblem::Several { types, relations });
    }
    if files.first_table().is_none() {
        let missing = std::io::Error::new(
            std::io::ErrorKind::NotFound,
            "the file does not exist, but nodes without features are not supported here yet",
        );
        let directory = path.join(names::NODE_TYPES).join(metagraph.type_name(NodeType::ONLY));
        return Err(GraphError::io(&directory.join(names::FEATURES), "open")(missing));
    }
    if files.edge_rows(Relation::ONLY).is_some() && files.first_edge_table().is_none() {
        return refuse(TypedProblem::RowsById);
    }
    Ok(())
}

impl TypedDataset {
    /// The dataset for code that takes one node type and one relation.
    ///
    /// # Errors
    /// If there are several types or relations, with their numbers, or the nodes have no features.
    pub fn single_type(&self) -> Result<Dataset, GraphError> {
        if let Some(files) = self.whole() {
            check_single_type(self.path(), files)?;
        }
        Ok(Dataset { typed: self.clone() })
    }
}

impl TypedDataset {
    /// The dataset for code that makes batches around seeds of the type `target`, in a graph of any number of node types
    /// and relations.
    ///
    /// # Errors
    /// As [`single_type`](Self::single_type), for a graph of one type whose nodes have features.
    pub fn for_batches(&self, target: NodeType) -> Result<Dataset, GraphError> {
        match self.is_homogeneous() {
            true => self.single_type(),
            false => Ok(Dataset { typed: self.clone().with_target(target) }),
        }
    }

    /// Whether there is one type, at most one relation, and one table of feature rows, whole or divided, or a hop set.
    #[must_use]
    pub fn is_homogeneous(&self) -> bool {
        let metagraph = self.metagraph();
        metagraph.type_count() == 1
            && metagraph.relation_count() <= 1
            && self.whole().is_none_or(|files| files.first_table().is_some())
    }
}

impl Dataset {
    /// Opens the dataset in the directory `path` and checks it, with [`Verify::Stamp`].
    ///
    /// # Errors
    /// As [`TypedDataset::open`], and if the graph has several node types or relations.
    pub fn open(path: &Path) -> Result<Dataset, GraphError> {
        Dataset::open_verified(path, Verify::Stamp)
    }

    /// Opens the dataset in the directory `path` and checks it according to `how`.
    ///
    /// # Errors
    /// As [`TypedDataset::open_verified`], and if the graph has several node types or relations.
    pub fn open_verified(path: &Path, how: Verify) -> Result<Dataset, GraphError> {
        let typed = TypedDataset::open_if(path, how, |files| check_single_type(path, files))?;
        Ok(Dataset { typed })
    }

    /// Opens the rows of a hop set as a dataset without a graph. Checks the labels, unless `how` excludes content.
    ///
    /// # Errors
    /// If labels or node ids have another type or shape, or a label is wrong: with the file, the offset and the value.
    pub fn of_hops(rows: HopRows, how: Verify) -> Result<Dataset, GraphError> {
        let (start, path) = (Instant::now(), rows.path.clone());
        let files = HopFiles::of(rows, how != Verify::HeadersOnly)?;
        let name = files.name.clone();
        let verification = Verification { seconds: start.elapsed().as_secs_f64(), ..Verification::default() };
        Ok(Dataset::of_kind(path, name, Arc::new(files), verification))
    }

    /// Opens the graph and one part's rows of a partition in ranges as a dataset. `path` is the directory of the graph.
    pub(crate) fn of_divided(
        path: PathBuf,
        name: String,
        files: DividedFiles,
        checks: Verification,
    ) -> Dataset {
        Dataset::of_kind(path, name, Arc::new(files), checks)
    }

    fn of_kind(path: PathBuf, name: String, kind: Arc<dyn Kind>, verification: Verification) -> Dataset {
        Dataset { typed: TypedDataset::of_kind(path, name, kind, verification) }
    }

    /// The files of the graph, if it is homogeneous.
    fn homogeneous(&self) -> Option<&GraphFiles> {
        self.graph_files().filter(|_| self.is_homogeneous())
    }

    /// The rows of a hop set; `None` if the dataset has a graph.
    pub fn hops(&self) -> Option<Hops<'_>> {
        self.kind.hops()
    }

    /// The feature rows of this rank in a divided dataset; `None` for any other dataset.
    pub fn own_rows(&self) -> Option<OwnRows<'_>> {
        self.kind.own_rows()
    }

    /// The number of classes: from `meta.json`, or the largest label + 1, or, if a node may have several, the number of
    /// columns of `label.npy`. 0 if no node has a class.
    pub fn classes(&self) -> usize {
        self.classes_of(self.seed_type())
    }

    /// A description of where [`classes`](Self::classes) comes from, with the file.
    pub fn classes_from(&self) -> String {
        match self.labels() {
            Labels::Absent | Labels::Regression { .. } => "no class labels".to_owned(),
            Labels::Multi { .. } => format!("the columns of {}", self.path().join(names::LABELS).display()),
            Labels::Single(_) => {
                let (what, file) = self.kind.classes_from(self.path());
                format!("{what} in {}", file.display())
            }
        }
    }

    /// The homogeneous graph; `None` for a hop set and for a typed graph.
    pub fn graph(&self) -> Option<Csc<'_>> {
        self.homogeneous().map(|_| self.lists(Relation::ONLY))
    }

    /// The graph of a dataset that is known to have a homogeneous one.
    ///
    /// # Panics
    /// On a hop set and on a typed graph.
    pub fn csc(&self) -> Csc<'_> {
        self.graph().expect("the dataset has a graph")
    }

    /// Shape and type of a node's feature row. If [`with_rows`](Self::with_rows) replaced the rows, those of the
    /// replacement. Each hop of a hop set has rows of this shape.
    pub fn table(&self) -> TableSchema {
        self.table_of(NodeType::ONLY).expect("a dataset of one type has feature rows")
    }

    /// The feature rows of all nodes. `None` for a hop set (see [`hops`](Self::hops)), for a divided dataset (see
    /// [`own_rows`](Self::own_rows)) and for a typed graph (see [`rows`](TypedDataset::rows)).
    pub fn feature_rows(&self) -> Option<FeatureTable<'_>> {
        self.homogeneous().and_then(|_| self.rows(NodeType::ONLY))
    }

    /// The feature rows of a dataset that is known to have those of all nodes in one table.
    ///
    /// # Panics
    /// On a hop set and on a divided dataset.
    pub fn features(&self) -> FeatureTable<'_> {
        self.feature_rows().expect("the feature rows of all nodes are in one table")
    }

    /// The node of each original id; `None` if they are the same. The caller must have checked that the ids are a
    /// permutation of the nodes, as a matching partition map shows.
    pub(crate) fn nodes_by_original_id(&self) -> Option<Vec<usize>> {
        let ids = self.original_ids()?;
        let mut node_of = vec![0; ids.len()];
        (0..).zip(ids).for_each(|(node, &id)| node_of[id as usize] = node);
        Some(node_of)
    }

    /// The dataset with `indptr.npy`, `indices.npy` or both in a copy in anonymous memory, on 2 MiB pages if the system
    /// has them. The same dataset if it has no graph.
    ///
    /// # Errors
    /// The system's error if there is too little memory.
    pub fn with_copied_lists(mut self, indptr: bool, indices: bool) -> io::Result<Self> {
        self.typed.copy_lists(indptr, indices)?;
        Ok(self)
    }

    /// The feature rows of the edges, row `i` for entry `i` of the neighbour lists; `None` if the dataset has no edge
    /// features or is divided.
    pub fn edge_features(&self) -> Option<FeatureTable<'_>> {
        self.homogeneous()?;
        self.whole()?.first_edge_table().map(RowArray::table)
    }

    /// The labels of the nodes of the seeds' type.
    pub fn labels(&self) -> Labels<'_> {
        self.labels_of(self.seed_type())
    }

    /// The node ids of a split in file order, or the ids that replace them. For a hop set, the ids in the source
    /// dataset of the nodes of the split's rows.
    pub fn split(&self, split: Split) -> &[i64] {
        self.split_of(self.seed_type(), split)
    }

    /// The seeds of a split: the ids of its nodes, of each type that has some, in the order of types.
    pub fn seeds(&self, split: Split) -> Vec<(NodeType, &[i64])> {
        match &self.chosen {
            Some(chosen) if chosen.split == split => {
                chosen.of_types.iter().map(|(of, ids)| (*of, &ids[..])).collect()
            }
            _ => vec![(self.seed_type(), self.split(split))],
        }
    }

    /// The number of seeds of a split, of all types.
    pub fn seed_count(&self, split: Split) -> usize {
        self.seeds(split).iter().map(|(_, ids)| ids.len()).sum()
    }

    /// The replaced split and its new nodes of the seeds' type; `None` if no split was replaced.
    pub fn chosen(&self) -> Option<(Split, &[i64])> {
        self.chosen.as_ref().map(|chosen| (chosen.split, chosen.of(self.seed_type())))
    }

    /// Duplicates among the nodes that replace a split, in a graph of one node type and relation.
    pub fn repeats(&self) -> Repeats {
        self.graph().map(|_| self.repeats_in(Relation::ONLY)).unwrap_or_default()
    }

    /// The label rows of a split's nodes: the node ids, or for a hop set the rows of the split.
    pub fn label_rows(&self, split: Split) -> Box<dyn Iterator<Item = usize> + '_> {
        match &self.chosen {
            Some(chosen) if chosen.split == split => {
                Box::new(chosen.of(self.seed_type()).iter().map(|&id| id as usize))
            }
            _ => self.kind.label_rows(self.seed_type(), split),
        }
    }

    /// The pairs of splits with common nodes, and how many nodes they share.
    pub fn overlaps(&self) -> Vec<Overlap> {
        self.overlaps_of(self.seed_type())
    }

    /// Replaces the nodes of a split, so that batches of any nodes can be made. A node that occurs several times counts
    /// as several seeds. The change is visible to this process only, and the [`fingerprint`](Self::fingerprint) stays
    /// that of the files.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `option` if an id is not a node.
    pub fn with_nodes(self, split: Split, ids: Vec<i64>, option: &str) -> Result<Dataset, GraphError> {
        let node_type = self.seed_type();
        self.with_seeds(split, vec![(node_type, ids)], option)
    }

    /// Replaces the nodes of a split as [`with_nodes`](Self::with_nodes) does, by nodes of several types, each of which is
    /// named once.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `option` if an id is not a node of its type.
    pub fn with_seeds(
        mut self,
        split: Split,
        of_types: Vec<(NodeType, Vec<i64>)>,
        option: &str,
    ) -> Result<Dataset, GraphError> {
        for (of, ids) in &of_types {
            let nodes = self.nodes_of(*of);
            if let Some(place) = node_file::first_outside(ids, nodes) {
                let name = self.metagraph().is_named().then(|| self.metagraph().type_name(*of));
                let of_type = name.map_or_else(String::new, |name| format!("{name}: "));
                let problem =
                    format!("{of_type}entry {place} is {}, {}", ids[place], node_file::of_nodes(nodes));
                return Err(GraphError::usage(option, problem));
            }
        }
        self.typed.chosen = Some(Chosen::new(split, of_types, |of| self.nodes_of(of)));
        Ok(self)
    }

    /// Replaces the feature rows of the table. The change is visible to this process only, and the
    /// [`fingerprint`](Self::fingerprint) stays that of the files.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `option` if the dataset's own rows are not a table of all nodes, or the number of rows
    /// differs from that of the nodes.
    pub fn with_rows(mut self, rows: NodeRows, option: &str) -> Result<Dataset, GraphError> {
        if self.feature_rows().is_none() {
            let problem = "requires a whole dataset: a hop set has no graph, and a part in ranges has only some of the rows";
            return Err(GraphError::usage(option, problem));
        }
        if let Some(problem) = rows.misfit(self.nodes()) {
            return Err(GraphError::usage(option, problem));
        }
        self.typed.rows = Some(Arc::new(rows));
        Ok(self)
    }

    /// The id that each node had before the dataset was reordered, or the node of each row of a hop set. `None` if the
    /// ids are the same.
    pub fn original_ids(&self) -> Option<&[i64]> {
        self.original_ids_of(self.seed_type())
    }

    /// Which part of a partitioned dataset this is; `None` if it is a whole dataset.
    pub fn part(&self) -> Option<&PartOf> {
        self.meta().part.as_ref()
    }

    /// The dataset with the original nodes of each split, as in its files.
    #[must_use]
    pub fn without_chosen_nodes(&self) -> Dataset {
        let mut dataset = self.clone();
        dataset.typed.chosen = None;
        dataset
    }

    /// Identifier of the nodes that replace a split, and of their order, for saved states: their number and a hash, and
    /// their types if these are not that of the splits. `None` if no split was replaced.
    pub fn chosen_nodes(&self) -> Option<String> {
        let of_types = &self.chosen.as_ref()?.of_types;
        let of_type = |(of, ids): &(NodeType, Vec<i64>)| {
            let terms = (0..).zip(ids).map(|(position, &id)| hash::term(0, position, id as u64));
            let sum = terms.fold(0, u64::wrapping_add);
            let name = if *of == self.seed_type() { "" } else { self.metagraph().type_name(*of) };
            let separator = if name.is_empty() { "" } else { " " };
            format!("{} {name}{separator}nodes, {sum:016x}", ids.len())
        };
        Some(of_types.iter().map(of_type).collect::<Vec<_>>().join("; "))
    }

    /// The weights of the edges, in the order of the lists; `None` if the dataset has no weights.
    pub fn weights(&self) -> Option<&[f32]> {
        self.homogeneous()?.edge_values(EdgeValues::Weights)
    }

    /// The edge types, in the order of the lists; `None` if the dataset has no edge types.
    pub fn edge_types(&self) -> Option<&[u16]> {
        self.homogeneous()?.edge_values(EdgeValues::Types)
    }

    /// An array with one value per edge; `None` if the dataset does not have it.
    pub(crate) fn edge_array(&self, values: EdgeValues) -> Option<&NpyArray> {
        self.homogeneous()?.edge_array(values)
    }

    /// The weights of the edges for samplers that pick edges by weight, checked in one parallel pass.
    /// [`Verify::HeadersOnly`] skips the pass, since the process that opened the dataset first has done it.
    ///
    /// # Errors
    /// If the dataset has no weights, or one is negative: with the file, the offset and the value.
    pub fn weights_to_pick_by(&self) -> Result<&[f32], GraphError> {
        let Some((array, weights)) = self.edge_array(EdgeValues::Weights).zip(self.weights()) else {
            let missing = std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "the file does not exist, but picking edges by weight requires it (docs/reference/data-format.md)",
            );
            return Err(GraphError::io(&self.path().join(names::WEIGHTS), "read")(missing));
        };
        if self.verification().edges_checked || self.verification().from_stamp {
            verify::weights_to_pick_by(array, weights)?;
        }
        Ok(weights)
    }

    /// The error about entry `position` of `indices.npy`, which is not a node.
    pub(crate) fn wrong_neighbour(&self, position: usize) -> GraphError {
        verify::wrong_neighbour(self.some_graph(), Relation::ONLY, position, self.csc().indices.get(position))
    }

    /// The error about entry `position` of a split, which is not a node.
    pub(crate) fn wrong_split_id(&self, split: Split, position: usize) -> GraphError {
        let (value, nodes) = (self.split(split)[position], self.nodes());
        match &self.some_graph().first_type().splits[split as usize] {
            Some(ids) => verify::wrong_id(ids.array(), position, value, nodes),
            None => GraphError::usage(
                "split",
                format!("entry {position} is {value}, {}", node_file::of_nodes(nodes)),
            ),
        }
    }

    /// Checks that a copy of the dataset in format 1 has all of it.
    ///
    /// # Errors
    /// If there are times or ids of edges, for which format 1 has no file.
    pub(crate) fn check_copy(&self) -> Result<(), GraphError> {
        let Some(Files { graph, .. }) = self.whole() else { return Ok(()) };
        let (nodes, edges) = (graph.first_type(), graph.first_relation());
        let times = nodes.split_times.iter().chain([&nodes.times, &edges.times]).flatten();
        let lost =
            times.map(|times| (times, "times")).chain(edges.edge_ids.iter().map(|ids| (ids, "edge ids")));
        match lost.into_iter().next() {
            Some((array, what)) => {
                Err(GraphError::invalid(array.array().path(), TypedProblem::Lost { what }))
            }
            None => Ok(()),
        }
    }

    /// The files of the views, for code that copies them.
    ///
    /// # Panics
    /// On a hop set and on a divided dataset, which are never copied.
    pub(crate) fn files(&self) -> &Files {
        self.whole().expect("only a graph with all its feature rows is copied")
    }
}
