//! Batches of a hop set, and the networks over them.

use crate::TrainError;
use crate::hops::steps::steps;
use crate::input::check::{check_padding, check_table, refuse};
use crate::input::model_input::{InputSettings, ModelInput, another_input};
use crate::input::prepared::{ArrayPlace, InputRows, Prepared};
use crate::input::zeros::Zeros;
use crate::step::{Builder, Named};
use uva_batch::{BatchColumns, Column};
use uva_model::ModelKind;

/// A table of the seeds' rows for each hop that the model reads.
pub(crate) struct HopTables;

impl ModelInput for HopTables {
    fn steps(&self, builder: &mut Builder<'_>, shape: (usize, usize)) -> Result<Vec<Named>, TrainError> {
        steps(builder, shape)
    }

    fn check(&self, settings: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
        if !batch.layers.is_empty() {
            return Err(another_input(settings.model, "sampled blocks", "rows of a hop set"));
        }
        check_padding(batch)?;
        check_tables(settings, batch)
    }

    fn prepare<'a>(
        &self,
        settings: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        place: ArrayPlace,
    ) -> Result<Prepared<'a>, TrainError> {
        let tables = (0..tables_read(settings)).filter_map(|part| batch.get(Column::X.part(part)));
        let tables = tables.map(|array| place.tensor(&array, "feature rows").map(InputRows::Given));
        Ok(Prepared { tables: tables.collect::<Result<_, _>>()?, blocks: Vec::new() })
    }

    fn zeros<'z>(&self, settings: &InputSettings<'_>, zeros: &'z Zeros) -> BatchColumns<'z> {
        let batch = BatchColumns::new(Zeros::SEEDS, Vec::new()).with_labels(zeros.labels(settings.task));
        (0..tables_read(settings)).fold(batch, |batch, part| {
            batch.with(Column::X.part(part), zeros.table(Zeros::SEEDS, settings.input_dim))
        })
    }

    fn check_hidden(&self, model: ModelKind) -> Result<(), TrainError> {
        refuse(format!("hidden rows of `model={}`: models over a hop set have none", model.name()))
    }

    fn check_full_pass(&self, model: ModelKind) -> Result<(), TrainError> {
        refuse(format!(
            "a pass over the whole graph for `model={}`, which takes rows of a hop set",
            model.name()
        ))
    }
}

/// Number of tables of a hop set that the model reads.
fn tables_read(settings: &InputSettings<'_>) -> usize {
    settings.options.tables_read(settings.options.hops).len()
}

fn check_tables(settings: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    let tables: Vec<_> = batch.arrays.iter().filter(|(key, _)| key.column == Column::X).collect();
    let expected = tables_read(settings);
    if tables.len() != expected {
        return refuse(format!("a batch of {} tables of hops for a model of {expected}", tables.len()));
    }
    tables.into_iter().try_for_each(|(_, table)| check_table(settings, table, batch.seeds))
}
