//! Opens the graph, or one part's rows, from its directory. Its `meta.json` names the partition and the part, and is
//! compared with the description next to it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::arrays::{Tables, fingerprint_of_graph, hash_of_graph};
use crate::description::edge_values::EdgeValues;
use crate::description::ranges_of::RangesOf;
use crate::description::{meta, names};
use crate::npy::NpyArray;
use crate::storage::arrays::place::ArrayDirectory;
use crate::storage::files::{edge_table, table_element};
use crate::storage::graph_files::GraphFiles;
use crate::storage::stamp::Stamp;
use crate::storage::verification::check_graph;
use crate::storage::verify;
use crate::{Csc, FeatureTable, GraphError, Labels, Meta, Split, Verification, Verify};

/// Why a directory is not the requested graph or part.
#[derive(Debug, thiserror::Error)]
enum DirectoryProblem {
    #[error("it does not say that this is {wanted} of a partition in ranges (\"ranges\"): it says {found}")]
    Other { wanted: &'static str, found: String },
    #[error("it has {said} nodes, but indptr.npy has {found}")]
    Nodes { said: u64, found: usize },
}

/// The metadata of a directory, if it is the graph or a part, as requested by `graph`.
fn of(directory: &Path, graph: bool) -> Result<(Meta, RangesOf), GraphError> {
    let meta = Meta::read(directory)?;
    let wanted = if graph { "the graph" } else { "a part" };
    let found = match &meta.ranges {
        Some(of) if of.part.is_none() == graph => {
            of.check_beside(directory)?;
            return Ok((meta.clone(), of.clone()));
        }
        Some(RangesOf { part: Some(part), .. }) => format!("part {part}"),
        Some(_) => "the graph".to_owned(),
        None => "nothing of ranges".to_owned(),
    };
    Err(GraphError::invalid(&directory.join(meta::FILE_NAME), DirectoryProblem::Other { wanted, found }))
}

/// The graph of a partition in ranges: present on every rank.
#[derive(Debug)]
pub struct RangeGraph {
    path: PathBuf,
    of: RangesOf,
    files: GraphFiles,
    verification: Verification,
}

impl RangeGraph {
    /// Opens the directory of a graph and checks it according to `how`; there are no feature values to check.
    ///
    /// # Errors
    /// If a file is missing or wrong, it is not such a graph, or the description next to it belongs to another
    /// partition.
    pub fn open(directory: &Path, how: Verify) -> Result<RangeGraph, GraphError> {
        let start = Instant::now();
        // The stamp is taken before the files are read, so that a change in between shows in the next comparison.
        let stamp = Stamp::of(directory);
        let (meta, of) = of(directory, true)?;
        let files = GraphFiles::open(directory, meta)?;
        if files.first_type().original_ids.is_none() {
            // Without original ids, batches would differ.
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is none");
            return Err(GraphError::io(&directory.join(names::ORIGINAL_IDS), "open")(missing));
        }
        let found = files.nodes();
        if found as u64 != of.nodes {
            let problem = DirectoryProblem::Nodes { said: of.nodes, found };
            return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), problem));
        }
        let mut verification = check_graph(directory, &files, how, stamp.as_ref())?;
        if verification.edges_checked {
            verification.stamp = stamp.and_then(|stamp| stamp.leave(directory));
        }
        verification.seconds = start.elapsed().as_secs_f64();
        Ok(RangeGraph { path: directory.to_owned(), of, files, verification })
    }

    /// The directory, as passed by the caller.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The graph's description of itself.
    #[must_use]
    pub fn of(&self) -> &RangesOf {
        &self.of
    }

    /// The content of `meta.json`: types of features, the licence.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.files.meta
    }

    /// The lists. Ids are in range order; original ids are present.
    #[must_use]
    pub fn csc(&self) -> Csc<'_> {
        self.files.csc()
    }

    /// The ids that the nodes have in the source dataset, before any reordering.
    #[must_use]
    pub fn original_ids(&self) -> &[i64] {
        // Opening refuses a graph without them.
        self.files.first_type().original_ids().unwrap_or_default()
    }

    /// The labels of all nodes.
    #[must_use]
    pub fn labels(&self) -> Labels<'_> {
        self.files.first_type().labels.values()
    }

    /// The number of classes; 0 if no node has a class.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.files.classes()
    }

    /// The nodes of a split, in the order of the source dataset.
    #[must_use]
    pub fn split(&self, split: Split) -> &[i64] {
        self.files.split(split)
    }

    /// The weights of the edges, in the order of the lists; `None` if there are none.
    #[must_use]
    pub fn weights(&self) -> Option<&[f32]> {
        self.files.edge_values(EdgeValues::Weights)
    }

    /// An array with one value per edge; `None` if the dataset lacks it.
    pub(super) fn edge_array(&self, values: EdgeValues) -> Option<&NpyArray> {
        self.files.edge_array(values)
    }

    /// Bytes of all arrays with one value per edge.
    #[must_use]
    pub fn edge_value_bytes(&self) -> usize {
        self.files.edge_arrays().map(|(_, array)| array.bytes().len()).sum()
    }

    /// The checks done when the graph was opened, and their duration.
    #[must_use]
    pub fn verification(&self) -> &Verification {
        &self.verification
    }

    /// The files, and the checks done.
    pub(super) fn into_files(self) -> (GraphFiles, Verification) {
        (self.files, self.verification)
    }

    pub(super) fn fingerprint(&self) -> String {
        fingerprint_of_graph(&self.files)
    }

    pub(super) fn hash(&self) -> String {
        hash_of_graph(&self.files)
    }
}

