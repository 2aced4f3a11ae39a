//! A hop set on disk, checked for agreement of `hops.json` with the files.

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use rayon::prelude::*;
use uva_files::quote;
use uva_graph::GraphError;
use uva_graph::hash;
use uva_graph::npy::{NpyArray, NpyType};
use uva_mem::files::read_regular;

use crate::checks;
use crate::hop_sets::description::{AppliedOperator, FILE_NAME, FORMAT, HopSet, LABELS, NODE_IDS};
use crate::options::{Decisive, HopType, Layout};
use crate::resumption::part::DATA_OFFSET;

/// Bytes that are checked between two checks for a stop.
const PIECE: usize = 64 << 20;

/// More than the description of the largest hop set: some hundred bytes for each of at most 4,097 files.
const MOST_BYTES: u64 = 2 << 20;

#[derive(Debug, thiserror::Error)]
enum SetProblem {
    #[error("{0}")]
    NotASet(String),
    #[error("it has format {0}, and this version reads {FORMAT}")]
    Format(u32),
    #[error("it has {found} bytes, but hops.json has {said}: the file is truncated, or another file")]
    Length { found: u64, said: u64 },
    #[error("its elements have the hash {found}, but hops.json has {said}: the file has been changed")]
    Hash { found: String, said: String },
    #[error("it is {found} {shape:?}, but hops.json has {said} {said_shape:?}")]
    Shape { found: NpyType, shape: Vec<usize>, said: NpyType, said_shape: Vec<usize> },
    #[error("the label of row {row} is {label}, but hops.json has {classes} classes")]
    Label { row: usize, label: i64, classes: usize },
    #[error("its rows have {found} labels, but hops.json has {said} classes")]
    Columns { found: usize, said: usize },
    #[error("elements begin at byte {0}, but hops.json has {DATA_OFFSET}")]
    Offset(usize),
    #[error(
        "hop {hop} of row {row} (node {node}) has {value} in column {column}: features and their sums have to be \
         finite"
    )]
    NotFinite { hop: usize, row: usize, node: i64, column: usize, value: f32 },
}

impl HopSet {
    /// Whether a hop set is at `path`.
    pub fn is_at(path: &Path) -> bool {
        path.join(FILE_NAME).is_file()
    }

    /// Reads `hops.json`, and checks that every array exists with the length, type and shape that it specifies.
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
            if let (LABELS, NpyType::U8, [_, columns]) = (name.as_str(), found, &shape[..])
                && *columns != set.classes
            {
                let problem = SetProblem::Columns { found: *columns, said: set.classes };
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

    /// Reads `hops.json` alone, and checks its sizes and names.
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

    /// Checks every element: the hashes of all files, and that no value of a hop is NaN or infinite. Uses the current
    /// rayon pool.
    ///
    /// # Errors
    /// About the first file that has been changed; about a value that is not finite, with hop, row and node.
    pub fn verify(&self, path: &Path) -> Result<(), GraphError> {
        self.verify_until(path, &|| false).map(|_| ())
    }

    /// As [`HopSet::verify`], until `stops` returns true, which is called occasionally. Returns whether the check was
    /// completed.
    ///
    /// # Errors
    /// As [`HopSet::verify`].
    pub fn verify_until(&self, path: &Path, stops: &dyn Fn() -> bool) -> Result<bool, GraphError> {
        let hops = self.hop_files();
        let mut arrays = Vec::new();
        for (name, facts) in &self.files {
            let array = NpyArray::open(&path.join(name))?;
            let (tag, mut sum, mut first) = (tag_of(&self.operators, name) as u8, 0_u64, 0);
            for piece in array.bytes().chunks(PIECE) {
                if stops() {
                    return Ok(false);
                }
                sum = sum.wrapping_add(hash::of_part(tag, first, piece));
                first += (PIECE / 8) as u64;
            }
            let found = format!("{sum:016x}");
            if found != facts.hash {
                let problem = SetProblem::Hash { found, said: facts.hash.clone() };
                return Err(GraphError::invalid(array.path(), problem));
            }
            arrays.push(array);
        }
        self.verify_labels(&arrays, path)?;
        let nodes = NpyArray::open(&path.join(NODE_IDS))?;
        let nodes: &[i64] = nodes.elements(NpyType::I64)?;
        for (place, name) in hops.iter().enumerate() {
            let file = path.join(name);
            let Some(array) = arrays.iter().find(|array| array.path() == file) else { continue };
            let elements = PIECE / self.dtype.bytes();
            let mut not_finite = None;
            for (first, piece) in (0..).step_by(elements).zip(array.bytes().chunks(PIECE)) {
                if stops() {
                    return Ok(false);
                }
                not_finite = first_not_finite(piece, self.dtype).map(|(at, value)| (first + at, value));
                if not_finite.is_some() {
                    break;
                }
            }
            if let Some((at, value)) = not_finite {
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
        Ok(true)
    }

    /// Checks that labels with one column are valid classes; -1 means no label.
    fn verify_labels(&self, arrays: &[NpyArray], path: &Path) -> Result<(), GraphError> {
        let file = path.join(LABELS);
        let labels = arrays.iter().find(|array| array.path() == file && array.shape().len() == 1);
        let Some(labels) = labels.filter(|labels| labels.kind() == NpyType::I64) else { return Ok(()) };
        let labels: &[i64] = labels.elements(NpyType::I64)?;
        let is_one =
            |label: i64| label == -1 || usize::try_from(label).is_ok_and(|label| label < self.classes);
        match labels.iter().position(|label| !is_one(*label)) {
            None => Ok(()),
            Some(row) => {
                let problem = SetProblem::Label { row, label: labels[row], classes: self.classes };
                Err(GraphError::invalid(&file, problem))
            }
        }
    }

    /// The options that determine the bytes of the set.
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

/// The tag of a file's hash: its hop, or 0 for a file that is not a hop of an operator.
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
