//! The input rows of a network.

use crate::TrainError;
use tch::Tensor;

/// The rows that a network takes, each [nodes, columns]: those of the input nodes, or a table for each hop.
pub(crate) struct Inputs(pub(crate) Vec<Tensor>);

impl From<Tensor> for Inputs {
    fn from(rows: Tensor) -> Self {
        Self(vec![rows])
    }
}

/// The error for a number of tables other than `wanted`.
pub(crate) fn another_number(wanted: usize) -> TrainError {
    TrainError::Input(format!("another number of tables than {wanted} for the model's hops"))
}
