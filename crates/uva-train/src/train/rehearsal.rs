//! A training step before the first batch.

use crate::TrainError;
use crate::input::zeros::Zeros;
use crate::train::late::LateResults;
use crate::train::trainer::Trainer;
use uva_batch::BatchColumns;

impl Trainer {
    /// Runs a training step on rows of zeros, with another network of the same options. libtorch loads its kernels and
    /// starts its libraries on first use, which a program on a GPU can do while it waits for the first batch. This
    /// trainer does not change.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`Trainer::train_batch`].
    pub fn rehearse(&self) -> Result<(), TrainError> {
        let mut other =
            Self::with_kind(self.options(), self.input_dim(), self.task(), self.kind, self.device())?;
        if let Some((kernels, stream)) = self.late.as_ref().map(LateResults::driven_by) {
            other.run_ahead(kernels, stream)?;
        }
        let zeros = Zeros::new(self.options(), self.input_dim(), self.task());
        other.one_step(&self.model.input.zeros(&self.trains(), &zeros))
    }

    /// A step like all others, and its result.
    fn one_step(&mut self, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
        if self.runs_ahead() {
            self.enqueue_batch(0, 0, batch, true)?;
            self.reading(true).map(drop)
        } else {
            self.train_batch(0, 0, batch, &mut || Ok(())).map(drop)
        }
    }
}
