//! The checks of a batch before libtorch sees it.
//!
//! In host memory they cover every value with which libtorch would read out of bounds or read another batch: one pass
//! over the edges, which costs a hundredth of aggregating them. On a device the host knows only the sizes, and numbers
//! out of range are clamped there.

use crate::TrainError;
use crate::block::aggregate::HostLists;
use crate::input::model_input::{InputSettings, another_input};
use crate::torch::borrowed::{Number, values};
use uva_batch::{BatchColumns, BlockSize, Column, ColumnArray};
use uva_model::Weighting;

pub(crate) fn refuse<T>(problem: String) -> Result<T, TrainError> {
    Err(TrainError::Input(problem))
}

/// Refuses a batch of sampled blocks that contradicts itself or the model.
pub(crate) fn check(trainer: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    if batch.layers.is_empty() {
        return Err(another_input(trainer.model, "a hop set", "sampled blocks"));
    }
    check_shapes(trainer, batch)?;
    check_padding(batch)?;
    check_blocks(trainer, batch)?;
    check_degrees(trainer, batch)?;
    check_rows(trainer, batch)
}

pub(crate) fn check_padding(batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    if batch.padding <= batch.seeds {
        return Ok(());
    }
    refuse(format!("{} of {} seeds are padding", batch.padding, batch.seeds))
}

/// Refuses feature rows of another width than the model's, or another number of them.
pub(crate) fn check_table(
    trainer: &InputSettings<'_>,
    table: &ColumnArray<'_>,
    rows: usize,
) -> Result<(), TrainError> {
    let (dim, expected) = (table.width.unwrap_or(1), trainer.input_dim);
    if dim != expected {
        return refuse(format!("a batch of {dim} feature columns for a model of {expected}"));
    }
    if table.rows != rows {
        return refuse(format!("{} feature rows where the batch has {rows}", table.rows));
    }
    Ok(())
}

/// Compares the sizes of the blocks with each other and with the model's number of layers.
fn check_shapes(trainer: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    let (found, layers) = (batch.layers.len(), trainer.layers);
    if found != layers {
        return refuse(format!("a batch of {found} blocks for a model of {layers} layers"));
    }
    if batch.layers[0].destinations != batch.seeds {
        return refuse(format!("{} seeds above {} destinations", batch.seeds, batch.layers[0].destinations));
    }
    for (layer, &BlockSize { destinations, sources, .. }) in batch.layers.iter().enumerate() {
        if destinations > sources {
            return refuse(format!(
                "block {layer}: {destinations} destinations are more than the {sources} sources"
            ));
        }
        let below = batch.layers.get(layer + 1).map_or(batch.nodes, |next| next.destinations);
        if sources != below {
            return refuse(format!(
                "block {layer} has {sources} sources, and what is below it has {below} rows"
            ));
        }
    }
    Ok(())
}

fn check_blocks(trainer: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    for (layer, &BlockSize { destinations, sources, edges }) in batch.layers.iter().enumerate() {
        if batch.is_on_device() {
            if edges > 0 && destinations == 0 {
                return refuse(format!("block {layer}: {edges} edges without a destination"));
            }
            // libtorch is given both as i32.
            if let Some(count) = [sources, edges].into_iter().find(|&count| i32::try_from(count).is_err()) {
                return refuse(format!(
                    "block {layer}: {count} sources or edges are more than i32 can count"
                ));
            }
        }
        let rows = |column: Column| batch.get(column.at(layer)).map(|array| array.rows);
        match (rows(Column::Indptr), rows(Column::Indices), rows(Column::Weights)) {
            (None, ..) | (_, None, _) => return refuse(format!("block {layer}: a batch without its lists")),
            (Some(offsets), ..) if offsets != destinations + 1 => {
                return refuse(format!("block {layer}: {offsets} offsets for {destinations} destinations"));
            }
            (_, Some(indices), _) if indices != edges => {
                return refuse(format!("block {layer}: {indices} indices for {edges} edges"));
            }
            (.., Some(weights)) if weights != edges => {
                return refuse(format!("block {layer}: {weights} weights for {edges} edges"));
            }
            _ => {}
        }
        if !batch.is_on_device() {
            check_lists(&host_lists(batch, layer)?)
                .or_else(|problem| refuse(format!("block {layer}: {problem}")))?;
        }
        let of_edges = batch.get(Column::EdgeAttr.at(layer));
        match (trainer.edge_dim, of_edges.map(|array| (array.rows, array.width.unwrap_or(1)))) {
            (0, _) => {}
            (dim, Some(shape)) if shape == (edges, dim) => {}
            (dim, Some((rows, width))) => {
                return refuse(format!(
                    "block {layer}: {rows} rows of {width} edge features, where {edges} rows of {dim} are needed"
                ));
            }
            (dim, None) => {
                return refuse(format!("block {layer}: no edge features for a model of {dim}"));
            }
        }
    }
    Ok(())
}

