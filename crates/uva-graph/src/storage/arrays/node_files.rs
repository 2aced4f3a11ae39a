//! The files of the nodes of one type without their feature rows, mapped, their shapes and types checked.

use crate::description::names;
use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::storage::arrays::label_array::{LabelArray, check_class_names, check_said_classes};
use crate::storage::arrays::place::ArrayDirectory;
use crate::{GraphError, Split};

/// The nodes of one type: labels, splits, ids.
#[derive(Debug)]
pub(crate) struct NodeFiles {
    /// The number of nodes.
    pub(crate) count: usize,
    pub(crate) labels: LabelArray,
    /// The number of classes in `meta.json`.
    pub(crate) said_classes: Option<u64>,
    /// Absent splits are empty.
    pub(crate) splits: [Option<TypedArray<i64>>; 3],
    /// The time of each seed of a split.
    pub(crate) split_times: [Option<TypedArray<i64>>; 3],
    /// The time of each node.
    pub(crate) times: Option<TypedArray<i64>>,
    pub(crate) original_ids: Option<TypedArray<i64>>,
    /// In-degrees in the graph that this one was cut from.
    pub(crate) degrees: Option<TypedArray<i32>>,
}

/// What a format, or `meta.json`, says of the files of a node type.
#[derive(Debug, Default)]
pub(crate) struct SaidOfNodes<'m> {
    pub(crate) classes: Option<u64>,
    pub(crate) class_names: Option<&'m Vec<String>>,
    /// Whether every split has a file.
    pub(crate) has_all_splits: bool,
    /// Whether the nodes are those of a part, which has ids and degrees.
    pub(crate) is_part: bool,
}

impl NodeFiles {
    /// Maps the files of `count` nodes.
    pub(crate) fn open(
        place: &ArrayDirectory<'_>,
        count: usize,
        said: &SaidOfNodes<'_>,
    ) -> Result<Self, GraphError> {
        check_said_classes(said.classes, place)?;
        let labels = LabelArray::of(place.optional(names::LABELS)?, count, said.classes, place)?;
        check_class_names(said.class_names, labels.classes(said.classes), place)?;
        let wanted = |name: &str, is_required| match is_required {
            true => place.open(name).map(Some),
            false => place.optional(name),
        };
        let mut splits = [const { None }; 3];
        for split in Split::ALL {
            let ids = wanted(split.file_name(), said.has_all_splits)?.map(vector).transpose()?;
            splits[split as usize] = ids.map(|ids| TypedArray::new(ids, NpyType::I64)).transpose()?;
        }
        // Without these files, the batches of a part would differ from those of the whole dataset.
        let each = |name: &str, one: &str| {
            let array = wanted(name, said.is_part)?;
            array
                .map(|array| of_length(array, count, &format!("one {one} for each {}", place.a_node())))
                .transpose()
        };
        let original_ids =
            each(names::ORIGINAL_IDS, "id")?.map(|ids| TypedArray::new(ids, NpyType::I64)).transpose()?;
        let degrees = match said.is_part {
            true => each(names::DEGREES, "in-degree")?,
            false => None,
        };
        let degrees = degrees.map(|array| TypedArray::new(array, NpyType::I32)).transpose()?;
        Ok(Self {
            count,
            labels,
            said_classes: said.classes,
            splits,
            split_times: [const { None }; 3],
            times: None,
            original_ids,
            degrees,
        })
    }

    /// The files with the times of nodes and seeds, if any.
    pub(crate) fn with_times(mut self, place: &ArrayDirectory<'_>) -> Result<Self, GraphError> {
        self.times =
            times(place, names::TIMES, self.count, &format!("one time for each {}", place.a_node()))?;
        for split in Split::ALL {
            let name = names::split_times(split);
            let seeds = self.split(split).len();
            let what = format!("one time for each entry of {}", split.file_name());
            self.split_times[split as usize] = times(place, name, seeds, &what)?;
        }
        Ok(self)
    }

    /// The nodes of a split.
    pub(crate) fn split(&self, split: Split) -> &[i64] {
        self.splits[split as usize].as_ref().map_or(&[], TypedArray::values)
    }

    pub(crate) fn original_ids(&self) -> Option<&[i64]> {
        self.original_ids.as_ref().map(TypedArray::values)
    }

    /// The number of classes; 0 if labels are not classes.
    pub(crate) fn classes(&self) -> usize {
        self.labels.classes(self.said_classes)
    }
}

/// An array of times, if there is one.
pub(crate) fn times(
    place: &ArrayDirectory<'_>,
    name: &str,
    length: usize,
    what: &str,
) -> Result<Option<TypedArray<i64>>, GraphError> {
    let array = place.optional(name)?.map(|array| of_length(array, length, what)).transpose()?;
    array.map(|array| TypedArray::new(array, NpyType::I64)).transpose()
}

/// The array, if it has one dimension.
pub(crate) fn vector(array: NpyArray) -> Result<NpyArray, GraphError> {
    if array.shape().len() == 1 { Ok(array) } else { Err(array.wrong_shape("one-dimensional")) }
}

/// The array, if its shape is `[length]`; `what` is the reason.
pub(crate) fn of_length(array: NpyArray, length: usize, what: &str) -> Result<NpyArray, GraphError> {
    if array.shape() == [length] { Ok(array) } else { Err(array.wrong_shape(format!("[{length}], {what}"))) }
}
