//! The mean of a relation's picks through a matrix, in the cheaper order of the two.

use crate::TrainError;
use crate::block::aggregate::Block;
use tch::Tensor;
use uva_ops::lists::projects_first;

/// A linear map of rows.
pub(crate) trait RowMap {
    /// Columns of the rows before and after it.
    fn widths(&self) -> Result<(usize, usize), TrainError>;

    /// The mapped rows.
    fn apply(&self, x: &Tensor) -> Result<Tensor, TrainError>;

    /// `sum` plus the mapped rows.
    fn add(&self, sum: Tensor, x: &Tensor) -> Result<Tensor, TrainError>;

    /// The gradient of the rows from that of the mapped rows.
    fn of_rows(&self, gradient: &Tensor) -> Result<Tensor, TrainError>;

    /// The gradient of the map's parameter.
    fn of_parameter(&self, x: &Tensor, gradient: &Tensor) -> Result<Tensor, TrainError>;
}

/// Adds the mapped means of `x` to `sum`, and returns the means if they were computed first. `input_gradient` announces
/// that the gradient of `x` will be requested; it affects only the order.
pub(crate) fn add_means(
    sum: Tensor,
    map: &impl RowMap,
    x: &Tensor,
    block: &Block<'_>,
    input_gradient: bool,
) -> Result<(Tensor, Option<Tensor>), TrainError> {
    let (inputs, outputs) = map.widths()?;
    let Block { destinations, sources, edges, .. } = *block;
    if projects_first(destinations, sources, edges, inputs, outputs, input_gradient) {
        let mut sum = sum;
        return Ok((sum.f_add_(&block.aggregate(&map.apply(x)?)?)?, None));
    }
    let means = block.aggregate(x)?;
    Ok((map.add(sum, &means)?, Some(means)))
}

/// Gradients of the map's parameter, and of `x` if requested, from that of the sum. `means` are what [`add_means`] has
/// returned.
pub(crate) fn gradients(
    means: Option<&Tensor>,
    map: &impl RowMap,
    x: &Tensor,
    block: &Block<'_>,
    gradient: &Tensor,
    input_gradient: bool,
) -> Result<(Tensor, Option<Tensor>), TrainError> {
    match means {
        Some(means) => {
            let of_x = if input_gradient { Some(block.spread(&map.of_rows(gradient)?)?) } else { None };
            Ok((map.of_parameter(means, gradient)?, of_x))
        }
        None => {
            let of_products = block.spread(gradient)?;
            let of_x = if input_gradient { Some(map.of_rows(&of_products)?) } else { None };
            Ok((map.of_parameter(x, &of_products)?, of_x))
        }
    }
}
