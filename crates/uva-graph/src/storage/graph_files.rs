//! The files of a dataset without its feature tables, mapped, their shapes and types checked against each other. Their
//! content is not checked here.

use std::path::Path;

use bytemuck::AnyBitPattern;

use crate::description::edge_values::{EDGE_VALUES, EdgeValues, EdgeValuesSpec};
use crate::description::{meta, names};
use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::{Csc, GraphError, Indices, Labels, Meta, Split};

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

    /// Checks type and shape against the number of nodes and the number of classes in `meta.json`.
    pub(crate) fn of(
        array: Option<NpyArray>,
        nodes: usize,
        meta: &Meta,
        directory: &Path,
    ) -> Result<Self, GraphError> {
        let in_meta = |problem| GraphError::invalid(&directory.join(meta::FILE_NAME), problem);
        let Some(array) = array else { return Ok(Self::Absent) };
        let columns = label_columns(&array, nodes)?;
        match (array.kind(), columns) {
            (NpyType::F32, columns) => {
                if let Some(classes) = meta.classes {
                    return Err(in_meta(MetaProblem::ClassesOfNumbers(classes)));
                }
                Ok(Self::Regression { columns, array: TypedArray::new(array, NpyType::F32)? })
            }
            (NpyType::I64, None) => Ok(Self::Single(TypedArray::new(array, NpyType::I64)?)),
            (NpyType::U8, Some(columns)) => match meta.classes {
                Some(said) if said != columns as u64 => {
                    Err(in_meta(MetaProblem::OtherClasses { said, columns }))
                }
                _ => Ok(Self::Multi { classes: columns, array }),
            },
            (_, None) => Err(array.wrong_type("int64 (classes) or float32 (regression)")),
            (_, Some(_)) => {
                Err(array.wrong_type("uint8 (labels of several classes a node) or float32 (regression)"))
            }
        }
    }
}

/// The graph of a dataset, with the labels and splits of its nodes.
#[derive(Debug)]
pub(crate) struct GraphFiles {
    pub(crate) meta: Meta,
    pub(crate) indptr: TypedArray<i64>,
    pub(crate) indices: IndexArray,
    pub(crate) labels: LabelArray,
    pub(crate) splits: [TypedArray<i64>; 3],
    /// The arrays of [`EDGE_VALUES`], of the types and shape that they have to have.
    edge_values: [Option<NpyArray>; EDGE_VALUES.len()],
    pub(crate) original_ids: Option<TypedArray<i64>>,
    /// In-degrees in the graph that this one was cut from.
    pub(crate) degrees: Option<TypedArray<i32>>,
}

#[derive(Debug, thiserror::Error)]
enum MetaProblem {
    #[error("\"classes\" is {0}, it has to be at least 1 and fit 32 bits")]
    Classes(u64),
    #[error("\"classes\" is {said}, but label.npy has {columns} columns")]
    OtherClasses { said: u64, columns: usize },
    #[error("\"classes\" is {0}, but label.npy has float32 values, which are for regression: remove the key")]
    ClassesOfNumbers(u64),
    #[error(
        "\"class_names\" has {names} names, but there are {classes} classes: give a name for each, or remove the key"
    )]
    ClassNames { names: usize, classes: usize },
    #[error("\"part\" is of no partition that can be: write the parts again")]
    Part,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "only parts of a graph have it, since their lists are cut, and meta.json has no \"part\": copy the part's meta.json too"
)]
struct CutWithoutPart;

