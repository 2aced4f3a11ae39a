//! A trained model over the rows of a hop set, copied batch by batch from the mapped files.

use std::ops::{ControlFlow, Range};

use uva_batch::{BatchColumns, Column, ColumnArray};
use uva_graph::{Dataset, Hops, Labels, Split};
use uva_launch::training::TrainedModel;
use uva_mem::ZeroedPages;
use uva_runtime::RuntimeError;
use uva_train::{Answered, Evaluation, Questions, TrainError, Trainer};

use crate::session::train_error;
use uva_runtime::spec::ByteSize;

/// Batches of rows of a hop set, in the batch size of the training.
pub(super) struct StoredRows<'d> {
    dataset: &'d Dataset,
    hops: Hops<'d>,
    /// The tables that the model reads.
    tables: Vec<usize>,
    batch_size: usize,
    /// The rows of a batch in each of these tables. They start on pages, so that sums equal those of a slot's rows.
    buffers: Vec<ZeroedPages>,
}

impl<'d> StoredRows<'d> {
    /// The batches of `dataset`, which holds the rows of `hops`, for the model.
    pub(super) fn new(
        (dataset, hops): (&'d Dataset, Hops<'d>),
        model: &TrainedModel,
        trainer: &Trainer,
    ) -> Result<Self, RuntimeError> {
        let tables = trainer.options().tables_read(hops.per_operator());
        let batch_size = model.loader.batch_size;
        let bytes = batch_size.min(dataset.nodes()).saturating_mul(dataset.table().row_bytes());
        let buffer = || {
            ZeroedPages::new(bytes).map_err(|error| {
                RuntimeError::failed(format!(
                    "no memory for {} of rows: {error}",
                    ByteSize::from_bytes(bytes as u64)
                ))
            })
        };
        let buffers = tables.iter().map(|_| buffer()).collect::<Result<_, _>>()?;
        Ok(Self { dataset, hops, tables, batch_size, buffers })
    }

    pub(super) fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Copies rows, at most a batch of them, into the buffers.
    fn copy(&mut self, rows: impl Iterator<Item = usize> + Clone) {
        for (table, buffer) in self.tables.iter().zip(&mut self.buffers) {
            let table = self.hops.table(*table);
            let mut to = buffer.bytes_mut();
            for row in rows.clone() {
                let from = table.row(row);
                let (front, rest) = to.split_at_mut(from.len());
                front.copy_from_slice(from);
                to = rest;
            }
        }
    }

    /// The batch of the first `seeds` rows in the buffers.
    fn batch<'b>(&'b self, seeds: usize, labels: Labels<'b>) -> BatchColumns<'b> {
        let features = self.dataset.table();
        let batch = BatchColumns::new(seeds, Vec::new()).with_labels(labels);
        (0..).zip(&self.buffers).fold(batch, |batch, (part, buffer)| {
            let rows = &buffer.bytes()[..seeds * features.row_bytes()];
            let rows = ColumnArray::table(rows, features.element, seeds, features.dim);
            batch.with(Column::X.part(part), rows)
        })
    }

    /// Evaluates the model on the rows of a split, in their order.
    pub(super) fn evaluate(&mut self, trainer: &Trainer, split: Split) -> Result<Evaluation, RuntimeError> {
        let Range { start, end } = self.hops.rows_of(split);
        let mut sum = Evaluation::default();
        for first in (start..end).step_by(self.batch_size) {
            let rows = first..end.min(first + self.batch_size);
            self.copy(rows.clone());
            let labels = self.dataset.labels().of_nodes(rows.clone());
            let evaluated = trainer.evaluate_batch(&self.batch(rows.len(), labels), &mut || Ok(()));
            sum += evaluated.map_err(|error| train_error(error.of_seeds(&self.hops.nodes()[rows])))?;
        }
        Ok(sum)
    }

    /// Predicts these rows, at most a batch of them. `take` may stop the work, which is [`TrainError::Stopped`].
    pub(super) fn predict(
        &mut self,
        trainer: &Trainer,
        rows: &[i64],
        questions: Questions,
        take: &mut dyn FnMut(Answered<'_>) -> ControlFlow<()>,
    ) -> Result<(), TrainError> {
        self.copy(rows.iter().map(|&row| row as usize));
        let places: Vec<i64> = (0..rows.len() as i64).collect();
        let batch = self.batch(rows.len(), Labels::Absent);
        trainer.predict_batch(&batch, &places, questions, &mut || Ok(()), take)
    }
}
