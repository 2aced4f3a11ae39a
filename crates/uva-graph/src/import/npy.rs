//! A directory of `.npy` files, in our own layout or in one of those that other libraries leave.
//!
//! | what | names, the first found is taken | shape and types |
//! |---|---|---|
//! | graph | `indptr` and `indices` | our CSC: `[N + 1]` and `[E]`, any integer type |
//! | | `edge_index` | `[2, E]` (PyG, OGB): sources, then destinations; `[E, 2]` too, unless E is 2 |
//! | | `src` and `dst` | `[E]` each |
//! | features | `feat`, `x`, `features`, `node_feat` | `[N, F]`; float32, float16, uint8 and int8 stay, other numbers become float32, bool uint8, uint16 stays where meta.json says bf16 |
//! | labels | `label`, `labels`, `y`, `node_label` | `[N]` or `[N, 1]`, integers, or floats that are whole or NaN (none); `[N, C]` of zeros and ones |
//! | splits | `train_idx`, `valid_idx` or `val_idx`, `test_idx` | node ids, any integer type, order kept |
//! | | `train_mask`, `valid_mask` or `val_mask`, `test_mask` | `[N]` of bool or uint8 |
//! | weights | `weight`, `edge_weight` | `[E]`, float32 or float64; only where the edges stay as they are |
//! | original ids | `orig_id` | `[N]`, any integer type |
//! | `meta.json` | | kept |

use std::path::{Path, PathBuf};

use super::{ImportOptions, SelfLoops, check, write_lists};
use crate::adjacency::{self, Changes, Lists};
use crate::files::{feature_element, names};
use crate::npy::{NpyArray, NpyType, NpyWriter, write_array};
use crate::staged::StagedDirectory;
use crate::{ElementType, GraphError, Meta, Split, verify};

/// Values that are converted at a time.
const CHUNK: usize = 1 << 16;

#[derive(Debug, thiserror::Error)]
enum ImportProblem {
    #[error("entry {position} is {value}, too large for a signed 64-bit integer")]
    TooLarge { position: usize, value: u64 },
    #[error("the label of node {node} is {value}, neither a class nor NaN")]
    NoClass { node: usize, value: f64 },
    #[error("entry {position} is {value}, neither 0 nor 1")]
    NoMark { position: usize, value: f64 },
}

/// Imports the `.npy` files in the directory `source`; the module's table says which are looked for.
///
/// The edges stay as they are unless `options` say otherwise. Edges given as pairs are held in memory while they are
/// sorted, about 24 bytes each; features never are.
///
/// # Errors
/// Where files are missing, malformed or don't fit together, or `out` exists; nothing is left behind then.
pub fn npy(source: &Path, out: &Path, options: &ImportOptions) -> Result<(), GraphError> {
    let source = Source { directory: source.to_owned(), meta: Meta::read(source)? };
    let changes =
        options.changes(Changes { symmetrise: false, deduplicate: false, self_loops: SelfLoops::Keep });

    let features = source.features()?;
    let nodes = features.array.shape()[0];
    let labels = source.labels(nodes)?;
    let splits = source.splits(nodes)?;
    let original_ids =
        source.optional(&["orig_id"])?.map(|array| source.ids_of_nodes(&array, nodes)).transpose()?;
    let weights = source.optional(&["weight", "edge_weight"])?;
    if let Some(weights) = &weights
        && !changes.is_none()
    {
        let message = format!(
            "{} cannot follow edges that are symmetrised, deduplicated or given self-loops: leave the edges as they \
             are, or take the weights away",
            weights.path().display()
        );
        return Err(GraphError::usage("--symmetrise, --dedup or --self-loops", message));
    }
    let lists = source.lists(nodes, changes, weights.is_some())?;
    let weights = weights.map(|weights| weights_in_order(&weights, &lists)).transpose()?;

    let staged = StagedDirectory::new(out)?;
    let to = staged.path();
    write_lists(to, &lists)?;
    drop(lists);
    features.write(&to.join(names::FEATURES))?;
    labels.write(&to.join(names::LABELS))?;
    for (split, ids) in Split::ALL.into_iter().zip(&splits) {
        write_array(&to.join(split.file_name()), NpyType::I64, &[], ids)?;
    }
    if let Some(weights) = weights {
        write_array(&to.join(names::WEIGHTS), NpyType::F32, &[], &weights)?;
    }
    if let Some(ids) = original_ids {
        write_array(&to.join(names::ORIGINAL_IDS), NpyType::I64, &[], &ids)?;
    }
    let mut meta = source.meta;
    meta.feat_dtype = Some(features.element.name().to_owned());
    let directory_name = out.file_name().map(|name| name.to_string_lossy().into_owned());
    meta.name = options.name.clone().or(meta.name).or(directory_name);
    meta.write(to)?;
    check(to)?;
    staged.commit()
}

