//! The tables of node types without features, in training: their rows are looked up when a batch is trained, so that
//! none is older than the last step.
//!
//! A step is that of `uva_ops::adam`, each operation rounded to float32, for the rows of the batch only. Other rows and
//! their moments keep their bits.

use crate::TrainError;
use crate::input::prepared::InputRows;
use crate::torch::host;
use std::io;
use tch::{Device, Kind, Tensor};
use uva_mem::ZeroedPages;
use uva_model::checkpoint::{CheckpointError, EmbeddingContent, EmbeddingRows, Keep, StoredEmbedding};
use uva_model::{EmbeddingInit, EmbeddingShape, TrainerOptions};
use uva_ops::RowAdam;
use uva_rows::{InitialRows, InitialValues, TrainedError, TrainedRows, read_rows};

/// The tables of the node types that a model reads and that have no features, in the order of types.
pub(crate) struct Embeddings(Vec<Embedding>);

struct Embedding {
    shape: EmbeddingShape,
    /// Anonymous memory on huge pages, as the moments.
    values: ZeroedPages,
    first: ZeroedPages,
    second: ZeroedPages,
    /// The rows of the best epoch.
    best: Option<ZeroedPages>,
}

impl Embedding {
    /// Draws all rows by the ids that the nodes had before their dataset was reordered; `None`: by their ids.
    fn draw(&mut self, options: &TrainerOptions, original: Option<&[i64]>) -> Result<(), TrainError> {
        let values = match options.embedding_init {
            EmbeddingInit::Xavier => InitialValues::Xavier,
            EmbeddingInit::Normal => InitialValues::Normal,
        };
        let (seed, table) = (options.seed, self.shape.of_type as u16);
        let draws = InitialRows { values, seed, table, original };
        let written =
            draws.write(numbers_mut(&mut self.values), self.shape.columns, host::threads().as_deref());
        written.map_err(refused(&self.shape.name))
    }

    fn check_finite(&self) -> Result<(), CheckpointError> {
        let arrays = [("row", &self.values), ("first moment", &self.first), ("second moment", &self.second)];
        for (what, pages) in arrays {
            if let Some(place) = numbers(pages).iter().position(|value| !value.is_finite()) {
                let EmbeddingShape { name, columns, .. } = &self.shape;
                let tensor = format!("the {what} of {name} {}", place / columns);
                return Err(CheckpointError::NotFinite { tensor });
            }
        }
        Ok(())
    }

    fn content(&self) -> EmbeddingContent<'_> {
        EmbeddingContent {
            name: &self.shape.name,
            rows: self.shape.rows,
            columns: self.shape.columns,
            values: self.values.bytes(),
            first: self.first.bytes(),
            second: self.second.bytes(),
            best: self.best.as_ref().map(ZeroedPages::bytes),
        }
    }
}

impl Embeddings {
    /// The tables that `options` require, with their first rows.
    pub(crate) fn new(options: &TrainerOptions) -> Result<Self, TrainError> {
        let mut tables = Self(Vec::new());
        for shape in options.embeddings() {
            let pages = || ZeroedPages::new(shape.bytes().unwrap_or(usize::MAX)).map_err(no_memory(&shape));
            let (values, first, second) = (pages()?, pages()?, pages()?);
            tables.0.push(Embedding { shape, values, first, second, best: None });
        }
        tables.0.iter_mut().try_for_each(|table| table.draw(options, None))?;
        Ok(tables)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Draws the rows again of types whose nodes had other ids before their dataset was reordered, which `original` has.
    pub(crate) fn reorder<'i>(
        &mut self,
        options: &TrainerOptions,
        original: &dyn Fn(&str) -> Option<&'i [i64]>,
    ) -> Result<(), TrainError> {
        for table in &mut self.0 {
            if let Some(ids) = original(&table.shape.name) {
                table.draw(options, Some(ids))?;
            }
        }
        Ok(())
    }

    /// The rows with these ids of table number `table`.
    pub(crate) fn rows(&self, table: usize, ids: &[i64]) -> Result<Tensor, TrainError> {
        let Embedding { shape, values, .. } = self.0.get(table).ok_or_else(no_table)?;
        let size = [ids.len() as i64, shape.columns as i64];
        let mut rows = Tensor::f_zeros(size, (Kind::Float, Device::Cpu))?;
        let (pool, mut read) = (host::threads(), Ok(()));
        host::change(&mut rows, |out| {
            read = read_rows(numbers(values), shape.columns, ids, out, pool.as_deref());
        })?;
        read.map_err(refused(&shape.name)).map(|()| rows)
    }

