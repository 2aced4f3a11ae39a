//! A hop set on disk: what `hops.json` says, and whether the files are as it says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use uva_graph::GraphError;
use uva_graph::hash;
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::quote;
use uva_mem::files::read_regular;
use uva_model::FeatureNorm;

use crate::checks;
use crate::options::{Decisive, HopType, KeptNodes, Layout, RowOrder};
use crate::part::DATA_OFFSET;

/// The file that makes a directory a hop set.
pub const FILE_NAME: &str = "hops.json";

/// Dataset ids of the rows.
pub(crate) const NODE_IDS: &str = "node_idx.npy";
/// Labels of the rows.
pub(crate) const LABELS: &str = "label.npy";
/// The features themselves.
pub(crate) const FEATURES: &str = "x.npy";
/// All hops of every row, with the layout `rows`.
pub(crate) const ROWS: &str = "rows.npy";

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;

const MOST_BYTES: u64 = 16 << 20;

/// The content of `hops.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopSet {
    /// The version of the format: 1.
    pub format: u32,
    /// What it was made of.
    pub dataset: Source,
    /// Features of a row.
    pub dim: usize,
    /// The element type.
    pub dtype: HopType,
    /// How many rows.
    pub rows: usize,
    /// Classes of the labels.
    pub classes: usize,
    /// The operators, in the order of their hops.
    pub operators: Vec<AppliedOperator>,
    /// Which rows lie side by side.
    pub layout: Layout,
    /// Where elements of hop files begin.
    pub data_offset: usize,
    /// Rows of train, valid and test, from the first to that behind the last; behind them are nodes of no split.
    pub splits: BTreeMap<String, [usize; 2]>,
    /// The order of the training rows.
    pub order: Order,
    /// Which nodes have rows.
    pub nodes: KeptNodes,
    /// How features were normalised before the first hop.
    pub feature_norm: FeatureNorm,
    /// The element type between hops: always `f32`.
    pub scratch: HopType,
    /// Every array: its length, and the hash of its elements.
    pub files: BTreeMap<String, FileFacts>,
    /// The program that made it.
    pub made_by: String,
    /// How long its last run took. Runs that were interrupted do not count.
    pub seconds: f64,
}

/// A dataset that hops were made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its [fingerprint](uva_graph::Dataset::fingerprint).
    pub fingerprint: String,
}

/// An operator of a hop set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedOperator {
    /// Its name, all parameters said.
    pub name: String,
    /// What the names of its files begin with.
    pub file: String,
    /// Whether the node itself was among those that were summed.
    pub self_loops: bool,
    /// Whether entries counted by `weight.npy`.
    pub weighted: bool,
    /// How often it was applied.
    pub hops: u32,
}

/// The order of the training rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Which.
    pub kind: RowOrder,
    /// What a shuffled order was drawn by; 0 for others.
    pub seed: u64,
    /// The purpose of the random words.
    pub purpose: u32,
}

/// An array of a hop set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Its length, header and all.
    pub bytes: u64,
    /// The [hash](uva_graph::hash::of_array) of its elements: 16 hex digits. The tag is the hop.
    pub hash: String,
}

#[derive(Debug, thiserror::Error)]
enum SetProblem {
    #[error("{0}")]
    NotASet(String),
    #[error("it has format {0}, and this version reads {FORMAT}")]
    Format(u32),
    #[error("it has {found} bytes, and hops.json says {said}: the file is truncated or another")]
    Length { found: u64, said: u64 },
    #[error("its elements have the hash {found}, and hops.json says {said}: the file has been changed")]
    Hash { found: String, said: String },
    #[error("it is {found} {shape:?}, and hops.json says {said} {said_shape:?}")]
    Shape { found: NpyType, shape: Vec<usize>, said: NpyType, said_shape: Vec<usize> },
    #[error("elements begin at byte {0}, and hops.json says {DATA_OFFSET}")]
    Offset(usize),
    #[error(
        "hop {hop} of row {row} (node {node}) has {value} in column {column}: features and their sums have to be \
         finite"
    )]
    NotFinite { hop: usize, row: usize, node: i64, column: usize, value: f32 },
}

impl HopSet {
    /// Whether there is one at `path`.
    pub fn is_at(path: &Path) -> bool {
        path.join(FILE_NAME).is_file()
    }

    /// Reads `hops.json`, and checks that every array is there, of the length, type and shape that it says.
    ///
    /// # Errors
    /// About the first file that differs, with what is expected and what is found.
    pub fn open(path: &Path) -> Result<HopSet, GraphError> {
        let set = HopSet::read(path)?;
        for (name, facts) in &set.files {
            let path = path.join(name);
            let found = std::fs::metadata(&path).map_err(GraphError::io(&path, "open"))?.len();
            if found != facts.bytes {
                return Err(GraphError::invalid(&path, SetProblem::Length { found, said: facts.bytes }));
            }
            let array = NpyArray::open(&path)?;
            let (found, shape) = (array.kind(), array.shape().to_vec());
            let (said, said_shape) = match (name.as_str(), set.layout) {
                (NODE_IDS, _) => (NpyType::I64, vec![set.rows]),
                // Classes and columns of labels are those of the dataset.
                (LABELS, _) => (found, [set.rows].into_iter().chain(shape.iter().skip(1).copied()).collect()),
                (_, Layout::Hops) => (set.dtype.npy(), vec![set.rows, set.dim]),
                (_, Layout::Rows) => (set.dtype.npy(), vec![set.rows, set.hops(), set.dim]),
            };
            if (found, &shape) != (said, &said_shape) {
                let problem = SetProblem::Shape { found, shape, said, said_shape };
                return Err(GraphError::invalid(&path, problem));
            }
            let is_hop = ![NODE_IDS, LABELS].contains(&name.as_str());
            if is_hop && array.header().data_offset != DATA_OFFSET {
                let problem = SetProblem::Offset(array.header().data_offset);
                return Err(GraphError::invalid(&path, problem));
            }
        }
        Ok(set)
    }

