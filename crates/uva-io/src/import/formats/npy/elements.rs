//! Elements of arrays, converted and checked.

use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{GraphError, verify};

use super::problem::ImportProblem;
use crate::import::reading::values;

/// Whether these are floats that are not classes: some number is not whole.
pub(super) fn are_targets(array: &NpyArray) -> bool {
    matches!(array.kind(), NpyType::F16 | NpyType::F32 | NpyType::F64)
        && floats(array).iter().any(|value| value.is_finite() && value.fract() != 0.0)
}

/// Weights of the edges `first..last`.
pub(super) fn weights_of(weights: &NpyArray, first: usize, last: usize) -> Result<Vec<f32>, GraphError> {
    let bytes = &weights.bytes()[first * weights.kind().bytes()..last * weights.kind().bytes()];
    let values: Vec<f32> =
        values::floats(weights.kind(), bytes).into_iter().map(|weight| weight as f32).collect();
    verify::weights_from(weights, first, &values)?;
    Ok(values)
}

/// Edge types `first..last`.
pub(super) fn types_of(types: &NpyArray, first: usize, last: usize) -> Result<Vec<u16>, GraphError> {
    let values = (first..).zip(integers_of(types, first, last)?);
    let types_of = values.map(|(position, value)| {
        u16::try_from(value)
            .map_err(|_| GraphError::invalid(types.path(), ImportProblem::NoType { position, value }))
    });
    types_of.collect()
}

/// The elements as integers, if they are integers.
pub(super) fn integers(array: &NpyArray) -> Result<Vec<i64>, GraphError> {
    integers_of(array, 0, array.header().elements())
}

/// The elements `first..last` as integers, if they are integers.
pub(super) fn integers_of(array: &NpyArray, first: usize, last: usize) -> Result<Vec<i64>, GraphError> {
    if !values::is_integer(array.kind()) {
        return Err(array.wrong_type("an integer type"));
    }
    let size = array.kind().bytes();
    values::integers(array.kind(), &array.bytes()[first * size..last * size]).map_err(|wrong| {
        let problem = ImportProblem::TooLarge { position: first + wrong.position, value: wrong.value };
        GraphError::invalid(array.path(), problem)
    })
}

/// The elements as doubles, for any number type.
pub(super) fn floats(array: &NpyArray) -> Vec<f64> {
    values::floats(array.kind(), array.bytes())
}

/// Elements that are all 0 or 1, as bytes.
pub(super) fn marks(array: &NpyArray) -> Result<Vec<u8>, GraphError> {
    let mut marks = Vec::with_capacity(array.header().elements());
    for (position, value) in floats(array).into_iter().enumerate() {
        if value != 0.0 && value != 1.0 {
            return Err(GraphError::invalid(array.path(), ImportProblem::NoMark { position, value }));
        }
        marks.push(value as u8);
    }
    Ok(marks)
}