/// The feature rows of one part of a partition in ranges.
#[derive(Debug)]
pub struct RangeRows {
    path: PathBuf,
    of: RangesOf,
    tables: Tables,
}

impl RangeRows {
    /// Opens the directory of a part.
    ///
    /// # Errors
    /// If a file is missing or has another type or shape, it is not such a part, or the description next to it belongs
    /// to another partition.
    pub fn open(directory: &Path) -> Result<RangeRows, GraphError> {
        let (meta, of) = of(directory, false)?;
        let features = NpyArray::open(&directory.join(names::FEATURES))?;
        let rows = (of.nodes as usize, "one row for each node that the part owns");
        let element = table_element(directory, &meta, &features, rows)?;
        // The graph has the number of edges.
        let edges = ArrayDirectory::of_dataset(directory).optional(names::EDGE_FEATURES)?;
        let edges = edges.and_then(|array| array.shape().first().copied()).unwrap_or(0);
        let edge_features =
            edge_table(directory, &meta, (edges, "one row for each entry of the part's lists"))?;
        let tables = Tables { features: (features, element), edge_features };
        Ok(RangeRows { path: directory.to_owned(), of, tables })
    }

    /// The directory, as passed by the caller.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The part's description of itself.
    #[must_use]
    pub fn of(&self) -> &RangesOf {
        &self.of
    }

    /// The rows of the part's range. Row 0 belongs to the first id of the range.
    #[must_use]
    pub fn features(&self) -> FeatureTable<'_> {
        let (array, element) = &self.tables.features;
        table(array, *element)
    }

    /// The file of the feature rows, and the byte offset of the first row.
    #[must_use]
    pub fn features_file(&self) -> (&Path, u64) {
        let (array, _) = &self.tables.features;
        (array.path(), array.header().data_offset as u64)
    }

    /// The edge feature rows for the lists of the part's nodes. Row 0 belongs to the first entry. `None` if the dataset
    /// has no edge features.
    #[must_use]
    pub fn edge_features(&self) -> Option<FeatureTable<'_>> {
        let (array, element) = self.tables.edge_features.as_ref()?;
        Some(table(array, *element))
    }

    /// The tables.
    pub(super) fn into_tables(self) -> Tables {
        self.tables
    }

    pub(super) fn fingerprint(&self) -> String {
        self.tables.fingerprint()
    }

    pub(super) fn hash(&self) -> String {
        self.tables.hash()
    }

    /// Checks that no value is NaN or infinite. Uses the current rayon pool.
    ///
    /// # Errors
    /// The first such value.
    pub fn check_finite(&self) -> Result<(), GraphError> {
        let Tables { features: (array, element), edge_features } = &self.tables;
        verify::finite_rows(array, *element)?;
        edge_features.as_ref().map_or(Ok(()), |(array, element)| verify::finite_rows(array, *element))
    }

    /// The path of a file of the part, for errors.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn table(array: &NpyArray, element: crate::ElementType) -> FeatureTable<'_> {
    FeatureTable { bytes: array.bytes(), rows: array.shape()[0], dim: array.shape()[1], element }
}
