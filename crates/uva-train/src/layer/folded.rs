//! The product of a linear map with a vector a head: scores of rows without the rows' products.

use crate::TrainError;
use tch::Tensor;

/// `weight`, [heads × width, inputs], by head: [heads, width, inputs].
fn by_head(weight: &Tensor, vector: &Tensor) -> Result<Tensor, TrainError> {
    let (heads, width) = vector.size2()?;
    Ok(weight.f_view([heads, width, -1])?)
}

/// aᵀW of each head, [heads, inputs], for W [heads × width, inputs] and a [heads, width].
pub(crate) fn folded(weight: &Tensor, vector: &Tensor) -> Result<Tensor, TrainError> {
    let products = by_head(weight, vector)?.f_mul(&vector.f_unsqueeze(2)?)?;
    Ok(products.f_sum_dim_intlist([1i64].as_slice(), false, None)?)
}

/// Gradients of W and a from that of aᵀW.
pub(crate) fn gradients(
    weight: &Tensor,
    vector: &Tensor,
    of_folded: &Tensor,
) -> Result<[Tensor; 2], TrainError> {
    let of_folded = of_folded.f_unsqueeze(1)?;
    let of_weight = vector.f_unsqueeze(2)?.f_mul(&of_folded)?.f_view_as(weight)?;
    let of_vector =
        by_head(weight, vector)?.f_mul(&of_folded)?.f_sum_dim_intlist([2i64].as_slice(), false, None)?;
    Ok([of_weight, of_vector])
}
