//! The files of one relation without its feature rows, mapped, their shapes and types checked.

use bytemuck::AnyBitPattern;

use crate::description::edge_values::{EDGE_VALUES, EdgeValues, EdgeValuesSpec};
use crate::description::names;
use crate::description::typed_meta::EntryOrder;
use crate::npy::{NpyArray, NpyType, TypedArray};
use crate::storage::arrays::node_files::{of_length, times, vector};
use crate::storage::arrays::place::ArrayDirectory;
use crate::{GraphError, Indices};

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

    pub(crate) fn values(&self) -> Indices<'_> {
        match self {
            IndexArray::I32(ids) => Indices::I32(ids.values()),
            IndexArray::I64(ids) => Indices::I64(ids.values()),
        }
    }
}

/// The edges of one relation: lists, and the values of each edge.
#[derive(Debug)]
pub(crate) struct RelationFiles {
    pub(crate) indptr: TypedArray<i64>,
    pub(crate) indices: IndexArray,
    /// The arrays of [`EDGE_VALUES`], of the types and shape that they have to have.
    edge_values: [Option<NpyArray>; EDGE_VALUES.len()],
    pub(crate) times: Option<TypedArray<i64>>,
    /// The row that each edge had in the user's table.
    pub(crate) edge_ids: Option<TypedArray<i64>>,
    /// The order that `meta.json` promises for the entries of a list.
    pub(crate) order: Option<EntryOrder>,
}

impl RelationFiles {
    /// Maps the files.
    pub(crate) fn open(place: &ArrayDirectory<'_>) -> Result<Self, GraphError> {
        let indptr = vector(place.open(names::INDPTR)?)?;
        if indptr.shape()[0] == 0 {
            return Err(indptr.wrong_shape("[nodes + 1], so at least [1]"));
        }
        let indptr = TypedArray::new(indptr, NpyType::I64)?;
        let indices = vector(place.open(names::INDICES)?)?;
        let indices = match indices.kind() {
            NpyType::I32 => IndexArray::I32(TypedArray::new(indices, NpyType::I32)?),
            NpyType::I64 => IndexArray::I64(TypedArray::new(indices, NpyType::I64)?),
            _ => return Err(indices.wrong_type("int32 or int64")),
        };
        let edges = indices.array().shape()[0];
        let mut edge_values = [const { None }; EDGE_VALUES.len()];
        for (array, spec) in edge_values.iter_mut().zip(&EDGE_VALUES) {
            *array = open_edge_values(place, spec, edges)?;
        }
        Ok(Self { indptr, indices, edge_values, times: None, edge_ids: None, order: None })
    }

    /// Checks that each of `nodes` nodes of the type `name` has a list.
    pub(crate) fn check_destinations(&self, nodes: u64, name: &str) -> Result<(), GraphError> {
        match self.destinations() as u64 == nodes {
            true => Ok(()),
            false => {
                let wanted = format!("[{}], one more than the nodes of {name}", nodes.saturating_add(1));
                Err(self.indptr.array().wrong_shape(wanted))
            }
        }
    }

    /// The files with the times and the ids of the edges, if any.
    pub(crate) fn with_times_and_ids(
        mut self,
        place: &ArrayDirectory<'_>,
        order: Option<EntryOrder>,
    ) -> Result<Self, GraphError> {
        let each = |one: &str| format!("one {one} for each edge of indices.npy");
        self.times = times(place, names::TIMES, self.edges(), &each("time"))?;
        self.edge_ids = times(place, names::EDGE_IDS, self.edges(), &each("id"))?;
        self.order = order;
        Ok(self)
    }

    /// The number of nodes that own a list.
    pub(crate) fn destinations(&self) -> usize {
        self.indptr.values().len() - 1
    }

    pub(crate) fn edges(&self) -> usize {
        self.indices.array().shape()[0]
    }

    /// An array with one value per edge; `None` if the relation lacks it.
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
        self.indices.values().id_bytes() + values
    }
}

fn open_edge_values(
    place: &ArrayDirectory<'_>,
    spec: &EdgeValuesSpec,
    edges: usize,
) -> Result<Option<NpyArray>, GraphError> {
    let Some(array) = place.optional(spec.file)? else { return Ok(None) };
    let array = of_length(array, edges, &format!("one {} for each edge of indices.npy", spec.one))?;
    array.check_kind(spec.kind)?;
    Ok(Some(array))
}
