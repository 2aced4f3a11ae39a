//! Batches of sampled blocks, and the networks over them.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::block::block_kernel::RawBlock;
use crate::input::check::{check, host_lists, host_values};
use crate::input::model_input::{InputSettings, ModelInput};
use crate::input::prepared::{ArrayPlace, InputRows, Prepared};
use crate::input::zeros::Zeros;
use crate::step::{Builder, Named};
use crate::torch::borrowed::Borrowed;
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, BlockSize, Column, ColumnArray, ColumnKey, Element};

/// Rows of input nodes, and the blocks between them and the seeds.
pub(crate) struct SampledBlocks;

impl ModelInput for SampledBlocks {
    fn steps(
        &self,
        builder: &mut Builder<'_>,
        (input_dim, classes): (usize, usize),
    ) -> Result<Vec<Named>, TrainError> {
        match builder.options.residual {
            true => builder.residual(input_dim, classes),
            false => builder.plain(input_dim, classes),
        }
    }

    fn check(&self, settings: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
        check(settings, batch)
    }

    fn prepare<'a>(
        &self,
        settings: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        place: ArrayPlace,
    ) -> Result<Prepared<'a>, TrainError> {
        let rows = batch.get(Column::X).map(|array| place.tensor(&array, "feature rows"));
        let rows = rows.unwrap_or_else(|| {
            let columns = settings.input_dim as i64;
            Ok(Borrowed::owned(Tensor::f_zeros([0, columns], (Kind::Float, place.torch()))?))
        })?;
        let sums = batch.get(Column::Aggregated);
        let listed = batch.layers.len() - usize::from(sums.is_some());
        let mut blocks = match place {
            ArrayPlace::Host => on_host(settings, batch, listed)?,
            ArrayPlace::Copied(_) | ArrayPlace::Device(_) => by_tensors(settings, batch, listed, place)?,
        };
        if settings.edge_dim > 0 {
            for (layer, block) in blocks.iter_mut().enumerate() {
                let rows = batch.get(Column::EdgeAttr.at(layer));
                block.edge_attr = rows.map(|rows| place.tensor(&rows, "edge features")).transpose()?;
            }
        }
        if let Some(sums) = sums {
            blocks.push(Block::given(batch.layers[listed], place.tensor(&sums, "sums")?));
        }
        Ok(Prepared { tables: vec![InputRows::Given(rows)], blocks })
    }

    fn zeros<'z>(&self, settings: &InputSettings<'_>, zeros: &'z Zeros) -> BatchColumns<'z> {
        let layers = zeros.rows.windows(2).map(|rows| BlockSize {
            destinations: rows[0],
            sources: rows[1],
            edges: rows[0],
        });
        let batch = BatchColumns::new(Zeros::SEEDS, layers.collect());
        let mut batch = batch.with_labels(zeros.labels(settings.task));
        let nodes = batch.nodes;
        let numbers = |count: usize| ColumnArray::vector(&zeros.offsets[..count], Element::I32);
        for (layer, &destinations) in zeros.rows[..zeros.rows.len() - 1].iter().enumerate() {
            batch = batch
                .with(Column::Indptr.at(layer), numbers(destinations + 1))
                .with(Column::Indices.at(layer), numbers(destinations));
            if settings.edge_dim > 0 {
                let rows = zeros.table(destinations, settings.edge_dim);
                batch = batch.with(Column::EdgeAttr.at(layer), rows);
            }
        }
        let degrees = ColumnArray::vector(&zeros.degrees[..nodes], Element::I32);
        batch.with(Column::X, zeros.table(nodes, settings.input_dim)).with(Column::Degrees, degrees)
    }
}

/// The first blocks, prepared on the host.
fn on_host<'a>(
    settings: &InputSettings<'_>,
    batch: &BatchColumns<'a>,
    listed: usize,
) -> Result<Vec<Block<'a>>, TrainError> {
    let degrees = host_values(batch, Column::Degrees, 0)?;
    (0..listed)
        .map(|layer| Block::new(settings.model, &host_lists(batch, layer)?, degrees, settings.kind))
        .collect()
}

/// The first blocks, prepared by tensor operations or the kernel.
fn by_tensors<'a>(
    settings: &InputSettings<'_>,
    batch: &BatchColumns<'a>,
    listed: usize,
    place: ArrayPlace,
) -> Result<Vec<Block<'a>>, TrainError> {
    let tensor =
        |key: ColumnKey| batch.get(key).map(|array| place.tensor(&array, &key.to_string())).transpose();
    let needs_degrees = settings.model.row().needs_degrees();
    let degrees = if needs_degrees { tensor(Column::Degrees.into())? } else { None };
    let mut lists = Vec::with_capacity(listed);
    for (layer, &BlockSize { sources, .. }) in batch.layers[..listed].iter().enumerate() {
        let [indptr, indices, weights] =
            [Column::Indptr, Column::Indices, Column::Weights].map(|column| tensor(column.at(layer)));
        lists.push((sources, indptr?, indices?, weights?));
    }
    let raw: Vec<RawBlock<'_>> = (lists.iter())
        .filter_map(|(sources, indptr, indices, weights)| {
            Some(RawBlock {
                sources: *sources,
                lists: (indptr.as_ref()?.tensor(), indices.as_ref()?.tensor()),
                sampled: weights.as_ref().map(Borrowed::tensor),
            })
        })
        .collect();
    let degrees = degrees.as_ref().map(Borrowed::tensor);
    Block::from_tensors(settings.preparer, settings.model, &raw, degrees, settings.kind)
}