/// The directory that is imported.
struct Source {
    directory: PathBuf,
    meta: Meta,
}

impl Source {
    fn optional(&self, names: &[&str]) -> Result<Option<NpyArray>, GraphError> {
        for name in names {
            let path = self.directory.join(format!("{name}.npy"));
            match NpyArray::open(&path) {
                Err(GraphError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }

    fn required(&self, what: &str, names: &[&str]) -> Result<NpyArray, GraphError> {
        self.optional(names)?.ok_or_else(|| self.missing(what, names))
    }

    fn missing(&self, what: &str, names: &[&str]) -> GraphError {
        let names: Vec<String> = names.iter().map(|name| format!("{name}.npy")).collect();
        let message = format!("{} has no {what}: none of {}", self.directory.display(), names.join(", "));
        GraphError::usage("SRC", message)
    }

    fn features(&self) -> Result<Features, GraphError> {
        let array = self.required("features", &["feat", "x", "features", "node_feat"])?;
        if array.shape().len() != 2 || array.shape()[1] == 0 {
            return Err(array.wrong_shape("[nodes, features]"));
        }
        let element = match array.kind() {
            NpyType::F32 | NpyType::F16 | NpyType::I8 | NpyType::U8 => {
                feature_element(&self.directory, &self.meta, &array)?
            }
            NpyType::Bool => ElementType::U8,
            NpyType::U16
                if self.meta.feat_dtype.as_deref().and_then(ElementType::from_name)
                    == Some(ElementType::Bf16) =>
            {
                ElementType::Bf16
            }
            _ => ElementType::F32,
        };
        Ok(Features { array, element })
    }

    fn labels(&self, nodes: usize) -> Result<ImportedLabels, GraphError> {
        let array = self.required("labels", &["label", "labels", "y", "node_label"])?;
        match *array.shape() {
            [rows] | [rows, 1] if rows == nodes => {
                let labels = match array.kind() {
                    NpyType::F32 | NpyType::F64 => {
                        let as_class = |(node, value): (usize, f64)| {
                            if value.is_nan() {
                                Ok(-1)
                            } else if value.fract() == 0.0 && value.abs() < f64::from(u32::MAX) {
                                Ok(value as i64)
                            } else {
                                Err(GraphError::invalid(array.path(), ImportProblem::NoClass { node, value }))
                            }
                        };
                        floats(&array)?.into_iter().enumerate().map(as_class).collect::<Result<_, _>>()?
                    }
                    _ => integers(&array)?,
                };
                verify::class_labels(&array, &labels, self.meta.classes)?;
                Ok(ImportedLabels::Single(labels))
            }
            [rows, classes] if rows == nodes && classes > 1 => {
                let marks = marks(&array)?;
                Ok(ImportedLabels::Multi { classes, marks })
            }
            _ => {
                Err(array
                    .wrong_shape(format!("[{nodes}] (one class a node) or [{nodes}, classes] (several)")))
            }
        }
    }

    fn splits(&self, nodes: usize) -> Result<[Vec<i64>; 3], GraphError> {
        Ok([
            self.split(nodes, &["train_idx"], &["train_mask"])?,
            self.split(nodes, &["valid_idx", "val_idx"], &["valid_mask", "val_mask"])?,
            self.split(nodes, &["test_idx"], &["test_mask"])?,
        ])
    }

    fn split(&self, nodes: usize, ids: &[&str], masks: &[&str]) -> Result<Vec<i64>, GraphError> {
        if let Some(array) = self.optional(ids)? {
            if array.shape().len() != 1 {
                return Err(array.wrong_shape("one-dimensional"));
            }
            let ids = integers(&array)?;
            verify::split_ids(&array, &ids, nodes)?;
            return Ok(ids);
        }
        match self.optional(masks)? {
            Some(mask) if mask.shape() == [nodes] => {
                let marks = marks(&mask)?;
                Ok((0..).zip(marks).filter(|(_, mark)| *mark == 1).map(|(node, _)| node).collect())
            }
            Some(mask) => Err(mask.wrong_shape(format!("[{nodes}], one mark for each row of the features"))),
            None => Err(self.missing("split", &[ids, masks].concat())),
        }
    }

    fn ids_of_nodes(&self, array: &NpyArray, nodes: usize) -> Result<Vec<i64>, GraphError> {
        if array.shape() != [nodes] {
            return Err(array.wrong_shape(format!("[{nodes}], one id for each row of the features")));
        }
        let ids = integers(array)?;
        verify::original_ids(array, &ids)?;
        Ok(ids)
    }

    fn lists(&self, nodes: usize, changes: Changes, order_wanted: bool) -> Result<Lists, GraphError> {
        let vector = |array: NpyArray| {
            if array.shape().len() == 1 { Ok(array) } else { Err(array.wrong_shape("one-dimensional")) }
        };
        if let Some(indptr) = self.optional(&["indptr"])? {
            let indptr = vector(indptr)?;
            let indices = vector(self.required("neighbours", &["indices"])?)?;
            if nodes.checked_add(1) != Some(indptr.shape()[0]) {
                return Err(
                    indptr.wrong_shape(format!("[{nodes} + 1], one entry more than the features have rows"))
                );
            }
            let ends = integers(&indptr)?;
            verify::indptr(&indptr, &ends, indices.shape()[0])?;
            let sources = integers(&indices)?;
            verify::ids(&indices, &sources, nodes)?;
            if changes.is_none() {
                return Ok(Lists { indptr: ends, indices: sources, edge_order: None });
            }
            let destinations = (0..nodes as i64).flat_map(|node| {
                let degree = ends[node as usize + 1] - ends[node as usize];
                std::iter::repeat_n(node, degree as usize)
            });
            let edges = sources.iter().copied().zip(destinations).collect();
            return Ok(adjacency::lists(nodes, edges, changes, false));
        }
        let edges: Vec<(i64, i64)> = if let Some(array) = self.optional(&["edge_index"])? {
            let values = |array: &NpyArray| -> Result<Vec<i64>, GraphError> {
                let values = integers(array)?;
                verify::ids(array, &values, nodes)?;
                Ok(values)
            };
            match *array.shape() {
                [2, edges] => {
                    let values = values(&array)?;
                    let (sources, destinations) = values.split_at(edges);
                    sources.iter().copied().zip(destinations.iter().copied()).collect()
                }
                [_, 2] => values(&array)?.as_chunks::<2>().0.iter().map(|&[from, to]| (from, to)).collect(),
                _ => return Err(array.wrong_shape("[2, edges]: sources, then destinations")),
            }
        } else {
            let graph = "graph";
            let names = ["indptr", "edge_index", "src"];
            let sources = vector(self.required(graph, &names[2..]).map_err(|error| match error {
                GraphError::Usage { .. } => self.missing(graph, &names),
                error => error,
            })?)?;
            let destinations = vector(self.required("destinations", &["dst"])?)?;
            if destinations.shape() != sources.shape() {
                let edges = sources.shape()[0];
                return Err(destinations.wrong_shape(format!("[{edges}], as long as src.npy")));
            }
            let (from, to) = (integers(&sources)?, integers(&destinations)?);
            verify::ids(&sources, &from, nodes)?;
            verify::ids(&destinations, &to, nodes)?;
            from.into_iter().zip(to).collect()
        };
        Ok(adjacency::lists(nodes, edges, changes, order_wanted))
    }
}

/// Features as they are in the source, and how they are to be stored.
struct Features {
    array: NpyArray,
    element: ElementType,
}

impl Features {
    fn write(&self, path: &Path) -> Result<(), GraphError> {
        let row_shape = &self.array.shape()[1..];
        let (kind, bytes) = (self.array.kind(), self.array.bytes());
        let target = match self.element {
            ElementType::F32 => NpyType::F32,
            ElementType::F16 => NpyType::F16,
            ElementType::Bf16 => NpyType::U16,
            ElementType::U8 => NpyType::U8,
            ElementType::I8 => NpyType::I8,
        };
        let mut writer = NpyWriter::create(path, target, row_shape)?;
        for chunk in bytes.chunks(CHUNK * kind.bytes()) {
            if kind == target || kind == NpyType::Bool {
                writer.write_bytes(chunk)?;
            } else {
                let values: Vec<f32> =
                    decode_floats(kind, chunk).into_iter().map(|value| value as f32).collect();
                writer.write(&values)?;
            }
        }
        writer.finish().map(drop)
    }
}

enum ImportedLabels {
    Single(Vec<i64>),
    Multi { classes: usize, marks: Vec<u8> },
}

impl ImportedLabels {
    fn write(&self, path: &Path) -> Result<(), GraphError> {
        match self {
            ImportedLabels::Single(labels) => write_array(path, NpyType::I64, &[], labels),
            ImportedLabels::Multi { classes, marks } => write_array(path, NpyType::U8, &[*classes], marks),
        }
    }
}

/// Weights in the order of the lists.
fn weights_in_order(weights: &NpyArray, lists: &Lists) -> Result<Vec<f32>, GraphError> {
    if weights.shape() != [lists.indices.len()] {
        return Err(weights.wrong_shape(format!("[{}], one weight for each edge", lists.indices.len())));
    }
    if !matches!(weights.kind(), NpyType::F32 | NpyType::F64) {
        return Err(weights.wrong_type("float32 or float64"));
    }
    let values: Vec<f32> = floats(weights)?.into_iter().map(|weight| weight as f32).collect();
    verify::weights(weights, &values)?;
    Ok(match &lists.edge_order {
        Some(order) => order.iter().map(|&edge| values[edge as usize]).collect(),
        None => values,
    })
}

/// The elements as integers, where that is what they are.
fn integers(array: &NpyArray) -> Result<Vec<i64>, GraphError> {
    fn each<const SIZE: usize>(bytes: &[u8], decode: impl Fn([u8; SIZE]) -> i64) -> Vec<i64> {
        bytes.as_chunks::<SIZE>().0.iter().map(|&bytes| decode(bytes)).collect()
    }
    let bytes = array.bytes();
    Ok(match array.kind() {
        NpyType::I8 => each(bytes, |bytes| i8::from_le_bytes(bytes).into()),
        NpyType::U8 => each(bytes, |bytes| u8::from_le_bytes(bytes).into()),
        NpyType::I16 => each(bytes, |bytes| i16::from_le_bytes(bytes).into()),
        NpyType::U16 => each(bytes, |bytes| u16::from_le_bytes(bytes).into()),
        NpyType::I32 => each(bytes, |bytes| i32::from_le_bytes(bytes).into()),
        NpyType::U32 => each(bytes, |bytes| u32::from_le_bytes(bytes).into()),
        NpyType::I64 => each(bytes, i64::from_le_bytes),
        NpyType::U64 => {
            let values = each(bytes, |bytes| u64::from_le_bytes(bytes).cast_signed());
            if let Some(position) = values.iter().position(|&value| value < 0) {
                let value = values[position].cast_unsigned();
                return Err(GraphError::invalid(array.path(), ImportProblem::TooLarge { position, value }));
            }
            values
        }
        _ => return Err(array.wrong_type("an integer type")),
    })
}

/// The elements as doubles, whatever number type they have.
fn floats(array: &NpyArray) -> Result<Vec<f64>, GraphError> {
    Ok(decode_floats(array.kind(), array.bytes()))
}

fn decode_floats(kind: NpyType, bytes: &[u8]) -> Vec<f64> {
    fn each<const SIZE: usize>(bytes: &[u8], decode: impl Fn([u8; SIZE]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<SIZE>().0.iter().map(|&bytes| decode(bytes)).collect()
    }
    match kind {
        NpyType::Bool | NpyType::U8 => each(bytes, |bytes| u8::from_le_bytes(bytes).into()),
        NpyType::I8 => each(bytes, |bytes| i8::from_le_bytes(bytes).into()),
        NpyType::I16 => each(bytes, |bytes| i16::from_le_bytes(bytes).into()),
        NpyType::U16 => each(bytes, |bytes| u16::from_le_bytes(bytes).into()),
        NpyType::I32 => each(bytes, |bytes| i32::from_le_bytes(bytes).into()),
        NpyType::U32 => each(bytes, |bytes| u32::from_le_bytes(bytes).into()),
        NpyType::I64 => each(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
        NpyType::U64 => each(bytes, |bytes| u64::from_le_bytes(bytes) as f64),
        NpyType::F16 => each(bytes, |bytes| half::f16::from_le_bytes(bytes).to_f64()),
        NpyType::F32 => each(bytes, |bytes| f32::from_le_bytes(bytes).into()),
        NpyType::F64 => each(bytes, f64::from_le_bytes),
    }
}

/// Elements that are all 0 or 1, as bytes.
fn marks(array: &NpyArray) -> Result<Vec<u8>, GraphError> {
    let mut marks = Vec::with_capacity(array.header().elements());
    for (position, value) in floats(array)?.into_iter().enumerate() {
        if value != 0.0 && value != 1.0 {
            return Err(GraphError::invalid(array.path(), ImportProblem::NoMark { position, value }));
        }
        marks.push(value as u8);
    }
    Ok(marks)
}
