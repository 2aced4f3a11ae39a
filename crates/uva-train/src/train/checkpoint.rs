//! A trainer in a checkpoint: its tensors are packed as safetensors and restored from them. `uva_model::checkpoint`
//! handles the files.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Serialize;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use uva_model::checkpoint::{
    Checkpoint, CheckpointError, MARKER, StepObserver, StoredModel, TrainerState, store,
};
use uva_model::{MatmulPrecision, Metric, Task, TaskKind, TrainerOptions};

use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;

/// Writes a checkpoint of `trainer` to the folder `directory`, which is created if it is missing.
///
/// `fingerprint` is an object; [`restore`] compares it field by field. The trainer's own options and shapes, except the
/// number of threads, are always compared and need not be in it. `state` is any value.
///
/// # Errors
/// [`CheckpointError::Io`] if a step fails and [`CheckpointError::NotFinite`] if training has diverged; the existing
/// checkpoint then stays the current one.
pub fn write(
    directory: &Path,
    trainer: &Trainer,
    fingerprint: &impl Serialize,
    state: &impl Serialize,
) -> Result<(), CheckpointError> {
    write_observed(directory, trainer, fingerprint, state, &mut |_| {})
}

/// [`write`], with `observer` called after each step that changes the folder.
pub(crate) fn write_observed(
    directory: &Path,
    trainer: &Trainer,
    fingerprint: &impl Serialize,
    state: &impl Serialize,
    observer: StepObserver<'_>,
) -> Result<(), CheckpointError> {
    let tensors = pack(trainer)?;
    let kept = TrainerState {
        model: model_fingerprint(trainer)?,
        adam_steps: trainer.steps().map_err(|error| CheckpointError::Refused(error.to_string()))?,
        best: trainer.best.is_some(),
        keep: trainer.keep,
    };
    store(directory, (&tensors, &trainer.embeddings.contents()?), kept, fingerprint, state, observer)
}

/// Loads parameters, optimiser state and best parameters into `trainer`, which then continues as the saved trainer
/// would have.
///
/// # Errors
/// [`CheckpointError::Mismatch`] if the fingerprints or the trainers' options and shapes differ,
/// [`CheckpointError::Damaged`] if a tensor is missing or of another shape. `trainer` is then unchanged.
pub fn restore(
    checkpoint: &Checkpoint,
    trainer: &mut Trainer,
    fingerprint: &impl Serialize,
) -> Result<(), CheckpointError> {
    let fingerprint =
        serde_json::to_value(fingerprint).map_err(|error| CheckpointError::Refused(error.to_string()))?;
    checkpoint.check(&model_fingerprint(trainer)?, &fingerprint)?;
    let file = SafeTensors::deserialize(checkpoint.tensors())
        .map_err(|error| checkpoint.damaged(format!("its tensors cannot be read: {error}")))?;
    let parameters = trainer.model.parameters();
    let load = |group: &str| -> Result<Vec<Tensor>, CheckpointError> {
        parameters
            .iter()
            .map(|(name, like)| load_tensor(checkpoint, &file, &format!("{group}.{name}"), like))
            .collect()
    };
    let (model, first, second) = (load("model")?, load("adam.first")?, load("adam.second")?);
    let best = if checkpoint.trainer().best { Some(load("best")?) } else { None };

    trainer.embeddings.restore(checkpoint.embeddings())?;

    // Everything fits: from here on no step can be refused.
    let _no_grad = tch::no_grad_guard();
    for ((_, parameter), saved) in parameters.iter().zip(&model) {
        parameter.shallow_clone().f_copy_(saved).map_err(refused)?;
    }
    trainer.adam.first_moments = first;
    trainer.adam.second_moments = second;
    let steps = trainer.adam.set_steps(checkpoint.trainer().adam_steps);
    steps.map_err(|error| CheckpointError::Refused(error.to_string()))?;
    trainer.best = best;
    Ok(())
}

/// The model of a checkpoint, for predictions and evaluation: the parameters that it calls the model
/// ([`TrainerState::kept`]). `metric` is the metric of evaluations. `threads` are those of one libtorch operation. A
/// first layer whose sums came from a hop set sums whole lists here, as the hop set did.
///
/// # Errors
/// [`CheckpointError::Damaged`] if it describes no model of this program, or a tensor is missing or of another shape.
/// [`CheckpointError::Refused`] for a device that libtorch cannot use.
pub fn load_model(
    checkpoint: &Checkpoint,
    metric: Metric,
    device: TrainDevice,
    threads: Option<usize>,
) -> Result<Trainer, CheckpointError> {
    let StoredModel { options, input_dim, outputs, kind } = checkpoint.model()?.over_neighbours();
    let options = TrainerOptions { threads, matmul_precision: MatmulPrecision::Float32, ..options };
    let task = Task { outputs, kind, metric };
    let mut trainer = Trainer::new(&options, input_dim, task, device).map_err(|error| {
        if error.is_usage() {
            checkpoint.damaged(format!("its model: {error}"))
        } else if error.is_missing() {
            CheckpointError::Missing(error.to_string())
        } else {
            refused(error)
        }
    })?;
    let file = SafeTensors::deserialize(checkpoint.tensors())
        .map_err(|error| checkpoint.damaged(format!("its tensors cannot be read: {error}")))?;
    let kept = checkpoint.trainer().kept();
    trainer.embeddings.load(checkpoint.embeddings(), kept)?;
    let group = kept.group();
    let _no_grad = tch::no_grad_guard();
    for (name, mut parameter) in trainer.model.parameters() {
        let saved = load_tensor(checkpoint, &file, &format!("{group}.{name}"), &parameter)?;
        parameter.f_copy_(&saved).map_err(refused)?;
    }
    Ok(trainer)
}