    /// `hops.json` alone, whose sizes and names are those of a hop set.
    pub(crate) fn read(path: &Path) -> Result<HopSet, GraphError> {
        let path = path.join(FILE_NAME);
        let bytes = read_regular(&path, MOST_BYTES).map_err(GraphError::io(&path, "read"))?;
        let set: HopSet = serde_json::from_slice(&bytes).map_err(|error| {
            GraphError::invalid(&path, SetProblem::NotASet(quote::message(&error.to_string())))
        })?;
        if set.format != FORMAT {
            return Err(GraphError::invalid(&path, SetProblem::Format(set.format)));
        }
        checks::check(&set).map_err(|problem| GraphError::invalid(&path, problem))?;
        Ok(set)
    }

    /// Hops of a row, the features themselves among them.
    pub fn hops(&self) -> usize {
        1 + self.operators.iter().map(|operator| operator.hops as usize).sum::<usize>()
    }

    /// Names of the hops' files in order; with the layout `rows` there is one for all.
    pub fn hop_files(&self) -> Vec<String> {
        if self.layout == Layout::Rows {
            return vec![ROWS.to_owned()];
        }
        let of_operators = self
            .operators
            .iter()
            .flat_map(|operator| (1..=operator.hops).map(|hop| format!("{}.{hop}.npy", operator.file)));
        std::iter::once(FEATURES.to_owned()).chain(of_operators).collect()
    }

    /// The rows of a split.
    pub fn split(&self, name: &str) -> [usize; 2] {
        self.splits.get(name).copied().unwrap_or_default()
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    /// Checks every element: the hashes of all files, and that no value of a hop is NaN or infinite. Uses the current
    /// rayon pool.
    ///
    /// # Errors
    /// About the first file that has been changed; about a value that is not finite, with hop, row and node.
    pub fn verify(&self, path: &Path) -> Result<(), GraphError> {
        let hops = self.hop_files();
        let mut arrays = Vec::new();
        for (name, facts) in &self.files {
            let array = NpyArray::open(&path.join(name))?;
            let found =
                format!("{:016x}", hash::of_array(tag_of(&self.operators, name) as u8, array.bytes()));
            if found != facts.hash {
                let problem = SetProblem::Hash { found, said: facts.hash.clone() };
                return Err(GraphError::invalid(array.path(), problem));
            }
            arrays.push(array);
        }
        let nodes = NpyArray::open(&path.join(NODE_IDS))?;
        let nodes: &[i64] = nodes.elements(NpyType::I64)?;
        for (place, name) in hops.iter().enumerate() {
            let file = path.join(name);
            let Some(array) = arrays.iter().find(|array| array.path() == file) else { continue };
            if let Some((at, value)) = first_not_finite(array.bytes(), self.dtype) {
                let (row_of_hop, column) = (at / self.dim, at % self.dim);
                let (row, hop) = match self.layout {
                    Layout::Hops => (row_of_hop, place),
                    Layout::Rows => (row_of_hop / self.hops(), row_of_hop % self.hops()),
                };
                let node = nodes.get(row).copied().unwrap_or(-1);
                let problem = SetProblem::NotFinite { hop, row, node, column, value };
                return Err(GraphError::invalid(&file, problem));
            }
        }
        Ok(())
    }

    /// What decided its bytes.
    pub(crate) fn decisive(&self) -> Decisive {
        Decisive {
            data: self.dataset.fingerprint.clone(),
            operators: self.operators.iter().map(|operator| operator.name.clone()).collect(),
            hops: self.operators.first().map_or(0, |operator| operator.hops),
            nodes: self.nodes,
            element: self.dtype,
            layout: self.layout,
            row_order: self.order.kind,
            seed: self.order.seed,
            weighted: self.operators.first().is_some_and(|operator| operator.weighted),
            feature_norm: self.feature_norm,
        }
    }
}

/// The tag of a file's hash: its hop, and 0 for what is no hop of an operator.
fn tag_of(operators: &[AppliedOperator], file: &str) -> u32 {
    operators
        .iter()
        .find_map(|operator| (1..=operator.hops).find(|hop| format!("{}.{hop}.npy", operator.file) == file))
        .unwrap_or(0)
}

/// The first element that is NaN or infinite, and its place.
fn first_not_finite(bytes: &[u8], element: HopType) -> Option<(usize, f32)> {
    const TASK: usize = 1 << 16;
    let value = |bytes: &[u8]| match element {
        HopType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        HopType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        HopType::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
    };
    bytes.par_chunks(TASK * element.bytes()).enumerate().find_map_first(|(task, bytes)| {
        let mut values = bytes.chunks_exact(element.bytes()).map(value);
        let place = values.position(|value| !value.is_finite())?;
        let bytes = &bytes[place * element.bytes()..];
        Some((task * TASK + place, value(&bytes[..element.bytes()])))
    })
}

/// The path of `hops.json` in a hop set.
pub(crate) fn description(set: &Path) -> PathBuf {
    set.join(FILE_NAME)
}
