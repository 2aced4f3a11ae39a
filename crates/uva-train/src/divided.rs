//! The sums of a block of which some were made with the batch: the others are made here, by the loops that make all.

use crate::borrowed::Borrowed;
use crate::input::{BatchInput, BlockInput};
use crate::{TrainError, host, sums};
use tch::{Device, Kind, Tensor};
use uva_model::{ModelKind, Weighting};
use uva_ops::lists::{ChosenLists, Lists, Others, Weights, degree_weights, rows_of_chosen};

/// The rows of the last block's destinations, or none where the model reads none beside the sums.
pub(crate) fn own_rows<'a>(
    model: ModelKind,
    input: &BatchInput<'a>,
    block: &BlockInput<'a>,
) -> Result<Borrowed<'a>, TrainError> {
    let destinations = block.destinations;
    let bytes = destinations * input.dim * input.element.bytes();
    if !has_own_rows(model) || bytes == 0 {
        return no_rows(input.dim);
    }
    // They come first, since destinations are the first nodes. The table refuses rows that are fewer.
    let own = input.features.get(..bytes).unwrap_or(input.features);
    Borrowed::table(own, input.element, destinations, input.dim)
}

/// The sums of all destinations of the last block of a checked batch, as `mask` says which of them it has.
pub(crate) fn all_sums<'a>(
    model: ModelKind,
    input: &BatchInput<'a>,
    block: &BlockInput<'a>,
    (given, mask): (&[f32], &[u8]),
) -> Result<Borrowed<'a>, TrainError> {
    let lists = Lists::new(block.indptr, block.indices, block.sources)?;
    let is_left = |v: usize| mask[v] == 0;
    let own = has_own_rows(model);
    let always = if own { block.destinations } else { 0 };
    let nodes: Vec<i32> = rows_of_chosen(&lists, is_left, always, !own);
    let mut places = vec![0_usize; block.sources];
    nodes.iter().enumerate().for_each(|(place, &node)| places[node as usize] = place);

    let rows = match nodes.len() {
        0 if input.features.is_empty() => no_rows(input.dim)?,
        rows => Borrowed::table(input.features, input.element, rows, input.dim)?,
    };
    let rows = rows.tensor().f_to_kind(Kind::Float)?.f_contiguous()?;
    let threads = host::threads();
    let pool = threads.as_deref();
    let of_degrees = (!own).then(|| degree_weights::<f32, _>(&lists, block.weights, input.degrees, pool));
    let weights = match &of_degrees {
        Some((weights, own)) => (Weights::Each(&weights[..]), Some(&own[..])),
        None if block.weights.is_empty() => (Weights::Mean, None),
        None => (Weights::Each(block.weights), None),
    };
    let left = ChosenLists::new(&lists, weights, is_left, Others::Empty, |node| places[node]);
    let mut all = sums::weighted_sums(&rows, (&left.offsets[..], &left.indices[..]), left.weights())?;
    let dim = input.dim.max(1);
    host::change::<f32>(&mut all, |all| {
        let rows = all.chunks_exact_mut(dim).zip(mask).filter(|(_, summed)| **summed != 0);
        rows.zip(given.chunks_exact(dim)).for_each(|((row, _), given)| row.copy_from_slice(given));
    })?;
    Ok(Borrowed::owned(all))
}

/// Whether the model reads the destinations' rows beside their sums; if not, they are in the sums.
fn has_own_rows(model: ModelKind) -> bool {
    model.row().weighting == Weighting::Mean
}

fn no_rows<'a>(dim: usize) -> Result<Borrowed<'a>, TrainError> {
    // No bytes begin nowhere in particular.
    Ok(Borrowed::owned(Tensor::f_zeros([0, dim as i64], (Kind::Float, Device::Cpu))?))
}