/// The lists of a block in host memory.
pub(crate) fn host_lists<'a>(batch: &BatchColumns<'a>, layer: usize) -> Result<HostLists<'a>, TrainError> {
    let BlockSize { destinations, sources, .. } = batch.layers[layer];
    Ok(HostLists {
        destinations,
        sources,
        indptr: host_values(batch, Column::Indptr, layer)?,
        indices: host_values(batch, Column::Indices, layer)?,
        weights: host_values(batch, Column::Weights, layer)?,
    })
}

/// The values of a column in host memory; empty if the batch does not have it.
pub(crate) fn host_values<'a, T: Number>(
    batch: &BatchColumns<'a>,
    column: Column,
    layer: usize,
) -> Result<&'a [T], TrainError> {
    let key = column.at(layer);
    batch.get(key).map_or(Ok(&[]), |array| values(&array, &key.to_string()))
}

/// Refuses lists that libtorch or our loops would read out of bounds.
pub(crate) fn check_lists(lists: &HostLists<'_>) -> Result<(), String> {
    let HostLists { destinations, sources, indptr, indices, .. } = *lists;
    if indptr[0] != 0 || indptr[destinations] as usize != indices.len() {
        return Err(format!(
            "offsets from {} to {} for {} edges",
            indptr[0],
            indptr[destinations],
            indices.len()
        ));
    }
    if let Some(v) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(format!("the offset falls from {} to {} at destination {v}", indptr[v], indptr[v + 1]));
    }
    // A negative id is a huge one as u32. Branch-free, so that it runs at the speed of memory.
    let bad = indices.iter().fold(false, |bad, &source| bad | (source as u32 as usize >= sources));
    if bad {
        let edge = indices.iter().position(|&source| source as u32 as usize >= sources).unwrap_or(0);
        return Err(format!("source {} at edge {edge} is not below {sources}", indices[edge]));
    }
    Ok(())
}

fn check_degrees(trainer: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    if !trainer.model.row().needs_degrees() {
        return Ok(());
    }
    let Some(degrees) = batch.get(Column::Degrees) else {
        return refuse("a batch without degrees for a model that weights by them".to_owned());
    };
    if degrees.rows != batch.nodes {
        return refuse(format!("{} degrees for {} input nodes", degrees.rows, batch.nodes));
    }
    if batch.is_on_device() {
        return Ok(());
    }
    let degrees: &[i32] = host_values(batch, Column::Degrees, 0)?;
    match degrees.iter().position(|&degree| degree < 0) {
        Some(position) => refuse(format!("degree {} at position {position}", degrees[position])),
        None => Ok(()),
    }
}

/// Checks the rows that the first layer reads: those of all nodes, or sums and, if the model needs them, the
/// destinations' own rows.
fn check_rows(trainer: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    let own = batch.get(Column::X);
    let destinations = batch.layers.last().map_or(0, |block| block.destinations);
    match batch.get(Column::Aggregated) {
        None => match own {
            Some(rows) => check_table(trainer, &rows, batch.nodes),
            None => refuse("a batch without feature rows".to_owned()),
        },
        Some(sums) => {
            let options = trainer.options;
            let refused = if trainer.drops { options.refuses_sums() } else { options.refuses_sums_in_use() };
            if let Some((option, why)) = refused {
                return refuse(format!("a batch of sums for a model that takes none: {option}: {why}"));
            }
            if own.is_none() && trainer.model.row().weighting == Weighting::Mean {
                return refuse("a batch of sums without the destinations' own rows".to_owned());
            }
            check_table(trainer, &sums, destinations)?;
            own.map_or(Ok(()), |rows| check_table(trainer, &rows, destinations))
        }
    }
}
