//! The conversion of a batch: its checks, its arrays and its targets.

use crate::TrainError;
use crate::input::model_input::InputSettings;
use crate::input::prepared::{ArrayPlace, Prepared};
use crate::input::targets::Targets;
#[cfg(test)]
use tch::Device;
use uva_batch::BatchColumns;

impl<'a> Prepared<'a> {
    /// Checks the batch and wraps it with its targets, or returns `None` if the host knows that no seed has a label.
    /// The host does not wait.
    pub(crate) fn new(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        trainer.input.check(trainer, batch)?;
        Self::with_targets(trainer, batch, ArrayPlace::of(trainer.device, batch)?)
    }

    /// Wraps a batch in host memory that is copied to this device.
    #[cfg(test)]
    pub(crate) fn copied(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        device: Device,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        trainer.input.check(trainer, batch)?;
        Self::with_targets(trainer, batch, ArrayPlace::Copied(device))
    }

    fn with_targets(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        place: ArrayPlace,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        let Some(targets) = place.targets(trainer.task, batch, trainer.input.labels())? else {
            return Ok(None);
        };
        let targets = match batch.padding {
            0 => targets,
            padding => targets.first(batch.seeds - padding)?,
        };
        Ok(Some((trainer.input.prepare(trainer, batch, place)?, targets)))
    }

    /// Wraps a batch without targets, for predictions; `None` if there is no seed.
    pub(crate) fn without_targets(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
    ) -> Result<Option<Self>, TrainError> {
        trainer.input.check(trainer, batch)?;
        let place = ArrayPlace::of(trainer.device, batch)?;
        if batch.seeds == 0 {
            return Ok(None);
        }
        trainer.input.prepare(trainer, batch, place).map(Some)
    }
}
