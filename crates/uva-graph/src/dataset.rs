//! An open dataset.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use uva_mem::{FileState, MappedFile};

use crate::description::edge_values::EdgeValues;
use crate::description::names;
use crate::description::part_of::PartOf;
use crate::hash;
use crate::kinds::hop_rows::{HopFiles, HopRows, Hops};
use crate::kinds::own_rows::{DividedFiles, OwnRows};
use crate::kinds::{Kind, KindWords};
use crate::npy::NpyArray;
use crate::storage::files::Files;
use crate::storage::graph_files::GraphFiles;
use crate::storage::node_rows::NodeRows;
use crate::storage::random_file::{CopiedLists, RandomFile, RandomValues};
use crate::storage::stamp::Stamp;
use crate::storage::{node_file, verify};
use crate::{Csc, FeatureTable, GraphError, Labels, Meta, Schema, Split, TableSchema};

/// The checks done when a dataset is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Everything except feature values. The pass over the edges is skipped if a stamp records that these files have
    /// been checked before.
    Stamp,
    /// Everything except feature values, regardless of stamps.
    Full,
    /// Everything, including that no feature value is NaN or infinite.
    FullWithFeatures,
    /// Types, shapes and sizes only. For a role whose launcher has already checked the dataset.
    HeadersOnly,
}

/// The checks done when a dataset was opened, and their duration.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verification {
    /// Wall-clock time of all checks.
    pub seconds: f64,
    /// Whether this run checked every edge.
    pub edges_checked: bool,
    /// Whether a stamp of an earlier run replaced the pass over the edges.
    pub from_stamp: bool,
    /// Whether this run checked every feature value.
    pub features_checked: bool,
    /// Path of the stamp that this run wrote for the next one. `None` if no stamp was written, for instance because the
    /// files were modified too recently.
    pub stamp: Option<PathBuf>,
}

/// Nodes that replace those of a split.
#[derive(Clone, Debug)]
struct Chosen {
    split: Split,
    ids: Vec<i64>,
    repeats: Repeats,
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
        let (mut seen, mut repeats) = (vec![false; csc.nodes()], Self::default());
        for node in ids.iter().filter_map(|&id| usize::try_from(id).ok()).filter(|&node| node < csc.nodes()) {
            if std::mem::replace(&mut seen[node], true) {
                repeats.rows += 1;
                repeats.edges += csc.degree(node);
            }
        }
        repeats
    }
}

/// An open dataset: its mapped files and their metadata. Clones share the mappings.
///
/// A hop set can be opened as a dataset ([`Dataset::of_hops`]). Its nodes are the rows of the hop set, and there is no
/// graph: lists, edges and original ids are absent. [`Dataset::hops`] lends the rows.
///
/// So can one part of a partition in ranges ([`RangeParts::dataset`](crate::ranges::RangeParts::dataset)), which has
/// the whole graph and the feature rows of one range of nodes. [`Dataset::own_rows`] lends these rows.
#[derive(Clone, Debug)]
pub struct Dataset {
    path: PathBuf,
    name: String,
    schema: Schema,
    kind: Arc<dyn Kind>,
    /// Rows that replace those of the table.
    rows: Option<Arc<NodeRows>>,
    /// Lists in memory that replace those of the files.
    lists: Option<Arc<CopiedLists>>,
    chosen: Option<Chosen>,
    verification: Verification,
}

impl Dataset {
    /// Opens the dataset in the directory `path` and checks it, with [`Verify::Stamp`].
    ///
    /// # Errors
    /// If a file is missing or its content is wrong. The message names the file, the offset and the value.
    pub fn open(path: &Path) -> Result<Dataset, GraphError> {
        Dataset::open_verified(path, Verify::Stamp)
    }

    /// Opens the dataset in the directory `path` and checks it according to `how`.
    ///
    /// # Errors
    /// If a file is missing or its content is wrong. The message names the file, the offset and the value.
    pub fn open_verified(path: &Path, how: Verify) -> Result<Dataset, GraphError> {
        let start = Instant::now();
        // The stamp is taken before the files are read, so that a change in between shows in the next comparison.
        let stamp = Stamp::of(path);
        let files = Arc::new(Files::open(path)?);
        let mut verification = check_graph(path, &files.graph, how, stamp.as_ref())?;
        if how == Verify::FullWithFeatures {
            verify::features(&files)?;
            verification.features_checked = true;
        }
        if verification.edges_checked {
            verification.stamp = stamp.and_then(|stamp| stamp.leave(path));
        }
        verification.seconds = start.elapsed().as_secs_f64();
        let name = files.graph.meta.name.clone().unwrap_or_else(|| directory_name(path));
        Ok(Dataset::of_kind(path.to_owned(), name, files, verification))
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
        Dataset {
            path,
            name,
            schema: kind.schema(),
            kind,
            rows: None,
            lists: None,
            chosen: None,
            verification,
        }
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

    /// The rows of a hop set; `None` if the dataset has a graph.
    pub fn hops(&self) -> Option<Hops<'_>> {
        self.kind.hops()
    }