fn load_tensor(
    checkpoint: &Checkpoint,
    file: &SafeTensors<'_>,
    name: &str,
    like: &Tensor,
) -> Result<Tensor, CheckpointError> {
    let view =
        file.tensor(name).map_err(|error| checkpoint.damaged(format!("its tensor {name}: {error}")))?;
    let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
    let kind = like.f_kind().map_err(refused)?;
    if shape != like.size() || Some(view.dtype()) != dtype(kind) {
        return Err(checkpoint.damaged(format!(
            "its tensor {name} is {:?} {shape:?} instead of {kind:?} {:?}",
            view.dtype(),
            like.size()
        )));
    }
    let tensor = Tensor::f_from_data_size(view.data(), &shape, kind).map_err(refused)?;
    tensor.f_to_device(like.device()).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> CheckpointError {
    CheckpointError::Refused(error.to_string())
}

fn dtype(kind: Kind) -> Option<Dtype> {
    match kind {
        Kind::Float => Some(Dtype::F32),
        Kind::Double => Some(Dtype::F64),
        _ => None,
    }
}

/// The values that must match for a trainer to continue from a checkpoint. The number of threads and the device may
/// change: the losses then differ in their last bits, as between two machines.
fn model_fingerprint(trainer: &Trainer) -> Result<Value, CheckpointError> {
    let mut value = serde_json::to_value(trainer.options()).map_err(refused)?;
    if let Value::Object(fields) = &mut value {
        fields.shift_remove("threads");
        fields.insert("input_dim".to_owned(), trainer.input_dim().into());
        // Written only if it differs from the default, so that older checkpoints stay valid.
        let Task { outputs, kind, .. } = trainer.task();
        match kind {
            TaskKind::Regression(loss) => {
                fields.insert("targets".to_owned(), outputs.into());
                fields.insert("loss".to_owned(), loss.name().into());
            }
            TaskKind::SingleLabel | TaskKind::MultiLabel => {
                fields.insert("classes".to_owned(), outputs.into());
            }
        }
        if kind == TaskKind::MultiLabel {
            fields.insert("multi_label".to_owned(), true.into());
        }
    }
    Ok(value)
}

/// All tensors of a trainer as one safetensors file.
fn pack(trainer: &Trainer) -> Result<Vec<u8>, CheckpointError> {
    let parameters = trainer.model.parameters();
    let dtype =
        dtype(trainer.kind()).ok_or_else(|| refused("the model's element type has no place in it"))?;
    let mut packed: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (index, (name, parameter)) in parameters.iter().enumerate() {
        let mut add = |group: &str, tensor: &Tensor| -> Result<(), CheckpointError> {
            let name = format!("{group}.{name}");
            let tensor = tensor.f_detach().and_then(|t| t.f_to_device(Device::Cpu)).map_err(refused)?;
            let tensor = tensor.f_contiguous().map_err(refused)?;
            let finite = tensor.f_isfinite().and_then(|t| t.f_all()).and_then(|t| t.f_int64_value(&[]));
            if finite.map_err(refused)? == 0 {
                return Err(CheckpointError::NotFinite { tensor: name });
            }
            let shape = tensor.size().iter().map(|&size| size as usize).collect();
            let mut bytes = vec![0; tensor.numel() * dtype.bitsize() / 8];
            tensor.f_copy_data_u8(&mut bytes, tensor.numel()).map_err(refused)?;
            packed.push((name, shape, bytes));
            Ok(())
        };
        add("model", parameter)?;
        add("adam.first", &trainer.adam.first_moments[index])?;
        add("adam.second", &trainer.adam.second_moments[index])?;
        if let Some(best) = &trainer.best {
            add("best", &best[index])?;
        }
    }
    let views: Result<Vec<(&str, TensorView<'_>)>, _> = packed
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(dtype, shape.clone(), bytes)?)))
        .collect();
    let views = views.map_err(|error: safetensors::SafeTensorError| refused(error))?;
    let marker = HashMap::from([(MARKER.0.to_owned(), MARKER.1.to_owned())]);
    safetensors::serialize(views, Some(marker)).map_err(refused)
}