    /// Step number `step` of sparse Adam, counted from 1 over all batches, for the rows of a batch's `inputs`.
    /// `gradients` are those of its trained rows, in order.
    pub(crate) fn step(
        &mut self,
        inputs: &[InputRows<'_>],
        gradients: &[Tensor],
        step: u64,
        learning_rate: f64,
    ) -> Result<(), TrainError> {
        let trained = inputs.iter().filter_map(InputRows::trained);
        let pool = host::threads();
        for ((table, ids), gradient) in trained.zip(gradients) {
            let Embedding { shape, values, first, second, .. } =
                self.0.get_mut(table).ok_or_else(no_table)?;
            let gradient = gradient.f_to_kind(Kind::Float)?.f_contiguous()?;
            let rows = TrainedRows {
                width: shape.columns,
                values: numbers_mut(values),
                first: numbers_mut(first),
                second: numbers_mut(second),
            };
            let step = RowAdam::default().step(step, learning_rate);
            rows.step(ids, host::values(&gradient)?, step, pool.as_deref()).map_err(refused(&shape.name))?;
        }
        Ok(())
    }

    /// The type and id of the first node of a batch whose row holds NaN or infinity.
    pub(crate) fn not_finite(&self, inputs: &[InputRows<'_>]) -> Option<(String, i64)> {
        inputs.iter().filter_map(InputRows::trained).find_map(|(table, ids)| {
            let Embedding { shape, values, .. } = self.0.get(table)?;
            let row = |id: i64| numbers(values).chunks_exact(shape.columns).nth(usize::try_from(id).ok()?);
            let is_bad = |id: &i64| row(*id).is_some_and(|row| !row.iter().all(|value| value.is_finite()));
            ids.iter().copied().find(is_bad).map(|id| (shape.name.clone(), id))
        })
    }

    /// Keeps the current rows as those of the best epoch.
    pub(crate) fn keep_best(&mut self) -> Result<(), TrainError> {
        for Embedding { shape, values, best, .. } in &mut self.0 {
            match best {
                Some(best) => best.bytes_mut().copy_from_slice(values.bytes()),
                None => *best = Some(ZeroedPages::copy_of(values.bytes(), 1).map_err(no_memory(shape))?),
            }
        }
        Ok(())
    }

    /// Makes the rows of the best epoch the current ones, if there are any.
    pub(crate) fn restore_best(&mut self) {
        for Embedding { values, best, .. } in &mut self.0 {
            if let Some(best) = best {
                values.bytes_mut().copy_from_slice(best.bytes());
            }
        }
    }

    /// What a checkpoint stores.
    ///
    /// # Errors
    /// [`CheckpointError::NotFinite`] if a row or a moment holds NaN or infinity.
    pub(crate) fn contents(&self) -> Result<Vec<EmbeddingContent<'_>>, CheckpointError> {
        self.0.iter().try_for_each(Embedding::check_finite)?;
        Ok(self.0.iter().map(Embedding::content).collect())
    }

    /// Reads all that a checkpoint stored.
    pub(crate) fn restore(&mut self, stored: &[StoredEmbedding]) -> Result<(), CheckpointError> {
        // Every file is checked before a row changes.
        for stored in stored {
            [&stored.values, &stored.first, &stored.second]
                .into_iter()
                .chain(&stored.best)
                .try_for_each(|rows| rows.checked().map(drop))?;
        }
        for table in &mut self.0 {
            let stored = of_type(stored, &table.shape)?;
            copy(&stored.values, &mut table.values)?;
            copy(&stored.first, &mut table.first)?;
            copy(&stored.second, &mut table.second)?;
            table.best = None;
            if let Some(best) = &stored.best {
                let pages = ZeroedPages::copy_of(best.checked()?, 1).map_err(no_memory(&table.shape));
                table.best = Some(pages.map_err(|error| CheckpointError::Refused(error.to_string()))?);
            }
        }
        Ok(())
    }

    /// Reads the rows of the model of a checkpoint.
    pub(crate) fn load(&mut self, stored: &[StoredEmbedding], kept: Keep) -> Result<(), CheckpointError> {
        for table in &mut self.0 {
            let stored = of_type(stored, &table.shape)?;
            let rows = stored.best.as_ref().filter(|_| kept == Keep::Best);
            copy(rows.unwrap_or(&stored.values), &mut table.values)?;
        }
        Ok(())
    }
}

fn of_type<'s>(
    stored: &'s [StoredEmbedding],
    shape: &EmbeddingShape,
) -> Result<&'s StoredEmbedding, CheckpointError> {
    let is_it = |stored: &&StoredEmbedding| {
        stored.name == shape.name && (stored.rows, stored.columns) == (shape.rows, shape.columns)
    };
    let missing = || CheckpointError::Refused(format!("it has no table of the nodes of {}", shape.name));
    stored.iter().find(is_it).ok_or_else(missing)
}

fn copy(from: &EmbeddingRows, to: &mut ZeroedPages) -> Result<(), CheckpointError> {
    to.bytes_mut().copy_from_slice(from.checked()?);
    Ok(())
}

fn numbers(pages: &ZeroedPages) -> &[f32] {
    bytemuck::cast_slice(pages.bytes())
}

fn numbers_mut(pages: &mut ZeroedPages) -> &mut [f32] {
    bytemuck::cast_slice_mut(pages.bytes_mut())
}

fn no_memory(shape: &EmbeddingShape) -> impl FnOnce(io::Error) -> TrainError + use<'_> {
    |source| TrainError::Embedding { shape: shape.clone(), source }
}

fn refused(name: &str) -> impl FnOnce(TrainedError) -> TrainError + use<'_> {
    move |error| TrainError::Input(format!("the table of {name}: {error}"))
}

fn no_table() -> TrainError {
    TrainError::Input("a batch with ids of a node type that has no table".to_owned())
}