    /// The feature rows of this rank in a divided dataset; `None` for any other dataset.
    pub fn own_rows(&self) -> Option<OwnRows<'_>> {
        self.kind.own_rows()
    }

    /// The directory, as passed by the caller.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name in `meta.json`, or that of the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of nodes, or of rows in a hop set.
    pub fn nodes(&self) -> usize {
        self.schema.nodes[self.schema.target.0 as usize]
    }

    /// The number of edges; both directions of an undirected edge count.
    pub fn edges(&self) -> usize {
        self.schema.relations.iter().map(|relation| relation.edges).sum()
    }

    /// The number of classes: from `meta.json`, or the largest label + 1, or, if a node may have several, the number of
    /// columns of `label.npy`. 0 if no node has a class.
    pub fn classes(&self) -> usize {
        self.schema.classes
    }

    /// A description of where [`classes`](Self::classes) comes from, with the file.
    pub fn classes_from(&self) -> String {
        match self.labels() {
            Labels::Absent | Labels::Regression { .. } => "no class labels".to_owned(),
            Labels::Multi { .. } => format!("the columns of {}", self.path.join(names::LABELS).display()),
            Labels::Single(_) => {
                let (what, file) = self.kind.classes_from(&self.path);
                format!("{what} in {}", file.display())
            }
        }
    }

    /// The graph; `None` for a hop set.
    pub fn graph(&self) -> Option<Csc<'_>> {
        let csc = self.graph_files()?.csc();
        Some(match &self.lists {
            Some(lists) => lists.in_place_of(csc),
            None => csc,
        })
    }

    /// The graph of a dataset that is known to have one.
    ///
    /// # Panics
    /// On a hop set.
    pub fn csc(&self) -> Csc<'_> {
        self.graph().expect("the dataset has a graph")
    }

    /// Shape and type of a node's feature row. If [`with_rows`](Self::with_rows) replaced the rows, those of the
    /// replacement. Each hop of a hop set has rows of this shape.
    pub fn table(&self) -> TableSchema {
        let table = self.schema.tables[0].clone();
        match &self.rows {
            Some(rows) => TableSchema { dim: rows.dim, element: rows.element, ..table },
            None => table,
        }
    }

    /// The feature rows of all nodes. `None` for a hop set (see [`hops`](Self::hops)) and for a divided dataset (see
    /// [`own_rows`](Self::own_rows)).
    pub fn feature_rows(&self) -> Option<FeatureTable<'_>> {
        match &self.rows {
            Some(rows) => Some(rows.table(self.nodes())),
            None => self.kind.feature_rows(),
        }
    }

    /// The feature rows of a dataset that is known to have those of all nodes in one table.
    ///
    /// # Panics
    /// On a hop set and on a divided dataset.
    pub fn features(&self) -> FeatureTable<'_> {
        self.feature_rows().expect("the feature rows of all nodes are in one table")
    }

    /// The file of the feature table, the byte offset of its first row, and the file's state when it was opened. `None`
    /// for a hop set, which has several files, and for a divided dataset, which has only a part of the rows.
    pub fn features_file(&self) -> Option<(&Path, u64, FileState)> {
        let features = match &self.rows {
            Some(rows) => &rows.array,
            None => &self.whole()?.features,
        };
        Some((features.path(), features.header().data_offset as u64, features.file().state()))
    }

    /// The node of each original id; `None` if they are the same. The caller must have checked that the ids are a
    /// permutation of the nodes, as a matching partition map shows.
    pub(crate) fn nodes_by_original_id(&self) -> Option<Vec<usize>> {
        let ids = self.original_ids()?;
        let mut node_of = vec![0; ids.len()];
        (0..).zip(ids).for_each(|(node, &id)| node_of[id as usize] = node);
        Some(node_of)
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
        let lists = self.graph_files().map(|graph| {
            let indptr = RandomFile { values: RandomValues::Indptr, file: graph.indptr.array().file() };
            [indptr, RandomFile { values: RandomValues::Indices, file: graph.indices.array().file() }]
        });
        rows.chain(lists.into_iter().flatten()).collect()
    }

    /// The dataset with `indptr.npy`, `indices.npy` or both in a copy in anonymous memory, on 2 MiB pages if the system
    /// has them. The same dataset if it has no graph.
    ///
    /// # Errors
    /// The system's error if there is too little memory.
    pub fn with_copied_lists(self, indptr: bool, indices: bool) -> io::Result<Self> {
        let lists = self.graph().map(|csc| CopiedLists::of(&csc, indptr, indices)).transpose()?;
        Ok(Self { lists: lists.map(Arc::new), ..self })
    }

    /// The feature rows of the edges, row `i` for entry `i` of the neighbour lists; `None` if the dataset has no edge
    /// features or is divided.
    pub fn edge_features(&self) -> Option<FeatureTable<'_>> {
        let (array, element) = self.whole()?.edge_features.as_ref()?;
        let (rows, dim) = (array.shape()[0], array.shape()[1]);
        Some(FeatureTable { bytes: array.bytes(), rows, dim, element: *element })
    }

    /// The labels.
    pub fn labels(&self) -> Labels<'_> {
        self.kind.labels()
    }

    /// The node ids of a split in file order, or the ids that replace them. For a hop set, the ids in the source
    /// dataset of the nodes of the split's rows.
    pub fn split(&self, split: Split) -> &[i64] {
        match &self.chosen {
            Some(chosen) if chosen.split == split => &chosen.ids,
            _ => self.kind.split(split),
        }
    }

    /// The label rows of a split's nodes: the node ids, or for a hop set the rows of the split.
    pub fn label_rows(&self, split: Split) -> Box<dyn Iterator<Item = usize> + '_> {
        match &self.chosen {
            Some(chosen) if chosen.split == split => Box::new(chosen.ids.iter().map(|&id| id as usize)),
            _ => self.kind.label_rows(split),
        }
    }

    /// The pairs of splits with common nodes, and how many nodes they share.
    pub fn overlaps(&self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for (at, first) in Split::ALL.into_iter().enumerate() {
            // One bit per node.
            let largest = self.split(first).iter().max().map_or(0, |&id| id as usize);
            let mut among = vec![0_u64; largest / 64 + 1];
            for &id in self.split(first) {
                among[id as usize / 64] |= 1 << (id % 64);
            }
            for second in Split::ALL.into_iter().skip(at + 1) {
                let is_in =
                    |&&id: &&i64| among.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1);
                let nodes = self.split(second).iter().filter(is_in).count();
                if nodes > 0 {
                    overlaps.push(Overlap { splits: [first, second], nodes });
                }
            }
        }
        overlaps
    }

    /// Replaces the nodes of a split, so that batches of any nodes can be made. A node that occurs several times counts
    /// as several seeds. The change is visible to this process only, and the [`fingerprint`](Self::fingerprint) stays
    /// that of the files.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `option` if an id is not a node.
    pub fn with_nodes(mut self, split: Split, ids: Vec<i64>, option: &str) -> Result<Dataset, GraphError> {
        let nodes = self.nodes();
        if let Some(place) = node_file::first_outside(&ids, nodes) {
            let problem = format!("entry {place} is {}, {}", ids[place], node_file::of_nodes(nodes));
            return Err(GraphError::usage(option, problem));
        }
        let repeats = self.graph().map(|csc| Repeats::of(&ids, &csc)).unwrap_or_default();
        self.chosen = Some(Chosen { split, ids, repeats });
        Ok(self)
    }

    /// Replaces the feature rows of the table. The change is visible to this process only, and the
    /// [`fingerprint`](Self::fingerprint) stays that of the files.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `option` if the dataset's own rows are not a table of all nodes, or the number of rows
    /// differs from that of the nodes.
    pub fn with_rows(mut self, rows: NodeRows, option: &str) -> Result<Dataset, GraphError> {
        if self.whole().is_none() {
            let problem = "requires a whole dataset: a hop set has no graph, and a part in ranges has only some of the rows";
            return Err(GraphError::usage(option, problem));
        }
        if let Some(problem) = rows.misfit(self.nodes()) {
            return Err(GraphError::usage(option, problem));
        }
        self.rows = Some(Arc::new(rows));
        Ok(self)
    }

    /// The replaced split and its new nodes; `None` if no split was replaced.
    pub fn chosen(&self) -> Option<(Split, &[i64])> {
        self.chosen.as_ref().map(|chosen| (chosen.split, &chosen.ids[..]))
    }

    /// Duplicates among the nodes that replace a split.
    pub fn repeats(&self) -> Repeats {
        self.chosen.as_ref().map(|chosen| chosen.repeats).unwrap_or_default()
    }

    /// The id that each node had before the dataset was reordered, or the node of each row of a hop set. `None` if the
    /// ids are the same.
    pub fn original_ids(&self) -> Option<&[i64]> {
        self.kind.original_ids()
    }

    /// Which part of a partitioned dataset this is; `None` if it is a whole dataset.
    pub fn part(&self) -> Option<&PartOf> {
        self.meta().part.as_ref()
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

    /// The dataset with the original nodes of each split, as in its files.
    #[must_use]
    pub fn without_chosen_nodes(&self) -> Dataset {
        Dataset { chosen: None, ..self.clone() }
    }

    /// Identifier of the nodes that replace a split, and of their order, for saved states: their number and a hash.
    /// `None` if no split was replaced.
    pub fn chosen_nodes(&self) -> Option<String> {
        let ids = &self.chosen.as_ref()?.ids;
        let terms = (0..).zip(ids).map(|(position, &id)| hash::term(0, position, id as u64));
        let sum = terms.fold(0, u64::wrapping_add);
        Some(format!("{} nodes, {sum:016x}", ids.len()))
    }

    /// The weights of the edges, in the order of the lists; `None` if the dataset has no weights.
    pub fn weights(&self) -> Option<&[f32]> {
        self.graph_files()?.edge_values(EdgeValues::Weights)
    }

    /// The edge types, in the order of the lists; `None` if the dataset has no edge types.
    pub fn edge_types(&self) -> Option<&[u16]> {
        self.graph_files()?.edge_values(EdgeValues::Types)
    }

    /// An array with one value per edge; `None` if the dataset does not have it.
    pub(crate) fn edge_array(&self, values: EdgeValues) -> Option<&NpyArray> {
        self.graph_files()?.edge_array(values)
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
            return Err(GraphError::io(&self.path.join(names::WEIGHTS), "read")(missing));
        };
        if self.verification.edges_checked || self.verification.from_stamp {
            verify::weights_to_pick_by(array, weights)?;
        }
        Ok(weights)
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

    /// The error about entry `position` of `indices.npy`, which is not a node.
    pub(crate) fn wrong_neighbour(&self, position: usize) -> GraphError {
        verify::wrong_neighbour(self.some_graph(), position, self.csc().indices.get(position))
    }

    /// The error about entry `position` of a split, which is not a node.
    pub(crate) fn wrong_split_id(&self, split: Split, position: usize) -> GraphError {
        let ids = &self.some_graph().splits[split as usize];
        verify::wrong_id(ids.array(), position, ids.values()[position], self.nodes())
    }

    /// The files of the views, for code that copies them.
    ///
    /// # Panics
    /// On a hop set and on a divided dataset, which are never copied.
    pub(crate) fn files(&self) -> &Files {
        self.whole().expect("only a graph with all its feature rows is copied")
    }

    /// The files of a complete dataset with a graph.
    fn whole(&self) -> Option<&Files> {
        self.kind.whole()
    }

    fn graph_files(&self) -> Option<&GraphFiles> {
        self.kind.graph()
    }

    /// The graph's files, for errors about their content.
    fn some_graph(&self) -> &GraphFiles {
        self.graph_files().expect("the dataset has a graph")
    }

    /// The checks done when the dataset was opened, and their duration.
    pub fn verification(&self) -> &Verification {
        &self.verification
    }
}

/// Checks the graph in the directory `path` according to `how`. `stamp` is the state of its files before they were
/// opened.
pub(crate) fn check_graph(
    path: &Path,
    files: &GraphFiles,
    how: Verify,
    stamp: Option<&Stamp>,
) -> Result<Verification, GraphError> {
    let mut verification = Verification::default();
    if how == Verify::HeadersOnly {
        return Ok(verification);
    }
    verify::nodes(files)?;
    verification.from_stamp = how == Verify::Stamp && stamp.is_some_and(|stamp| stamp.is_left(path));
    if !verification.from_stamp {
        verify::edges(files)?;
        verification.edges_checked = true;
    }
    Ok(verification)
}

fn directory_name(path: &Path) -> String {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    absolute.file_name().map_or_else(|| "dataset".to_owned(), |name| name.to_string_lossy().into_owned())
}