impl GraphFiles {
    /// Maps the files of the graph in `directory`, which `meta` describes.
    pub(crate) fn open(directory: &Path, meta: Meta) -> Result<GraphFiles, GraphError> {
        if let Some(classes) = meta.classes
            && !(1..=u64::from(u32::MAX)).contains(&classes)
        {
            return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), MetaProblem::Classes(classes)));
        }
        if let Some(part) = &meta.part {
            if !part.can_be() {
                return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), MetaProblem::Part));
            }
            part.check_beside(directory)?;
        } else if directory.join(names::DEGREES).is_file() {
            return Err(GraphError::invalid(&directory.join(names::DEGREES), CutWithoutPart));
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

        let labels = LabelArray::of(optional(directory, names::LABELS)?, nodes, &meta, directory)?;

        let split = |split: Split| TypedArray::new(vector(open(split.file_name())?)?, NpyType::I64);
        let splits = [split(Split::Train)?, split(Split::Valid)?, split(Split::Test)?];

        let mut edge_values = [const { None }; EDGE_VALUES.len()];
        for (array, spec) in edge_values.iter_mut().zip(&EDGE_VALUES) {
            *array = open_edge_values(directory, spec, edges)?;
        }
        // Without this file, the batches of a part would differ from those of the whole dataset.
        let of_part = |name: &str| match &meta.part {
            Some(_) => open(name).map(Some),
            None => optional(directory, name),
        };
        let original_ids = of_part(names::ORIGINAL_IDS)?
            .map(|array| of_length(array, nodes, "one id for each node of indptr.npy"))
            .transpose()?
            .map(|array| TypedArray::new(array, NpyType::I64))
            .transpose()?;
        let degrees = of_part(names::DEGREES)?
            .map(|array| of_length(array, nodes, "one in-degree for each node of indptr.npy"))
            .transpose()?
            .map(|array| TypedArray::new(array, NpyType::I32))
            .transpose()?;
        let files = GraphFiles { meta, indptr, indices, labels, splits, edge_values, original_ids, degrees };
        let classes = files.classes();
        match &files.meta.class_names {
            Some(names) if names.len() != classes && classes > 0 => {
                let problem = MetaProblem::ClassNames { names: names.len(), classes };
                Err(GraphError::invalid(&directory.join(meta::FILE_NAME), problem))
            }
            _ => Ok(files),
        }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.indptr.values().len() - 1
    }

    /// An array with one value per edge; `None` if the dataset lacks it.
    pub(crate) fn edge_array(&self, values: EdgeValues) -> Option<&NpyArray> {
        self.edge_values[values as usize].as_ref()
    }

    /// Its values. `T` has to be the array's type.
    pub(crate) fn edge_values<T: AnyBitPattern>(&self, values: EdgeValues) -> Option<&[T]> {
        debug_assert_eq!(size_of::<T>(), values.spec().kind.bytes());
        self.edge_array(values).map(|array| bytemuck::cast_slice(array.bytes()))
    }

    /// The arrays with one value per edge that are present.
    pub(crate) fn edge_arrays(&self) -> impl Iterator<Item = (&'static EdgeValuesSpec, &NpyArray)> {
        EDGE_VALUES.iter().zip(&self.edge_values).filter_map(|(spec, array)| Some((spec, array.as_ref()?)))
    }

    /// Bytes of an edge: of its entry in the lists, and of its value in each of these arrays.
    pub(crate) fn edge_bytes(&self) -> usize {
        let values: usize = self.edge_arrays().map(|(spec, _)| spec.kind.bytes()).sum();
        self.csc().indices.id_bytes() + values
    }

    /// The lists.
    pub(crate) fn csc(&self) -> Csc<'_> {
        Csc {
            indptr: self.indptr.values(),
            indices: match &self.indices {
                IndexArray::I32(ids) => Indices::I32(ids.values()),
                IndexArray::I64(ids) => Indices::I64(ids.values()),
            },
            original_ids: self.original_ids.as_ref().map(|ids| ids.values()),
            degrees: self.degrees.as_ref().map(|degrees| degrees.values()),
        }
    }

    /// The number of classes: from `meta.json`, or the largest label + 1, or the columns of `label.npy`. 0 if labels
    /// are not classes.
    pub(crate) fn classes(&self) -> usize {
        match (&self.labels, self.meta.classes) {
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

/// The array of this name; `None` if there is not such a file.
pub(crate) fn optional(directory: &Path, name: &str) -> Result<Option<NpyArray>, GraphError> {
    match NpyArray::open(&directory.join(name)) {
        Ok(array) => Ok(Some(array)),
        Err(GraphError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_edge_values(
    directory: &Path,
    spec: &EdgeValuesSpec,
    edges: usize,
) -> Result<Option<NpyArray>, GraphError> {
    let Some(array) = optional(directory, spec.file)? else { return Ok(None) };
    let array = of_length(array, edges, &format!("one {} for each edge of indices.npy", spec.one))?;
    array.check_kind(spec.kind)?;
    Ok(Some(array))
}

fn vector(array: NpyArray) -> Result<NpyArray, GraphError> {
    if array.shape().len() == 1 { Ok(array) } else { Err(array.wrong_shape("one-dimensional")) }
}

fn of_length(array: NpyArray, length: usize, what: &str) -> Result<NpyArray, GraphError> {
    if array.shape() == [length] { Ok(array) } else { Err(array.wrong_shape(format!("[{length}], {what}"))) }
}
