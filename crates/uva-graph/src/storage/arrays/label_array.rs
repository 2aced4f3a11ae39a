//! The labels of a dataset's nodes as a mapped array, and what `meta.json` says of their classes.

use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::storage::arrays::place::ArrayDirectory;
use crate::{GraphError, Labels};

#[derive(Debug, thiserror::Error)]
enum ClassProblem {
    #[error("{key} is {said}, it has to be at least 1 and fit 32 bits")]
    Count { key: String, said: u64 },
    #[error("{key} is {said}, but label.npy has {columns} columns")]
    Columns { key: String, said: u64, columns: usize },
    #[error("{key} is {classes}, but label.npy has float32 values, which are for regression: remove the key")]
    OfNumbers { key: String, classes: u64 },
    #[error(
        "\"class_names\" has {names} names, but there are {classes} classes: give a name for each, or remove the key"
    )]
    Names { names: usize, classes: usize },
}

/// `label.npy`: one class per node, a row of zeros and ones per node, or one or several numbers per node.
#[derive(Debug)]
pub(crate) enum LabelArray {
    Absent,
    Single(TypedArray<i64>),
    Multi { classes: usize, array: NpyArray },
    Regression { columns: Option<usize>, array: TypedArray<f32> },
}

/// The columns of an array of labels or targets, \[nodes, columns\]; `None` for one value per node, \[nodes\].
///
/// # Errors
/// If the shape is any other.
pub fn label_columns(array: &NpyArray, nodes: usize) -> Result<Option<usize>, GraphError> {
    match *array.shape() {
        [rows] if rows == nodes => Ok(None),
        [rows, columns] if rows == nodes && columns > 0 => Ok(Some(columns)),
        _ => Err(array
            .wrong_shape(format!("[{nodes}] (one class or number a node) or [{nodes}, columns] (several)"))),
    }
}

impl LabelArray {
    /// The labels as a view of a dataset.
    pub(crate) fn values(&self) -> Labels<'_> {
        match self {
            LabelArray::Absent => Labels::Absent,
            LabelArray::Single(values) => Labels::Single(values.values()),
            LabelArray::Multi { classes, array } => {
                Labels::Multi { classes: *classes, values: array.bytes() }
            }
            LabelArray::Regression { columns, array } => {
                Labels::Regression { columns: *columns, values: array.values() }
            }
        }
    }

    pub(crate) fn array(&self) -> Option<&NpyArray> {
        match self {
            LabelArray::Absent => None,
            LabelArray::Single(labels) => Some(labels.array()),
            LabelArray::Multi { array, .. } => Some(array),
            LabelArray::Regression { array, .. } => Some(array.array()),
        }
    }

    /// Checks type and shape against the number of nodes and the number of classes that `meta.json` has for them.
    pub(crate) fn of(
        array: Option<NpyArray>,
        nodes: usize,
        said: Option<u64>,
        place: &ArrayDirectory<'_>,
    ) -> Result<Self, GraphError> {
        let key = || place.key("classes");
        let Some(array) = array else { return Ok(Self::Absent) };
        let columns = label_columns(&array, nodes)?;
        match (array.kind(), columns) {
            (NpyType::F32, columns) => {
                if let Some(classes) = said {
                    return Err(place.wrong_meta(ClassProblem::OfNumbers { key: key(), classes }));
                }
                Ok(Self::Regression { columns, array: TypedArray::new(array, NpyType::F32)? })
            }
            (NpyType::I64, None) => Ok(Self::Single(TypedArray::new(array, NpyType::I64)?)),
            (NpyType::U8, Some(columns)) => match said {
                Some(said) if said != columns as u64 => {
                    Err(place.wrong_meta(ClassProblem::Columns { key: key(), said, columns }))
                }
                _ => Ok(Self::Multi { classes: columns, array }),
            },
            (_, None) => Err(array.wrong_type("int64 (classes) or float32 (regression)")),
            (_, Some(_)) => {
                Err(array.wrong_type("uint8 (labels of several classes a node) or float32 (regression)"))
            }
        }
    }

    /// The number of classes: `said` in `meta.json`, or the largest label + 1, or the columns. 0 if labels are not
    /// classes.
    pub(crate) fn classes(&self, said: Option<u64>) -> usize {
        match (self, said) {
            (LabelArray::Absent | LabelArray::Regression { .. }, _) => 0,
            (LabelArray::Multi { classes, .. }, _) => *classes,
            (LabelArray::Single(_), Some(classes)) => classes as usize,
            (LabelArray::Single(labels), None) => {
                let largest = labels.values().iter().copied().max().unwrap_or(-1);
                usize::try_from(largest.saturating_add(1)).unwrap_or(0)
            }
        }
    }
}

/// Checks the number of classes in `meta.json`.
pub(crate) fn check_said_classes(said: Option<u64>, place: &ArrayDirectory<'_>) -> Result<(), GraphError> {
    match said {
        Some(said) if !(1..=u64::from(u32::MAX)).contains(&said) => {
            Err(place.wrong_meta(ClassProblem::Count { key: place.key("classes"), said }))
        }
        _ => Ok(()),
    }
}

/// Checks that `class_names` of `meta.json` has a name for each of `classes` classes, if there are any.
pub(crate) fn check_class_names(
    names: Option<&Vec<String>>,
    classes: usize,
    place: &ArrayDirectory<'_>,
) -> Result<(), GraphError> {
    match names {
        Some(names) if names.len() != classes && classes > 0 => {
            Err(place.wrong_meta(ClassProblem::Names { names: names.len(), classes }))
        }
        _ => Ok(()),
    }
}
