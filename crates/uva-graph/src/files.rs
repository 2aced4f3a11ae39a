//! The files of a dataset, mapped, their shapes and types checked against each other. Their content is not checked
//! here.

use std::path::Path;

use crate::feature_element::{edge_feature_element, feature_element};
use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::{ElementType, GraphError, Meta, Split, meta, names};

/// `indices.npy`, in the width of the file.
#[derive(Debug)]
pub(crate) enum IndexArray {
    I32(TypedArray<i32>),
    I64(TypedArray<i64>),
}

impl IndexArray {
    pub(crate) fn array(&self) -> &NpyArray {
        match self {
            IndexArray::I32(ids) => ids.array(),
            IndexArray::I64(ids) => ids.array(),
        }
    }
}

/// `label.npy`: one class per node, or a row of zeros and ones per node.
#[derive(Debug)]
pub(crate) enum LabelArray {
    Single(TypedArray<i64>),
    Multi { classes: usize, array: NpyArray },
}

impl LabelArray {
    pub(crate) fn array(&self) -> &NpyArray {
        match self {
            LabelArray::Single(labels) => labels.array(),
            LabelArray::Multi { array, .. } => array,
        }
    }
}

/// All files of a dataset.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) meta: Meta,
    pub(crate) indptr: TypedArray<i64>,
    pub(crate) indices: IndexArray,
    pub(crate) features: NpyArray,
    pub(crate) element: ElementType,
    pub(crate) labels: LabelArray,
    pub(crate) splits: [TypedArray<i64>; 3],
    pub(crate) weights: Option<TypedArray<f32>>,
    /// The edges' feature rows, and the type of their values.
    pub(crate) edge_features: Option<(NpyArray, ElementType)>,
    pub(crate) original_ids: Option<TypedArray<i64>>,
}

#[derive(Debug, thiserror::Error)]
enum MetaProblem {
    #[error("\"classes\" is {0}, it has to be at least 1 and fit 32 bits")]
    Classes(u64),
    #[error("\"classes\" is {said}, but label.npy has {columns} columns")]
    OtherClasses { said: u64, columns: usize },
}

impl Files {
    /// Maps every file of the dataset in `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Files, GraphError> {
        let metadata = std::fs::metadata(directory).map_err(GraphError::io(directory, "open"))?;
        if !metadata.is_dir() {
            return Err(GraphError::Io {
                path: directory.to_owned(),
                action: "open",
                source: std::io::Error::new(
                    std::io::ErrorKind::NotADirectory,
                    "a dataset is a directory of .npy files",
                ),
            });
        }
        let meta = Meta::read(directory)?;
        if let Some(classes) = meta.classes
            && !(1..=u64::from(u32::MAX)).contains(&classes)
        {
            return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), MetaProblem::Classes(classes)));
        }
        let open = |name: &str| NpyArray::open(&directory.join(name));

        let indptr = vector(open(names::INDPTR)?)?;
        if indptr.shape()[0] == 0 {
            return Err(indptr.wrong_shape("[nodes + 1], so at least [1]"));
        }
        let nodes = indptr.shape()[0] - 1;
        let indptr = TypedArray::new(indptr, NpyType::I64)?;

        let indices = vector(open(names::INDICES)?)?;
        let indices = match indices.kind() {
            NpyType::I32 => IndexArray::I32(TypedArray::new(indices, NpyType::I32)?),
            NpyType::I64 => IndexArray::I64(TypedArray::new(indices, NpyType::I64)?),
            _ => return Err(indices.wrong_type("int32 or int64")),
        };
        let edges = indices.array().shape()[0];

        let features = open(names::FEATURES)?;
        if features.shape().len() != 2 || features.shape()[0] != nodes || features.shape()[1] == 0 {
            return Err(
                features.wrong_shape(format!("[{nodes}, features], one row for each node of indptr.npy"))
            );
        }
        let element = feature_element(directory, &meta, &features)?;

        let labels = match open(names::LABELS)? {
            array if array.shape() == [nodes] => LabelArray::Single(TypedArray::new(array, NpyType::I64)?),
            array if array.shape().len() == 2 && array.shape()[0] == nodes && array.shape()[1] > 0 => {
                if array.kind() != NpyType::U8 {
                    return Err(array.wrong_type("uint8 (labels of several classes a node)"));
                }
                let columns = array.shape()[1];
                if let Some(said) = meta.classes
                    && said != columns as u64
                {
                    let file = directory.join(meta::FILE_NAME);
                    return Err(GraphError::invalid(&file, MetaProblem::OtherClasses { said, columns }));
                }
                LabelArray::Multi { classes: columns, array }
            }
            array => {
                return Err(array
                    .wrong_shape(format!("[{nodes}] (one class a node) or [{nodes}, classes] (several)")));
            }
        };

        let split = |split: Split| TypedArray::new(vector(open(split.file_name())?)?, NpyType::I64);
        let splits = [split(Split::Train)?, split(Split::Valid)?, split(Split::Test)?];

        let weights = optional(directory, names::WEIGHTS)?
            .map(|array| of_length(array, edges, "one weight for each edge of indices.npy"))
            .transpose()?
            .map(|array| TypedArray::new(array, NpyType::F32))
            .transpose()?;
        let edge_features = optional(directory, names::EDGE_FEATURES)?
            .map(|array| match *array.shape() {
                [rows, columns] if rows == edges && columns > 0 => {
                    let element = edge_feature_element(directory, &meta, &array)?;
                    Ok((array, element))
                }
                _ => {
                    let wanted = format!("[{edges}, features], one row for each edge of indices.npy");
                    Err(array.wrong_shape(wanted))
                }
            })
            .transpose()?;
        let original_ids = optional(directory, names::ORIGINAL_IDS)?
            .map(|array| of_length(array, nodes, "one id for each node of indptr.npy"))
            .transpose()?
            .map(|array| TypedArray::new(array, NpyType::I64))
            .transpose()?;
        Ok(Files {
            meta,
            indptr,
            indices,
            features,
            element,
            labels,
            splits,
            weights,
            edge_features,
            original_ids,
        })
    }

    pub(crate) fn nodes(&self) -> usize {
        self.indptr.values().len() - 1
    }

    /// The number in `meta.json`, or the largest label + 1, or the columns of `label.npy`.
    pub(crate) fn classes(&self) -> usize {
        match (&self.labels, self.meta.classes) {
            (LabelArray::Multi { classes, .. }, _) => *classes,
            (LabelArray::Single(_), Some(classes)) => classes as usize,
            (LabelArray::Single(labels), None) => {
                let largest = labels.values().iter().copied().max().unwrap_or(-1);
                usize::try_from(largest.saturating_add(1)).unwrap_or(0)
            }
        }
    }
}

fn optional(directory: &Path, name: &str) -> Result<Option<NpyArray>, GraphError> {
    match NpyArray::open(&directory.join(name)) {
        Ok(array) => Ok(Some(array)),
        Err(GraphError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn vector(array: NpyArray) -> Result<NpyArray, GraphError> {
    if array.shape().len() == 1 { Ok(array) } else { Err(array.wrong_shape("one-dimensional")) }
}

fn of_length(array: NpyArray, length: usize, what: &str) -> Result<NpyArray, GraphError> {
    if array.shape() == [length] { Ok(array) } else { Err(array.wrong_shape(format!("[{length}], {what}"))) }
}
